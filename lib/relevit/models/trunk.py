"""The tokens behind blocks that are not trained, kept in files: computed once for all runs.

Where the last blocks alone are trained, what lies before them makes the same tokens of the same
images in every epoch and every run. A file is named after all that its tokens follow from: the
frozen weights, the images as the network sees them, and the number formats. So the file of other
weights or images is never found, and one that is damaged is made again.
"""

from __future__ import annotations

import hashlib
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from relevit.base.files import write_atomically
from relevit.maps import attention_layers

HEADS = ("head.", "head_dist.")  # of timm's models; a distilled one has both
FREE_MB = 1000  # that stay free on the disk
RATES = ("p", "drop_prob", "prob")  # of what drops values, paths or patches at random
TOKENS, SUM = "tokens", "sum"


class Frozen(NamedTuple):
    """Where tokens are kept, and how many of the last blocks are trained (None: all)."""

    folder: Path
    trained_blocks: int | None


def to_train(model: nn.Module, blocks: int | None) -> dict[str, nn.Parameter]:
    """The weights by name that `blocks` asks to train, as `finetune.step.trained_weights` says.

    Raises: ValueError for a network without a Vision Transformer's blocks, for more blocks than
    there are, or a head that has no weights.
    """
    named = dict(model.named_parameters())
    if blocks is None:
        return named
    try:
        depth = len(attention_layers(model))
    except ValueError as error:
        raise ValueError(
            f"trained_blocks: {type(model).__name__} has no blocks of a Vision Transformer; leave "
            "them out, so that all is trained"
        ) from error
    if blocks > depth:
        raise ValueError(f"trained_blocks: {blocks} of a model that has {depth}; give at most that")
    found = {
        name: weight for name, weight in named.items() if name.startswith(_behind(depth, blocks))
    }
    if not found:
        raise ValueError(f"trained_blocks: the head of this {type(model).__name__} has no weights")
    return found


def _behind(depth: int, blocks: int) -> tuple[str, ...]:
    ends = ("norm.", "fc_norm.", *HEADS) if blocks else HEADS
    return (*ends, *(f"blocks.{i}." for i in range(depth - blocks, depth)))


def open_trunk(model: nn.Module, frozen: Frozen | None) -> Trunk | None:
    """The trunk of a model; None where keeping its tokens would not pay, or change them.

    It pays on a processor. Where the trunk drops something at random, or counts what it sees
    (BatchNorm), tokens differ from pass to pass.
    """
    on_processor = next(model.parameters()).device.type == "cpu"
    if frozen is None or frozen.trained_blocks is None or not on_processor:
        return None
    first = len(model.blocks) - frozen.trained_blocks
    behind = model.blocks[first] if frozen.trained_blocks else getattr(model, "norm", None)
    later = _behind(len(model.blocks), frozen.trained_blocks)
    parts = [part for name, part in model.named_modules() if not f"{name}.".startswith(later)]
    changing = (
        isinstance(part, _BatchNorm) or any(_number(part, rate) > 0 for rate in RATES)
        for part in parts
    )
    if not first or behind is None or any(changing):
        return None
    return Trunk(model, first, behind, later, frozen.folder)


def kept_tokens(
    trunk: Trunk | None, inputs: Float[Tensor, "batch ..."], by: str = ""
) -> AbstractContextManager[None]:
    """`trunk.given`, or nothing where there is none."""
    return nullcontext() if trunk is None else trunk.given(inputs, by)


class Trunk:
    """The blocks of a model before the first that is trained, with their tokens in `folder`."""

    def __init__(
        self, model: nn.Module, first: int, behind: nn.Module, later: tuple[str, ...], folder: Path
    ) -> None:
        self.blocks, self.behind, self.folder = list(model.blocks)[:first], behind, folder
        self.told = False  # that the disk is full
        state = {name: x for name, x in model.state_dict().items() if not name.startswith(later)}
        self.of = _digest({"torch": torch.__version__, "model": repr(model), "first": first}, state)

    @contextmanager
    def given(self, inputs: Float[Tensor, "batch ..."], by: str = "") -> Iterator[None]:
        """One forward pass on these inputs inside takes its tokens from the file, or leaves them.

        `by` names what computes the trunk in another way than plain forward passes do.
        """
        device = inputs.device.type
        how = {"by": by, "autocast": str(_autocast(device)), "trunk": self.of}
        path = self.folder / f"{_digest(how, {'inputs': inputs})}.safetensors"
        tokens = _read(path)
        with ExitStack() as stack:
            if tokens is not None:
                stack.enter_context(_passing_on(self.blocks))
            seen: list[Tensor] = []
            # Once: a method may run a block again, on other tokens.
            handle = self.behind.register_forward_pre_hook(partial(_once, seen, tokens))
            stack.callback(handle.remove)
            yield
        if tokens is None and seen:
            self._keep(path, seen[0].contiguous())

    def _keep(self, path: Path, tokens: Tensor) -> None:
        megabytes = tokens.nbytes / 2**20
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(path.parent).free / 2**20
            if free < FREE_MB + megabytes:
                raise OSError(f"{free:.0f} MB are free, and {FREE_MB} MB stay free")
            about = {SUM: _digest({}, {TOKENS: tokens})}
            write_atomically(path, lambda to: save_file({TOKENS: tokens}, to, metadata=about))
        except OSError as error:
            if not self.told:
                warnings.warn(
                    f"{path.parent}: tokens of frozen blocks are computed each time, for "
                    f"{megabytes:.1f} MB of {len(tokens)} images are not kept: {error}",
                    stacklevel=3,
                )
            self.told = True


def _number(part: nn.Module, name: str) -> float:
    value = getattr(part, name, 0)
    return value if isinstance(value, int | float) else 0


def _autocast(device: str) -> torch.dtype | None:
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None


@contextmanager
def _passing_on(blocks: list[nn.Module]) -> Iterator[None]:
    before = [vars(block).get("forward") for block in blocks]
    try:
        for block in blocks:
            block.forward = lambda tokens, *args, **options: tokens
        yield
    finally:
        for block, own in zip(blocks, before, strict=True):
            del block.forward
            if own is not None:
                block.forward = own


def _once(seen: list[Tensor], given: Tensor | None, part: nn.Module, args: tuple) -> tuple | None:
    if seen:
        return None
    seen.append(args[0].detach() if given is None else given)
    return None if given is None else (given, *args[1:])


def _read(path: Path) -> Tensor | None:
    try:
        with safe_open(path, framework="pt") as file:
            tokens = file.get_tensor(TOKENS)
            whole = file.metadata()[SUM] == _digest({}, {TOKENS: tokens})
    except (OSError, SafetensorError, KeyError, TypeError):
        return None
    return tokens if whole else None


def _digest(values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    found = hashlib.blake2b(repr(sorted(values.items())).encode(), digest_size=16)
    for name, tensor in tensors.items():
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
    return found.hexdigest()
