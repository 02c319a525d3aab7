"""Write the measured numbers of all prose from the files in docs/results: `make numbers`.

A number in Markdown is followed by a comment, which no page shows, that says where it comes from:

    the terms add **+10.4 (+7.7 to +13.0)<!--=added adds-->** points

First the file, last the column, between them what chooses the row: `column=value`, or a value that
one column alone has. USUAL has what is chosen where nothing is said. What stands there is the form:
a sign or none, so many decimals, an interval or none, `N s` or `N min` of seconds. `-column` turns
the sign, as in *falls by*. Without a sign a number below 0 is refused: the words around it would
be wrong. The column `count` counts rows, `sum_column` sums a column over them, and `column_sees` is
the effect that as many seeds, as far apart, would see in 80 of 100 studies.

A table between `<!-- table: NAME -->` and `<!-- end -->` is TABLES[NAME], or else the file of that
name as it is. Files in results/notes were measured once, and no run writes them.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PAPER = ROOT / "lib" / "reproduction" / "assets" / "paper"
# What papers and their code say, what is estimated of runs that nobody made, rules, and history.
NOT_RESULTS = ("differences.md", "paper_preset.md", "CONTRIBUTING.md", "CHANGELOG.md")

NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?"
QUOTED = re.compile(
    rf"(?P<time>\d+ (?:s|min))<!--=(?P<of_time>[^>]+?)-->"
    rf"|(?P<number>{NUMBER})(?P<interval> \({NUMBER} to {NUMBER}\))?<!--=(?P<source>[^>]+?)-->"
)
BLOCK = re.compile(r"(<!-- table: (?P<name>[\w/]+) -->\n).*?(\n*<!-- end -->)", re.DOTALL)
UNITS = ("", "_pts", "_pct", "_logits")
SEES, SUM = "_sees", "sum_"
PLAIN = "[`*]"  # what marks code and stress, and is no part of a name
USUAL = {
    "added": {"world": "own", "arm": "ours", "classes": "all", "dataset": "shifted_average"},
    "cures": {"run": "study", "masks": "annotated", "images_per_class": "3", "world": "own"},
    "maps": {"run": "study"},
    "methods": {"target": "predicted"},
    "controls": {"classes": "animals", "arm": "relevance", "masks": "annotated", "world": "own"},
    "truth": {"model_run": "original", "dataset": "a", "score": "rank_correlation", "zero": "own"},
}
SHIFTED = ("a", "r", "sketch", "objectnet", "si_location", "si_rotation", "si_size")
SETS = ("val", "a", "r", "sketch", "v2", *SHIFTED[3:])


@cache
def read(name: str) -> pd.DataFrame:
    """A file of results as text, cell by cell. Raises: ValueError where there is none."""
    if not (RESULTS / f"{name}.csv").is_file():
        known = (path.relative_to(RESULTS).with_suffix("") for path in RESULTS.rglob("*.csv"))
        raise ValueError(f"no file {name!r}; use one of {sorted(map(str, known))}")
    table = pd.read_csv(RESULTS / f"{name}.csv", dtype=str, keep_default_na=False)
    table.attrs["file"] = name
    return table


def rows_of(name: str, *words: str) -> pd.DataFrame:
    """The rows that the words choose. Raises: ValueError for a word that chooses nothing."""
    table, chosen = read(name), dict(USUAL.get(name, {}))
    plain = table.apply(lambda column: column.str.replace(PLAIN, "", regex=True))
    for word in words:
        column, found, value = word.partition("=")
        if not found:
            having = [key for key in table if plain[key].eq(word).any()]
            if len(having) != 1:
                raise ValueError(
                    f"{name}: {word!r} is in {having or 'no column'}; write COLUMN={word}"
                )
            column, value = having[0], word
        if column not in table:
            raise ValueError(f"{name}: no column {column!r}; use one of {list(table)}")
        chosen[column] = value
    return table[(plain[list(chosen)] == pd.Series(chosen)).all(axis=1)]


def number(row: pd.Series, column: str, form: str, *, interval: bool = False) -> str:
    """A cell in the form of the number `form`, with its interval if asked for."""
    if column.endswith(SEES):
        return f"{_sees(row, column.removesuffix(SEES)):.{len(form.partition('.')[2])}f}"
    turned, column = column.startswith("-"), column.removeprefix("-")
    unit = next((unit for unit in UNITS if column + unit in row), None)
    if unit is None:
        raise ValueError(f"no column {column!r}; use one of {list(row.index)}")
    values = _values(row[column + unit])
    if interval and len(values) == 1:
        values += _ends(row, column, unit)
    values = [-value if turned else value for value in values[: 3 if interval else 1]]
    if len(values) != (3 if interval else 1):
        raise ValueError(f"{row[column + unit]!r} has no {'interval' if interval else 'number'}")
    signed, decimals = form[0] in "+-", len(form.partition(".")[2])
    first, *ends = (round(value, decimals) + 0.0 for value in (values[0], *sorted(values[1:])))
    if not signed and first < 0:
        raise ValueError(f"{first} is below 0, where the words suppose that it is not")
    shape = f"{'+' if signed else ''},.{decimals}f"
    return f"{first:{shape}}" + (f" ({ends[0]:{shape}} to {ends[1]:{shape}})" if ends else "")


def _ends(row: pd.Series, column: str, unit: str) -> list[float]:
    """The ends of a number's interval, if it has one."""
    for start in (f"{column}_", ""):
        names = [f"{start}{end}{unit}" for end in ("low", "high")]
        if set(names) <= set(row.index):
            return [value for name in names for value in _values(row[name])]
    return []


def _sees(row: pd.Series, column: str) -> float:
    """The smallest effect that is seen with 80 % power. Raises: ValueError without an interval."""
    from relevit.evaluate.intervals import smallest_effect  # loads torch

    ends = _ends(row, column, next((unit for unit in UNITS if column + unit in row), ""))
    if not ends:
        raise ValueError(f"{column!r} has no interval")
    earlier = row.get("run") == "study"  # its rule took the spread of seeds as known
    freedom = np.inf if earlier or float(row["seeds"]) < 2 else float(row["seeds"]) - 1
    return float(smallest_effect((ends[1] - ends[0]) / 2, freedom))


def _values(text: str) -> list[float]:
    """The number of a cell; of a note, which may have its interval beside it, all numbers."""
    try:
        return [float(text)]
    except ValueError:
        return [float(found.replace(",", "")) for found in re.findall(NUMBER, text)]


def duration(seconds: float) -> str:
    """As people say it: below a minute to 5 seconds, else to a minute."""
    if seconds < 57:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{max(1, round(seconds / 60))} min"


def quoted(found: re.Match[str]) -> str:
    """What should stand in the place of a number with its comment. Raises: ValueError."""
    source = found["source"] or found["of_time"]
    name, *words, column = shlex.split(source)
    rows = rows_of(name, *words)
    if column == "count":
        return f"{len(rows)}<!--={source}-->"
    if column.startswith(SUM):
        column = column.removeprefix(SUM)
        rows = pd.DataFrame({column: [str(pd.to_numeric(rows[column]).sum())]})
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows, and not one")
    row = rows.iloc[0].rename(lambda name: re.sub(PLAIN, "", name))
    if found["time"]:
        return f"{duration(float(row[column]))}<!--={source}-->"
    text = number(row, column, found["number"], interval=bool(found["interval"]))
    return f"{text}<!--={source}-->"


def written(text: str, where: object) -> str:
    """A text with its numbers and tables as the results have them. Raises: ValueError."""

    def checked(found: re.Match[str]) -> str:
        try:
            if found.re is QUOTED:
                return quoted(found)
            return f"{found[1]}{table(found['name'])}\n{found[3].strip()}"
        except (ValueError, KeyError) as error:
            raise ValueError(f"{where}: {found[0][:90]}: {error}") from error

    if stray := re.search(r"<!--(=| table:).*", QUOTED.sub("", BLOCK.sub("", text))):
        raise ValueError(f"{where}: {stray[0][:90]}: no number stands before it, or no end behind")
    return QUOTED.sub(checked, BLOCK.sub(checked, text))


# --- Tables ---

Spec = str | Callable[[pd.Series], str]
Table = tuple[pd.DataFrame, dict[str, Spec]]


def cell(row: pd.Series, spec: Spec) -> str:
    """What a table shows of a row: `column`, or `column:form` for its number in that form.

    A form that ends in ~ takes the interval along, where there is one.
    """
    if not isinstance(spec, str):
        return spec(row)
    column, _, form = spec.partition(":")
    if not form:
        return row[column] if column in row else f"`{row[column.strip('`')]}`"
    unit = next(unit for unit in UNITS if column + unit in row)
    if row[column + unit] == "":
        return ""
    wide = form.endswith("~") and bool(_ends(row, column, unit))
    return number(row, column, form.rstrip("~"), interval=wide)


def table(name: str) -> str:
    """A table as Markdown."""
    if name in TABLES:
        rows, cells = TABLES[name]()
        heads, body = (
            [*cells],
            [[cell(row, c) for c in cells.values()] for _, row in rows.iterrows()],
        )
    else:
        found = read(name)
        heads = ["" if str(head).startswith("Unnamed") else str(head) for head in found]
        body = found.to_numpy().tolist()
    lines = [heads, ["---"] * len(heads), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _sorted(rows: pd.DataFrame, *columns: str, falling: bool = False) -> pd.DataFrame:
    order = {"key": lambda values: values.astype(float), "kind": "stable"}
    return rows.sort_values([*columns], ascending=not falling, **order)


def _changes(*sets: str) -> Table:
    """Set by set: the paper's change, the original, and the change with, without, and added."""
    paper = pd.read_csv(PAPER / "robustness.csv").query(
        "table in ('main_T1', 'main_T2') and metric == 'top1'"
    )
    arms = ("method == 'ours' and masks == 'annotated'", "method == 'original'")
    ours, before = (paper.query(arm).groupby("dataset")["value_pct"].mean() for arm in arms)
    theirs = ours - before
    theirs["shifted_average"] = theirs[list(SHIFTED)].mean()
    whole = {"shifted_average": "seven shifted sets"}

    def strong(spec: str) -> Spec:
        return lambda row: f"**{cell(row, spec)}**" if row["dataset"] in whole else cell(row, spec)

    return pd.concat([rows_of("added", f"dataset={name}") for name in sets]), {
        "set": lambda row: whole.get(row["dataset"], f"`{row['dataset']}`"),
        "paper": lambda row: f"{theirs[row['dataset']]:+.1f}",
        "original (%)": "original:0.0",
        "with relevance": strong("with:+0.0~"),
        "without": "without:+0.0~",
        "relevance adds": strong("adds:+0.0~"),
    }


def _rate(row: pd.Series) -> str:
    return f"{float(row['lr']):.1e}".replace("e-0", "e-")


def _cures() -> Table:
    """All arms of the study, with exact masks of three images a class."""
    return _sorted(rows_of("cures"), "change_pts", falling=True), {
        "arm": "`arm`",
        "rate": _rate,
        "change": "change:+0.0~",
        "lead over `relevance`": "lead:+0.0~",
        "`val`": "val:+0.0",
        "worst class": "worst_class:0",
        "gap": "background_gap:0.0",
    }


FOLLOWED = ("label", "relevance", "swap", "both", "swap_5e-6", "both_5e-6")


def _along(**columns: str) -> Table:
    """The change of the followed arms, a column each for what the words choose."""

    def of(words: str) -> Spec:
        def write(row: pd.Series) -> str:
            found = rows_of("cures", f"arm={row['arm']}", *shlex.split(words))
            return cell(found.iloc[0], "change:+0.0~") if len(found) else "as exact"

        return write

    heads = {head.replace("_", " "): of(words) for head, words in columns.items()}
    return pd.DataFrame({"arm": FOLLOWED}), {"arm": "`arm`"} | heads


def _maps() -> Table:
    return _sorted(rows_of("maps"), "change_pts", falling=True), {
        "arm": "`arm`",
        "change": "change:+0.0~",
        "over GAE": "over_gae:+0.0~",
        "`val`": "val:+0.0",
        "on the object, by LibraGrad": "on_object_libra:0.0",
        "rate": _rate,
    }


def _doses() -> Table:
    return rows_of("notes/doses"), {
        "at home in training": lambda row: f"{row['home_pct']} %",
        "background gap before": "gap:0",
        "relevance adds": "adds:+0.0~",
        "seeds": "seeds:0",
    }


def _study() -> Table:
    """The settings of the study: all classes, both halves of them, and what else changed."""
    arms, looks = read("notes/study_arms"), read("notes/study_gaps").set_index("Unnamed: 0")

    def half(classes: str, column: str) -> Spec:
        found = arms[arms["classes"] == classes].set_index("setting")[column]
        return lambda row: found[row["setting"]]

    return arms[arms["classes"] == "all"], {
        "setting": "setting",
        "with": "with",
        "without": "without",
        "relevance adds": "relevance adds",
        "adds to A": half("A", "relevance adds"),
        "adds to B": half("B", "relevance adds"),
        "B, with": half("B", "with"),
        **{f"{name}, with": lambda row, name=name: looks.loc[f"{row['setting']}, with", name]
           for name in ("`val`", "gap (points)")},
    }  # fmt: skip


def _controls(kind: str) -> Table:
    """Finetuned with masks that know less, from originals trained for longer, or for longer."""
    rows = read("controls")
    ends = {
        "with relevance": "change:+0.0~",
        "relevance adds": "adds:+0.0~",
        "`val`": "val:+0.0",
        "gap after": "gap:0.0",
    }
    if kind == "masks":
        return rows.query("world == 'own' and arm == 'relevance'"), {
            "classes": "classes",
            "masks": "`masks`",
            "overlap with the exact (%)": "overlap:0",
            **ends,
            "of what exact ones add (%)": "share:0~",
            "exact masks lead by": "exact_leads:+0.0~",
        }
    animals = rows.query("classes == 'animals'")
    finetuned = animals.query("masks == 'annotated' and arm.str.startswith('relevance')")
    if kind == "steps":
        return finetuned.query("world == 'own'"), {"steps": "steps:0", **ends}

    def after(spec: str) -> Spec:
        """What became of the original of a row; nothing where nobody finetuned it."""
        made = finetuned.query("arm == 'relevance'").drop_duplicates("world").set_index("world")
        return lambda row: cell(made.loc[row["world"]], spec) if row["world"] in made.index else ""

    originals = animals.query("arm == 'original'")
    return _sorted(originals, "home_pct", "original_images"), {
        "images of the original": "original_images:0",
        "at home (%)": "home:0",
        "right on its own kind (%)": "known:0.0",
        "gap before": "gap:0.0",
        **{head: after(spec) for head, spec in ends.items()},
    }


def _why() -> Table:
    """What each loss of maps adds by either gradient, with masks that know the object or do not."""
    return read("why"), {
        "arm": "`arm`",
        "masks": "`masks`",
        "rate": "lr",
        "adds to labels": "adds:+0.0~",
        "change": "change:+0.0~",
        "`val`": "val:+0.0",
        "on the object (%)": "on_object:0.0",
        "gap after": "background_gap:0.0",
        "loss (%)": "loss:0",
    }


def _why_asked() -> Table:
    """Each question of the plan, with what was predicted."""
    told = read("why_predicted").set_index("question")["predicted"]
    return read("why_contrasts"), {
        "question": "question",
        "points": "effect:+0.0~",
        "predicted": lambda row: told[row["question"]],
        "on the object": "on_object:+0.0~",
        "gap": "background_gap:+0.0~",
    }


def _dose() -> Table:
    """What each arm adds in each world, on other backgrounds and on photographs as they are."""
    return read("dose"), {
        "world": "`world`",
        "arm": "`arm`",
        "masks": "`masks`",
        "rate": "lr",
        "adds to labels": "adds:+0.0~",
        "on photographs": "adds_photo:+0.0~",
        "change": "change:+0.0~",
        "gap after": "background_gap:0.0",
        "on the object (%)": "on_object:0.0",
    }


def _dose_asked() -> Table:
    """Each question of the plan on other backgrounds, with what was predicted."""
    told = read("dose_predicted").set_index("question")["predicted"]
    return read("dose_contrasts").query("on == 'away and never'"), {
        "question": "question",
        "points": "effect:+0.0~",
        "predicted": lambda row: told.get(row["question"], ""),
    }


def _why_apart() -> Table:
    """What the published gradient gains of each loss by itself, with something held."""
    return read("why_held_by_loss").query("not held.str.contains(' and ')"), {
        "loss": "`loss`",
        "held": "`held`",
        "the published gradient gains": "gradient_pts:+0.0~",
        "slope of what is held": "slope:+0.0~",
    }


def _why_explained() -> Table:
    """Each part of what an explanation predicts, by loss."""
    losses = {"GAE": "relevance", "read-out": "readout", "L1 on GAE": "l1"}
    return read("why_explained"), {"explanation": "explanation", "predicts": "part"} | losses


PHOTO_LEADS = {
    "change": "change:+0.0~",
    "over `label`": "over_label:+0.0~",
    "over `relevance`": "over_relevance:+0.0~",
    "over `swap`": "over_swap:+0.0~",
    "`val`": "val:+0.0~",
    "gap": "gap:+0.0",
}


def _photos() -> Table:
    """All arms on photographs, against the originals of their seeds."""
    rows = read("photos")
    return _sorted(rows[rows["change_pts"] != ""], "change_pts", falling=True), {
        "arm": "`arm`",
        "rate": lambda row: _rate(row) if float(row["lr"]) else "",
        **PHOTO_LEADS,
        "by": "gap_change:+0.0~",
        "on the object": "on_object:0",
        "seeds": "seeds:0",
        "seconds": "seconds:0",
    }


def _photos_by(*places: str, spec: str = "top1:0.0") -> Table:
    """Each arm on photographs that has its own masks, the right ones, on these sets."""

    def of(place: str) -> Spec:
        return lambda row: cell(
            rows_of("photos_sets", f"arm={row['arm']}", f"dataset={place}").iloc[0], spec
        )

    rows = read("photos")
    plain = ~rows["arm"].str.contains("_others|_ellipse|_tokencut|_5e-6")
    return rows[plain], {"arm": "`arm`"} | {f"`{place}`": of(place) for place in places}


def _photos_doses() -> Table:
    return read("photos_doses"), {
        "originals": "`original`",
        "seed": "seed",
        "gap": "gap:+0.0~",
        "the line": "line:+0.0",
        "relevance adds on the domains": "adds:+0.0~",
        "on `other`": "adds_other:+0.0~",
    }


def _photos_elsewhere() -> Table:
    rows = read("photos_elsewhere")
    return rows[rows["change_pts"] != ""], {"where": "where", "arm": "`arm`", **PHOTO_LEADS}


def _photos_rates() -> Table:
    return read("photos_rates"), {
        "arm": "`arm`",
        "rate": _rate,
        "top-1 falls by": "drop:+0.0",
        "class loss before": "class_loss_before:0.000",
        "after": "class_loss:0.000",
        "passes": "passes",
        "taken": "taken",
    }


def _audit_known() -> Table:
    """An audit of each original, by exact masks and by TokenCut's, the most leaning first."""
    rows = read("audit_known")
    rows = rows[rows["model"].str.startswith("original") & (rows["draw"] == "0")]

    def learned(pattern: str, other: str) -> Spec:
        return lambda row: (re.findall(pattern, row["model"]) or [other])[0]

    def of(masks: str, spec: str) -> Spec:
        def write(row: pd.Series) -> str:
            found = rows[(rows["model"] == row["model"]) & (rows["masks"] == masks)]
            return cell(found.iloc[0], spec)

        return write

    home = learned(r"home_([\d.]+)\.", "0.95")
    return _sorted(rows[rows["masks"] == "annotated"], "redrawn_pts", falling=True), {
        "learned from": learned(r"images_(\d+)", "6400"),
        "at home (%)": lambda row: f"{100 * float(home(row)):.0f}",
        "redrawn": "redrawn:+0.0~",
        "audit, exact masks": of("annotated", "gap:+0.0~"),
        "verdict": of("annotated", "verdict"),
        "audit, TokenCut's masks": of("tokencut", "gap:+0.0~"),
        "its verdict": of("tokencut", "verdict"),
    }


def _audits_of_models() -> Table:
    """Audits of leans that were planted in photographs."""
    return read("notes/audits_of_models"), {
        "model": "model", "planted (%)": "planted_pct", "right at home (%)": "right_at_home_pct",
        "redrawn": "redrawn:+0.0~", "audit, exact masks": "audit:+0.0~", "verdict": "verdict",
        "audit, TokenCut's masks": "tokencut:+0.0~", "its verdict": "tokencut_verdict",
        "seconds": "seconds",
    }  # fmt: skip


def _judge_groups(zero: str) -> Table:
    """In which group of equals each method is on each model, from a zero; the lowest sum first.

    In brackets where it is not `beyond`.
    """
    rows = read("judge")
    rows = rows[(rows["group"] != "") & (rows["zero"] == zero)]
    bracketed = "(" + rows["group"] + ")"
    shown = rows.assign(group=rows["group"].where(rows["beyond"] == "yes", bracketed))
    wide = shown.pivot(index="method", columns="model", values="group")
    sums = rows["group"].astype(int).groupby(rows["method"]).sum()
    order = sums.sort_values(kind="stable").index
    return pd.DataFrame({"method": order}), {"method": "`method`"} | {
        f"`{model}`": lambda row, model=model: wide.loc[row["method"], model]
        for model in read("judge_models")["model"]
    }


def _judge_first() -> Table:
    """On how many models each method is in the first group and `beyond`, by zero and worth."""
    rows = read("judge").query("beyond == 'yes'")
    first = pd.DataFrame({
        f"{head}, {words}": rows[(rows["zero"] == zero) & (rows[group] == "1")]["method"]
        .value_counts()
        for zero, head in {"own": "own zero", "least": "least value"}.items()
        for group, words in {"group": "without a part", "subsets_group": "Shapley"}.items()
    }).fillna(0).astype(int)  # fmt: skip
    order = first.sum(axis=1).sort_values(ascending=False, kind="stable").index
    table = first.loc[order].rename_axis("method").reset_index().astype(str)
    return table, {"method": "`method`"} | {name: name for name in first}


def _judge(model: str) -> Table:
    """A row a method that `relevit judge` has judged, by groups of equals from its own zero."""
    rows = read("judge")
    rows = rows[rows["model"] == model]
    least = rows[rows["zero"] == "least"].set_index("method")

    def of_least(spec: str) -> Spec:
        return lambda row: cell(least.loc[row["method"]], spec)

    return rows[rows["zero"] == "own"], {
        "method": lambda row: row["method"] if row["method"][0] == "(" else f"`{row['method']}`",
        "own zero: group": "group",
        "truth (%)": "truth:0~",
        "shuffled": "shuffled:0",
        "least value: group": of_least("group"),
        "truth (%) ": of_least("truth:0~"),
        "shuffled ": of_least("shuffled:0"),
        "mIoU (%)": "miou:0~",
        "erasing (points)": "erasing:+0~",
    }


def _judge_models() -> Table:
    """What the truth is of each model that the judge has."""
    return read("judge_models"), {
        "model": "`model`",
        "animal": "animal:0.0~",
        "first thing": "thing_1:+0.00~",
        "second thing": "thing_2:+0.00~",
        "texture": "texture:0.0~",
        "gap of two parts (%)": "gap:0",
        "(shapley), truth (%)": "shapley:0~",
        "best method": "`best_method`",
        "its truth (%)": "best:0~",
        "(shapley) less the best, own zero": "shapley_leads_own:+0.0~",
        "least value": "shapley_leads_least:+0.0~",
        "both worths order methods alike, own zero": "worths_own:+0.00",
        "least value ": "worths_least:+0.00",
    }


def _zero(row: pd.Series) -> str:
    return {"own": "a map's own zero", "least": "its least value"}[row["zero"]]


def _judge_agreement() -> Table:
    """Whether the judge's models agree on the order of methods."""
    return read("judge_agreement"), {
        "mass is counted from": _zero,
        "worth": lambda row: {"deletion": "without a part", "subsets": "Shapley"}[row["worth"]],
        "models": "models",
        "methods": "methods",
        "Kendall's W": "w:0.00",
        "p": "p:0.0000",
        "lowest rank correlation of two models": "lowest:+0.00",
    }


def _judge_draws() -> Table:
    """Whether the judge's draws of scenes agree."""
    return read("judge_draws"), {
        "model": "`model`",
        "mass is counted from": _zero,
        "rank correlation of two draws (lowest)": "lowest:0.00",
        "standard deviation over draws (points)": "spread:0.0",
        "first": lambda row: ", ".join(f"`{name}`" for name in row["first"].split()),
    }


def write_judged() -> None:
    """The judge's CSV files, from its records."""
    from reproduction.measures import judged  # loads torch

    for name, text in judged.files(judged.read_records(RESULTS / "judge")).items():
        (RESULTS / name).write_text(text, encoding="utf-8")


def _decide() -> Table:
    """Each claim that `make decide` judges, beside its plan and what was predicted."""

    def first(row: pd.Series) -> str:
        parts = row["number"].split("; ")
        return "; ".join(parts[:2]) + (f"; and {len(parts) - 2} more" if parts[2:] else "")

    return read("decide"), {
        "claim": "id",
        "`make reproduce`": "workshop",
        "planned": "planned",
        "predicted": "predicted",
        "`make decide`": "verdict",
        "numbers": lambda row: first(row) or row["reason"],
    }


def _stages() -> Table:
    """What each notebook costs, and the claims that its run in `workshop` decides."""
    claims = read("claims").query("verdict in ('holds', 'contradicted')")

    def decides(row: pd.Series) -> str:
        found = claims.loc[claims["evidence"].str.contains(row["notebook"]), "id"]
        return ", ".join(found) or "none"

    def takes(preset: str) -> Spec:
        seconds = rows_of("times", preset).set_index("notebook")["seconds"].astype(float)
        return lambda row: duration(seconds[row["notebook"]])

    return read("notes/lessons"), {
        "notebook": "`notebook`",
        "quick": takes("quick"),
        "workshop": takes("workshop"),
        "claims decided": decides,
    }


TABLES: dict[str, Callable[[], Table]] = {
    "headline": lambda: _changes("val", "shifted_average"),
    "sets": lambda: _changes(*SETS, "shifted_average"),
    "cures": _cures,
    "maps": _maps,
    "controls_masks": lambda: _controls("masks"),
    "controls_originals": lambda: _controls("originals"),
    "controls_steps": lambda: _controls("steps"),
    "why": _why,
    "why_asked": _why_asked,
    "why_explained": _why_explained,
    "why_apart": _why_apart,
    "dose": _dose,
    "dose_asked": _dose_asked,
    "photos": _photos,
    "photos_domains": lambda: _photos_by("art_painting", "cartoon", "sketch", spec="change:+0.0~"),
    "photos_lean": lambda: _photos_by("original", "control", "same", "other", "grey", "filled"),
    "photos_doses": _photos_doses,
    "photos_elsewhere": _photos_elsewhere,
    "photos_rates": _photos_rates,
    "decide": _decide,
    "doses": _doses,
    "stages": _stages,
    "study": _study,
    "audit_known": _audit_known,
    "audits_of_models": _audits_of_models,
    "judge_first": _judge_first,
    "judge_own": lambda: _judge_groups("own"),
    "judge_least": lambda: _judge_groups("least"),
    "judge_dinov2": lambda: _judge("dinov2-s8"),
    "judge_mae": lambda: _judge("tiny-mae"),
    "judge_models": _judge_models,
    "judge_agreement": _judge_agreement,
    "judge_draws": _judge_draws,
    "prices": lambda: _along(
        exact="", TokenCut="masks=tokencut", boxes="masks=boxes", one_in_three="masks=a_third"
    ),
    "counts": lambda: _along(**{
        "1 image": "images_per_class=1", "3 images, at home 95 %": "",
        "10 images": "images_per_class=10", "at home 80 %": "'world=home 0.8'",
        "at home 100 %": "'world=home 1'",
    }),
}  # fmt: skip


# --- Files, and what is typed in them ---

# What looks measured. What papers, parameters and the design say is in constants.yaml.
MEASURED = re.compile(
    rf"""(?<![\w.,/^{{(-])[+-]\d[\d.,]*      # a sign
    | \({NUMBER}[ ]to[ ]{NUMBER}\)           # an interval
    | (?<![\w.,/-])\d[\d,]*\.\d+(?![\w.]*\w)  # a fraction, and no version
    | (?<![\w.])\.\d+
    | (?<![\w.,-]){NUMBER}[ ](?:%|(?:to|of|and)[ ]{NUMBER}|±
        |(?:points?|percent|times|s|ms|min|(?:milli)?seconds?|minutes?|hours?)\b)
    """,
    re.VERBOSE,
)
UNREAD = re.compile(
    r"(?ms)^[`~]{3,}.*?^[`~]{3,}$|\$\$.*?\$\$|`[^`\n]*`|\$[^$\n]+\$|<!--.*?-->"
    r"|\]\([^)]*\)|^figure: [^|]*"
)


@cache
def constants() -> dict[str, list[str]]:
    """Patterns of what may be typed, by page."""
    return yaml.safe_load((ROOT / "docs" / "constants.yaml").read_text(encoding="utf-8"))


def typed(text: str, page: str = "") -> list[str]:
    """Numbers that look measured, and that neither a comment nor the constants cover, in words."""
    text = UNREAD.sub(" ", QUOTED.sub("", BLOCK.sub("", text)))
    for phrase in [*constants()["everywhere"], *constants().get(page, [])]:
        text = re.sub(phrase, "", text)
    near = (text[max(0, m.start() - 30) : m.end() + 20] for m in MEASURED.finditer(text))
    return [" ".join(words.split()) for words in near]


def pages() -> list[Path]:
    """All prose that people read."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("workshop/*.md")]
    found = [path for path in found if path.name not in NOT_RESULTS]
    return sorted(found) + sorted(ROOT.glob("notebooks/**/*.ipynb"))


def prose(path: Path) -> str:
    """A page's Markdown; of a notebook that of its cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return "\n\n".join("".join(cell["source"]) for cell in _cells(json.loads(text)))


def _cells(notebook: dict) -> Iterator[dict]:
    return (cell for cell in notebook["cells"] if cell["cell_type"] == "markdown")


def rewritten(path: Path) -> str:
    """A file's text with its numbers as the results have them. Raises: ValueError."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return written(text, path.relative_to(ROOT))
    notebook = json.loads(text)
    for each in _cells(notebook):
        where = f"{path.relative_to(ROOT)}, cell {each['id']}"
        each["source"] = written("".join(each["source"]), where).splitlines(keepends=True)
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def main() -> int:
    """Write all pages anew, or none; 2 where a number has no source."""
    named = {path.relative_to(ROOT).as_posix(): path for path in pages()}
    try:
        write_judged()
        texts = {path: rewritten(path) for path in named.values()}
    except ValueError as error:
        print(f"numbers: {error}", file=sys.stderr)
        return 2
    changed = [path for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    for path in changed:
        path.write_text(texts[path], encoding="utf-8")
    print(f"numbers: wrote {', '.join(path.name for path in changed) or 'nothing new'}")
    found = [(name, words) for name, path in named.items() for words in typed(prose(path), name)]
    for name, words in found:
        print(
            f"{name}: a number without a source, see docs/quoted.py: ... {words} ...",
            file=sys.stderr,
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
