"""What the benchmarks share: tables, rounds, agreement of numbers, text."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import timm
import torch
from torch import Tensor, nn

LIMIT = 1e-4  # largest relative difference between the published order and ours, in float32
MODELS = {"vit_b": "vit_base_patch16_224", "vit_l": "vit_large_patch16_224"}
TINY = dict(img_size=32, patch_size=8, embed_dim=64, depth=4, num_heads=4, num_classes=10)
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Table(NamedTuple):
    """One comparison, with --batch / `divisor` images; `targets` are (a, b, sign, a / b).

    A target of None only prints the ratio.
    """

    task: str
    model: str
    divisor: int
    targets: tuple[tuple[str, str, str, float | None], ...]


Batch = tuple[Tensor, ...]  # images, masks, labels
Numbers = dict[str, list[Tensor]]
Variant = Callable[[nn.Module, Tensor, Tensor, Tensor], Numbers]


def build(table: Table, args: argparse.Namespace) -> tuple[nn.Module, Batch]:
    """Random weights, images, masks and labels."""
    options = TINY if args.model_scale == "tiny" else {}
    torch.manual_seed(0)
    model = timm.create_model(MODELS[table.model], pretrained=False, **options)
    count, side = max(1, args.batch // table.divisor), model.patch_embed.img_size[0]
    masks = torch.rand(count, 1, side, side).round()
    batch = torch.randn(count, 3, side, side), masks, torch.randint(model.num_classes, (count,))
    return model.to(args.device), tuple(tensor.to(args.device) for tensor in batch)


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
    variants: dict[str, Variant],
    model: nn.Module,
    batch: Batch,
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
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
            start = clock()
            result = variant(model, *batch)
            wait()
            seconds[name].append(clock() - start)
            results.setdefault(name, result)
    return seconds, results


def measure(table: Table, variants: dict[str, Variant], args: argparse.Namespace) -> dict[str, Any]:
    """Seconds, ratios (median over rounds) and differences of one table, as plain data."""
    model, batch = build(table, args)
    seconds, results = time_rounds(variants, model, batch, args.repeats, CLOCKS[args.clock])
    ratios = []
    for a, b, sign, target in table.targets:
        value = statistics.median(x / y for x, y in zip(seconds[a], seconds[b], strict=True))
        if target is None:
            ratios.append([f"{a} / {b}", value, "none", ""])
            continue
        met = value >= target if sign == ">=" else value <= target
        ratios.append([f"{a} / {b}", value, f"{sign} {target}", "met" if met else "missed"])
    found = differences(results["published"], results["ours"])
    row = {"task": table.task, "model": table.model, "images": len(batch[0])}
    return row | {"differences": found, "limit": LIMIT, "seconds": seconds, "ratios": ratios}


def describe(row: dict[str, Any]) -> str:
    """One table as text."""
    lines = [
        f"\n{row['task']}, {row['model']}, batch {row['images']}",
        "              median s  min .. max s        images/s",
    ]
    for name, values in row["seconds"].items():
        middle, span = statistics.median(values), f"{min(values):.3f} .. {max(values):.3f}"
        lines.append(f"  {name:11} {middle:9.3f}  {span:18} {row['images'] / middle:9.2f}")
    for name, value, target, met in row["ratios"]:
        lines.append(f"  {name}: {value:.2f}" + (f", target {target}: {met}" if met else ""))
    for name, value in row.get("differences", {}).items():
        verdict = "agree" if agree({name: value}, row["limit"]) else "DIFFER"
        lines.append(f"  {name}: published and ours differ by {value:.1e}: {verdict}")
    return "\n".join(lines)
