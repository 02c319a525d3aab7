"""The numbers of a finished run as small CSV files, for `docs/results/`; columns: docs/results.md.

They are written with the notebooks' outputs (`reproduction.pipeline.notebooks`), from the same run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from types import MappingProxyType

import pandas as pd

from habitats.cutouts import SHIFTED_SETS
from reproduction.claims import ResultTables, judge
from reproduction.claims.chance import STRICT, by_chance
from reproduction.claims.numbers import LEVEL
from reproduction.claims.report import number_table, verdict_table
from reproduction.measures import accuracies
from reproduction.measures.paired import BASIS, ORIGINAL
from reproduction.params.preset import read_preset
from reproduction.pipeline.plan import kind
from reproduction.pipeline.progress import LOG
from reproduction.runs import effects, grids
from reproduction.runs.run import ROOM
from reproduction.stages import preset_file

RUN = ["world", "arm", "seed", "dataset"]
KEYS = ["world", "masks", "images_per_class", "arm"]  # of a run beside the study
TEST = ["test", "model", "target", "measure", "method"]
TIMES = ["preset", "notebook", "seconds"]
# Of the worths: all but the animal is context.
PARTS = {"animal": ["animal"], "things": ["thing 1", "thing 2"], "texture": ["texture"]}


def result_files(
    executed: Mapping[str, Path], preset: str, stored: Path, others: Mapping = MappingProxyType({})
) -> dict[str, str]:
    """The text of each file by its name, from the executed notebook of every stage.

    `stored` is the folder of the files that are there, and `others` has the executed notebooks of
    other presets: their times are told, too.
    Raises: KeyError where a table of the run is missing, ValueError where its report is older.
    """
    tables = ResultTables({name: path.parent for name, path in executed.items()})
    made = {
        "sets": sets(tables["03_robustness/answers"]),
        "added": added(tables),
        "looking": looking(tables),
        "methods": methods(tables),
        "truth": tables["07a_segmentation/causal"],
        "ablations": ablations(tables),
        "heads": tables["08a_iav/intervals"],
        "cures": with_study(tables["04_cures/cures"], "cures", preset),
        "maps": with_study(tables["05a_ablations/maps"], "maps", preset),
        **judged(tables),
        "times": times(pd.read_csv(stored / "times.csv"), {**others, preset: executed}),
    }
    return {f"{name}.csv": _text(table) for name, table in made.items()}


def sets(answers: pd.DataFrame) -> pd.DataFrame:
    """Top-1 of each set, arm and seed: of the original, and finetuned without and with the terms.

    `answers` as from `runs.effects.study`.
    """
    top1 = 100 * answers.groupby([*RUN, "relevance"], observed=True)["right"].mean()
    wide = top1.unstack("relevance").set_axis(["without_pct", "with_pct"], axis=1).reset_index()
    original = wide[wide["arm"] == ORIGINAL].rename(columns={"without_pct": "original_pct"})
    keys = [name for name in RUN if name != "arm"]
    found = wide[wide["arm"] != ORIGINAL].merge(original[[*keys, "original_pct"]], on=keys)
    return found[[*RUN, "original_pct", "without_pct", "with_pct"]].sort_values(RUN)


def added(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """What relevance adds, with intervals: set by set, and on the average of the shifted sets.

    Beside it top-1 of the original on the same images, of all classes.
    """
    whole = tables["03_robustness/added"].assign(dataset="shifted_average")
    own = tables["03_robustness/columns"]
    others = whole[~whole["world"].isin(own["world"])]
    keys = ["world", "arm", "classes", "dataset"]
    found = pd.concat([own, others], ignore_index=True)
    rows = ["world", "arm", "dataset"]
    before = sets(tables["03_robustness/answers"]).groupby(rows)["original_pct"].mean().unstack()
    before["shifted_average"] = before[list(SHIFTED_SETS)].mean(axis=1)
    before = before.stack().rename("original_pct").reset_index().assign(classes="all")
    found = found.merge(before, on=keys, how="left")
    first = [*keys, "original_pct"]
    return found[[*first, *found.columns.drop(first)]].sort_values(keys)


def looking(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Where the original and the finetuned twins look, and what the parts of a scene are worth.

    One row each for `original`, `with` and `without`: figures of `runs.Row` as means over seeds,
    mIoU of GAE's maps, and on set `a` worths in logits and the context's share, of one seed.
    """
    found = effects.looking(tables["03_robustness/figures"])
    found = found[["on_object_pct", "background_gap_pts"]].copy()
    maps = tables["07a_segmentation/finetuned_segmentation"]
    maps = maps[maps["metric"] == "miou_pct"].set_index("model_run")["value_pct"]
    found.loc["original", "miou_pct"] = maps[ORIGINAL]
    found.loc["with", "miou_pct"] = maps.drop(ORIGINAL).mean()
    worths = tables["07a_segmentation/part_worths"]
    worths = worths[worths["dataset"] == "a"].drop(columns="dataset").groupby("model_run").mean()
    for name, parts in PARTS.items():
        found[f"worth_{name}"] = worths[parts].sum(axis=1)
    found["worth_context_pct"] = 100 * (1 - worths["animal"] / worths.sum(axis=1))
    return found.rename_axis("model_run").reset_index()


def ablations(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The change of each variant, what `full` leads it by, and how low its losses came."""
    val = accuracies.changes(tables["05_ablations/ablations"], ["variant"])["val"]
    found = tables["05_ablations/variants"].merge(val.rename("val_pts").reset_index())
    leads = {name: name.replace("lead_", "full_leads_") for name in found}
    return found.rename(columns=leads).drop(columns="model")


def judged(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """By file: the claims as the run's report has judged them, with what luck would do; numbers.

    Raises: ValueError where a verdict, or a number of one, would be another now.
    """
    told = tables["99_report/claims"]
    own_terms = bool((told["ours"] != "").any())
    found, strict = (judge(tables, own_terms=own_terms, level=one) for one in (LEVEL, STRICT))
    said = ["id", "verdict", "number"]
    now = set(verdict_table(found)[said].itertuples(index=False, name=None))
    others = sorted({id for id, *_ in now ^ {*told[said].itertuples(index=False, name=None)}})
    if others:
        raise ValueError(
            f"99_report has judged {', '.join(others)} otherwise, by other criteria or tables than "
            "there are now: delete its folder, and run the preset again"
        )
    claims = told.merge(by_chance(found, strict), "left", on="id")
    return {"claims": claims, "claims_numbers": number_table(found)}


def times(stored: pd.DataFrame, runs: Mapping[str, Mapping[str, Path]]) -> pd.DataFrame:
    """Seconds of what finished runs have made: each notebook's, and of each kind of finetuning run.

    Notebooks' as papermill notes them, and the median of a kind; else as `stored`.
    """
    made = []
    for preset, executed in runs.items():
        for name, path in executed.items():
            noted = json.loads(path.read_text(encoding="utf-8"))["metadata"]["papermill"]
            made.append((preset, name, round(noted["duration"])))
        log = next(iter(executed.values())).parents[1] / LOG
        made += [(preset, *row) for row in _run_seconds(preset, log).items()]
    both = pd.concat([stored, pd.DataFrame(made, columns=TIMES)])
    return both.drop_duplicates(TIMES[:2], keep="last").sort_values(TIMES[:2])


def _run_seconds(preset: str, log: Path) -> dict[str, int]:
    """The median of each kind of run, by what `reproduction.pipeline.make` last said of each."""
    said = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    seconds = dict(re.findall(rf"(?m)\b{ROOM}[/\\](\S+): (\d+) s$", said))
    rows = grids.of_preset(read_preset(preset_file(preset))) if seconds else {}
    of_kind: dict[str, list[int]] = {}
    for name, row in rows.items():
        if name in seconds:
            of_kind.setdefault(kind(row), []).append(int(seconds[name]))
    return {name: round(median(each)) for name, each in of_kind.items()}


def methods(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Twelve attribution methods in the segmentation and the perturbation test."""
    outlined = tables["methods_segmentation"].rename(columns={"metric": "measure"})
    outlined = outlined.assign(test="segmentation", target="predicted")
    erased = tables["methods_perturbation"].rename(
        columns={"direction": "measure", "auc_pct": "value_pct"}
    )
    found = pd.concat([outlined, erased.assign(test="perturbation")], ignore_index=True)
    return found[[*TEST, "value_pct", "low_pct", "high_pct"]].sort_values(TEST)


def with_study(ours: pd.DataFrame, question: str, preset: str) -> pd.DataFrame:
    """The arms of the run, and those of the study; what the study has of each, and by seed of ours.

    The study kept no changes by seed.
    """
    study = effects.of_study(question)
    basis = [  # leads over GAE on the same blocks were not kept of the study
        name for name in ours if name.endswith((*BASIS, "images")) or name.startswith("over_same")
    ]
    both = {preset: ours.reindex(columns=[*study.columns, *basis]), "study": study}
    found = pd.concat([table.assign(run=run) for run, table in both.items()], ignore_index=True)
    keys = [name for name in KEYS if name in found]
    return found[["run", *study.columns, *basis]].sort_values(["run", *keys])


def _text(table: pd.DataFrame) -> str:
    """Not rounded as shown, for a number is rounded once, where it is shown."""
    return table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
