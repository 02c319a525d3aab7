"""Speed and accuracy: the published order of work, and ours, side by side.

    python tools/bench.py [--device cuda] [--tasks token_wise ...] [--json bench.json]

What is compared, and with which floor, is told by `bench_relevance` (relevance maps,
finetuning steps), `bench_attribution` (attribution methods) and `bench_maps` (maps to train on,
blocks). Times are of random weights and images.
Exit code 1: numbers differ; a missed target is only printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import timm
import torch

import bench_attribution
import bench_maps
import bench_relevance
from bench_core import CLOCKS, MODELS, agree, build, describe, differences, measure
from relevit.base.device import choose_device

__all__ = ["TABLES", "TASKS", "agree", "build", "differences", "main", "parse"]

TABLES = bench_relevance.TABLES + bench_attribution.TABLES
TASKS = bench_relevance.TASKS | bench_attribution.TASKS
MAPS = "maps"  # no contest of two orders of work: `bench_maps`


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--models", nargs="+", choices=MODELS, default=list(MODELS))
    tasks = [*TASKS, MAPS]
    add("--tasks", nargs="+", choices=tasks, default=tasks)
    add("--repeats", type=int, default=3, help="rounds after the warm-up")
    add("--batch", type=int, help="images of a step (CPU 4, CUDA 8); most maps take fewer")
    add("--clock", choices=CLOCKS, default="wall", help="cpu: seconds of all threads together")
    add("--threads", type=int, default=torch.get_num_threads())
    add("--model-scale", choices=("full", "tiny"), default="full")
    add("--json", type=Path, help="also write the results to this file")
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
    tables = [t for t in TABLES if t.model in args.models and t.task in args.tasks]
    print(
        f"{args.device}, {args.threads} threads, torch {torch.__version__}, "
        f"timm {timm.__version__}, {args.model_scale} models, {args.repeats} rounds"
    )
    rows = []
    for table in tables:
        rows.append(measure(table, TASKS[table.task], args))
        print(describe(rows[-1]), flush=True)
    for row in bench_maps.measure(args) if MAPS in args.tasks else ():
        rows.append(row)
        print(bench_maps.describe(row), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    compared = [row for row in rows if "differences" in row]
    return 0 if all(agree(row["differences"], row["limit"]) for row in compared) else 1


if __name__ == "__main__":
    sys.exit(main())
