"""Speed, memory and accuracy: the published order of work, and ours, side by side.

    python tools/bench.py [--device cuda] [--tasks token_wise ...] [--json bench.json]

What is compared, and with which floor, is told by `bench_relevance` (relevance maps,
finetuning steps), `bench_attribution` (attribution methods), `bench_path` (points of a path
integral), `bench_tokencut` (automatic masks), `bench_maps` (maps to train on, blocks) and
`bench_evaluation` (pictures on disk, against timm's validation).
Times are of random weights and images but in `bench_path` and `bench_tokencut`.
Exit code 1: numbers differ; a missed target is only printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import timm
import torch

import bench_attribution
import bench_evaluation
import bench_maps
import bench_path
import bench_relevance
import bench_tokencut
from bench_core import CLOCKS, MODELS, Table, agree, build, describe, differences, measure, peak_mib
from relevit.base.device import choose_device, fast_bfloat16

__all__ = ["TABLES", "TASKS", "agree", "build", "differences", "main", "parse"]

TABLES = bench_relevance.TABLES + bench_attribution.TABLES
TASKS = bench_relevance.TASKS | bench_attribution.TASKS
# What is no contest of two orders of work: modules that measure rows and describe each.
OTHERS = {
    "evaluation": bench_evaluation,
    "path": bench_path,  # on the CPU, whatever the device; so is tokencut
    "tokencut": bench_tokencut,
    "maps": bench_maps,
}


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
    command = [
        sys.executable,
        __file__,
        f"--device={args.device}",
        f"--batch={args.batch}",
        f"--threads={args.threads}",
        f"--model-scale={args.model_scale}",
        f"--models={table.model}",
        "--only",
    ]
    run = partial(subprocess.run, check=True, stdout=subprocess.PIPE)
    return {name: int(run([*command, f"{table.task}:{name}"]).stdout) for name in TASKS[table.task]}


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--models", nargs="+", choices=MODELS, default=list(MODELS))
    tasks = list(TASKS | OTHERS)
    add("--tasks", nargs="+", choices=tasks, default=tasks)
    add("--repeats", type=int, default=3, help="rounds after the warm-up")
    add("--batch", type=int, help="images of a step (CPU 4, CUDA 8); most maps take fewer")
    add("--clock", choices=CLOCKS, default="wall", help="cpu: seconds of all threads together")
    add("--threads", type=int, default=torch.get_num_threads())
    add("--model-scale", choices=("full", "tiny"), default="full")
    add("--evaluation-model", default="vit_base_patch16_224", help="timm's name, for evaluation")
    add("--evaluation-images", type=int, help="pictures to evaluate (CPU 64, CUDA 2048)")
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
    if args.only:
        task, variant = args.only.split(":")
        table = next(t for t in TABLES if t.task == task and t.model in args.models)
        print(own_growth_mib(table, variant, args))
        return 0
    tables = [t for t in TABLES if t.model in args.models and t.task in args.tasks]
    print(
        f"{args.device}, {args.threads} threads, torch {torch.__version__}, "
        f"timm {timm.__version__}, {args.model_scale} models, {args.repeats} rounds"
    )
    memory = {table: growths_mib(table, args) for table in tables if args.memory}
    evaluation = bench_relevance.EVALUATION
    others = [name for name in OTHERS if name in args.tasks]
    if evaluation.task in others and evaluation.model not in args.models:
        others.remove(evaluation.task)
    if evaluation.task in others and fast_bfloat16(args.device):
        tables.append(evaluation)
    rows = []
    for table in tables:
        rows.append(measure(table, TASKS[table.task], args) | {"memory_mib": memory.get(table, {})})
        print(describe(rows[-1]), flush=True)
    for module in map(OTHERS.get, others):
        for row in module.measure(args):
            rows.append(row)
            print(module.describe(row), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    compared = [row for row in rows if "differences" in row]
    return 0 if all(agree(row["differences"], row["limit"]) for row in compared) else 1


if __name__ == "__main__":
    sys.exit(main())
