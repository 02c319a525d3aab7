"""Copies of the project, with sizes as small as the parameters allow, and runs in them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
PRESET = "smallest"
RUN_S = 900  # limit for a whole run, also on a busy machine
SMALLEST = {
    "00_start": {"images_per_set": 40, "shown": 2},
    "01_masks": {"images": 10, "shown": 2},
    "02_baselines": {
        "rates": [1.0e-5],
        "limit_pts": 100.0,
        "images_per_class": 2,
        "validation_images": 40,
        "steps": 2,
        "shown": 2,
    },
    "02_learning_rate": {"rates": [1.0e-5], "limit_pts": 100.0, "validation_images": 40},
    # Three epochs, so that there is something left when the first checkpoint is there.
    "02_finetune": {
        "images_per_class": 1,
        "epochs": 3,
        "validation_images": 40,
        "validation_maps": 8,
        "shown": 2,
    },
    "03_robustness": {"images_per_set": 40},
    "03_controls": {"images_per_set": 40, "looked_at": 8, "shown": 2},
    "03_comparison": {"images_per_set": 40},
    "04_segmentation": {
        "finetuned_images": 10,
        "images": 10,
        "other_images": 10,
        "method_models": ["tiny"],
    },
    "05_attribution": {"images": 10, "pairs": 10, "approximated": 10, "shown": 2},
    "06_faithfulness": {"images": 10},
    "07_pretraining": {
        "models": ["mini-deit", "mini-dino"],
        "images": 40,
        "validation_images": 40,
        "test_images": 20,
    },
    "07_iav": {
        "models": ["mini-deit", "mini-dino"],
        "images": 10,
        "epoch_images": 5,
        "draws": 1,
        "ratios_pct": [50.0],
        "robustvit_images": 5,
        "shown": 2,
    },
    "08_ablations": {
        "variants": ["full"],
        "base_images": 1,
        "images_per_class": [2],
        "classes": [2],
        "rate_factors": [2.0],
        "images_per_set": 40,
    },
    "09_sis": {"images": 1, "labels": 1},
    "13_your_own": {
        "epochs": 1,
        "images_per_class": 1,
        "rates": [5.0e-6],
        "example_images": 4,
        "test_images": 40,
        "looked_at": 8,
        "shown": 2,
    },
    "10_knn": {"train_images": 24, "test_images": 24, "shown": 1},
    "11_text": {
        "training_texts": 40,
        "validation_texts": 10,
        "held_out_texts": 10,
        "epochs": 1,
        "explained_texts": 4,
        "reasoning_texts": 4,
        "shown": 1,
    },
    "12_clip": {
        "captioned_images": 80,
        "captioned_pairs": 0,
        "joining_epochs": 1,
        "images": 2,
        "held_out_images": 40,
        "pairs": 2,
        "shown": 1,
    },
    # A model of one megabyte, and images without homes.
    "common": {"preset": PRESET, "model": "tiny", "benchmark": {"data": "cutouts"}},
    "seeds": {"seeds": [0]},
}
# The runs of its sweep, which is that of quick.
SWEEP_GRIDS = yaml.safe_load((ROOT / "params" / "quick" / "pipeline.yaml").read_text())["sweep"]
SWEEP = ("tiny.gradmask.described.annotated.seed0", "tiny.relevance.published.tokencut.seed0")


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float


def copy_project(folder: Path) -> Path:
    """A project of its own: what is run and with which parameters, and the smallest preset."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*"))
    shutil.copytree(ROOT / "params", folder / "params")
    shutil.copy2(ROOT / "Snakefile", folder)
    shutil.copytree(folder / "params" / "quick", folder / "params" / PRESET)
    for name, values in SMALLEST.items():
        edit(folder, name, **values)
    return folder


def edit(project: Path, name: str, **values) -> None:
    """Change values in a parameter file of the smallest preset."""
    path = project / "params" / PRESET / f"{name}.yaml"
    path.write_text(yaml.safe_dump((yaml.safe_load(path.read_text()) or {}) | values))


def command(*arguments: str) -> list[str]:
    """Two stages side by side, as `make` runs them."""
    return [sys.executable, "-m", "relevit.pipeline.run", *arguments, "--jobs", "2"]


def run(project: Path, *arguments: str) -> Ended:
    """`python -m relevit.pipeline.run` in a project's folder."""
    start = time.perf_counter()
    done = subprocess.run(command(*arguments), cwd=project, capture_output=True, text=True)
    return Ended(done.returncode, done.stdout, done.stderr, time.perf_counter() - start)


def results(project: Path) -> Path:
    return project / "outputs" / PRESET
