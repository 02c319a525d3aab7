"""A frozen backbone sees an image as one vector: its nearest neighbours, and a linear probe on it.

k-NN is that of RobustViT supp. M, k = 1 and 10 on the [CLS] representation with the head removed.
The paper names neither distance nor rule for ties. Here neighbours are those with the largest
cosine, the usual choice for features of transformers (DINO's k-NN among them): only the
direction of a vector counts. Each neighbour has one vote, and the nearest decides a tie.

The probe is for the comparison with DINO: RobustViT supp. L takes DINO's own linear classifier.
Here the classifier is the exact optimum of a penalised logistic regression on the
classes at hand, where DINO makes steps of SGD: fewer choices, and the same result each time.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.functional import normalize

from relevit.base.device import Precision, autocast
from relevit.data.batch import Batch
from relevit.models.spec import ModelSpec

BATCH = 50  # images
AT_ONCE = 2**25  # similarities held in memory
STEPS = 2000  # at most, of L-BFGS
WITHOUT_PRETRAINING = ("tiny-mae",)


@torch.no_grad()
def class_features(
    model: nn.Module,
    spec: ModelSpec,
    batches: Iterable[UInt8[Tensor, "_ 3 height width"]],
    precision: Precision = "float32",
) -> Float[Tensor, "images features"]:
    """Vectors that the head would classify, one an image, with the head taken off.

    Source: RobustViT supp. M, the representation of [CLS]. It is the class token after the
    last norm; a model that averages its patches gives their mean, as its head reads no other, and
    a distilled one that of its class and distillation token.
    `bfloat16` is mixed precision: products are rounded, sums along the blocks are not.
    Vectors come in float32 or better, on the model's device. The model is left as it was.
    Raises: ValueError for no images, or NaN or infinity in a vector.
    """
    network = copy.deepcopy(model).eval()
    like = next(network.parameters())
    parts = []
    for images in batches:
        with autocast(like.device, precision):
            tokens = network.forward_features(spec.normalise(images, like=like))
            vectors = network.forward_head(tokens, pre_logits=True)
        parts.append(vectors if vectors.dtype == torch.float64 else vectors.float())
    if not parts:
        raise ValueError("class_features: no images; give at least one batch")
    features = torch.cat(parts)
    if not features.isfinite().all():
        raise ValueError(
            f"class_features: NaN or infinity in a vector of {spec.name!r}; its training diverged: "
            "lower the learning rate, or use precision float32"
        )
    return features


def nearest(
    asked: Float[Tensor, "asked width"], known: Float[Tensor, "known width"], k: int
) -> Int[Tensor, "asked k"]:
    """Places in `known` of the k nearest vectors to each asked one, by cosine, the nearest first.

    Raises: ValueError for k outside 1..known.
    """
    if not 1 <= k <= len(known):
        raise ValueError(f"nearest: k = {k} with {len(known)} known vectors; use 1..{len(known)}")
    asked, known = normalize(asked, dim=1), normalize(known, dim=1)
    rows = max(1, AT_ONCE // len(known))
    parts = [(part @ known.T).topk(k, dim=1).indices for part in asked.split(rows)]
    return torch.cat(parts)


def vote(labels: Int[Tensor, "asked k"]) -> Int[Tensor, " asked"]:
    """The commonest label among the neighbours, given nearest first; the nearest decides a tie.

    scikit-learn's k-NN gives a tie to the smallest label instead, which means nothing here.
    """
    k = labels.shape[1]
    same = (labels[:, :, None] == labels[:, None, :]).sum(dim=2)  # votes of each one's label
    places = torch.arange(k, device=labels.device)
    winner = (same * k - places).argmax(dim=1)  # whole numbers: a vote outweighs any place
    return labels.gather(1, winner[:, None])[:, 0]


def knn_answers(
    known: Float[Tensor, "known width"],
    known_labels: Int[Tensor, " known"],
    asked: Float[Tensor, "asked width"],
    asked_labels: Int[Tensor, " asked"],
    neighbours: Sequence[int],
) -> pd.DataFrame:
    """Classify `asked` for each number of neighbours; one row an image and k.

    Columns: k, index, label, prediction. One search serves every k. Errors as `nearest`.
    """
    places = nearest(asked, known, max(neighbours))
    labels = known_labels.to(places.device)[places]
    rows = pd.DataFrame({"index": np.arange(len(asked)), "label": asked_labels.cpu().numpy()})
    parts = [rows.assign(prediction=vote(labels[:, :k]).cpu().numpy(), k=k) for k in neighbours]
    return pd.concat(parts, ignore_index=True)[["k", "index", "label", "prediction"]]


def linear_probe(model: nn.Module, spec: ModelSpec, train: Batch) -> nn.Module:
    """A copy of `model`, in eval mode, whose head is fitted to `train` on frozen features.

    `model` is a raw backbone (`load_model`, new_head=True), left as it was; its head's size says
    how many classes there are. Features are those of `class_features`, brought to mean 0 and
    deviation 1; the new head holds that scaling. The penalty is half of the weights' squared norm
    (scikit-learn's C of 1).
    Raises: ValueError for a model whose pretraining is not shipped, a class without image, or
    features that are not finite.
    """
    if spec.name in WITHOUT_PRETRAINING:
        raise ValueError(
            f"linear_probe: {spec.name!r} only comes already trained with labels, and its "
            "self-supervised backbone is not shipped; use 'dinov2-s'"
        )
    from sklearn.linear_model import LogisticRegression

    count = classifier_of(model).out_features
    missing = sorted(set(range(count)) - set(train.labels.tolist()))
    if missing:
        raise ValueError(
            f"linear_probe: {len(train)} images without classes {missing[:5]}; each of the head's "
            f"{count} needs one: draw a whole multiple of the classes"
        )
    parts = (part.images for part in train.split(BATCH))
    features = class_features(model, spec, parts).double().cpu()
    mean, spread = features.mean(dim=0), features.std(dim=0)
    spread = torch.where(spread > 0, spread, 1.0)
    fitted = LogisticRegression(max_iter=STEPS)
    fitted.fit(((features - mean) / spread).numpy(), train.labels.numpy())
    weight, bias = torch.from_numpy(fitted.coef_), torch.from_numpy(fitted.intercept_)
    if len(weight) == 1:  # of two classes scikit-learn has the difference alone
        weight, bias = (torch.cat([-part / 2, part / 2]) for part in (weight, bias))
    weight = weight / spread
    probed = copy.deepcopy(model).eval()
    with torch.no_grad():
        # Of a distilled model two heads read the two tokens, and answer by their mean.
        for head in filter(None, (classifier_of(probed), getattr(probed, "head_dist", None))):
            head.weight.copy_(weight)
            head.bias.copy_(bias - weight @ mean)
    return probed


def classifier_of(model: nn.Module) -> nn.Linear:
    """The linear layer that makes the logits, `head` or wherever timm's model has it."""
    return (
        model.head
        if isinstance(getattr(model, "head", None), nn.Linear)
        else (model.get_classifier())
    )
