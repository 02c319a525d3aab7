"""Rehearse the paper preset: `python -m replicas`, which is what `make rehearse` calls.

Writes a small replica of every data set in its true format and runs the whole pipeline on them,
with the papers' architectures cut to two blocks of random weights. What it computes means
nothing; that it runs to its end does.
"""

import argparse
import shutil
import sys
from pathlib import Path

from habitats.real.classes import IMAGENET_S_WNIDS, split_classes
from relevit.base.files import project_root
from replicas.cifar import write_cifar
from replicas.folders import SHARED, write_folders
from replicas.gtsegs import write_gtsegs
from replicas.imagenet_s import write_imagenet_s
from replicas.objectnet import write_objectnet
from replicas.text import write_eraser_movies, write_newsgroups
from reproduction.pipeline import run as pipeline
from reproduction.stages import read_pipeline

PRESET = "rehearsal"
OTHERS = 8  # classes besides those that are finetuned


def write_all(data_root: Path, finetuned_classes: int, seeds: list[int]) -> None:
    """A replica of every set of the paper preset below `data_root`, odd pictures included.

    ImageNet-S has the classes that runs of these seeds finetune, and some to validate with.
    """
    chosen = {wnid for s in seeds for wnid in split_classes(finetuned_classes, s or None)[0]}
    known = sorted(chosen | set([w for w in SHARED if w in IMAGENET_S_WNIDS][:OTHERS]))
    shared = SHARED[:OTHERS]
    for key in ("val", "imagenet_train", "v2"):
        write_folders(key, data_root, classes=known, per_class=3)
    for key in ("a", "r", "sketch"):
        write_folders(key, data_root, classes=shared, per_class=3)
    for key in ("si_location", "si_rotation", "si_size"):
        write_folders(key, data_root, per_class=3)
    write_imagenet_s(data_root, classes=known, per_class=3)
    write_objectnet(data_root, per_class=3)
    write_gtsegs(data_root, per_class=3)
    for key in ("cifar10", "cifar100"):
        write_cifar(key, data_root)
    write_eraser_movies(data_root, train=16, validation=12, test=12)
    write_newsgroups(data_root)


def main(arguments: list[str] | None = None) -> int:
    """Command line; the exit code is the pipeline's."""
    parser = argparse.ArgumentParser(prog="python -m replicas", description=__doc__)
    parser.add_argument("-j", "--jobs", type=int, help="stages at once (default: what fits)")
    jobs = parser.parse_args(arguments).jobs
    shutil.copy(Path(__file__).with_name(f"{PRESET}.yaml"), project_root() / "params")
    params = read_pipeline(PRESET)
    data_root = project_root() / params.benchmark.data_root
    if not (data_root / "whole").is_file():
        shutil.rmtree(data_root, ignore_errors=True)  # a killed run leaves half of it
        sys.stdout.write(f"Writing replicas of the data sets to {data_root}\n")
        write_all(data_root, params.benchmark.finetuned_classes, params.seeds)
        (data_root / "whole").touch()
    return pipeline.main([PRESET, *(["-j", str(jobs)] if jobs else [])])


if __name__ == "__main__":
    sys.exit(main())
