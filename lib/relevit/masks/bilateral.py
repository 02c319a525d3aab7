"""The fast bilateral solver: bring a coarse mask to the edges of the image.

Source: Barron and Poole 2016 (ECCV), with the parameters of TokenCut's scripts, which RobustViT
calls (differences B14, B19). Pixels alike in place and colour share a vertex of a coarse grid; a
linear system there smooths the mask across vertices that are neighbours, and not across edges.
"""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int, UInt8

# ITU-R BT.601, as in JPEG; rows are Y, U, V.
YUV = np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
BALANCING_STEPS = 10  # of the grid's matrix towards rows that sum to one
SMALLEST_DIAGONAL = 1e-5


def bilateral_solve(
    image: UInt8[np.ndarray, "height width 3"],
    mask: Bool[np.ndarray, "height width"],
    *,
    space: float = 16.0,
    brightness: float = 16.0,
    colour: float = 8.0,
    smoothness: float = 256.0,
    confidence: float = 0.999,
    steps: int = 25,
    tolerance: float = 1e-5,
) -> Float[np.ndarray, "height width"]:
    """The mask smoothed within the image's edges, about 0 to 1: with B the grid's blur and c the
    confidence in its n pixels, the x of

        (smoothness (D - S B S) + c n) x = c (sum of the mask over a vertex's pixels).

    A vertex is `space` pixels wide, `brightness` units of Y and `colour` units of U and V
    (0..255). The defaults are those of the published scripts; TokenCut's own function has 24, 4, 4.
    With 25 steps of conjugate gradients the solution is not converged (differences B19).
    """
    vertex, blur = _grid(image, (space, space, brightness, colour, colour))
    counts = np.bincount(vertex).astype(float)
    scale = np.ones(len(counts))
    for _ in range(BALANCING_STEPS):
        scale = np.sqrt(scale * counts / (blur @ scale))
    balanced = scale * (blur @ scale)
    weight = confidence * counts
    target = confidence * np.bincount(vertex, weights=mask.ravel().astype(float))
    diags = scipy.sparse.diags
    smooth = diags(balanced) - diags(scale) @ blur @ diags(scale)
    system = (smoothness * smooth + diags(weight)).tocsr()
    jacobi = diags(1 / np.maximum(system.diagonal(), SMALLEST_DIAGONAL))
    solution, _ = scipy.sparse.linalg.cg(
        system, target, x0=target / weight, M=jacobi, maxiter=steps, rtol=tolerance, atol=0.0
    )
    return solution[vertex].reshape(mask.shape)


def solid(
    soft: Float[np.ndarray, "height width"], *, second_piece: bool = False
) -> Bool[np.ndarray, "height width"]:
    """One filled object out of the solver's answer, cut at one half: its largest piece.

    `second_piece` keeps the second most frequent one instead, the background taken for the most
    frequent: where the object fills more than half of the image the background comes out
    (differences B19), and where nothing is above one half, everything. Of equal pieces the later
    counts as the more frequent, so that an object on exactly half of the image comes out as the
    background, too.
    """
    filled = scipy.ndimage.binary_fill_holes(soft > 0.5)
    pieces, count = scipy.ndimage.label(filled)
    if count == 0:
        return np.full(soft.shape, second_piece)
    sizes = np.bincount(pieces.ravel(), minlength=count + 1)
    if second_piece:
        return pieces == np.argsort(sizes, kind="stable")[-2]
    return pieces == 1 + sizes[1:].argmax()


def _grid(
    image: UInt8[np.ndarray, "height width 3"], widths: tuple[float, ...]
) -> tuple[Int[np.ndarray, " pixels"], scipy.sparse.csr_matrix]:
    """The vertex of each pixel, and the matrix that adds a vertex's neighbours to it.

    `widths` are those of a vertex along column, row, Y, U and V.
    """
    rows, columns = np.indices(image.shape[:2])
    luma, u, v = np.moveaxis(image.astype(float) @ YUV.T + [0.0, 128.0, 128.0], 2, 0)
    pixels = zip((columns, rows, luma, u, v), widths, strict=True)
    places = np.stack([values / width for values, width in pixels])
    places = places.reshape(len(widths), -1).astype(np.int64)
    # One digit a dimension, with a free value beyond the last, so that no step wraps around.
    digits = (2 + places.max()) ** np.arange(len(widths))
    unique, vertex = np.unique(digits @ places, return_inverse=True)
    pairs = []
    for digit in digits:
        found = np.searchsorted(unique, unique + digit).clip(max=len(unique) - 1)
        here = np.flatnonzero(unique[found] == unique + digit)
        pairs += [(here, found[here]), (found[here], here)]
    itself = np.arange(len(unique))
    to, of = (np.concatenate(part) for part in zip((itself, itself), *pairs, strict=True))
    weight = np.ones(len(to))
    weight[: len(unique)] = 2.0 * len(digits)
    around = scipy.sparse.csr_matrix((weight, (to, of)), shape=(len(unique), len(unique)))
    return vertex.ravel(), around
