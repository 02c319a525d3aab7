"""Time and memory of a relevance map and of a finetuning step: the published order, and ours.

    python tools/bench.py [--device cuda] [--json bench.json]

The published order (RobustViT's code) makes one gradient call per block, multiplies N x N
matrices, and runs two more forward passes a step: the current model for the class term, the
original for the log. Ours is `relevit.relevance.gae` and `relevit.finetune.step_losses`. The
floor is a step with one forward pass, one gradient of the class score down to the attention
maps, left unused, and one backward pass to the weights; none uses fused attention. Weights
and images are random. Exit code 1: numbers differ; a missed target is only printed.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import timm
import torch
from torch import Tensor, nn

from relevit.attention import record_attention
from relevit.finetune import FinetuneSettings, make_optimizer, step_losses
from relevit.losses import background_loss, confidence_loss, foreground_loss
from relevit.precision import autocast, choose_device, fast_bfloat16
from relevit.relevance import gae, to_pixels

LIMIT = 1e-4  # largest relative difference between the published order and ours, in float32
# With a learning rate of 0 a step does all its work and every variant meets the same weights.
SETTINGS = FinetuneSettings(lr=0.0)
LOSSES = ("background", "foreground", "relevance", "classification", "total")
MODELS = {"vit_b": "vit_base_patch16_224", "vit_l": "vit_large_patch16_224"}
TINY = dict(img_size=32, patch_size=8, embed_dim=64, depth=4, num_heads=4, num_classes=10)


class Table(NamedTuple):
    """One comparison, with --batch / `divisor` images; `targets` are (a, b, sign, a / b)."""

    task: str
    model: str
    divisor: int
    targets: tuple[tuple[str, str, str, float], ...]


TABLES = (
    Table("relevance", "vit_b", 2, (("published", "ours", ">=", 3.5),)),
    Table("relevance", "vit_l", 8, (("published", "ours", ">=", 6.0),)),
    Table("step", "vit_b", 1, (("published", "ours", ">=", 3.2), ("ours", "floor", "<=", 1.1))),
)
EVALUATION = Table("evaluation", "vit_b", 1, (("float32", "bfloat16", ">=", 1.0),))


Batch = tuple[Tensor, Tensor, Tensor]  # images, masks, labels
Numbers = dict[str, list[Tensor]]
Variant = Callable[[nn.Module, Tensor, Tensor, Tensor], Numbers]
# What a step needs beside the model, once for each model.
optimizer_of = cache(partial(make_optimizer, settings=SETTINGS))
original_of = cache(copy.deepcopy)


def build(table: Table, args: argparse.Namespace) -> tuple[nn.Module, Batch]:
    """Random weights, images, masks and labels."""
    options = TINY if args.model_scale == "tiny" else {}
    torch.manual_seed(0)
    model = timm.create_model(MODELS[table.model], pretrained=False, **options)
    count, side = max(1, args.batch // table.divisor), model.patch_embed.img_size[0]
    masks = torch.rand(count, 1, side, side).round()
    batch = torch.randn(count, 3, side, side), masks, torch.randint(model.num_classes, (count,))
    return model.to(args.device), tuple(tensor.to(args.device) for tensor in batch)


def published_relevance(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The class token's row of R over the patches, in the graph."""
    with record_attention(model) as tape:
        logits = model(images)
    score = logits.gather(1, labels[:, None]).sum()
    joint = torch.eye(tape.maps[0].shape[-1], device=logits.device).repeat(len(logits), 1, 1)
    for attention in tape.maps:
        (gradient,) = torch.autograd.grad(score, attention, retain_graph=True)
        joint = joint + (gradient * attention).clamp(min=0).mean(dim=1) @ joint
    return joint[:, 0, 1:]


def published_step(model: nn.Module, images: Tensor, masks: Tensor, labels: Tensor) -> Numbers:
    """A finetuning step in the published order."""
    heat = to_pixels(published_relevance(model, images, labels), masks.shape[-2:])
    background = background_loss(heat, masks)
    foreground = foreground_loss(heat, masks)
    with record_attention(model):
        logits = model(images)
    with record_attention(original_of(model)), torch.no_grad():
        original_of(model)(images)
    classification = confidence_loss(logits, SETTINGS.temperature)
    w = SETTINGS.weights
    combined = w.background * background + w.foreground * foreground
    total = w.relevance * combined + w.classification * classification
    terms = (background, foreground, combined, classification, total)
    return update(model, dict(zip(LOSSES, terms, strict=True)))


def our_step(model: nn.Module, images: Tensor, masks: Tensor, labels: Tensor) -> Numbers:
    """A finetuning step by this library."""
    found = step_losses(model, images, masks, labels, SETTINGS)
    return update(model, {name: getattr(found, name) for name in LOSSES})


def floor_step(model: nn.Module, images: Tensor, masks: Tensor, labels: Tensor) -> Numbers:
    """A step that computes the attention gradients and leaves them unused."""
    with record_attention(model, class_row=True) as tape:
        logits = model(images)
    score = logits.gather(1, labels[:, None]).sum()
    torch.autograd.grad(score, tape.maps, retain_graph=True)
    return update(model, {"total": nn.functional.cross_entropy(logits, labels)})


def update(model: nn.Module, losses: dict[str, Tensor]) -> Numbers:
    """Backward pass and optimiser step; gives the losses and the gradients of all weights."""
    optimizer_of(model).zero_grad(set_to_none=True)
    losses["total"].backward()
    optimizer_of(model).step()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    named = {f"{name} loss": [value.detach()] for name, value in losses.items()}
    return named | {"weight gradients": gradients}


def forward(model: nn.Module, images: Tensor, *_: Tensor, precision: str) -> Numbers:
    """A plain forward pass, with fused attention."""
    with torch.inference_mode(), autocast(images.device, precision):
        return {"logits": [model(images)]}


TASKS: dict[str, dict[str, Variant]] = {
    "relevance": {
        "published": lambda m, x, _, y: {"relevance": [published_relevance(m, x, y).detach()]},
        "ours": lambda m, x, _, y: {"relevance": [gae(m, x, y)]},
    },
    "step": {"published": published_step, "ours": our_step, "floor": floor_step},
    "evaluation": {name: partial(forward, precision=name) for name in ("float32", "bfloat16")},
}


def differences(published: Numbers, ours: Numbers) -> dict[str, float]:
    """Largest absolute difference over the largest published value, for each result.

    It is NaN where the published order gives only zeros, so that nothing was compared.
    """
    found = {}
    for name, reference in published.items():
        pairs = zip(reference, ours[name], strict=True)
        gap = torch.stack([(a - b).abs().max() for a, b in pairs]).max()
        found[name] = float(gap / torch.stack([a.abs().max() for a in reference]).max())
    return found


def agree(found: dict[str, float], limit: float = LIMIT) -> bool:
    """Whether there is a difference to look at and each is a number within the limit."""
    return bool(found) and all(value <= limit for value in found.values())


def time_rounds(
    variants: dict[str, Variant], model: nn.Module, batch: Batch, repeats: int
) -> tuple[dict[str, list[float]], dict[str, Numbers]]:
    """Seconds of each variant in each round (A B C A B C ...), and the first round's results."""
    cuda = batch[0].device.type == "cuda"
    wait = torch.cuda.synchronize if cuda else lambda: None
    for variant in variants.values():
        variant(model, *(batch if cuda else (tensor[:1] for tensor in batch)))
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    results: dict[str, Numbers] = {}
    for _ in range(repeats):
        for name, variant in variants.items():
            wait()
            start = time.perf_counter()
            result = variant(model, *batch)
            wait()
            seconds[name].append(time.perf_counter() - start)
            results.setdefault(name, result)
    return seconds, results


def peak_mib(device: str) -> float:
    """Largest memory of this process so far: allocated on the GPU, otherwise resident."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return resident / (2**20 if sys.platform == "darwin" else 2**10)


def own_growth_mib(table: Table, variant: str, args: argparse.Namespace) -> int:
    """Growth of this process's peak memory over the model while one variant runs.

    A step's figure holds optimiser state, gradients and, if there is one, the original model.
    """
    model, batch = build(table, args)
    before = peak_mib(args.device)
    # The optimiser's state must be there already, as in any step but the first.
    for images in (1, args.batch) if table.task == "step" else (args.batch,):
        TASKS[table.task][variant](model, *(tensor[:images] for tensor in batch))
    return round(peak_mib(args.device) - before)


def growths_mib(table: Table, args: argparse.Namespace) -> dict[str, int]:
    """`own_growth_mib` of each variant, each in a fresh process.

    To be called while this process is small: a child on Linux inherits its parent's peak.
    """
    command = [sys.executable, __file__, f"--device={args.device}", f"--batch={args.batch}",
               f"--threads={args.threads}", f"--model-scale={args.model_scale}",
               f"--models={table.model}", "--only"]  # fmt: skip
    run = partial(subprocess.run, check=True, stdout=subprocess.PIPE)
    return {name: int(run([*command, f"{table.task}:{name}"]).stdout)
            for name in TASKS[table.task]}  # fmt: skip


def measure(table: Table, args: argparse.Namespace) -> dict[str, Any]:
    """Seconds, ratios (median over rounds) and differences of one table, as plain data."""
    model, batch = build(table, args)
    seconds, results = time_rounds(TASKS[table.task], model, batch, args.repeats)
    ratios = []
    for a, b, sign, target in table.targets:
        value = statistics.median(x / y for x, y in zip(seconds[a], seconds[b], strict=True))
        met = value >= target if sign == ">=" else value <= target
        ratios.append([f"{a} / {b}", value, f"{sign} {target}", "met" if met else "missed"])
    row = {"task": table.task, "model": table.model, "images": len(batch[0])}
    if "ours" in results:
        row["differences"] = differences(results["published"], results["ours"])
    return row | {"seconds": seconds, "ratios": ratios}


def describe(row: dict[str, Any]) -> str:
    """One table as text."""
    lines = [f"\n{row['task']}, {row['model']}, batch {row['images']}",
             "            median s  min .. max s        images/s  memory MiB"]  # fmt: skip
    for name, values in row["seconds"].items():
        middle, span = statistics.median(values), f"{min(values):.3f} .. {max(values):.3f}"
        rate, memory = row["images"] / middle, row["memory_mib"].get(name, "-")
        lines.append(f"  {name:9} {middle:9.3f}  {span:18} {rate:9.2f} {memory:>11}")
    lines += [f"  {n}: {value:.2f}, target {t}: {met}" for n, value, t, met in row["ratios"]]
    for name, value in row.get("differences", {}).items():
        verdict = "agree" if agree({name: value}) else "DIFFER"
        lines.append(f"  {name}: published and ours differ by {value:.1e}: {verdict}")
    return "\n".join(lines)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--models", nargs="+", choices=MODELS, default=list(MODELS))
    add("--repeats", type=int, default=3, help="rounds after the warm-up")
    add("--batch", type=int, help="images of a step (CPU 4, CUDA 8); relevance maps take fewer")
    add("--threads", type=int, default=torch.get_num_threads())
    add("--model-scale", choices=("full", "tiny"), default="full")
    add("--memory", action=argparse.BooleanOptionalAction, default=True)
    add("--json", type=Path, help="also write the results to this file")
    add("--only", help="TASK:VARIANT; print the memory it takes in MiB and stop")
    args = parser.parse_args(argv)
    if args.device == "auto":
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
    choose_device(args.device)
    args.batch = args.batch or (8 if args.device == "cuda" else 4)
    torch.set_num_threads(args.threads)
    return args


def main(argv: list[str] | None = None) -> int:
    """Print every table; 1 when numbers of the published order and ours differ, else 0."""
    args = parse(argv)
    tables = [table for table in TABLES if table.model in args.models]
    if args.only:
        task, variant = args.only.split(":")
        print(own_growth_mib(next(t for t in tables if t.task == task), variant, args))
        return 0
    print(f"{args.device}, {args.threads} threads, torch {torch.__version__}, "
          f"timm {timm.__version__}, {args.model_scale} models, {args.repeats} rounds")  # fmt: skip
    memory = {table: growths_mib(table, args) for table in tables if args.memory}
    if "vit_b" in args.models and fast_bfloat16(args.device):
        tables.append(EVALUATION)
    rows = []
    for table in tables:
        rows.append(measure(table, args) | {"memory_mib": memory.get(table, {})})
        print(describe(rows[-1]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return 0 if all(agree(row["differences"]) for row in rows if "differences" in row) else 1


if __name__ == "__main__":
    sys.exit(main())
