"""Relevance maps of a Vision Transformer: record one forward pass, read a map off it, draw it.

A model runs once, and the attention map A of each block is kept (`record_attention`). `observe`
adds grad A, what the logit of one class owes to each. A method is a formula of these (`Seen`). So
generic attention explainability (GAE), the map that RobustViT trains on, is

    R <- I,   A_bar = mean over heads of (grad A * A)^+,   R <- R + A_bar R,

block by block, and of R the row that the head reads. `to_heatmap` lays a map over the pixels. Here
are the methods that need one pass and its attention alone; the others are in
`relevit.attribution`, each in its file.

Whatever format a model runs in, means and sums of a map are in float32 at least: of patches
the 1 of I stands beside thousandths, which bfloat16 would lose.
"""

from __future__ import annotations

import copy
import math
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from operator import index
from typing import Any, Literal, SupportsIndex, get_args

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from timm.layers import DiffAttention, PatchEmbed
from timm.models.xcit import XCA
from torch import Tensor, nn
from torch.nn.functional import interpolate

from relevit.protocols import Options, Protocol, check_protocol, options

# What a model is run on: normalised pixels [batch, 3, height, width] or, for a text encoder, which
# goes through the same methods, the embedded tokens [batch, tokens, width].
Inputs = Float[Tensor, "batch ..."]
# One class for all images or one for each, None for the predicted ones.
Target = SupportsIndex | Sequence[SupportsIndex] | np.ndarray | Tensor | None
Map = Float[Tensor, "batch patches"]
Rows = Float[Tensor, "batch rows tokens"]
Matrices = list[Float[Tensor, "batch query key"]]
Pooling = Literal["class_token", "distilled", "patches", "all_tokens", "both"]
Gradients = Literal["none", "last", "all"]

FAMILIES = "ViT, DeiT, AugReg, BEiT, EVA-02, MAE, DINO, DINOv2, DINOv3"
PAPER_DEPTH = 12  # blocks of the models whose first block the protocols give


# The parts of a model


def attention_layers(model: nn.Module) -> list[nn.Module]:
    """The attention layer of every block. Raises: ValueError where there is none, or another."""
    attentions = [block_part(model, block, "attn") for block in getattr(model, "blocks", ())]
    wanted = ("attn_drop", "fused_attn", "qkv")
    known = attentions and all(hasattr(a, name) for a in attentions for name in wanted)
    lacks = "has no blocks with a layer of global self-attention (block.attn)"
    if known and any(isinstance(layer, DiffAttention) for layer in attentions):
        known = False
        lacks = "has differential attention, whose maps are below zero in places, and no shares"
    if not known or isinstance(attentions[0], XCA):  # whose maps are of channels
        inside = [name for name, part in model.named_modules() if name and _is_whole(part)]
        way = f"give what is in it, model.{inside[0]}, or " if inside else ""
        raise ValueError(
            f"record_attention: {type(model).__name__} {lacks}; {way}use a timm Vision Transformer "
            f"({FAMILIES})"
        )
    return attentions


def _is_whole(part: nn.Module) -> bool:
    return hasattr(part, "blocks") and hasattr(part, "patch_embed")


def unwrapped(model: Any) -> Any:
    """The network inside what adds nothing to its function: `DataParallel`, `torch.compile`, a
    `Sequential` of one."""
    while True:
        inside = getattr(model, "_orig_mod", None)  # a compiled graph heeds no hooks
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inside = model.module
        elif type(model) is nn.Sequential and len(model) == 1:
            inside = model[0]
        if inside is None:
            return model
        model = inside


def logits_of(output: Any, classes: int = 0) -> Float[Tensor, "batch classes"]:
    """The logits in what a network gives: a tensor, or the one among several that can be them.

    Of a dictionary, as those of transformers, what is called so. Raises: ValueError where it is
    not told which they are, or nothing has the form [batch, classes].
    """
    several = [output]
    if isinstance(output, Mapping):
        several = [output.get("logits", output.get("logit"))]
    elif isinstance(output, tuple | list):
        several = list(output)
    found = [each for each in several if isinstance(each, Tensor) and each.ndim == 2]
    if len(found) > 1:
        found = [each for each in found if each.shape[1] == classes]
    if len(found) == 1:
        return found[0]
    given = f"{list(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
    raise ValueError(
        f"model: its forward pass gives {given}, and not logits, [batch, classes]; wrap it so that "
        "it returns these alone"
    )


def logits_alone(model: nn.Module) -> AbstractContextManager[None]:
    """Whatever a forward pass inside gives beside its logits is left out. Raises: `logits_of`."""
    classes = getattr(model, "num_classes", 0)
    return model.register_forward_hook(lambda _model, _args, output: logits_of(output, classes))


def watched_layers(model: nn.Module) -> list[nn.Module]:
    """As `attention_layers`, of a model that runs each block once. Raises: ValueError, too."""
    attentions = attention_layers(model)
    if getattr(model, "grad_checkpointing", False):
        raise ValueError(
            f"record_attention: this {type(model).__name__} runs its blocks twice for gradient "
            "checkpointing; switch that off: model.set_grad_checkpointing(False)"
        )
    return attentions


def last_blocks(depth: int, last: int | None) -> range:
    """The `last` blocks of so many, counted from 0; None: all. Raises: ValueError."""
    if last is not None and not 1 <= last <= depth:
        raise ValueError(f"last {last}: this model has {depth} blocks; give 1 to {depth}, or None")
    return range(depth - (last or depth), depth)


def part_path(model: nn.Module, name: str) -> str:
    """Where a block has what timm's has as `name`; blocks of transformers have other names."""
    return getattr(model, "part_names", {}).get(name, name)


def block_part(model: nn.Module, block: nn.Module, name: str) -> nn.Module | None:
    """The part of a block that timm's has as `name`; None where it has none."""
    try:
        return block.get_submodule(part_path(model, name))
    except AttributeError:
        return None


def need_plain(layer: nn.Module | None, name: str, kind: type[nn.Module] = nn.Linear) -> nn.Module:
    """torch's own layer of a kind, which nobody has changed, so that it does what its weight says.

    An adapter that is not merged (LoRA), a quantised layer or a hook leaves `.weight` as it is and
    computes something else: who reads it would explain another model, without a word.
    Raises: ValueError for any other layer, by its `name`.
    """
    changed = ("forward", "_forward_hooks", "_forward_pre_hooks")
    own = type(layer) is kind and type(layer.weight) is nn.Parameter
    if own and not any(vars(layer).get(each) for each in changed):
        return layer
    found = "is missing" if layer is None else f"is a changed {type(layer).__name__}"
    raise ValueError(
        f"{name} {found}, where the method reads the weight of torch's own {kind.__name__}; merge "
        "an adapter (merge_and_unload() in peft), dequantise, remove hooks and parametrizations, "
        "or take a method that reads no weights, such as gae"
    )


def plain_layers(
    model: nn.Module, name: str, spared: Collection[nn.Module] = ()
) -> list[nn.Module]:
    """All linear layers but the `spared`, or what stands in the place of one, as `need_plain`."""
    return [
        need_plain(layer, f"{name}: {path} of this {type(model).__name__}")
        for path, layer in model.named_modules()
        if layer not in spared and (isinstance(layer, nn.Linear) or hasattr(layer, "in_features"))
    ]


def prefix_tokens(model: nn.Module) -> int:
    """How many tokens stand before the patches: class token, distillation token, registers."""
    return int(getattr(model, "num_prefix_tokens", 1))


def frozen_weights(model: nn.Module) -> AbstractContextManager[None]:
    """Switch off gradients to all weights inside the context and restore each one after it."""
    return switched(model.parameters(), "requires_grad")


def evaluating(model: nn.Module) -> AbstractContextManager[None]:
    """Eval mode inside the context; afterwards each part has the mode that it had."""
    return switched(model.modules(), "training")


def unfused_attention(model: nn.Module) -> AbstractContextManager[None]:
    """Compute attention step by step inside the context, and as before after it, block by block.

    Fused attention cannot be differentiated twice. timm's global switch is not touched.
    Raises: ValueError for a model without global self-attention blocks.
    """
    return switched(attention_layers(model), "fused_attn")


def attention_for_gradients(
    model: nn.Module, *, last: int | None = None
) -> AbstractContextManager[None]:
    """Attention whose backward pass is fast: step by step on a processor in mixed precision.

    The fused kernel's backward pass takes seven times as long there, at 65 tokens. `last` says of
    how many of the last blocks there is one (None: all).
    """
    on_processor = next(model.parameters()).device.type == "cpu"
    if not (on_processor and torch.is_autocast_enabled("cpu")):
        return nullcontext()
    try:
        layers = attention_layers(model)
    except ValueError:  # a network that answers alone
        return nullcontext()
    return switched(layers if last is None else layers[len(layers) - last :], "fused_attn")


@contextmanager
def switched(parts: Iterable[Any], switch: str, to: bool = False) -> Iterator[None]:
    """A switch of these parts off inside the context; after it each is as it was."""
    before = [(part, getattr(part, switch)) for part in parts]
    try:
        for part, _ in before:
            setattr(part, switch, to)
        yield
    finally:
        for part, value in before:
            setattr(part, switch, value)


@contextmanager
def by_one_thread(model: nn.Module) -> Iterator[None]:
    """Hooks hear all passes, those of another thread too: two may not watch one model at once.

    Raises: RuntimeError in the second thread.
    """
    me, kept = threading.get_ident(), vars(model)
    inside = kept.get("_watched_by") == me
    if kept.setdefault("_watched_by", me) != me:
        raise RuntimeError(
            f"another thread explains this {type(model).__name__}; take a copy for each before "
            "they start: copy.deepcopy(model)"
        )
    try:
        yield
    finally:
        if not inside:
            del kept["_watched_by"]


# One forward pass, recorded


@dataclass
class Tape:
    """What one forward pass left behind, one entry a block, first block first.

    `maps` are [batch, heads, tokens, tokens], softmax rows (query) over columns (key), in the
    autograd graph when gradients are enabled: what the values are multiplied by. `inputs` are the
    tokens before the block, [batch, tokens, width]. `blocks` says whose maps are there.
    """

    maps: list[Float[Tensor, "batch heads query key"]] = field(default_factory=list)
    inputs: list[Float[Tensor, "batch tokens width"]] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)


@contextmanager
def record_attention(model: nn.Module, *, last: int | None = None) -> Iterator[Tape]:
    """Record every block's attention map, and its tokens, for a forward pass made inside.

    Fused attention keeps no map, so it is off inside and as it was afterwards, block by block;
    timm's global switch is not touched. A second forward pass starts the tape anew.
    `last` records the last so many blocks alone (None: all); the others keep their fused attention.

    Raises: ValueError for a model without global self-attention blocks; RuntimeError on
    leaving when no forward pass was made, or some block recorded nothing.
    """
    attentions = watched_layers(model)
    watched = last_blocks(len(attentions), last)
    tape = Tape()

    def keep_input(first: bool, block: nn.Module, args: tuple) -> None:
        if first:  # another forward pass
            for kept in (tape.maps, tape.inputs, tape.blocks):
                kept.clear()
        tape.inputs.append(args[0])

    def keep_map(block: int, module: nn.Module, args: tuple, output: Tensor) -> None:
        need_global(block, attentions[block], tape.inputs[-1].shape[1], tuple(output.shape))
        # With frozen weights nothing before the first map needs a gradient: it becomes a leaf, and
        # the backward pass stops there.
        if torch.is_grad_enabled() and not output.requires_grad:
            output.requires_grad_()
        tape.maps.append(output)
        tape.blocks.append(block)

    with ExitStack() as stack:
        stack.enter_context(by_one_thread(model))
        stack.enter_context(switched(attentions[watched.start :], "fused_attn"))
        for i in watched:
            before = partial(keep_input, i == watched.start)
            stack.callback(model.blocks[i].register_forward_pre_hook(before).remove)
            dropped = attentions[i].attn_drop.register_forward_hook(partial(keep_map, i))
            stack.callback(dropped.remove)
        yield tape
    if tape.blocks != list(watched):
        raise RuntimeError(
            f"record_attention: {len(tape.maps)} of {len(watched)} blocks recorded a map; "
            "run the whole model inside the context, with attention that is not fused"
        )


def need_global(block: int, layer: nn.Module, tokens: int, shape: tuple[int, ...]) -> None:
    """Raise ValueError for maps of this shape that are not, for each head, of all tokens by all."""
    heads = getattr(layer, "num_heads", None)
    if len(shape) != 4 or shape[2:] != (tokens, tokens) or heads not in (None, shape[1]):
        heads = "heads" if heads is None else heads
        raise ValueError(
            f"record_attention: block {block} made a map of shape {shape}, not "
            f"[batch, {heads}, tokens, tokens] with {tokens} tokens; use a model with global "
            f"self-attention over its patches ({FAMILIES})"
        )


# Which rows of a token-by-token matrix the head reads


def need_head(model: nn.Module) -> None:
    """Raise ValueError for a model without a head: its outputs are features, and no classes."""
    if headless(model):
        raise ValueError(
            f"target: this {type(model).__name__} has no head (num_classes=0), so that its outputs "
            "are features and no classes; load it with weights that have a head, or train one: "
            "load_model(..., classes=N, new_head=True). Raw attention and rollout need none, "
            "without a target"
        )


def headless(model: nn.Module) -> bool:
    """Whether a model gives features and no logits."""
    head = getattr(model, "head", None)
    none = getattr(model, "num_classes", 1) == 0
    return isinstance(head, nn.Identity) or (head is None and none)


def head_pooling(model: nn.Module, pooling: Pooling | None = None) -> Pooling:
    """The rows that the head of `model` reads, or `pooling` when it is given.

    `class_token`: its row. `distilled`: the mean of the class and the distillation token's, of
    DeiT's two heads, whose answers are averaged (F13). `patches`: the mean over the patches' rows
    (Beyond Intuition Eq. 8; differences D1). `all_tokens`: that over the rows of class token and
    registers, too. `both`: the sum of class token and mean, the published rule for DINO's linear
    classifier, which reads both (D5). timm models tell by `global_pool` and `pool_include_prefix`.
    Raises: ValueError for an unknown pooling, one that the model's tokens do not allow, a head
    that pools in another way, or a model without global self-attention.
    """
    attention_layers(model)
    said = getattr(model, "global_pool", "token")
    if said in ("map", "prr") or getattr(model, "attn_pool", None) is not None:
        raise ValueError(
            f"pooling: the head of this {type(model).__name__} is an attention-pooling head "
            f"(global_pool={said!r}, as SigLIP's), whose own attention no method here explains; "
            "use a model that pools by its class token or by the mean of its patches"
        )
    kinds = {"token": "class_token", "avg": "patches", "both": "both"}
    if getattr(model, "pool_include_prefix", False):
        kinds["avg"] = "all_tokens"
    found = pooling or kinds.get(said)
    if pooling is None and found == "class_token" and hasattr(model, "head_dist"):
        return "distilled"
    if found not in get_args(Pooling):
        raise ValueError(
            f"pooling: {pooling or said!r} is unknown; use a model "
            f"that pools by its class token or by the mean, or choose one of {get_args(Pooling)}"
        )
    of_class_token = found not in ("patches", "all_tokens")
    if of_class_token and not getattr(model, "has_class_token", prefix_tokens(model) > 0):
        raise ValueError(
            f"pooling: this {type(model).__name__} has no class token, whose row was asked for; "
            "use pooling='patches' or a model with class_token=True"
        )
    return found


def read_rows(
    matrix: Float[Tensor, "*batch query tokens"], pooling: Pooling, prefix: int
) -> Float[Tensor, "*batch rows tokens"]:
    """The rows that `pooling` needs."""
    if pooling == "all_tokens":
        return matrix
    if pooling in ("class_token", "distilled"):
        return matrix[..., : 2 if pooling == "distilled" else 1, :]
    patches = matrix[..., prefix:, :]
    return patches if pooling == "patches" else torch.cat([matrix[..., :1, :], patches], dim=-2)


def carry_rows(
    matrices: Sequence[Float[Tensor, "batch tokens tokens"]],
    pooling: Pooling,
    prefix: int,
    start_block: int = 1,
) -> Rows:
    """The read rows of (I + A_L) ... (I + A_start), blocks counted from 1, in float32 at least.

    From the last block to the first: the same numbers as R <- R + A R, and vectors are multiplied
    in place of matrices.
    """
    batch, _, tokens = matrices[0].shape
    kind, device = wide(matrices[-1]), matrices[-1].device
    rows = read_rows(torch.eye(tokens, dtype=kind, device=device), pooling, prefix)
    rows = rows.expand(batch, *rows.shape)
    with unmixed(device):
        for matrix in reversed(matrices[start_block - 1 :]):
            rows = rows + rows @ matrix.to(kind)
    return rows


def pool_rows(rows: Rows, pooling: Pooling, prefix: int) -> Map:
    """One value a patch: the mean over the rows; of `both`, class token plus the patches' mean."""
    patches = rows[:, :, prefix:].to(wide(rows))
    if pooling == "both":
        return patches[:, 0] + patches[:, 1:].mean(dim=1)
    return patches.mean(dim=1)


def unmixed(device: torch.device) -> AbstractContextManager[object]:
    """Without a caller's mixed precision, on devices that know of any."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def wide(values: Tensor) -> torch.dtype:
    """The format of their sums and means: their own, and float32 at least."""
    return torch.promote_types(values.dtype, torch.float32)


def over_heads(values: Float[Tensor, "batch heads query key"]) -> Float[Tensor, "batch query key"]:
    """Their mean over heads, in float32 at least."""
    return values.mean(dim=1, dtype=wide(values))


# What one class's logit owes to the maps


@dataclass(frozen=True)
class Seen:
    """Attention maps of all blocks, first block first, and what one class's logit owes to each.

    `inputs` are the tokens before each block, `target` the class that is explained, `score` the sum
    of its logits. `gradients` has an entry for each map, for the last one, or none, as asked for.
    """

    maps: list[Float[Tensor, "batch heads query key"]]
    inputs: list[Float[Tensor, "batch tokens width"]]
    logits: Float[Tensor, "batch classes"]
    target: Int[Tensor, " batch"]
    score: Float[Tensor, ""]
    pooling: Pooling
    prefix: int  # tokens before the patches
    gradients: Sequence[Float[Tensor, "batch heads query key"]] = ()

    def rows(self, matrix: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch rows key"]:
        """The rows that the head reads: the class token's, or all patches'."""
        return read_rows(matrix, self.pooling, self.prefix)

    def pool(self, rows: Rows) -> Map:
        """One value a patch from these rows."""
        return pool_rows(rows, self.pooling, self.prefix)

    def propagate(self, matrices: Sequence[Tensor], start_block: int = 1) -> Rows:
        """These rows of (I + A_L) ... (I + A_start), blocks counted from 1."""
        return carry_rows(matrices, self.pooling, self.prefix, start_block)


def checked_target(logits: Float[Tensor, "batch classes"], target: Any) -> Int[Tensor, " batch"]:
    """The classes to explain, one for each image: the predicted ones for None.

    Those of a tensor on another device than the processor are not looked at, for that would wait
    for it.
    Raises: ValueError for classes that are no whole numbers, are out of range, or are not one for
    all images nor one for each.
    """
    if target is None:
        return logits.argmax(dim=1)
    batch, classes = logits.shape
    if isinstance(target, Tensor) and target.device.type != "cpu":
        whole = torch.can_cast(target.dtype, torch.int64) and target.dtype != torch.bool
        if whole and target.shape in ((), (batch,)):
            return target.to(logits.device, torch.int64).expand(batch)
        target = target.cpu()  # to be told what is wrong
    listed = target.tolist() if isinstance(target, Tensor | np.ndarray | np.generic) else target
    several = isinstance(listed, Sequence) and not isinstance(listed, str)
    try:
        if any(isinstance(value, bool) for value in (listed if several else [listed])):
            raise TypeError
        chosen = [index(value) for value in listed] if several else [index(listed)] * batch
    except TypeError:
        raise ValueError(
            f"target {listed!r} for {batch} images: classes are whole numbers; give one for all, "
            "one for each image, or None for the predicted one"
        ) from None
    if len(chosen) != batch or not all(0 <= value < classes for value in chosen):
        raise ValueError(
            f"target {chosen} for {batch} images and {classes} classes; give one class in "
            f"0..{classes - 1} for each image, one for all, or None for the predicted one"
        )
    return torch.tensor(chosen, dtype=torch.int64, device=logits.device)


def run(
    model: nn.Module,
    images: Inputs,
    target: Target,
    *,
    pooling: Pooling | None = None,
    last: int | None = None,
    under: AbstractContextManager[Any] | None = None,
) -> Seen:
    """One forward pass, its graph as the surroundings have it; what runs the model is `under` one.

    `last` records the maps of the last so many blocks alone (None: all).
    Raises: ValueError for a bad target or pooling, or a model without global self-attention.
    """
    pooling = head_pooling(model, pooling)
    with record_attention(model, last=last) as tape, under or nullcontext():
        logits = model(images)
    target = checked_target(logits, target)
    score = logits.gather(1, target[:, None]).sum()
    return Seen(tape.maps, tape.inputs, logits, target, score, pooling, prefix_tokens(model))


def observe(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    gradients: Gradients = "none",
    exact_gradient: bool = False,
    in_graph: bool = False,
    pooling: Pooling | None = None,
    last: int | None = None,
) -> Seen:
    """Run the model once; `pooling` and `last` as `run`.

    With `exact_gradient` maps and gradients are differentiable with respect to the weights, with
    `in_graph` the maps alone; otherwise they are detached and the weights are frozen meanwhile,
    which is cheaper.
    """
    in_graph = in_graph or exact_gradient
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(in_graph or gradients != "none"))
        if not in_graph:
            stack.enter_context(frozen_weights(model))
        seen = run(model, images, target, pooling=pooling, last=last)
        wanted = {"none": [], "last": seen.maps[-1:], "all": seen.maps}[gradients]
        if wanted:
            keep = {"retain_graph": in_graph, "create_graph": exact_gradient}
            seen = replace(seen, gradients=torch.autograd.grad(seen.score, wanted, **keep))
    if in_graph:
        return seen
    maps, inputs = ([tensor.detach() for tensor in kept] for kept in (seen.maps, seen.inputs))
    logits, score = seen.logits.detach(), seen.score.detach()
    return replace(seen, maps=maps, inputs=inputs, logits=logits, score=score)


# Is the gradient that of the function?


def need_true_gradient(model: nn.Module, images: Inputs) -> None:
    """Raise ValueError where what autograd gives by the attention maps is not the logits' slope.

    So kernels that round (quantised layers), parts outside of autograd and hooks that cut it would
    give a map of another function, without a word. All maps are moved along a random direction, and
    the change of the logits is held against the gradient's: of one image, in float64 where a copy
    of up to FITS weights can be made. Looked at once for each model with its layers and hooks;
    hooks of one's own hear these passes, too.
    """
    known = _TRUE.get(model)
    state = tuple((type(part), id(vars(part).get("forward")),
                   len(part._forward_hooks) + len(part._forward_pre_hooks))
                  for part in model.modules())  # fmt: skip
    if known == state:
        return
    image, close = images[:1].detach().clone(), NEAR
    count = sum(weights.numel() for weights in model.parameters())
    with torch.inference_mode(False), torch.enable_grad(), unmixed(image.device):
        apart = None
        if count <= FITS and image.device.type != "mps":
            with suppress(RuntimeError, TypeError, NotImplementedError):  # weights of other kinds
                close = CLOSE
                apart = _false_share(copy.deepcopy(model).double(), image.double())
        if apart is None:  # what fails here fails in the method, too, which says why
            with suppress(RuntimeError, TypeError, NotImplementedError):
                close, apart = NEAR, _false_share(model, image)
    if apart is not None and apart > close:
        raise ValueError(
            f"model: the gradient of this {type(model).__name__} by its attention is not that of "
            f"its function (off by {100 * apart:.0f} %), so that a map would be of another model; "
            "take out what computes outside of autograd: quantised layers, hooks, traced or "
            "compiled parts"
        )
    _TRUE[model] = state


FITS, CLOSE, NEAR = 30_000_000, 1e-3, 0.1
_TRUE: weakref.WeakKeyDictionary[nn.Module, tuple] = weakref.WeakKeyDictionary()


def _false_share(model: nn.Module, image: Inputs) -> float:
    """By how much gradient and difference part, as a share of the larger sum of their parts."""
    draw = torch.Generator().manual_seed(0)
    # A quantised layer is a staircase, flat on each step: a small move would not tell.
    step = 1e-4 if image.dtype == torch.float64 else 5e-2
    with evaluating(model), frozen_weights(model):
        with record_attention(model) as tape:
            logits = logits_of(model(image), getattr(model, "num_classes", 0))
        along = torch.randn(logits.shape, generator=draw).to(logits)
        try:
            slopes = torch.autograd.grad((logits * along).sum(), tape.maps, allow_unused=True)
        except RuntimeError:  # nothing that autograd knows of
            return 1.0
        ways = [torch.randn(m.shape, generator=draw).to(m) * m.detach() for m in tape.maps]
        parts = [(s * way).sum().item() for s, way in zip(slopes, ways, strict=True)
                 if s is not None]  # fmt: skip
        ends = [_moved(model, image, ways, by) for by in (step, -step)]
    found = ((ends[0] - ends[1]) * along).sum().item() / (2 * step)
    largest = max(sum(map(abs, parts)), abs(found))
    rounding = 30 * torch.finfo(image.dtype).eps
    least = rounding * float((logits.detach() * along).abs().sum()) / step
    return max(0.0, abs(found - sum(parts)) - least) / largest if largest else 0.0


def _moved(model: nn.Module, image: Inputs, ways: Sequence[Tensor], by: float) -> Tensor:
    """The logits with each map moved `by` so much of its way."""
    layers = attention_layers(model)
    with torch.no_grad(), ExitStack() as stack:
        stack.enter_context(switched(layers, "fused_attn"))
        for layer, way in zip(layers, ways, strict=True):
            move = partial(_add, by * way)
            stack.callback(layer.attn_drop.register_forward_hook(move).remove)
        return logits_of(model(image), getattr(model, "num_classes", 0))


def _add(more: Tensor, _module: nn.Module, _args: tuple, output: Tensor) -> Tensor:
    return output + more


# How a formula becomes a method


def reads(
    gradients: Gradients = "none", plainly: Protocol = "published"
) -> Callable[[Callable[..., Map]], Callable[..., Map]]:
    """Make a formula `(seen, **options)` of what one forward pass leaves behind a `method`.

    `gradients`, `pooling` and `exact_gradient` as `observe` takes them. Without gradients a map is
    the same for every class. The formula itself is the method's `of_seen`.
    """

    def decorate(formula: Callable[..., Map]) -> Callable[..., Map]:
        @method(of_class=gradients != "none", plainly=plainly)
        @wraps(formula, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        def of_model(
            model: nn.Module,
            images: Inputs,
            target: Target = None,
            *,
            pooling: Pooling | None = None,
            exact_gradient: bool = False,
            **options: Any,
        ) -> Map:
            how = dict(gradients=gradients, pooling=pooling, exact_gradient=exact_gradient)
            return formula(observe(model, images, target, **how), **options)

        of_model.of_seen = formula
        return of_model

    return decorate


def method(
    *shared: str, float64: bool = False, of_class: bool = True, plainly: Protocol = "published"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a formula `(model, images, target=None, **options)` a method, as METHODS has them.

    It then takes `protocol`, whose options for it (and for the `shared` parts that it uses) are
    looked up by its name; options that are given go before them. What else holds for all methods:
    the model works in eval mode, but with `exact_gradient=True` in its own, for a training may go
    on from there; afterwards each part has the mode that it had. Inside `torch.inference_mode()`
    gradients are taken all the same, and of a model of `torch.compile` the one that was compiled is
    explained. Threads that explain at once need a copy of the model each (`by_one_thread`).
    `float64`: it divides by what may be nearly 0, so that a model in another type is copied and
    worked out in float64 (in float32 on devices that have none), of layers that `need_plain`
    knows. `of_class`: it explains a class, and a model without a head has none. `plainly` is the
    protocol of a call that names none.
    Raises: ValueError for an unknown protocol, for what is no model, for images that it does not
    take, for a model without a head, for weights made inside `torch.inference_mode()`, or a
    `start_block` that is none.
    """

    def decorate(formula: Callable[..., Any]) -> Callable[..., Any]:
        # Without types: what is wrong with an argument is said here, in a sentence.
        @wraps(formula, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        def explain(model, images, target=None, *, protocol=None, **given):
            protocol = protocol or plainly
            check_protocol(protocol)
            model = unwrapped(model)
            _need_inputs(model, images)
            if of_class or target is not None:
                need_head(model)
            _need_start(model, given.get("start_block"), protocol)
            row: Options = {}
            for name in (formula.__name__, *shared):
                row |= method_options(model, name, protocol)
            with ExitStack() as stack:
                stack.enter_context(by_one_thread(model))
                if torch.is_inference_mode_enabled():
                    stack.enter_context(torch.inference_mode(False))
                if not given.get("exact_gradient", False):
                    stack.enter_context(evaluating(model))
                images = images.clone() if images.is_inference() else images
                stack.enter_context(logits_alone(model))
                if of_class and hasattr(model, "patch_embed"):
                    need_true_gradient(model, images)
                target = target.cpu() if isinstance(target, Tensor) else target  # to be checked
                if not float64:
                    return formula(model, images, target, **(row | given))
                kind = next(model.parameters(), images).dtype
                double = torch.float32 if images.device.type == "mps" else torch.float64
                stack.enter_context(unmixed(images.device))
                plain_layers(model, formula.__name__)
                exact = model if kind == double else copy.deepcopy(model).to(double)
                found = formula(exact, images.to(double), target, **(row | given))
                return found.to(torch.promote_types(kind, torch.float32))

        return explain

    return decorate


def method_options(model: nn.Module, name: str, protocol: str) -> Options:
    """The options that `protocol` stands for in the method `name`, on this model.

    First blocks are given for models of 12 blocks: on a shallower one it is the same share.
    """
    row = options(protocol, name, model_family(model))
    if "start_block" in row:
        share = min(1, len(attention_layers(model)) / PAPER_DEPTH)
        row["start_block"] = math.ceil(row["start_block"] * share)
    return row


def model_family(model: nn.Module) -> str:
    """Whose published settings belong to a model: `vit` unless it says otherwise, or is DINO's."""
    if hasattr(model, "family"):
        return model.family
    return "dino" if head_pooling(model) == "both" else "vit"


def _need_inputs(model: Any, images: Any) -> None:
    """Raise ValueError for what is no model, and for images that it does not take."""
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"model: a {type(model).__name__} is no network; give a timm Vision Transformer, such "
            "as load_model('tiny')"
        )
    if any(weights.is_inference() for weights in model.parameters()):
        raise ValueError(
            f"model: this {type(model).__name__} was made inside torch.inference_mode(), and "
            "has no gradients; make it outside, or take its copy.deepcopy, made outside"
        )
    embedding = getattr(model, "patch_embed", None)  # a text encoder has none
    sizes = embedding.img_size if getattr(embedding, "strict_img_size", False) else None
    any_size = isinstance(embedding, PatchEmbed) and not sizes
    sides = embedding.patch_size if any_size else (1, 1)
    wanted = {weights.dtype for weights in model.parameters()}
    given = f"a {type(images).__name__}"
    if isinstance(images, Tensor):
        given = f"{list(images.shape)} of {images.dtype}"
        fits = embedding is None or (
            images.ndim == 4
            and sizes in (None, tuple(images.shape[2:]))
            and not any(whole % side for whole, side in zip(images.shape[2:], sides, strict=True))
        )
        cast = torch.is_autocast_enabled(images.device.type)
        if fits and images.is_floating_point() and (cast or not wanted or images.dtype in wanted):
            if embedding is not None and _sides(embedding):
                patch_grid(model, images)
            return
    height, width = sizes or ("height", "width")
    if max(sides) > 1:
        height, width = (f"a multiple of {side}" for side in sides)
    kinds = " or ".join(sorted(map(str, wanted))) or "floating point"
    raise ValueError(
        f"images: {given}; this {type(model).__name__} takes a tensor [batch, channels, {height}, "
        f"{width}] of {kinds}: put a single image into a batch (image[None]), resize, and "
        "normalise what is 0..255 (ModelSpec.normalise)"
    )


def _need_start(model: nn.Module, start_block: Any, protocol: str) -> None:
    """Raise ValueError for a first block that is none.

    One beyond the last leaves nothing: a map of zeros, which the published code gives as well.
    """
    depth = len(attention_layers(model))
    if start_block is None or 1 <= start_block <= depth:
        return
    if start_block < 1 or protocol == "described":
        raise ValueError(
            f"start_block {start_block}: blocks are counted from 1 and this model has {depth}; "
            f"choose one in 1..{depth}"
        )


# The methods


@reads("all")
def gae(seen: Seen) -> Map:
    """Relevance of every patch for one class, patches row by row.

    Source: Chefer, Gur, Wolf 2021 (ICCV), as used in RobustViT Sec. 3 and App. B. A head that
    averages the patches has no row of its own in R: there it is the mean of the patches' rows
    (Beyond Intuition, differences D1). `target` None is the predicted class (A5: training uses
    the label, the segmentation test the prediction). Identity over class token and patches (A3),
    clamp before the head mean (A4): text and code agree on both. With `exact_gradient` the result
    is differentiable through A and through grad A (A2); otherwise it is detached and cheaper.
    """
    return seen.pool(seen.propagate(positive_part(seen)))


@reads("all")
def ga(seen: Seen, *, start_block: int = 1, mean_first: bool = False) -> Map:
    """GAE as Beyond Intuition compares with it, where it is the baseline GA.

    `mean_first` takes the mean over heads of grad A * A and then clamps, where GAE clamps first
    (differences C1).
    """
    return seen.pool(seen.propagate(positive_part(seen, mean_first=mean_first), start_block))


def positive_part(seen: Seen, *, mean_first: bool = False) -> Matrices:
    """A_bar of every block: the attention weighted by its gradient, where that speaks for it."""
    products = [slope * a for slope, a in zip(seen.gradients, seen.maps, strict=True)]
    if mean_first:
        return [over_heads(product).clamp(min=0) for product in products]
    return [over_heads(product.clamp(min=0)) for product in products]


@reads()
def raw_attention(
    seen: Seen, *, mean_over: Literal["queries", "keys"] = "queries", scale: bool = False
) -> Map:
    """Attention of the last block, averaged over heads, in the rows that the head reads.

    Source: Beyond Intuition App. B (RAM). The same for every class: `target` is only checked.
    Where the head averages the patches, `mean_over="keys"` averages over keys instead of queries
    (differences D2), which leaves 1 minus the attention to the prefix tokens. `scale` brings each
    map to [0, 1] (C19).
    """
    attention = over_heads(seen.maps[-1])
    if mean_over == "keys" and seen.pooling in ("patches", "both"):
        found = over_keys(attention, seen)
    else:
        found = seen.pool(seen.rows(attention))
    return scaled_to_one(found) if scale else found


@reads(plainly="described")  # called by itself it is Abnar and Zuidema's, from the first block
def rollout(seen: Seen, *, start_block: int = 1, normalise: bool = False) -> Map:
    """Rows of (A_L + I) ... (A_start + I), attention averaged over heads.

    Source: Abnar and Zuidema 2020; Beyond Intuition Sec. 2. `normalise` divides each A + I by
    its row sums (differences C15). The same for every class: `target` is only checked.
    """
    rows = seen.propagate([over_heads(attention) for attention in seen.maps], start_block)
    if normalise:
        # Rows of A sum to 1, so that A + I divided by its row sums is half of it.
        rows = rows / 2 ** (len(seen.maps) - start_block + 1)
    return seen.pool(rows)


@reads("last")
def gradcam(
    seen: Seen, *, weigh: Literal["heads", "queries", "map"] = "heads", scale: bool = False
) -> Map:
    """Sum over heads of attention times the head's mean gradient, negative values set to 0.

    Source: Selvaraju et al. 2017 as in Chefer et al. 2021; Beyond Intuition App. B. Where the head
    averages the patches, `weigh="queries"` weights each query instead of each head (differences D3)
    and averages over keys (D2). `map` weights and scales by all queries and keys, the class token's
    among them, as the published code for BERT does (F3). `scale` brings each map to [0, 1], so that
    one whose values are all clamped is NaN (C19).
    """
    if weigh == "map" and seen.pooling == "class_token":
        return by_whole_map(seen)
    if weigh != "heads" and seen.pooling == "patches":
        found = by_query(seen)
    else:
        rows, slopes = (
            seen.rows(matrix)[..., seen.prefix :] for matrix in (seen.maps[-1], seen.gradients[-1])
        )
        cam = over_heads(rows * slopes.mean(dim=(2, 3), keepdim=True)).clamp(min=0)
        found = pool_rows(cam, seen.pooling, 0)
    return scaled_to_one(found) if scale else found


@reads("last")
def attention_gradient(seen: Seen) -> Map:
    """Attention of the last block times its gradient, clamped at 0, mean over heads.

    In the rows that the head reads: the last step of GAE alone, the plain map that a longer method
    has to beat.
    """
    product = (seen.maps[-1] * seen.gradients[-1]).clamp(min=0)
    return seen.pool(seen.rows(over_heads(product)))


# What published code does otherwise in two of them


def over_keys(attention: Float[Tensor, "batch query key"], seen: Seen) -> Map:
    """What each patch attends to the patches, all of them."""
    prefix = seen.prefix
    found = attention[:, prefix:, prefix:].mean(dim=2)
    if prefix == 0:  # every row sums to 1: what differs is rounding, which must not be scaled up
        found = torch.ones_like(found)
    return found + attention[:, 0, prefix:] if seen.pooling == "both" else found


def by_query(seen: Seen) -> Map:
    """GradCAM with a weight for each query of each patch."""
    attention, slope = (
        matrix[:, :, seen.prefix :, seen.prefix :] for matrix in (seen.maps[-1], seen.gradients[-1])
    )
    weight = slope.mean(dim=(1, 3), keepdim=True)
    return torch.mean(weight * attention, dim=(1, 3), dtype=wide(attention)).clamp(min=0)


def by_whole_map(seen: Seen) -> Map:
    """The class token's row of the whole map of all queries and keys, scaled as one."""
    weight = seen.gradients[-1].mean(dim=(2, 3), keepdim=True)
    cam = over_heads(weight * seen.maps[-1]).clamp(min=0)
    return scaled_to_one(cam.flatten(1)).view_as(cam)[:, 0, seen.prefix :]


def scaled_to_one(maps: Map) -> Map:
    """Each map from 0 to 1, as the published code returns some (differences C19).

    A constant map becomes NaN, as it does there.
    """
    low = maps.amin(dim=1, keepdim=True)
    return (maps - low) / (maps.amax(dim=1, keepdim=True) - low)


# From patches to pixels


def patch_grid(model: nn.Module, images: Shaped[Tensor, "batch ..."]) -> tuple[int, int]:
    """Rows and columns of the patches that `model` makes of `images`; of a text: 1, its tokens.

    Raises: ValueError for images and a model that does not say what patches it makes of them, and
    for patches that do not fill the images: what timm drops, or pads, lies under none.
    """
    embedding = getattr(model, "patch_embed", None) or getattr(model, "embeds", None)
    if embedding is None and images.ndim == 4:
        raise ValueError(
            f"patch_grid: this {type(model).__name__} has no patch_embed, which knows the grid of "
            "its patches; give the Vision Transformer itself where it is wrapped"
        )
    if embedding is None:
        return 1, images.shape[1] - prefix_tokens(model)
    strict = getattr(embedding, "strict_img_size", False)
    size = tuple(embedding.img_size if strict else images.shape[-2:])
    if strict or not hasattr(embedding, "dynamic_feat_size"):
        counts = tuple(embedding.grid_size)
    else:
        counts = tuple(embedding.dynamic_feat_size(size))
    sides = _sides(embedding)
    if sides and any(n * side != whole for n, side, whole in zip(counts, sides, size, strict=True)):
        fit = " x ".join(str(n * side) for n, side in zip(counts, sides, strict=True))
        raise ValueError(
            f"patch_grid: patches of {sides[0]} x {sides[1]} pixels do not fill pictures of "
            f"{size[0]} x {size[1]}; give the model option img_size, and pictures, of {fit}"
        )
    return counts


def _sides(embedding: Any) -> tuple[int, int] | None:
    """Height and width of a patch in pixels, where the embedding says so."""
    layer = getattr(embedding, "proj", None)
    if isinstance(layer, nn.Conv2d) and not hasattr(embedding, "backbone"):
        return tuple(layer.stride)
    ratio = getattr(embedding, "feat_ratio", None)
    return None if ratio is None else tuple(ratio(as_scalar=False))


def need_whole(size: tuple[int, int], grid: tuple[int, int]) -> None:
    """Raise ValueError where the patches of a picture are no whole numbers of pixels."""
    if any(side % count for side, count in zip(size, grid, strict=True)):
        raise ValueError(
            f"patches: {grid[0]} x {grid[1]} of them do not divide {size[0]} x {size[1]} pixels; "
            "give the grid of the model, patch_grid(model, images), and pixels as it has them"
        )


def patch_cells(
    pixels: Shaped[Tensor, "batch height width"], grid: tuple[int, int]
) -> Shaped[Tensor, "batch patches pixels"]:
    """The pixels of each patch, patches row by row. Raises: as `need_whole`."""
    need_whole(tuple(pixels.shape[-2:]), grid)
    cells = pixels.unflatten(2, (grid[1], -1)).unflatten(1, (grid[0], -1))
    return cells.transpose(2, 3).flatten(3).flatten(1, 2)


def to_pixels(
    values: Shaped[Tensor, "batch rows columns"], size: tuple[int, int]
) -> Shaped[Tensor, "batch height width"]:
    """Each patch's value at all its pixels of a picture of `size`."""
    kind = values.dtype
    spread = values[:, None].to(torch.uint8) if kind == torch.bool else values[:, None]
    return interpolate(spread, size)[:, 0].to(kind)


def to_heatmap(
    maps: Map, size: tuple[int, int], grid: tuple[int, int], *, normalise: bool = True
) -> Float[Tensor, "batch 1 height width"]:
    """Bilinear heatmaps of `size` (height, width), each scaled to [0, 1] (differences A1).

    `grid` says how many rows and columns of patches there are (`patch_grid`). Gradients flow
    through minimum and maximum. A constant map has no range to scale: its heatmap is zero
    everywhere, with zero gradient. Raises: ValueError where the patches do not fill the grid.
    """
    batch, patches = maps.shape
    rows, columns = grid
    if rows * columns != patches:
        raise ValueError(
            f"to_heatmap: {patches} patches do not fill a grid of {rows} x {columns}; give that of "
            "the model: patch_grid(model, images)"
        )
    maps = maps.to(wide(maps))
    heat = interpolate(
        maps.reshape(batch, 1, rows, columns), size=size, mode="bilinear", align_corners=False
    )
    if not normalise:
        return heat
    low = heat.amin(dim=(1, 2, 3), keepdim=True)
    span = heat.amax(dim=(1, 2, 3), keepdim=True) - low
    # Judged on the patches: interpolation rounds, and would stretch its last bits to [0, 1].
    flat = (maps.amax(dim=1) <= maps.amin(dim=1)).reshape(batch, 1, 1, 1)
    constant = flat | (span <= 0)
    return torch.where(constant, 0.0, (heat - low) / torch.where(constant, 1.0, span))
