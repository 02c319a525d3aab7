"""The sweep: models x methods x protocols x masks x seeds, one run of 02_finetune each.

Snakemake makes the runs, side by side where there is room. A run that fails leaves the word
`failed` instead of `done`, so that the others and the report go on without it; the next call of
the pipeline makes those that are not done, and what follows from them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from relevit.base.files import project_root
from relevit.base.stages import EXECUTED, need_stage
from relevit.config import Params, PipelineParams
from relevit.config.robustvit import LOSS_WEIGHTS

STAGE = "02_finetune"
OUTCOME = "outcome.txt"  # done or failed
DONE = "done"


class Run(NamedTuple):
    """What tells one run of the sweep from the others."""

    model: str
    method: str
    protocol: str
    masks: str
    seed: int

    @property
    def name(self) -> str:
        """Its folder below the stage, as in the Snakefile."""
        return f"{self.model}.{self.method}.{self.protocol}.{self.masks}.seed{self.seed}"

    @property
    def parameters(self) -> dict[str, Any]:
        """Those of 02_finetune in which it differs from the preset's own runs.

        The weights of the terms that the preset gives are those of its method: a baseline has the
        paper's.
        """
        own = {"run": self.name} | self._asdict()
        return own if self.method == "relevance" else own | dict.fromkeys(LOSS_WEIGHTS)


class Missing(NamedTuple):
    """A run without results, and the error that ended it."""

    run: str
    reason: str


def sweep_runs(pipeline: PipelineParams) -> list[Run]:
    """The runs of a preset's sweep, in the order of `pipeline.yaml`, each once."""
    runs = [
        Run(*values)
        for grid in pipeline.sweep
        for values in product(grid.models, grid.methods, grid.protocols, grid.masks, grid.seeds)
    ]
    return list(dict.fromkeys(runs))


def compared_models(pipeline: PipelineParams) -> list[str]:
    """What 03_comparison evaluates, by the names of its folders: originals, then all runs.

    The preset's own original and its finetuned runs are not among them: 03_robustness has theirs.
    """
    runs = sweep_runs(pipeline)
    originals = sorted({run.model for run in runs} - {pipeline.model})
    return [*originals, *(run.name for run in runs)]


def find_runs(cfg: Params, runs: Iterable[Run]) -> tuple[dict[Run, Path], list[Missing]]:
    """Folders of these runs of the sweep, and what is missing.

    In the pipeline all runs have ended by now. In a notebook started alone, those that were
    never made are made here; one that fails is missing, and the others are still made.
    """
    found, missing = {}, []
    for run in runs:
        folder = project_root() / cfg.output_root / cfg.preset / STAGE / run.name
        if failed(folder):
            missing.append(Missing(run.name, why(folder)))
            continue
        try:
            found[run] = need_stage(cfg, STAGE, run.name, **run.parameters)
        except Exception as error:  # whatever ended the run: the others do not hang on it
            lines = str(error).strip().splitlines() or [type(error).__name__]
            missing.append(Missing(run.name, lines[-1]))
    return found, missing


def failed(folder: Path) -> bool:
    """Whether the run in this folder has ended in an error, also where its mark found no room."""
    path = folder / OUTCOME
    return path.is_file() and path.read_text(encoding="utf-8").strip() != DONE


def why(folder: Path) -> str:
    """The last line of the error that a run's notebook shows."""
    try:
        cells = json.loads((folder / EXECUTED).read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return "it ended before its notebook was written; was it killed?"
    errors = [
        f"{output['ename']}: {(output['evalue'].strip().splitlines() or [''])[-1]}"
        for cell in cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "error"
    ]
    return errors[-1] if errors else "its notebook shows no error; was it killed?"


def unfinished(pipeline: PipelineParams) -> list[str]:
    """The marks, below the project, that runs of the sweep have yet to leave with `done` in them.

    Snakemake is told to make these: by itself it would not miss a mark that a finished report
    stands on, nor make a run again that has failed.
    """
    marks = [folder / OUTCOME for folder in _folders(pipeline)]
    lacking = [mark for mark in marks if not mark.is_file() or failed(mark.parent)]
    return [str(mark.relative_to(project_root())) for mark in lacking]


def failures(pipeline: PipelineParams) -> list[Missing]:
    """The runs of the sweep that have failed, with their errors."""
    return [Missing(f.name, why(f)) for f in _folders(pipeline) if failed(f)]


def _folders(pipeline: PipelineParams) -> list[Path]:
    root = project_root() / "outputs" / pipeline.preset / STAGE
    return [root / run.name for run in sweep_runs(pipeline)]
