"""The space of IA-scores: do images of one class have the same heads agree with the decision?

Source: IAV Sec. V.G, Fig. 9, a t-SNE picture of each layer's scores. A picture proves nothing, so
here are two numbers beside it. Each head is standardised over the images first (mean 0,
deviation 1), for picture and numbers alike: a head whose scores spread widely would decide
alone what is near. The paper does not say how its scores are scaled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from relevit.evaluate.frozen_features import vote

NEIGHBOURS = 10
PERPLEXITY = 30.0  # usual for t-SNE; the paper gives none


class ClassStructure(NamedTuple):
    """How well a layer's scores group the classes."""

    silhouette: float  # -1 to 1; about 0 or below where classes do not matter
    knn_pct: float
    chance_pct: float


def class_structure(
    scores: Float[Tensor, "images heads"],
    labels: Int[Tensor, " images"],
    neighbours: int = NEIGHBOURS,
) -> ClassStructure:
    """Silhouette of the classes, and accuracy of k nearest neighbours leaving one image out.

    `scores` are those of one layer. Distances are Euclidean. Each image is classified by its
    `neighbours` among the others, with the project's vote (the nearest decides a tie).
    `chance_pct` is how often another image, picked at random, has the same class.
    """
    from sklearn.metrics import silhouette_score
    from sklearn.neighbors import NearestNeighbors

    points = _standardised(scores)
    count, sizes = len(points), labels.cpu().bincount().double()
    # Without points to ask for, an image is no neighbour of its own.
    search = NearestNeighbors(n_neighbors=neighbours).fit(points)
    near = torch.from_numpy(search.kneighbors(return_distance=False))
    labels = labels.cpu()
    right = vote(labels[near]) == labels
    return ClassStructure(
        silhouette=float(silhouette_score(points, labels.numpy())),
        knn_pct=100.0 * float(right.double().mean()),
        chance_pct=100.0 * float((sizes * (sizes - 1)).sum() / (count * (count - 1))),
    )


def tsne(scores: Float[Tensor, "images heads"], seed: int = 0) -> Float[Tensor, "images 2"]:
    """A flat picture of one layer's scores, in which near images stay near.

    Starts from the two main components. The perplexity, about the number of neighbours that
    count, is bounded by a third of the other images. Only neighbourhood means something in
    the picture: sizes and distances of groups do not.
    """
    from sklearn.manifold import TSNE

    points = _standardised(scores)
    bounded = min(PERPLEXITY, (len(points) - 1) / 3)
    method = TSNE(n_components=2, perplexity=bounded, init="pca", random_state=seed)
    return torch.from_numpy(method.fit_transform(points))


def _standardised(scores: Float[Tensor, "images heads"]) -> np.ndarray:
    """Scores with mean 0 and deviation 1 over images; a head that is constant becomes 0."""
    values = scores.detach().cpu().double().numpy()
    varies = np.ptp(values, axis=0) > 0
    deviation = np.where(varies, values.std(axis=0), 1.0)
    return np.where(varies, (values - values.mean(axis=0)) / deviation, 0.0)
