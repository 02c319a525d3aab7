"""One line from images to heatmaps: a method's map of each image, at the images' size."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from relevit.attribution import METHODS, check_known
from relevit.relevance import Protocol, Target, check_protocol, to_pixels


def explain(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    method: str = "gae",
    target: Target = None,
    *,
    protocol: Protocol = "published",
) -> Float[Tensor, "batch 1 height width"]:
    """Where the model finds a class: heatmaps from 0 to 1, each over its own range.

    `images` are normalised as the model wants them (`ModelSpec.normalise`), on its device;
    `method` is one of METHODS. `target`: one class for all images or one for each, None for the
    predicted ones. The model works in eval mode meanwhile. A map that is the same everywhere gives
    a heatmap of zeros.
    Raises: ValueError for an unknown method or protocol, images or targets of another form, NaN in
    an image, and as the methods do.
    """
    check_known([method])
    check_protocol(protocol)
    if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
        raise ValueError(
            f"explain: images of shape {tuple(images.shape)} and type {images.dtype}; give "
            "normalised ones, [batch, 3, height, width] (ModelSpec.normalise)"
        )
    if not bool(images.isfinite().all()):  # a heatmap of zeros would come of it
        raise ValueError("explain: NaN or infinity among the pixels; give images without them")
    maps = METHODS[method](model, images, target, protocol=protocol)
    # Published code makes a constant map NaN.
    return to_pixels(maps.detach().nan_to_num(nan=0.0), tuple(images.shape[-2:]))
