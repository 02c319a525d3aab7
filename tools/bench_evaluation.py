"""Evaluation of pictures on disk: timm's own validation and ours, pictures a second side by side.

The pictures are JPEG files of 500 x 375 pixels, as most of ImageNet's, in a folder for each class;
both sides read and decode them in every round, with as many processes (timm) or threads (ours) as
there are cores, and classify them with the same random weights. timm's side is the loop of its
validation script, built here from the same public functions, in float32 (on CUDA: TF32, as there).
Ours is `evaluate.predict`; in float32 its confidences must be timm's. Times are wall clock.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch
from PIL import Image
from timm.data import create_dataset, create_loader, resolve_model_data_config
from timm.utils import AverageMeter, accuracy
from torch import Tensor, nn
from tqdm import tqdm

import bench_core
from bench_core import LIMIT, TINY, Numbers, Table, compare, differences
from habitats.cutouts import CUTOUTS
from relevit.base.device import fast_bfloat16, tensor_float32
from relevit.data.image_set import AHEAD, ImageSet, picture_set
from relevit.evaluate.predictions import predict
from relevit.models.spec import ModelSpec, View

TARGETS = (("timm", "float32", ">=", 1.0), ("timm", "bfloat16", ">=", 2.5))
# Pictures and batch, by device.
SIZES = {"cpu": (64, 16), "cuda": (2048, 256)}
TINY_SIZE = (6, 4)
SIDES = (500, 375)  # pixels
CLASSES = 5
CUDA_LIMIT = 2e-2  # TF32 rounds to three digits, in an order that is its own


class Contest:
    """A model, pictures in a folder, and what each side answered."""

    def __init__(self, root: Path, model: nn.Module, batch: int, workers: int) -> None:
        self.root, self.batch, self.workers = root, batch, workers
        self.config = resolve_model_data_config(model)
        side = model.patch_embed.img_size[0]
        self.config["input_size"] = (3, side, side)
        self.spec = ModelSpec("bench", "", side, self.config["mean"], self.config["std"])
        self.predictions: dict[str, Tensor] = {}
        self.confidences: dict[str, Tensor] = {}

    def timm(self, model: nn.Module, places: Tensor) -> Numbers:
        """timm's validation: its data set, loader, losses and accuracies."""
        device = next(model.parameters()).device
        dataset = create_dataset("", str(self.root), split="validation")
        dataset.reader.samples = [dataset.reader.samples[place] for place in places.tolist()]
        keys = ("input_size", "interpolation", "mean", "std", "crop_pct", "crop_mode")
        loader = create_loader(
            dataset,
            batch_size=self.batch,
            num_workers=self.workers,
            device=device,
            **{key: self.config[key] for key in keys},
        )
        losses, top1, top5 = AverageMeter(), AverageMeter(), AverageMeter()
        outputs, criterion = [], nn.CrossEntropyLoss()
        model.eval()
        with torch.inference_mode(), tensor_float32(device):
            for images, labels in loader:
                output = model(images)
                loss = criterion(output, labels)
                hits = accuracy(output, labels, topk=(1, 5))
                for meter, value in zip((losses, top1, top5), (loss, *hits), strict=True):
                    meter.update(value.item(), len(images))
                outputs.append(output)
        confidence, prediction = torch.cat(outputs).cpu().softmax(dim=1).max(dim=1)
        return self._keep("timm", prediction, confidence)

    def ours(self, precision: str, model: nn.Module, places: Tensor) -> Numbers:
        """The same pictures by `evaluate.predict`."""
        pictures = self._pictures().select(places.tolist())
        rows = predict(model, self.spec, pictures.batches(self.batch, ahead=AHEAD), precision)
        prediction = torch.tensor(rows["prediction"].tolist())
        return self._keep(precision, prediction, torch.tensor(rows["confidence_pct"]) / 100)

    def _pictures(self) -> ImageSet:
        paths = sorted(self.root.rglob("*.jpg"))
        folders = sorted({path.parent for path in paths})
        side = self.spec.image_size
        return picture_set(
            "bench",
            [folder.name for folder in folders],
            [folders.index(path.parent) for path in paths],
            [path.name for path in paths],
            lambda place: Image.open(paths[place]),
            View(
                resize=math.floor(side / self.config["crop_pct"]),
                crop=side,
                interpolation=self.config["interpolation"],
            ),
        )

    def _keep(self, name: str, prediction: Tensor, confidence: Tensor) -> Numbers:
        self.predictions[name], self.confidences[name] = prediction, confidence.double()
        return {"confidence": [confidence]}


def write_pictures(root: Path, count: int) -> Path:
    """JPEG files of Cutouts, enlarged; `root`/validation/<class>/<number>.jpg."""
    drawn = (image for batch in CUTOUTS.batches("val", count, 64) for image in batch.images)
    for number, image in enumerate(tqdm(drawn, "pictures", count)):
        folder = root / "validation" / f"n{number * CLASSES // count:08}"
        folder.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(image.permute(1, 2, 0).numpy()).resize(SIDES)
        picture.save(folder / f"{number:06}.jpg", quality=90)
    return root / "validation"


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """One row: seconds and ratios of all sides, and how many predictions are not timm's."""
    tiny = args.model_scale == "tiny"
    count, batch = TINY_SIZE if tiny else SIZES[args.device]
    count = args.evaluation_images or count
    torch.manual_seed(0)
    model = timm.create_model(args.evaluation_model, **(TINY if tiny else {})).to(args.device)
    fast = fast_bfloat16(args.device)
    targets = TARGETS if fast else TARGETS[:1]
    with tempfile.TemporaryDirectory() as folder:
        root = write_pictures(Path(folder), count)
        contest = Contest(root, model, min(batch, count), 0 if tiny else os.cpu_count() or 1)
        variants = {name: partial(contest.ours, name) for _, name, *_ in targets}
        variants = {"timm": contest.timm} | variants
        table = Table("evaluation", args.evaluation_model, 1, targets)
        places = torch.arange(count, device=args.device)
        row = compare(table, variants, model, (places,), args)
    answers, confidences = contest.predictions, contest.confidences
    changed = {
        name: 100 * float((answers[name] != answers["timm"]).double().mean())
        for name in answers
        if name != "timm"
    }
    found = differences({"c": [confidences["timm"]]}, {"c": [confidences["float32"]]})["c"]
    row |= {
        "batch": contest.batch,
        "memory_mib": {},
        "changed_pct": changed,
        "differences": {"confidence": found},
        "limit": LIMIT if args.device == "cpu" else CUDA_LIMIT,
    }
    return [row]


def describe(row: dict[str, Any]) -> str:
    """The row as text."""
    lines = [
        bench_core.describe({key: value for key, value in row.items() if key != "differences"})
    ]
    for name, value in row["changed_pct"].items():
        lines.append(f"  {name}: {value:.2f} % of the predictions are not timm's")
    found = row["differences"]["confidence"]
    verdict = "the same" if found <= row["limit"] else "DIFFER"
    lines.append(f"  confidences of timm and float32 differ by {found:.1e}: {verdict}")
    return "\n".join(lines)
