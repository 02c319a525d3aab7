"""RobustViT from one end to the other, in one file: the paper's Sec. 3 and 4 on Habitats.

Original, masks, maps, losses, steps, and nine test sets, by the library's public calls and with
nothing of the pipeline. Masks are TokenCut's, which need no annotation (the paper uses these and
annotated ones), and a twin without the relevance terms runs beside it.

    python notebooks/robustvit.py  # eight blocks of DINOv2-S, trained already: 3 min
    python notebooks/robustvit.py --model dinov2-s --images 6400 --features dinov2-s --test 240

The notebooks do the same with the paper's rule for the rate, three seeds and intervals.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from habitats.cutouts import SHIFTED_SETS, TEST_SETS
from habitats.homes import habitats
from relevit import load_model, to_heatmap
from relevit.attribution import patch_grid
from relevit.data.batch import Batch
from relevit.maps import record_attention
from relevit.masks import automatic_masks, feature_model
from relevit.masks.backbone import feature_spec
from relevit.models import ModelSpec, model_spec, shipped_weights

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--model", default="dinov2-s8", help="a ViT of the suite")
parser.add_argument("--features", default="tiny-mae", help="ViT whose keys TokenCut cuts")
parser.add_argument("--images", type=int, default=0, help="that the original learns; 0: it has")
parser.add_argument("--per-class", type=int, default=3, help="images that are finetuned on")
parser.add_argument("--rate", type=float, default=1e-5, help="learning rate of finetuning")
parser.add_argument("--epochs", type=int, default=5, help="of finetuning")
parser.add_argument("--test", type=int, default=80, help="images of each test set")
parser.add_argument("--seed", type=int, default=0)

BATCH = 8
RELEVANCE, CONFIDENCE, BACKGROUND, FOREGROUND = 0.8, 0.2, 2.0, 0.3  # Eq. 5 and App. B


def gae(attention: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """What the class token takes from each patch (Sec. 3.1); a tensor [b, h, n, n] a block."""
    relevance = torch.eye(attention[0].shape[-1]).to(attention[0])
    for block, slope in zip(attention, gradients, strict=True):
        relevance = relevance + (slope * block).clamp(min=0).mean(dim=1) @ relevance
    return relevance[:, 0, 1:]


def batches(count: int, rng: np.random.Generator) -> list[list[int]]:
    """Places of `count` images in random order, a batch at a time."""
    parts = np.array_split(rng.permutation(count), max(count // BATCH, 1))
    return [part.tolist() for part in parts]


def train_original(
    model: nn.Module, spec: ModelSpec, images: Batch, rng: np.random.Generator, epochs: int = 5
) -> None:
    """All weights learn the classes; the head, which is new, faster."""
    head = set(model.head.parameters())
    groups = [
        {"params": [p for p in model.parameters() if p not in head], "lr": 1e-4},
        {"params": list(head), "lr": 1e-3},
    ]
    optimizer = torch.optim.AdamW(groups)
    rates = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, epochs * len(images) // BATCH)
    for _ in range(epochs):
        for places in batches(len(images), rng):
            part = images.select(places)
            loss = cross_entropy(model(spec.normalise(part.images)), part.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rates.step()


def finetune(
    model: nn.Module, spec: ModelSpec, images: Batch, args: argparse.Namespace, relevance: float
) -> list[float]:
    """Eq. 1 to 5, for some epochs; returns the background term of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate)
    rng, log = np.random.default_rng(args.seed), []
    for _ in range(args.epochs):
        for places in batches(len(images), rng):
            part = images.select(places)
            x, s = spec.normalise(part.images), part.masks.float()  # the images, and S of Eq. 1
            with record_attention(model) as tape:
                answers = model(x)
            logit = answers.gather(1, part.labels[:, None]).sum()  # of the label's class (A5)
            slopes = torch.autograd.grad(logit, tape.maps, retain_graph=True)  # constants (A2)
            r = to_heatmap(gae(tape.maps, slopes), s.shape[-2:], patch_grid(model, x))  # [0, 1]
            background = (r * (1 - s)).square().mean()  # Eq. 1: none off the object
            foreground = (r * s - s).square().mean()  # Eq. 2, as the code has it (A6)
            confidence = cross_entropy(answers, answers.argmax(1))  # Eq. 4: stay as sure
            loss = relevance * (BACKGROUND * background + FOREGROUND * foreground)
            loss = loss + CONFIDENCE * confidence  # Eq. 5
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.append(float(background.detach()))
    return log


@torch.no_grad()
def top1_pct(model: nn.Module, spec: ModelSpec, images: Batch) -> float:
    """Share of right answers, in percent."""
    parts = images.split(50)
    right = [model(spec.normalise(part.images)).argmax(1) == part.labels for part in parts]
    return 100 * float(torch.cat(right).float().mean())


def main(arguments: list[str] | None = None) -> pd.DataFrame:
    """Top-1 of the original, and points of change with the relevance terms and without."""
    args = parser.parse_args(arguments)
    torch.manual_seed(args.seed)
    rng, bench, spec = np.random.default_rng(args.seed), habitats(), model_spec(args.model)
    how = {"seed": args.seed, "size": spec.image_size}

    try:
        known = None if args.images else shipped_weights(args.model, "habitats")
    except ValueError as error:
        parser.error(f"{error}, or let it learn here: --images 6400")
    original = load_model(args.model, known, new_head=args.images > 0, seed=args.seed)
    if args.images:
        learned = bench.draw("train", range(args.images), **how)
        train_original(original.train(), spec, learned, rng)
    tests = {name: bench.draw(name, range(args.test), size=spec.image_size) for name in TEST_SETS}
    rows = {"original": {name: top1_pct(original.eval(), spec, tests[name]) for name in tests}}

    few = bench.to_finetune(list(range(40)) * args.per_class, **how)
    features = feature_model(args.features, side=2 * spec.image_size)
    masks = automatic_masks(features, feature_spec(args.features), few.images)
    print(f"TokenCut keeps {int(masks.kept.sum())} masks of {len(few)}")
    few = Batch(few.images, masks.refined, few.labels).select(masks.kept)

    for name, weight in {"with relevance": RELEVANCE, "without": 0.0}.items():
        model = copy.deepcopy(original)
        log = finetune(model.train(), spec, few, args, weight)
        print(f"{name}: background term {log[0]:.4f} at first, {log[-1]:.4f} at last")
        rows[name] = {
            each: top1_pct(model.eval(), spec, tests[each]) - rows["original"][each]
            for each in tests
        }
    table = pd.DataFrame(rows).T
    table["shifted"] = table[list(SHIFTED_SETS)].mean(axis=1)
    print(table.round(1).to_string())
    return table


if __name__ == "__main__":
    main()
