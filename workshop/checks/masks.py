"""Checks of the exercises on masks without annotation (01_masks)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize

from checks.feedback import choice, compare, passed, result, wrong
from relevit.masks import mask_quality, token_cut

PATCHES, CHANNELS = 12, 4


def affinity(answer: Callable) -> None:
    """Edges of a graph of patches: features, patches x channels, and tau -> patches x patches."""
    features, tau = features_example(), token_cut.TAU
    right = token_cut.affinity(features[None], tau)[0]
    product = features @ features.T
    cosines = normalize(features, dim=1) @ normalize(features, dim=1).T
    columns = normalize(features, dim=0)
    given = result(answer, features, tau)
    compare(given, right, {
        "You return the cosines: an edge is strong or faint, by whether its cosine is above tau.":
            cosines,
        "Your strong edges weigh as much as their cosine: each weighs 1.":
            cosines.where(cosines > tau, 0),
        "You compare products of the keys: a cosine divides them by both lengths, or long keys "
        "would be joined with all others.": (product > tau).double(),
        "You divide each channel by its length: divide each patch's key, that is each row, by its "
        "own.": (columns @ columns.T > tau).double(),
        "You join patches that are unlike: the edge is strong above tau.":
            (cosines <= tau).double(),
        "You took out the edges of patches with themselves: each is alike to itself, and the "
        "library keeps these.": right - torch.eye(PATCHES, dtype=right.dtype),
    })  # fmt: skip
    faint = given.double()[right < 0.5]
    if bool((faint == 0).any()):
        wrong(
            "Patches that are not alike have no edge: give them 0.00001, or the graph may fall "
            "apart, and then every part of it is a cut."
        )
    # Of itself: to `compare`, all numbers as small as this are the same.
    away = (faint / token_cut.FAINT - 1).abs()
    if away.max() > 1e-3:
        weight = faint[away.argmax()].item()
        wrong(f"Among the faint edges is one that weighs {weight:.3g}; 0.00001 is asked for.")
    passed("That is the graph: alike patches are joined, and no one has said where the animal is.")


def second_vector(answer: Callable) -> None:
    """The second vector of (D - A) x = lambda D x, of either sign and any length: A -> patches."""
    edges = token_cut.affinity(features_example()[None])
    right = token_cut.second_eigenpairs(edges)[0][0]
    edges = edges[0]
    sums = edges.sum(dim=1)
    root = sums.sqrt()
    plain = torch.diag(sums) - edges
    symmetric = plain / root[:, None] / root[None, :]
    vectors = torch.linalg.eigh(symmetric)[1]
    given = result(answer, edges, shape=(PATCHES,)).double()
    if not bool(given.any()):
        wrong("Your vector is 0 everywhere: that solves the equation, and parts nothing.")
    slips = {
        "That is the first vector: its lambda is 0, and all patches get the same number. Take the "
        "second.": torch.ones_like(root),
        "That is the first y, whose x is the same for all patches. Take the second, and go back to "
        "x.": root,
        "That is y: go back to x by dividing by the root of the sums.": vectors[:, 1],
        "You multiply by the root of the sums: y is the root times x, so divide.":
            vectors[:, 1] * root,
        "That is the third vector: counting starts with 0.": vectors[:, 2] / root,
        "That is the last vector, with the largest lambda: it parts what belongs together.":
            vectors[:, -1] / root,
        "You take a row: the vectors are the columns.": vectors[1] / root,
        "You left out D on the right side: then sides are measured by their patches and not by "
        "their edges, and a patch with few edges is soon cut off alone.":
            torch.linalg.eigh(plain)[1][:, 1],
        "You take the vectors of A: it must be D - A.": torch.linalg.eigh(edges)[1][:, 1],
    }  # fmt: skip
    # Sign and length are free, so they are made equal before vectors are compared.
    place = int(right.abs().argmax())
    compare(
        _turned(given, place),
        _turned(right, place),
        {text: _turned(slip, place) for text, slip in slips.items()},
    )
    passed("That is the cut. Its sign is free: the graph does not know which side is the object.")


def iou(answer: Callable) -> None:
    """Intersection over union of two masks, side x side, in percent."""
    found, exact = masks_example()
    both = (found & exact).sum().double()
    right = float(mask_quality(found[None, None], exact[None, None])["iou_pct"][0])
    compare(result(answer, found, exact, shape=()), right, {
        "That is a share from 0 to 1: it is asked for in percent.": right / 100,
        "You divide by the exact mask alone: then a mask of the whole picture would get 100 %.":
            100 * both / exact.sum(),
        "You divide by the found mask alone: then a single right pixel would get 100 %.":
            100 * both / found.sum(),
        "You count the pixels in both twice: the union has each pixel once.":
            100 * both / (found.sum() + exact.sum()),
        "That is Dice's coefficient, a cousin: the IoU divides by the union.":
            200 * both / (found.sum() + exact.sum()),
        "That is the share of pixels on which the masks agree: the background, which is easy, "
        "must not count.": 100 * (found == exact).double().mean(),
        "You divide by the pixels in just one of both: the union has those in both as well.":
            100 * both / (found ^ exact).sum(),
        "You divide by the number of pixels: divide by the union.": 100 * both / found.numel(),
    })  # fmt: skip
    passed("That is the IoU: 100 % for the same mask, 0 % for masks that do not touch.")


def leaf(answer: str | None) -> None:
    """Why TokenCut finds a leaf and not the animal."""
    choice(answer, "c", {
        "a": "Turned over, the mask would be the background: animal and leaf are on one side of "
             "the cut.",
        "b": "With 0.4 and 0.6, fewer patches are joined, and the leaf is found all the same.",
        "c": "Right: whatever stands out is an object to TokenCut, and of several it keeps the one "
             "that stands out most. What we mean by object, no one has told it.",
    })  # fmt: skip


def features_example() -> Tensor:
    """Keys of twelve patches, of unlike length, in two groups with patches in between."""
    draw = torch.Generator().manual_seed(0)
    keys = torch.randn(PATCHES, CHANNELS, generator=draw, dtype=torch.float64)
    keys[:5, 0] += 1.5
    keys[5:, 1] += 1.5
    return keys * torch.linspace(0.3, 2, PATCHES, dtype=torch.float64)[:, None]


def masks_example() -> tuple[Tensor, Tensor]:
    """A found mask, and a larger exact one that it overlaps in part."""
    found, exact = torch.zeros(2, 10, 10, dtype=torch.bool)
    found[2:6, 1:6] = True
    exact[3:9, 3:8] = True
    return found, exact


def _turned(vector: Tensor, place: int) -> Tensor:
    unit = normalize(vector.double(), dim=0)
    return -unit if unit[place] < 0 else unit
