"""SmoothGrad as 08_iav runs it: many images, five models, twenty noisy copies of each image.

The models are the embedded ones at their own size, with random weights: the four mini models, which
are one architecture, and DINOv2 ViT-S/14. Reference is the plain order of work, a backward pass a
noisy copy; its numbers must be ours. One run, since it is long; the reference on fewer images.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from bench_core import LIMIT, differences
from relevit.attribution.pixels import NOISE, noise_patterns, smoothgrad
from relevit.base.device import choose_device, choose_precision
from relevit.config.iav import MINIS
from relevit.data.cutouts import CUTOUTS
from relevit.iav.measure import Explainer
from relevit.models.loading import load_model
from relevit.models.registry import model_spec

DRAWS, TARGET_S = 20, 360
# Images, chunk, models.
SIZES = {
    "full": (500, 50, {"dinov2-s": 1, "mini-dino": len(MINIS)}),
    "tiny": (4, 4, {"mini-dino": len(MINIS)}),
}
COMPARED = 2  # images of the reference


def one_by_one(model: nn.Module, images: Tensor, target: Tensor) -> Tensor:
    """Mean gradients, copy by copy; [images, patches] as `smoothgrad`."""
    maps = []
    for image, label in zip(images.split(1), target, strict=True):
        scale, total = NOISE * (image.max() - image.min()), 0
        for pattern in noise_patterns(image, DRAWS, 0):
            noisy = (image + scale * pattern).requires_grad_()
            total = total + torch.autograd.grad(model(noisy)[0, label], noisy)[0] / DRAWS
        side = model.patch_embed.patch_size[0]
        pixels = total.abs().sum(dim=1)
        maps.append(nn.functional.avg_pool2d(pixels, side).flatten(1))
    return torch.cat(maps)


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """One row: seconds of each model, and of five models together."""
    count, chunk, models = SIZES[args.model_scale]
    device = choose_device(args.device)
    precision = choose_precision("auto", device)
    explainer = Explainer(draws=DRAWS, chunk=chunk, precision=precision)
    batch = CUTOUTS.draw("val", range(count))
    seconds, plain, worst = {}, {}, 0.0
    for name in tqdm(models):
        model, spec = load_model(name, "random").eval().to(device), model_spec(name)
        start = time.perf_counter()
        explainer(model, spec, batch)
        seconds[name] = time.perf_counter() - start
        some = spec.normalise(batch.images[:COMPARED].to(device))
        labels = batch.labels[:COMPARED].to(device)
        start = time.perf_counter()
        reference = one_by_one(model, some, labels)
        plain[name] = (time.perf_counter() - start) * count / COMPARED
        ours = smoothgrad(model, some, labels, draws=DRAWS)
        worst = max(worst, differences({"m": [reference]}, {"m": [ours]})["m"])
    total = sum(seconds[name] * times for name, times in models.items())
    row = {
        "task": "smoothgrad",
        "images": count,
        "draws": DRAWS,
        "precision": precision,
        "chunk": chunk,
        "seconds": seconds,
        "one_by_one_s": plain,
        "models": dict(models),
        "total_s": total,
        "target_s": TARGET_S,
        "differences": {"map": worst},
        "limit": LIMIT,
    }
    return [row]


def describe(row: dict[str, Any]) -> str:
    """The row as text."""
    lines = [
        f"\nsmoothgrad, {row['images']} images, {row['draws']} draws, {row['precision']}, "
        f"{row['chunk']} copies at once"
    ]
    for name, value in row["seconds"].items():
        lines.append(
            f"  {name:11} {value:8.1f} s, one by one {row['one_by_one_s'][name]:8.1f} s "
            f"(x {row['models'][name]})"
        )
    met = "met" if row["total_s"] <= row["target_s"] else "MISSED"
    lines.append(f"  all models: {row['total_s']:.0f} s, target <= {row['target_s']}: {met}")
    return "\n".join(lines)
