"""From photographs to the tensor that a model takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor, nn

from relevit.data.pictures import open_image, upright
from relevit.maps import unwrapped
from relevit.models.describing import need_colours, own_cfg, spec_as_told

Picture = Image.Image | Path | str


def model_input(
    model: nn.Module, pictures: Picture | Sequence[Picture]
) -> Float[Tensor, "batch 3 height width"]:
    """Pictures as a model wants them, in a batch on its device and in its dtype.

    Each is resized, its middle is cut out (`View`), and it is normalised as `model.pretrained_cfg`
    says, which `load_model` and timm set. `pictures`: a file, a PIL picture of any mode, or several
    of them; they are turned upright as their EXIF says.
    Raises: ValueError for no pictures, what cannot be read as one, or a model that does not say how
    it wants them.
    """
    given = [pictures] if isinstance(pictures, Picture) else list(pictures)
    if not given:
        raise ValueError("model_input: no pictures; give a file, a PIL picture, or several of them")
    model = unwrapped(model)
    name = str(own_cfg(model).get("architecture", type(model).__name__))
    need_colours(name, model)
    spec = spec_as_told(name, name, model, {}, getattr(model, "num_classes", 0))
    squares = torch.stack([spec.view.picture(_opened(one)) for one in given])
    return spec.normalise(squares, like=next(model.parameters()))


def _opened(one: Picture) -> Image.Image:
    if not isinstance(one, Picture):
        raise ValueError(
            f"model_input: a {type(one).__name__} is no picture; give a file or a PIL picture, "
            "such as Image.fromarray(pixels) of an array of 8 bits [height, width, 3]"
        )
    return upright(one) if isinstance(one, Image.Image) else open_image(Path(one))
