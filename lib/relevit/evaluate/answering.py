"""What a model answers, in float32: on a GPU in TF32, and again where that could change it.

A GPU multiplies several times faster in TF32 (`base.device.tensor_float32`), but rounds numbers to
three digits, which moves the logits. An answer is sure when no two logits that decide it are closer
than a margin, twice the largest error of a logit seen; all others are computed a second time.
Processors answer in float32 at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from relevit.base.device import Precision, has_tensor_float32, tensor_float32
from relevit.models.answers import need_classes
from relevit.models.trunk import Frozen, kept_tokens, open_trunk

# How far apart the logits are that decide an answer, by `prediction_gap` and the like.
Gap = Callable[[Float[Tensor, "batch classes"]], Float[Tensor, " batch"]]
Logits = Callable[[], Float[Tensor, "batch classes"]]
NEAREST = 8  # inputs of each batch that are computed a second time in any case


class Answers:
    """Logits of a copy of `model` in evaluation mode, on the CPU; the model itself stays as it is.

    The copy shares the weights that keep their format. `precision` None keeps the model's own.
    Where the device rounds float32 to TF32 (`rounded`), inputs whose logits leave doubt are
    answered again; `repeated` counts them. Tokens of `frozen` blocks are kept.
    """

    def __init__(
        self, model: nn.Module, precision: Precision | None = None, frozen: Frozen | None = None
    ) -> None:
        kinds = {None: None, "bfloat16": torch.bfloat16}
        self._model = _copy(model, kinds.get(precision, torch.float32))
        self._trunk = open_trunk(self._model, frozen)
        self.rounded = self.like.dtype == torch.float32 and has_tensor_float32(self.like.device)
        self.margin = 0.0
        self.repeated = 0

    @property
    def like(self) -> Tensor:
        """A tensor with the device and the format that inputs should have."""
        return next(self._model.parameters())

    def __call__(
        self, pixels: Shaped[Tensor, "batch 3 height width"], gap: Gap | None = None
    ) -> Float[Tensor, "batch classes"]:
        """Logits, in float32 or better; without a `gap` not rounded."""
        return self.later(pixels, gap)()

    @torch.inference_mode()
    def later(
        self, pixels: Shaped[Tensor, "batch 3 height width"], gap: Gap | None = None
    ) -> Logits:
        """As a call, but a GPU is not waited for until the logits are, by calling the result."""
        checked = self.rounded and gap is not None
        with kept_tokens(self._trunk, pixels), tensor_float32(pixels.device, checked):
            logits, arrived = _begin(self._model, pixels)

        @torch.inference_mode()
        def end() -> Tensor:
            if arrived is not None:
                arrived.synchronize()
            if checked:
                self._look_again(logits, pixels, gap)
            return logits

        return end

    def _look_again(self, logits: Tensor, pixels: Tensor, gap: Gap) -> None:
        """Put the logits of float32 where rounding could change the answer.

        The NEAREST are always looked at, and their errors set the margin for all that follow.
        Logits are compared after taking off their mean, which decides nothing.
        """
        gaps, order = gap(logits).nan_to_num(nan=-torch.inf).sort()  # NaN is doubtful
        start = 0
        while start < len(order) and (start == 0 or gaps[start] < self.margin):
            end = max(start + NEAREST, int((gaps < self.margin).sum()))
            some = order[start:end]
            with tensor_float32(pixels.device, False):
                exact, arrived = _begin(self._model, pixels[some.to(pixels.device)])
            if arrived is not None:
                arrived.synchronize()
            apart = logits[some] - exact
            errors = (apart - apart.mean(dim=1, keepdim=True)).abs()
            self.margin = max(self.margin, 2 * float(errors.nan_to_num(0, 0).max()))
            logits[some] = exact
            self.repeated += len(some)
            start = end


def right_classes(
    labels: Int[Tensor, " batch"], classes: int, accepted: Mapping[int, Sequence[int]]
) -> Bool[Tensor, "batch classes"]:
    """Which classes are right: those that `accepted` gives for the label, else the label itself.

    Raises: ValueError for a class that the model has no output for.
    """
    several = [accepted.get(label, (label,)) for label in labels.tolist()]
    places = [(row, column) for row, columns in enumerate(several) for column in columns]
    wrong = sorted({column for _, column in places if not 0 <= column < classes})
    if wrong:
        raise ValueError(
            f"answers: the classes {wrong[:5]} are right, and the model has {classes} outputs; "
            "give a model with an output for each class, as of ImageNet-1k for its sets"
        )
    right = torch.zeros(len(labels), classes, dtype=torch.bool)
    right[tuple(torch.tensor(places).unbind(dim=1))] = True
    return right


def prediction_gap(logits: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
    """By how much the differences of logits must change for another class to win."""
    first, second = logits.topk(2, dim=1).values.unbind(dim=1)
    return first - second


def label_gap(
    logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"], k: int
) -> Float[Tensor, " batch"]:
    """By how much, for the label to come into the first `k` classes or out of them."""
    return rank_gap(logits, right_classes(labels, logits.shape[1], {}), k)


def rank_gap(
    logits: Float[Tensor, "batch classes"], right: Bool[Tensor, "batch classes"], k: int
) -> Float[Tensor, " batch"]:
    """By how much, for the first right class to come into the first `k` or out of them.

    It is among them when it comes before the k-th of the wrong classes.
    """
    if k >= logits.shape[1]:
        return logits.new_full((len(logits),), torch.inf)
    own = logits.masked_fill(~right, -torch.inf).amax(dim=1)
    rival = logits.masked_fill(right, -torch.inf).topk(k, dim=1).values[:, -1]
    return (own - rival).abs()


def _copy(model: nn.Module, dtype: torch.dtype | None) -> nn.Module:
    """A copy in evaluation mode. Tensors are copied when the format of one changes."""
    tensors = [*model.parameters(), *model.buffers()]
    if dtype is None or all(t.dtype == dtype for t in tensors if t.is_floating_point()):
        return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors}).eval()
    return copy.deepcopy(model).to(dtype).eval()


def _begin(model: nn.Module, pixels: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    """Logits on the CPU, and when they have arrived there; None: they have."""
    logits = model(pixels.to(next(model.parameters())))
    need_classes(logits)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    if not logits.is_cuda:
        return logits.cpu(), None
    copied = logits.to("cpu", non_blocking=True)
    return copied, torch.cuda.current_stream(logits.device).record_event()
