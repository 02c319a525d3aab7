"""Steps of finetuning by the map that is trained on and by the blocks that are trained.

Labels alone are the floor. Rounds alternate (A B C A B C ...), so that ratios are of neighbours in
time. Random weights, 40 classes, batches of 8; DINOv2's ViT-S/14 and a ViT-B/16, at two sizes and
in both precisions. Memory is what autograd keeps for the backward pass (`price.step_price`).
"""

from __future__ import annotations

import argparse
from itertools import product
from statistics import median
from typing import Any

import timm
import torch

from relevit.data.batch import Batch
from relevit.finetune.settings import FinetuneSettings
from relevit.models.spec import HALF, ModelSpec
from reproduction.runs.effects import step_price

LABELS = {"weights": {"relevance": 0.0, "classification": 0.05}}
STEPS: dict[str, dict[str, Any]] = {
    "labels": LABELS,
    "gae": {},
    "readout": {"explanation": "readout"},
    "labels, last 3": LABELS | {"trained_blocks": 3},
    "gae, last 3": {"trained_blocks": 3},
    "readout, last 3": {"explanation": "readout", "trained_blocks": 3},
}
# What is held against what, and the target.
RATIOS = (("readout", "labels", 1.1), ("gae", "labels", None), ("gae, last 3", "gae", 0.65))
MODELS = ("vit_small_patch14_dinov2", "vit_base_patch16_224")
TINY = {"embed_dim": 64, "depth": 4, "num_heads": 4}


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """One row a model, size and precision: seconds of each step in each round, and MiB."""
    tiny, rows = args.model_scale == "tiny", []
    sides = (112,) if tiny else (112, 224)
    for name, side, precision in product(MODELS, sides, ("float32", "bfloat16")):
        options = {"num_classes": 40, "img_size": side} | (TINY if tiny else {})
        model = timm.create_model(name, **options).to(args.device)
        spec = ModelSpec(name, name, side, classes=40, **HALF)
        random = torch.Generator().manual_seed(0)
        images = torch.randint(256, (8, 3, side, side), generator=random, dtype=torch.uint8)
        masks = torch.zeros(8, 1, side, side, dtype=torch.bool)
        masks[..., side // 4 : side // 2, side // 4 : side // 2] = True
        batch = Batch(images, masks, torch.arange(8))
        base = FinetuneSettings(lr=1e-9, class_term="label", precision=precision)
        seconds: dict[str, list[float]] = {step: [] for step in STEPS}
        memory = {}
        for _ in range(args.repeats):
            for step, changes in STEPS.items():
                price = step_price(model, spec, batch, base.changed(**changes), steps=1)
                seconds[step].append(price["seconds"])
                memory[step] = price["memory_mib"]
        about = {"task": "maps", "model": name, "side": side, "precision": precision}
        rows.append(about | {"seconds": seconds, "memory_mib": memory})
    return rows


def describe(row: dict[str, Any]) -> str:
    """One row as text."""
    lines = [f"\nstep of 8, {row['model']}, {row['side']} px, {row['precision']}"]
    for step, values in row["seconds"].items():
        low, high, kept = min(values), max(values), row["memory_mib"][step]
        span = f"{median(values):7.3f} s ({low:.3f} to {high:.3f})"
        lines.append(f"  {step:16} {span}, {kept:6.0f} MiB")
    for a, b, aim in RATIOS:
        pairs = zip(row["seconds"][a], row["seconds"][b], strict=True)
        times, kept = median(x / y for x, y in pairs), row["memory_mib"][a] / row["memory_mib"][b]
        said = "" if aim is None else f", target <= {aim}"
        lines.append(f"  {a} / {b}: {times:.2f} in time, {kept:.2f} in memory{said}")
    return "\n".join(lines)
