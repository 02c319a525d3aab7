"""The fast bilateral solver: bring a coarse mask to the edges of the image.

Source: Barron and Poole 2016 (ECCV), with the parameters of TokenCut's scripts, which RobustViT
calls (differences B14, B19). Pixels alike in place and colour share a vertex of a coarse grid; a
linear system there smooths the mask across vertices that are neighbours, and not across edges.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from scipy.ndimage import binary_fill_holes, label
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import cg

from relevit.relevance import Protocol, check_protocol

# ITU-R BT.601, as in JPEG; rows are Y, U, V.
YUV = np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
BALANCING_STEPS = 10  # of the grid's matrix towards rows that sum to one
SMALLEST_DIAGONAL = 1e-5


@dataclass(frozen=True)
class BilateralSettings:
    """Widths of a vertex in pixels and in units of Y and of U, V (0..255), and the solver's.

    The defaults are those of the published scripts; TokenCut's own function has 24, 4, 4.
    With 25 steps of conjugate gradients the solution is not converged (differences B19).
    Raises: ValueError for a value that is not above 0.
    """

    space: float = 16.0
    brightness: float = 16.0
    colour: float = 8.0
    smoothness: float = 256.0
    confidence: float = 0.999
    steps: int = 25
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        wrong = {name: value for name, value in asdict(self).items() if not value > 0}
        if wrong:
            raise ValueError(f"BilateralSettings: {wrong}; every value must be above 0")


PUBLISHED = BilateralSettings()


def bilateral_solve(
    image: UInt8[np.ndarray, "height width 3"],
    mask: Bool[np.ndarray, "height width"],
    settings: BilateralSettings = PUBLISHED,
) -> Float[np.ndarray, "height width"]:
    """The mask smoothed within the image's edges, about 0 to 1.

    Raises: ValueError when the sizes differ or the image is not of bytes.
    """
    if image.shape != (*mask.shape, 3) or image.dtype != np.uint8:
        raise ValueError(
            f"bilateral_solve: image {image.shape} of {image.dtype} and mask {mask.shape}; needed "
            "are bytes [height, width, 3] and a mask of the same height and width"
        )
    vertex, blur = _grid(image, settings)
    counts = np.bincount(vertex).astype(float)
    scale = np.ones(len(counts))
    for _ in range(BALANCING_STEPS):
        scale = np.sqrt(scale * counts / (blur @ scale))
    balanced = scale * (blur @ scale)
    weight = settings.confidence * counts
    target = settings.confidence * np.bincount(vertex, weights=mask.ravel().astype(float))
    smooth = diags(balanced) - diags(scale) @ blur @ diags(scale)
    system = (settings.smoothness * smooth + diags(weight)).tocsr()
    jacobi = diags(1 / np.maximum(system.diagonal(), SMALLEST_DIAGONAL))
    solution, _ = cg(
        system,
        target,
        x0=target / weight,
        M=jacobi,
        maxiter=settings.steps,
        rtol=settings.tolerance,
        atol=0.0,
    )
    return solution[vertex].reshape(mask.shape)


def solid(
    soft: Float[np.ndarray, "height width"], protocol: Protocol = "published"
) -> Bool[np.ndarray, "height width"]:
    """One filled object out of the solver's answer, cut at one half.

    `published` fills holes and keeps the second most frequent piece, the background taken for
    the most frequent: where the object fills more than half of the image the background comes
    out (differences B19), and where nothing is above one half, everything. Of equal pieces the
    later counts as the more frequent, so that an object on exactly half of the image comes out as
    the background, too. `described` keeps the largest piece of the object; it is empty where there
    is none.
    Raises: ValueError for another protocol.
    """
    check_protocol(protocol)
    filled = binary_fill_holes(soft > 0.5)
    pieces, count = label(filled)
    if count == 0:
        return np.full(soft.shape, protocol == "published")
    sizes = np.bincount(pieces.ravel(), minlength=count + 1)
    if protocol == "described":
        return pieces == 1 + sizes[1:].argmax()
    return pieces == np.argsort(sizes, kind="stable")[-2]


def _grid(
    image: UInt8[np.ndarray, "height width 3"], settings: BilateralSettings
) -> tuple[Int[np.ndarray, " pixels"], csr_matrix]:
    """The vertex of each pixel, and the matrix that adds a vertex's neighbours to it."""
    rows, columns = np.indices(image.shape[:2])
    luma, u, v = np.moveaxis(image.astype(float) @ YUV.T + [0.0, 128.0, 128.0], 2, 0)
    places = (
        np.stack(
            [
                columns / settings.space,
                rows / settings.space,
                luma / settings.brightness,
                u / settings.colour,
                v / settings.colour,
            ]
        )
        .reshape(5, -1)
        .astype(np.int64)
    )
    # One digit a dimension, with a free value beyond the last, so that no step wraps around.
    digits = (2 + places.max()) ** np.arange(5)
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
    return vertex.ravel(), csr_matrix((weight, (to, of)), shape=(len(unique), len(unique)))
