"""Methods to be judged, by name or file, and the tables of those that were."""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata

from habitats.composing import PARTS
from relevit.attribution import METHODS
from relevit.attribution.methods import OURS
from relevit.base.errors import one_line
from relevit.base.files import project_root
from relevit.evaluate.intervals import PERCENT, mean_interval
from reproduction.measures.causal import ZEROS, Zero
from reproduction.measures.judge import (
    MARKS,
    SETS,
    Method,
    Task,
    maps_of,
    marks,
    need_asked_class,
    need_saying,
    record,
    seconds,
    shuffled,
    worths_record,
)

ROWS = Path("docs", "results", "judge")  # below the project
NO_TABLE = f"the rows are not here: they are in {ROWS.as_posix()} of the repository"
HOW = f"""Add a row: write a function (model, images, target) -> maps, and then
  relevit judge my_method.py:explain --out {ROWS.as_posix()}/my_method.json
  make numbers
and make a pull request of both. docs/judge.md says what the columns mean.
"""
PERMUTATIONS = 10_000
DRAWS = 3  # of twenty scenes of each set, so that each can be asked alone
FROM = {"own": "a map's own zero", "least": "its least value"}
# A part's worth is what the answer loses without it, or Shapley's value; and where a record has it.
WORTHS = {"deletion": "scenes_pct", "subsets": "subsets_scenes_pct"}
WAYS = tuple(product(ZEROS, WORTHS))


def judge(
    given: str, name: str, tasks: list[Task], say: Callable[[str], object] = lambda line: None
) -> dict[str, Any]:
    """The record of a method, or of a mark; about how long it takes is said first.

    Said is also what the method left behind, and whose class its maps are of, where that is not
    the one asked for. Raises: as `read_method`, `need_asked_class`, `need_saying` and `maps_of`.
    """
    if given in MARKS:
        found = record(name, {task.name: marks(task)[given] for task in tasks}, tasks)
        worths = {"worths": {task.name: worths_record(task) for task in tasks}}
        return found | (worths if given == "truth" else {})
    method = read_method(given)
    say(f"{len(tasks[0].target)} scenes, {len(tasks)} models: about {seconds(tasks, method):.0f} s")
    for line in dict.fromkeys(need_asked_class(task, method) for task in tasks):
        if line:
            say(f"{name}: {line}")
    left: set[str] = set()
    maps = {task.name: need_saying(maps_of(task, method, left=left), task) for task in tasks}
    if left:
        say(
            f"{name} left behind: {', '.join(sorted(left))}; each batch had a copy of its own, so "
            "that no score is moved"
        )
    blind = {task.name: maps_of(shuffled(task), method) for task in tasks}
    return record(name, maps, tasks, blind)


def read_method(given: str) -> Method:
    """A method by its name, or what `my_file.py:name` is: a function, or one of captum's classes.

    Raises: FileNotFoundError; ValueError for what is no such name, file or method.
    """
    if given in METHODS:  # as the papers here compare with them
        return partial(METHODS[given], protocol="published") if given in OURS else METHODS[given]
    others = f"or one of {', '.join([*METHODS, *MARKS])}"
    wanted = "(model, images, target) -> maps, or a class of captum's, which is made for each model"
    found = load_callable(given, f"method; give FILE.py:NAME, {others}", wanted)
    captums = hasattr(getattr(found, "func", found), "attribute")
    return _told(_of_captum(found) if captums else found, given)


def _told(method: Method, given: str) -> Method:
    """The method; what it raises is a sentence with the line of its file. Raises: ValueError."""
    file = Path(given.rpartition(":")[0]).name

    def rule(*images_and_more: Any, **named: Any) -> Any:
        try:
            return method(*images_and_more, **named)
        except (Exception, SystemExit) as error:  # whatever the code of others raises
            frames = traceback.extract_tb(error.__traceback__)
            at = [each.lineno for each in frames if Path(each.filename).name == file][-1:]
            raise ValueError(
                f"judge: {given} raises {type(error).__name__} ({one_line(error)})"
                f"{''.join(f' in line {line} of its file' for line in at)}; mend it"
            ) from error

    return rule


def load_callable(given: str, but: str, wanted: str) -> Callable[..., Any]:
    """What `my_file.py:name` is. `but` is what it is not, and `wanted` what is called there.

    Raises: FileNotFoundError; ValueError for what is no such name, file or function.
    """
    file, colon, name = given.rpartition(":")
    path = Path(file)
    if not colon or path.suffix != ".py":
        raise ValueError(f"judge: {given!r} is no {but}")
    if not path.is_file():
        raise FileNotFoundError(f"judge: the file {path} is missing; check its name")
    found = getattr(_loaded(path), name, None)
    if not callable(found):
        raise ValueError(f"judge: {name!r} in {path} is no function; give one {wanted}")
    return found


def _loaded(path: Path) -> Any:
    """The module of a file, which may import what lies beside it."""
    name = f"judged_{path.stem}"  # which no other module has
    spec = spec_from_file_location(name, path)
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the code of others raises
        raise ValueError(f"judge: {path} cannot be loaded ({one_line(error)}); mend it") from error
    finally:
        sys.path.pop(0)
    return module


def _of_captum(attribution: Any) -> Method:
    return lambda model, images, target: attribution(model).attribute(images, target=target)


# The tables


def kept_in() -> Path:
    """Where the rows are; a folder that is not there without the repository."""
    try:
        return project_root() / ROWS
    except FileNotFoundError:
        return ROWS


def read_records(folder: Path) -> list[dict[str, Any]]:
    """What is kept of all methods.

    Raises: ValueError where they were judged on different scenes or models.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.name] = json.loads(path.read_text("utf-8"))
            table([found[path.name]])
            same = all(comparable(other, found[path.name]) for other in found.values())
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ValueError(f"judge: {path} is no whole record; judge it anew") from None
        if not same:
            raise ValueError(
                f"judge: {path.name} was judged on other scenes or models than those before it, "
                f"{next(iter(found))} the first; judge it anew"
            )
    return list(found.values())


def comparable(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether both were judged on the same scenes and, of those that both have, models."""
    same = one["models"].keys() & other["models"].keys()
    models = all(one["models"][name] == other["models"][name] for name in same)
    return one["scenes"] == other["scenes"] and models


def by_scene(
    records: Collection[dict[str, Any]], model: str, zero: Zero, key: str = "scenes_pct"
) -> pd.DataFrame:
    """The truth of each scene in percent, a column a method that has it; marks in brackets."""
    found = {each["method"]: each["truth"].get(model, {}).get(zero, {}) for each in records}
    return pd.DataFrame({_shown(name): of[key] for name, of in found.items() if key in of})


def _shown(name: str) -> str:
    return f"({name})" if name in MARKS else name


def _methods(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("(")]


def groups(scenes: pd.DataFrame) -> pd.Series:
    """Which methods are equals, in place of ranks: 1 has the one of the highest mean.

    A method is in the group of the highest that none has taken yet, where the 95 % interval over
    scenes of the difference of the two, scene by scene, reaches 0. The first that does not begins
    the next group.
    """
    found: dict[str, int] = {}
    number, leader = 0, ""
    for name in scenes.mean().sort_values(ascending=False, kind="stable").index:
        if not leader or difference(scenes[leader], scenes[name])[1] > 0:
            number, leader = number + 1, name
        found[name] = number
    return pd.Series(found)


def difference(one: pd.Series, other: pd.Series) -> tuple[float, float, float]:
    """The mean difference over the same scenes, and its 95 % interval."""
    return _mean(torch.tensor((one - other).to_numpy()))


def table(records: Collection[dict[str, Any]]) -> pd.DataFrame:
    """A row a model, zero and method, by groups of equals, the truest first; within one by name.

    Marks are in brackets, have no group, and stand last. Columns: model, zero, method, group;
    truth, and shuffled (the method on shuffled weights), in percent; subsets_group and subsets, the
    same as group and truth where Shapley's values are the worths; behind (the truest method
    minus it), over_shuffled, over_random and shuffled_over_random, paired differences in points;
    beyond, whether it is truer, beyond chance, than itself on shuffled weights and than a random
    map; same_first, miou and erasing; each with low and high.
    """
    rows = []
    for model in dict.fromkeys(name for each in records for name in each["truth"]):
        for zero in ZEROS:
            rows += _rows(records, model, zero)
    order = ["model", "zero", "group", "method"]
    made = pd.DataFrame(rows).astype({"group": "Int64", "subsets_group": "Int64"})
    return made.sort_values(order, kind="stable", ignore_index=True)


def _rows(records: Collection[dict[str, Any]], model: str, zero: Zero) -> list[dict[str, Any]]:
    own, blind = (
        by_scene(records, model, zero, key) for key in ("scenes_pct", "shuffled_scenes_pct")
    )
    by_subsets = by_scene(records, model, zero, WORTHS["subsets"])
    group, subsets = (groups(each[_methods(each)]) for each in (own, by_subsets))
    rows = []
    for each in (each for each in records if model in each["truth"]):
        name = _shown(each["method"])
        found = each["truth"][model][zero] | each["scores"].get(model, {})
        row: dict[str, Any] = {"model": model, "zero": zero, "method": name}
        row["group"] = group.get(name, pd.NA)
        row |= _ends("truth_pct", found["truth_pct"])
        row["subsets_group"] = subsets.get(name, pd.NA)
        row |= _ends("subsets_pct", _mean(torch.tensor(by_subsets[name].to_numpy()), PERCENT))
        if name in group:
            row |= _ends("behind_pts", difference(own[group.index[0]], own[name]))
        if name in blind:
            values = torch.tensor(blind[name].to_numpy())
            row |= _ends("shuffled_pct", _mean(values, PERCENT))
            row |= _ends("over_shuffled_pts", difference(own[name], blind[name]))
        if "(random)" in own:
            row |= _ends("over_random_pts", difference(own[name], own["(random)"]))
            if name in blind:
                ends = difference(blind[name], own["(random)"])
                row |= _ends("shuffled_over_random_pts", ends)
                leads = row["over_shuffled_low_pts"], row["over_random_low_pts"]
                row["beyond"] = "yes" if min(leads) > 0 else "no"
        for score in ("same_first_pct", "miou_pct", "erasing_pts"):
            row |= _ends(score, found[score]) if score in found else {}
        rows.append(row)
    return rows


def _ends(score: str, values: Collection[float]) -> dict[str, float]:
    return dict(zip(_names(score), values, strict=True))


def _names(score: str) -> list[str]:
    stem, unit = score.rsplit("_", 1)
    return [score, f"{stem}_low_{unit}", f"{stem}_high_{unit}"]


def agreement(records: Collection[dict[str, Any]]) -> pd.DataFrame:
    """Do models agree on which method is truer? A row for each of ZEROS and of WORTHS.

    Columns: zero, worth, models, methods; `w`, Kendall's coefficient of concordance of the models'
    orders by mean truth, 1 where all are the same (Kendall and Babington Smith 1939); `p`, the
    share of PERMUTATIONS, in which each model has a random order, that agree as much; `lowest`, the
    lowest rank correlation of two models.
    """
    rows = []
    for zero, worth in WAYS:
        models = dict.fromkeys(name for each in records for name in each["truth"])
        each = {name: by_scene(records, name, zero, WORTHS[worth]).mean() for name in models}
        means = pd.DataFrame(each)
        means = means.loc[_methods(means.index)].dropna()
        ranks = rankdata(means.to_numpy(), axis=0)
        draw, w = np.random.default_rng(0), concordance(ranks)
        chance = [concordance(draw.permuted(ranks, axis=0)) for _ in range(PERMUTATIONS)]
        p = (1 + sum(each >= w - 1e-12 for each in chance)) / (1 + PERMUTATIONS)
        lowest = means.corr("spearman").to_numpy().min()
        rows.append({"zero": zero, "worth": worth, "models": len(models),
                     "methods": len(means), "w": w, "p": p, "lowest": lowest})  # fmt: skip
    return pd.DataFrame(rows)


def draws(records: Collection[dict[str, Any]]) -> pd.DataFrame:
    """Does the order of methods hold in each of DRAWS draws of the scenes? A row a model and zero.

    Columns: model, zero; lowest, the lowest rank correlation of two draws' orders by mean truth;
    spread_pts, a method's standard deviation over draws, mean over methods; first, the methods that
    each draw has in its first group.
    """
    rows = []
    for model in dict.fromkeys(name for each in records for name in each["truth"]):
        for zero in ZEROS:
            scenes = by_scene(records, model, zero)
            scenes, count = scenes[_methods(scenes)], len(scenes) // len(SETS)
            draw = np.arange(len(scenes)) % count * DRAWS // count  # one set behind the other
            parts = [part.reset_index(drop=True) for _, part in scenes.groupby(draw)]
            means = pd.DataFrame([part.mean() for part in parts]).T
            number = pd.DataFrame([groups(part) for part in parts])
            first = sorted(number.columns[(number == 1).all()])
            row = {"model": model, "zero": zero, "lowest": means.corr("spearman").min(axis=None)}
            spread = means.std(axis=1).mean()
            rows.append(row | {"spread_pts": spread, "first": " ".join(first)})
    return pd.DataFrame(rows)


def concordance(ranks: np.ndarray) -> float:
    """Kendall's W of ranks, methods x models, without ties: 0 for no agreement, 1 for all of it."""
    methods, models = ranks.shape
    sums = ranks.sum(axis=1)
    return 12 * float(((sums - sums.mean()) ** 2).sum()) / (models**2 * (methods**3 - methods))


def models_table(records: Collection[dict[str, Any]]) -> pd.DataFrame:
    """What the truth is of each model; empty without the record of the mark `truth`.

    Columns: model; worths in logits, mean over scenes, of animal, thing_1, thing_2 and texture;
    gap_pct (`causal.gap_pct`); shapley_pct, the truth of that mark; best_method, the truest, and
    best_pct, its truth, from a map's own zero; shapley_leads_own_pts and shapley_leads_least_pts,
    that mark less the truest method from either zero; each with low and high, but gap_pct. zeros:
    the rank correlation of the methods' orders by both ZEROS; worths_own and worths_least, by both
    WORTHS.
    """
    known = {key: worths for each in records for key, worths in each.get("worths", {}).items()}
    return pd.DataFrame([_model_row(records, *each) for each in known.items()])


def _model_row(
    records: Collection[dict[str, Any]], model: str, worths: dict[str, Any]
) -> dict[str, Any]:
    row: dict[str, Any] = {"model": model}
    for part in PARTS:
        values = torch.tensor([each for each in worths[part] if each is not None])
        row |= _ends(f"{part.replace(' ', '_')}_logits", _mean(values))
    scenes = {key: by_scene(records, model, key[0], WORTHS[key[1]]) for key in WAYS}
    methods = _methods(scenes["own", "deletion"])
    means = pd.DataFrame({key: found[methods].mean() for key, found in scenes.items()})
    best, alike = means.idxmax(), means.corr("spearman")
    own, first = scenes["own", "deletion"], best["own", "deletion"]
    row |= {"gap_pct": worths["gap_pct"], "best_method": first}
    for name, score in (("(shapley)", "shapley_pct"), (first, "best_pct")):
        row |= _ends(score, _mean(torch.tensor(own[name].to_numpy()), PERCENT))
    row["zeros"] = alike.loc[("own", "deletion"), ("least", "deletion")]
    for zero in ZEROS:
        row[f"worths_{zero}"] = alike.loc[(zero, "deletion"), (zero, "subsets")]
        seen = scenes[zero, "deletion"]
        lead = difference(seen["(shapley)"], seen[best[zero, "deletion"]])
        row |= _ends(f"shapley_leads_{zero}_pts", lead)
    return row


def _mean(values: torch.Tensor, *bounds: tuple[float, float]) -> tuple[float, float, float]:
    return (values.double().mean().item(), *mean_interval(values, *bounds))


def files(records: Collection[dict[str, Any]]) -> dict[str, str]:
    """The tables as the CSV files of docs/results, by name."""
    made = {
        "judge": table,
        "judge_models": models_table,
        "judge_agreement": agreement,
        "judge_draws": draws,
    }
    return {f"{name}.csv": make(records).to_csv(index=False, float_format="%.6g")
            for name, make in made.items()}  # fmt: skip


def in_words(records: Collection[dict[str, Any]]) -> str:
    """For a terminal: truth in percent and the group by model, a table a zero; then other tests."""
    rows, parts = table(records), []
    models = [*rows["model"].unique()]
    for zero in ZEROS:
        shown = rows[rows["zero"] == zero]
        group = shown["group"].astype("string").radd(" [").add("]").fillna("")
        no = shown["beyond"].map({"no": " -"}).fillna("")
        wide = shown.assign(cell=shown["truth_pct"].map("{:.0f}".format) + group + no)
        wide = wide.pivot(index="method", columns="model", values="cell")[models]
        means = shown.groupby("method")["truth_pct"].mean().sort_values(ascending=False)
        parts.append(f"Truth in % [group], from {FROM[zero]}\n{_printed(wide.loc[means.index])}")
    others = rows[(rows["zero"] == "own") & rows["miou_pct"].notna()]
    columns = {
        f"{model}: {score}": part.set_index("method")[_names(score)].apply(_in_words, axis=1)
        for model, part in others.groupby("model", sort=False)
        for score in ("miou_pct", "erasing_pts")
    }
    says = "-: not truer, beyond chance, than a random map and than itself on shuffled weights"
    return "\n\n".join([*parts, says, *([_printed(pd.DataFrame(columns))] if columns else [])])


def _printed(shown: pd.DataFrame) -> str:
    return shown.fillna("").rename_axis(index=None, columns=None).to_string()


def _in_words(ends: pd.Series) -> str:
    return "{:.0f} ({:.0f} to {:.0f})".format(*ends)


def as_json(record: dict[str, Any]) -> str:
    """A record as it is written, a list in a line: the same numbers are the same bytes."""
    return re.sub(r"\s+(?=[^][{}]*\])", " ", json.dumps(record, indent=1)) + "\n"
