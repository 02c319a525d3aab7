"""Run the pipeline of a preset: `python -m relevit.pipeline workshop`.

Checks every parameter file, the device, the disk and the download first, so that nothing
fails after long work for a reason that was known before it. Order, resume and parallel runs
are Snakemake's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from relevit import sweep
from relevit.config import NOTEBOOKS, MasksParams, OriginalParams, Params, PipelineParams
from relevit.config.base import SHIPPED
from relevit.paths import need_disk_space, project_root

LOSS_TERMS = ("relevance", "classification", "background", "foreground")
QUIET = ["--quiet", "rules", "host", "progress", "reason"]


def check(preset: str) -> PipelineParams:
    """Check the preset's files and the machine. Raises: ValueError, FileNotFoundError, OSError."""
    folder = project_root() / "params" / preset
    path = folder / "pipeline.yaml"
    known = sorted(file.parent.name for file in folder.parent.glob(f"*/{path.name}"))
    if not folder.is_dir():
        raise ValueError(f"pipeline: preset {preset!r} is unknown; use one of {known}")
    if not path.is_file():
        raise FileNotFoundError(
            f"pipeline: {path} is missing, so preset {preset!r} is for single notebooks alone; "
            f"use one of {known}, or copy what is missing from params/quick"
        )
    pipeline = PipelineParams.from_file(path)
    stages = {name: cls.from_file(folder / f"{name}.yaml") for name, cls in NOTEBOOKS.items()}
    _check_agreement(folder, pipeline, stages)
    _check_own_runs(path, pipeline, stages)
    _check_sweep(path, pipeline, stages)
    _check_iav(folder, stages)
    need_disk_space(project_root(), pipeline.disk_mb)
    return pipeline


def _check_agreement(folder: Path, pipeline: PipelineParams, stages: dict[str, Params]) -> None:
    """What the stages share must be the same in all files."""
    models = {name: params.model for name, params in stages.items()}
    for name, params in {"pipeline": pipeline, **stages}.items():
        for key, needed in (
            ("preset", folder.name),
            ("model", models["00_original"]),
            ("seeds", pipeline.seeds),
            ("output_root", "outputs"),  # the Snakefile's; another one is for notebooks by hand
            ("run", ""),
        ):
            value = getattr(params, key, needed)
            if value != needed:
                raise ValueError(
                    f"{folder / name}.yaml: {key} = {value!r}, but the rest of the preset has "
                    f"{needed!r}; give all files of a preset the same"
                )


def _check_own_runs(path: Path, pipeline: PipelineParams, stages: dict[str, Params]) -> None:
    """The preset's own runs are the method's, and the base of its sweep; they are compared."""
    own, folder = stages["02_finetune"], path.parent
    fixed: dict[str, object] = {"method": "relevance", "masks": "annotated"}
    if pipeline.sweep:  # a value given here would also be that of the baselines
        fixed |= dict.fromkeys(("lr", *(f"weight_{term}" for term in LOSS_TERMS)))
    for key, needed in fixed.items():
        value = getattr(own, key)
        if value != needed:
            raise ValueError(
                f"{folder}/02_finetune.yaml: {key} = {value!r}, but the preset's own runs and the "
                f"base of its sweep need {needed!r}; other methods and masks belong under sweep in "
                f"{path.name}, other values in a run by hand"
            )
    seen, compared = (stages[n].images_per_set for n in ("03_robustness", "03_comparison"))
    if compared > seen:
        raise ValueError(
            f"{folder}/03_comparison.yaml: images_per_set = {compared}, but 03_robustness answers "
            f"{seen} of each set, with which they are compared: give at most as many"
        )


def _check_sweep(path: Path, pipeline: PipelineParams, stages: dict[str, Params]) -> None:
    """Every run of the sweep needs an original to start from, and masks and a rate for it."""
    masked, main = stages["01_masks"].seeds, stages["00_original"].model
    for i, grid in enumerate(pipeline.sweep):
        unknown = sorted(set(grid.models) - {main, *SHIPPED})
        if unknown:
            raise ValueError(
                f"{path}: sweep.{i}.models = {grid.models}: {unknown} has no original here; use "
                f"the preset's own {main!r} or a shipped one, {', '.join(SHIPPED)}"
            )
        searched = {main} if set(grid.methods) == {"relevance"} else set()
        searched.add(stages["02_baselines"].compared_model)
        if not set(grid.models) <= searched:
            raise ValueError(
                f"{path}: sweep.{i}.models = {grid.models} with methods {grid.methods}, but rates "
                f"are searched for {sorted(searched)} alone: change compared_model in "
                "02_baselines.yaml, or leave the others out"
            )
        if "tokencut" in grid.masks and not set(grid.seeds) <= set(masked):
            raise ValueError(
                f"{path}: sweep.{i}.seeds = {grid.seeds} with masks tokencut, but 01_masks.yaml "
                f"makes masks for seeds {masked}: give both the same"
            )


def _check_iav(folder: Path, stages: dict[str, Params]) -> None:
    """07_iav reads the models that 07_pretraining makes."""
    made, read = stages["07_pretraining"], stages["07_iav"]
    for key in ("models", "model_seeds"):
        lacking = [value for value in getattr(read, key) if value not in getattr(made, key)]
        if lacking:
            raise ValueError(
                f"{folder}/07_iav.yaml: {key} = {getattr(read, key)!r}, but 07_pretraining.yaml "
                f"makes {getattr(made, key)!r}: add {lacking} there, or leave them out here"
            )
    for key in ("data", "data_root"):
        if getattr(made, key) != getattr(read, key):
            raise ValueError(
                f"{folder}/07_iav.yaml: {key} = {getattr(read, key)!r}, but 07_pretraining.yaml "
                f"has {getattr(made, key)!r}: give both the same"
            )


def prepare_machine(preset: str) -> None:
    """Check the devices asked for and fetch the pretrained weights if they are needed."""
    from relevit.precision import choose_device  # loads torch

    folder = project_root() / "params" / preset
    for name, cls in NOTEBOOKS.items():
        path = folder / f"{name}.yaml"
        try:
            choose_device(cls.from_file(path).device)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    original = OriginalParams.from_file(folder / "00_original.yaml")
    masks = MasksParams.from_file(folder / "01_masks.yaml")
    pretrained = original.source == "train" and original.model == "dinov2-s"
    if pretrained or masks.feature_model == "dinov2-s":
        from relevit.dinov2 import load_dinov2

        load_dinov2()


def snakemake(
    preset: str, *options: str, jobs: int = 1, gpus: int = 0, **kwargs
) -> subprocess.CompletedProcess:
    """Call Snakemake on the project's Snakefile for one preset.

    One stage a GPU may compute at a time, or without any as many as `jobs`. Those that do share
    the processor's cores: each is told to use its part of them.
    """
    count, places = max(cores(), jobs), gpus or jobs
    settings = [f"threads={count // min(jobs, places)}", f"gpus={gpus}"]
    options = (*options, "--cores", str(count), "--resources", f"gpu={places}")
    options = (*options, "--config", *settings)
    root = project_root()
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(root / "Snakefile")]
    command += ["--directory", str(root), "--configfile", f"params/{preset}/pipeline.yaml"]
    # The stages call papermill and jupyter by name: those of this environment come first.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path}
    return subprocess.run([*command, *options], cwd=root, env=environment, **kwargs)


def todo(preset: str) -> list[str]:
    """What is still to run: the message of each such job, in Snakemake's order."""
    options = ("--dry-run", "--rerun-incomplete", "--quiet", "host")
    done = snakemake(preset, *options, *_forced(preset), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pipeline: Snakemake cannot plan the run:\n{done.stdout}{done.stderr}")
    return re.findall(r"(?m)^Job \d+: (.+)$", done.stdout + done.stderr)


def _forced(preset: str) -> list[str]:
    marks = sweep.unfinished(preset)
    return ["--forcerun", *marks] if marks else []


def run(preset: str, jobs: int) -> int:
    """Check, plan and run one preset; return the exit code."""
    start = time.perf_counter()
    check(preset)
    report = project_root() / "outputs" / preset / "report.html"
    snakemake(preset, "--unlock", capture_output=True)  # a killed run leaves its lock behind
    waiting = todo(preset)
    if not waiting and report.is_file():
        print(f"Nothing to do: {report} is up to date.")
        return 0
    prepare_machine(preset)
    print(f"Preset {preset!r}, {len(waiting)} stages to run:", *waiting, sep="\n  ", flush=True)
    code = snakemake(
        preset, "--rerun-incomplete", "--keep-going", "--keep-incomplete", *QUIET,
        *_forced(preset), jobs=jobs, gpus=_gpus(),
    ).returncode  # fmt: skip
    minutes = (time.perf_counter() - start) / 60
    lost = sweep.failures(preset)
    for name, reason in lost:
        print(f"Failed: {name}: {reason}", file=sys.stderr)
    if lost and not code:
        print(
            f"Done in {minutes:.1f} min but for {len(lost)} runs of the sweep, which the report "
            f"marks as missing. Mend and run again: only what is missing is made. Open {report}"
        )
        return 1
    if code:
        print(f"Stopped after {minutes:.1f} min. Results so far are kept: mend and run again.")
    else:
        print(f"Done in {minutes:.1f} min. Open {report}")
    return code


def cores() -> int:
    """The processor cores that this process may use, fewer than all in some containers."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


def graph(preset: str) -> list[tuple[str, str]]:
    """The pipeline's rules as (from, to) pairs, for the picture in the report."""
    done = snakemake(preset, "--rulegraph", "--forceall", capture_output=True, text=True)
    nodes, edges = {}, []
    for line in done.stdout.splitlines():
        text = line.strip()
        if "->" in text:
            left, right = text.split("->")
            edges.append((left.strip(), right.strip().rstrip(";")))
        elif 'label = "' in text:
            nodes[text.split("[")[0].strip()] = text.split('label = "')[1].split('"')[0]
    return [(nodes[a], nodes[b]) for a, b in edges if nodes[b] != "all"]


def main(arguments: list[str] | None = None) -> int:
    """Command line; a wrong input is one message and exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m relevit.pipeline", description=__doc__)
    parser.add_argument("preset", help="folder of params/, for example quick or workshop")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="stages at once (default 1)")
    parser.add_argument("--graph", action="store_true", help="print the stages' graph as JSON")
    options = parser.parse_args(arguments)
    try:
        if options.graph:
            check(options.preset)
            print(json.dumps(graph(options.preset)))
            return 0
        return run(options.preset, options.jobs)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
