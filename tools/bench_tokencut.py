"""Automatic masks: TokenCut's eigenproblem, the published solve and ours, and the solver.

The published code hands (D - A) x = lambda D x to a dense generalised solve and asks for the
second and third eigenvector; ours is `relevit.masks.token_cut.second_eigenpairs`. Both start from
the edges A and end with the second eigenvector. The edges are those of the keys of the shipped
`tiny-mae` on enlarged validation images of Cutouts. All on the CPU.
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh
from torch import Tensor
from torch.nn.functional import interpolate

from bench_core import CLOCKS, Numbers, Table, compare, describe, time_rounds
from habitats.cutouts import CUTOUTS
from relevit.masks import bilateral_solve, feature_model, key_features, solid
from relevit.masks.token_cut import affinity, second_eigenpairs
from relevit.models.registry import model_spec

__all__ = ["describe", "measure"]

MODEL = "tiny-mae"
LIMIT = 1e-6  # of the eigenvectors, whose errors grow where the next eigenvalue is near
# Side of the image in pixels -> divisor of --batch, how much faster ours has to be.
SIDES: dict[str, dict[int, tuple[int, float]]] = {
    "full": {392: (1, 4.0), 784: (4, 10.0)},
    "tiny": {140: (1, 1.0), 168: (4, 1.0)},
}
SOLVER_SIDES = (112, 224)


def published_solve(_: None, edges: Tensor) -> Numbers:
    """The dense generalised solve."""
    vectors = []
    for a in edges.numpy():
        degrees = np.diag(a.sum(axis=1))
        vectors.append(
            torch.from_numpy(eigh(degrees - a, degrees, subset_by_index=[1, 2])[1][:, 0])
        )
    return numbers(torch.stack(vectors))


def our_solve(_: None, edges: Tensor) -> Numbers:
    """The second eigenvector alone, from the symmetric form."""
    return numbers(second_eigenpairs(edges)[0])


def numbers(vectors: Tensor) -> Numbers:
    """The eigenvectors with their largest entry above the mean, and the partition they give."""
    seed = vectors.abs().argmax(dim=1, keepdim=True)
    mean = vectors.mean(dim=1, keepdim=True)
    turned = vectors.gather(1, seed) <= mean
    above = (vectors > mean) ^ turned
    return {"eigenvector": [torch.where(turned, -vectors, vectors)], "partition": [above.double()]}


def edges_of(side: int, images: int) -> Tensor:
    """TokenCut's graphs of validation images, enlarged to `side` pixels."""
    model, spec = feature_model(MODEL, side), model_spec(MODEL)
    # Not the first: in small sizes all its tokens are alike, and any vector is a cut.
    batch = CUTOUTS.draw("validation", range(1, images + 1), size=spec.image_size)
    pixels = interpolate(spec.normalise(batch.images), side, mode="bicubic", antialias=True)
    return affinity(torch.cat([key_features(model, part) for part in pixels.split(1)]))


def solver_row(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of the bilateral solver by the side of the image."""
    batch = CUTOUTS.draw("validation", range(args.batch))
    variants = {f"{side} px": partial(_solve_all, side=side) for side in SOLVER_SIDES}
    clock = CLOCKS[args.clock]
    seconds, _ = time_rounds(variants, None, (batch.images, batch.masks), args.repeats, clock)
    return {
        "task": "bilateral solver",
        "model": "Cutouts",
        "images": args.batch,
        "seconds": seconds,
        "ratios": [],
        "memory_mib": {},
        "milliseconds_an_image": {
            name: 1000 * statistics.median(values) / args.batch for name, values in seconds.items()
        },
    }


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """One row a number of tokens, and one for the solver, as plain data."""
    rows = []
    for side, (divisor, target) in SIDES[args.model_scale].items():
        edges = edges_of(side, max(1, args.batch // divisor))
        targets = (("published", "ours", ">=", target),)
        table = Table("tokencut", f"{edges.shape[1]} tokens", divisor, targets, LIMIT)
        variants = {"published": published_solve, "ours": our_solve}
        rows.append(compare(table, variants, None, (edges,), args) | {"memory_mib": {}})
    return [*rows, solver_row(args)]


def _solve_all(_: None, images: Tensor, masks: Tensor, side: int) -> Numbers:
    # Nearest, so that the images are of bytes; the masks stand for coarse ones.
    pictures, targets = (interpolate(x.to(torch.uint8), side) for x in (images, masks))
    found = [
        solid(bilateral_solve(image.permute(1, 2, 0).numpy(), target[0].numpy() > 0))
        for image, target in zip(pictures, targets, strict=True)
    ]
    return {"masks": [torch.from_numpy(np.stack(found)).double()]}
