"""The methods as a class of captum's, for its metrics and for code that is written for captum.

captum is no dependency of this package: `pip install captum`. Nothing else imports this module.
"""

from __future__ import annotations

from typing import Any

import torch
from captum.attr import Attribution
from captum.log import log_usage
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.patches import patch_grid, to_pixels
from relevit.attribution.method import Target
from relevit.attribution.methods import METHODS, check_known
from relevit.attribution.pixels import sum_over_patches
from relevit.attribution.seen import Map
from relevit.protocols import Protocol

Images = Float[Tensor, "batch channels height width"]


class PatchAttribution(Attribution):
    """One of METHODS: `attribute` gives a value for each pixel and channel of the images.

    A patch's relevance is spread evenly over its pixels and channels, so that an image's sum is
    that of its patches.
    """

    def __init__(
        self, forward_func: nn.Module, method: str = "gae", protocol: Protocol = "published"
    ) -> None:
        """`forward_func` is the model itself. Raises: ValueError for an unknown method."""
        check_known([method])
        super().__init__(forward_func)
        self.method, self.protocol = method, protocol

    @log_usage()  # whose wrapper captum's NoiseTunnel looks for
    def attribute(
        self,
        inputs: Images | tuple[Images, ...],
        target: Target = None,
        additional_forward_args: Any = None,
    ) -> Images | tuple[Images, ...]:
        """Attributions of the shape of `inputs`, for one class, one each, or the predicted ones.

        Like captum's, `inputs` may be a tuple of one tensor, and the result is one then.
        `additional_forward_args` are captum's; the models take none.
        Raises: ValueError as the methods do.
        """
        if additional_forward_args is not None:
            raise ValueError("additional_forward_args: a model is called with images alone")
        if isinstance(inputs, tuple):
            if len(inputs) != 1:
                raise ValueError(f"inputs: a tuple of {len(inputs)} tensors; give one of images")
            return (self.attribute(inputs[0], target),)
        maps = METHODS[self.method](
            self.forward_func, inputs.detach(), target, protocol=self.protocol
        )
        return spread(self.forward_func, maps.detach(), inputs)


def spread(model: nn.Module, maps: Map, images: Images) -> Images:
    """Each patch's value in equal parts at all its pixels and channels that there are."""
    grid = patch_grid(model, images)
    pixels_each = sum_over_patches(model, torch.ones_like(images[:1, 0])) * images.shape[1]
    pixels = to_pixels((maps / pixels_each).unflatten(1, grid), tuple(images.shape[2:]), grid)
    return pixels[:, None].expand_as(images).contiguous()  # as captum takes it
