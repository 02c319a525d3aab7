"""The methods as a class of captum's, for its metrics and for code that is written for captum.

captum is no dependency of this package: `pip install captum`. Nothing else imports this module.
"""

from __future__ import annotations

from captum.attr import Attribution
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import attention_layers
from relevit.attention.token_rows import patch_grid
from relevit.attribution import METHODS, check_known
from relevit.attribution.method import Target
from relevit.protocols import Protocol, check_protocol

Images = Float[Tensor, "batch channels height width"]


class PatchAttribution(Attribution):
    """One of METHODS: `attribute` gives a value for each pixel and channel of the images.

    A patch's relevance is spread evenly over its pixels and channels, so that an image's sum is
    that of its patches.
    """

    def __init__(
        self, forward_func: nn.Module, method: str = "gae", protocol: Protocol = "published"
    ) -> None:
        """`forward_func` is the model itself. Raises: ValueError, as `explain`."""
        check_known([method])
        check_protocol(protocol)
        attention_layers(forward_func)
        super().__init__(forward_func)
        self.method, self.protocol = method, protocol

    def attribute(
        self, inputs: Images | tuple[Images, ...], target: Target = None
    ) -> Images | tuple[Images, ...]:
        """Attributions of the shape of `inputs`, for one class, one each, or the predicted ones.

        Like captum's, `inputs` may be a tuple of one tensor, and the result is one then.
        Raises: ValueError for a bad target, or patches that do not divide the images.
        """
        if isinstance(inputs, tuple):
            if len(inputs) != 1:
                raise ValueError(f"inputs: a tuple of {len(inputs)} tensors; give one of images")
            return (self.attribute(inputs[0], target),)
        maps = METHODS[self.method](
            self.forward_func, inputs.detach(), target, protocol=self.protocol
        )
        return spread(maps.detach(), inputs, patch_grid(self.forward_func, inputs))


def spread(maps: Float[Tensor, "batch patches"], images: Images, grid: tuple[int, int]) -> Images:
    """Each patch's value in equal parts at all its pixels and channels.

    Raises: ValueError when the patches do not divide the images.
    """
    _, channels, height, width = images.shape
    rows, columns = grid
    if height % rows or width % columns:
        raise ValueError(
            f"attribute: {rows} x {columns} patches do not divide images of {height} x {width} "
            "pixels; give images whose sides are multiples of the patch size"
        )
    tall, wide = height // rows, width // columns
    values = maps.unflatten(1, (1, rows, columns)) / (channels * tall * wide)
    pixels = values.repeat_interleave(tall, dim=2).repeat_interleave(wide, dim=3)
    return pixels.expand(-1, channels, -1, -1).contiguous()  # as captum takes it
