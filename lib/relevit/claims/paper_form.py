"""Our runs in the form of RobustViT's tables, and beside the paper's numbers.

Rows are those of `relevit.paper.published`: one number each, with the columns ROW.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

import pandas as pd
from pandas.io.formats.style import Styler

from relevit.claims.registry import signed
from relevit.data.cutouts import TEST_SETS
from relevit.paper.published import (
    ALL,
    CELL,
    FINETUNED,
    KIND,
    LINEAR,
    METRICS,
    ORIGINAL,
    OURS,
    paper_variants,
    published_name,
    published_rows,
    with_reference,
)

MISSING, NOT_RUN = "missing", "–"
PRINTED_PTS = 0.05  # half of the last digit that the paper prints: a smaller change has no sign
STANDS_FOR = "{} (for {})"  # our model that takes the place of one of the paper's
DIFFERENCE = "ours - paper"  # of the same model
# Columns that tell kinds of runs apart, in 03_comparison and in 08_ablations.
KINDS_OF_RUN = ("method", "protocol", "masks", "variant", "images_per_class", "classes")
MARK = "*"  # of a change whose interval does not hold 0


# Our runs as rows.


def run_rows(accuracies: pd.DataFrame, missing: Iterable[Mapping[str, str]] = ()) -> pd.DataFrame:
    """Our rows for T1, T2 and the DINO tables, means over seeds, from `03_comparison`.

    `accuracies` as in `registry.TABLES`; `missing` are that stage's missing runs
    (`run`: model.method.protocol.masks.seed). A kind of run that is missing altogether gets
    rows without a value. Methods: original, ours, gradmask, rrr, the baselines as described
    with their protocol, dino_linear and dino_finetuned.
    """
    lost = Counter(_lost_kind(run["run"]) for run in missing)
    rows = _long(accuracies)
    rows["method"] = [
        row_name(*pair) for pair in zip(rows["method"], rows["protocol"], strict=True)
    ]
    rows["masks"] = rows["masks"].where(rows["masks"] != "", "none")
    rows = _over_runs(pd.concat([_originals(rows), rows]))
    for kind, count in lost.items():
        of_kind = (rows[KIND[:3]] == list(kind)).all(axis=1)
        rows.loc[of_kind, "lost"] = count
        if not of_kind.any():
            empty = rows[CELL].drop_duplicates()
            empty = empty.assign(**dict(zip(KIND, (*kind, ALL), strict=True)), seeds=0, lost=count)
            rows = pd.concat([rows, empty], ignore_index=True)
    return with_reference(rows)


def dino_rows(rows: pd.DataFrame, dino: str, supervised: str) -> pd.DataFrame:
    """Those rows of `run_rows` that the DINO tables have, compared as there.

    The models are called `ours (for theirs)`, which `side_by_side` understands, or by the
    paper's name where they are the paper's.
    """
    masks = rows["masks"].isin(["tokencut", "none"])
    chosen = rows["method"].isin([ORIGINAL, OURS, LINEAR]) & masks
    rows = rows[chosen & rows["model"].isin([dino, supervised])]
    own = (rows["model"] == dino) & (rows["method"] == ORIGINAL)
    rows = rows.assign(method=rows["method"].where(~own, FINETUNED))
    theirs = {dino: "DINO-B", supervised: "DeiT-B"}
    rows = with_reference(rows.replace({"model": theirs}))
    ours = {
        other: STANDS_FOR.format(own, other)
        for own, other in theirs.items()
        if published_name(own) != other
    }
    return rows.replace({"model": ours})


def variant_rows(ablations: pd.DataFrame) -> pd.DataFrame:
    """Our rows for T4, T12 and supplement T8, T9, means over seeds, from `08_ablations`."""
    rows = _long(ablations.assign(masks="annotated"))
    names = rows["variant"].astype(str)
    rows["method"] = names.replace(paper_variants(set(names))).replace({"full": OURS})
    return with_reference(_over_runs(pd.concat([_originals(rows), rows])))


def seed_rows(changes: pd.DataFrame, model: str) -> pd.DataFrame:
    """Our rows for T8 and T9 from `robustness.change_table`: mean and std over seeds."""
    parts = []
    for metric in METRICS:
        common = {
            "model": model,
            "classes": ALL,
            "dataset": changes["dataset"],
            "metric": metric,
            "seeds": changes["seeds"],
            "lost": 0,
        }
        before, after = changes[f"original_{metric}_pct"], changes[f"ours_{metric}_pct"]
        std = changes[f"ours_{metric}_std_pct"]
        ours = {"method": OURS, "masks": "annotated", "value_pct": after, "std_pts": std}
        original = {"method": ORIGINAL, "masks": "none", "value_pct": before}
        parts += [pd.DataFrame(common | original), pd.DataFrame(common | ours)]
    return with_reference(pd.concat(parts, ignore_index=True))


def split_rows(accuracies: pd.DataFrame, model: str) -> pd.DataFrame:
    """Our rows for T10 and T11, means over seeds, from `split_accuracies` of `03_robustness`.

    Each seed has classes A of its own, so the original is evaluated on those of each seed too.
    """
    is_original = accuracies["weights"].astype(str) == "original"
    rows = accuracies.assign(
        model=model,
        method=is_original.map({True: ORIGINAL, False: OURS}),
        masks=is_original.map({True: "none", False: "annotated"}),
        seed=accuracies["model_run"],
    )
    return with_reference(_over_runs(_long(rows)))


def map_rows(table: pd.DataFrame, model: str) -> pd.DataFrame:
    """Our rows for T3 from `finetuned_segmentation`, or for T12 from `finetuned_perturbation`."""
    if "direction" in table:
        table = table.assign(
            metric=table["direction"].astype(str) + "_auc_pct",
            value_pct=table["auc_pct"],
            dataset="perturbation",
        )
    else:
        table = table.assign(dataset="segmentation")
    is_original = table["model_run"].astype(str) == ORIGINAL
    rows = table.assign(
        model=model,
        masks="none",
        classes=ALL,
        method=[ORIGINAL if o else OURS for o in is_original],
    )
    return with_reference(_over_runs(rows))


def basis(table: pd.DataFrame) -> str:
    """What a table of runs rests on, by model: `tiny, 100 images a set, 1 to 2 seeds`.

    `table` is a result table with model, seed and images. Seeds are those of
    each kind of run.
    """
    kinds = [name for name in KINDS_OF_RUN if name in table]
    texts = []
    for model, rows in table.groupby("model", sort=False, observed=True):
        seeds = rows.groupby(kinds, observed=True)["seed"].nunique()
        images, seeds = _range(rows["images"]), _range(seeds)
        texts.append(f"{model}, {images} images a set, {seeds} seed{'s' * (seeds != '1')}")
    return "; ".join(texts) or "no run ended"


def _range(numbers: pd.Series) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _lost_kind(run: str) -> tuple[str, str, str]:
    """Model, name of the row and masks of a run, from `model.method.protocol.masks.seedN`.

    Raises: ValueError for another form.
    """
    parts = run.split(".")
    if len(parts) != 5:
        raise ValueError(f"run_rows: {run!r}; need model.method.protocol.masks.seedN")
    model, method, protocol, masks, _ = parts
    return model, row_name(method, protocol), masks


def row_name(method: str, protocol: str) -> str:
    """What a run's row is called: the paper's name where it has one."""
    if method == "relevance":
        return OURS if protocol != "described" else f"{OURS}, {protocol}"
    if method == "linear_probe":
        return LINEAR
    return method if protocol == "published" else f"{method}, {protocol}"


def _long(accuracies: pd.DataFrame) -> pd.DataFrame:
    """One row a metric, with the reference where the table has the original's accuracy."""
    parts = []
    for metric in METRICS:
        part = accuracies.assign(metric=metric, value_pct=accuracies[f"{metric}_pct"])
        if f"original_{metric}_pct" in accuracies:
            part["reference_pct"] = accuracies[f"original_{metric}_pct"]
        parts.append(part)
    rows = pd.concat(parts, ignore_index=True)
    rows["classes"] = rows["classes"] if "classes" in accuracies else ALL
    return rows.astype({name: str for name in ("model", "dataset", "masks") if name in rows})


def _originals(rows: pd.DataFrame) -> pd.DataFrame:
    """The original's rows, one a model and cell. They come first, as in the paper."""
    rows = rows.drop_duplicates(["model", *CELL])
    return rows.assign(method=ORIGINAL, masks="none", value_pct=rows["reference_pct"], seed=0)


def _over_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean and std over runs; the std of the original's own rows is left out."""
    groups = rows.groupby([*KIND, *CELL], sort=False, observed=True)["value_pct"]
    table = pd.DataFrame(
        {"value_pct": groups.mean(), "std_pts": groups.std(), "seeds": groups.size(), "lost": 0}
    ).reset_index()
    is_original = table["method"] == ORIGINAL
    table.loc[is_original, ["std_pts", "seeds"]] = [math.nan, 1]
    return table


# Rows as a table.


def layout(rows: pd.DataFrame, metrics: Iterable[str] = (), changes: bool = False) -> pd.DataFrame:
    """Rows in the paper's form: models and methods down, sets and metrics across; text.

    A cell is a percentage, ± std where there is one, `missing` where a run is missing, and a
    dash where none was meant to be. `changes` adds the effect in brackets, as T2 does. Rows of
    `beside` say whose they are.
    """
    rows = rows if not metrics else rows[rows["metric"].isin(list(metrics))]
    rows = rows.assign(cell=[_cell(row, changes) for row in rows.to_dict("records")])
    kinds = [name for name in KIND if rows[name].nunique() > 1 or name in KIND[:2]]
    kinds = ["source", *kinds] if "source" in rows else kinds
    wide = rows.pivot(index=kinds, columns=CELL, values="cell")
    order = rows[kinds].drop_duplicates().itertuples(index=False, name=None)
    columns = sorted(rows[CELL].drop_duplicates().itertuples(index=False, name=None), key=_place)
    wide = wide.reindex(index=pd.MultiIndex.from_tuples(list(order), names=kinds), columns=columns)
    if wide.columns.get_level_values("metric").nunique() == 1:
        wide.columns = wide.columns.get_level_values("dataset")
    elif wide.columns.get_level_values("dataset").nunique() == 1:
        wide.columns = wide.columns.get_level_values("metric")
    return wide.fillna(NOT_RUN)


def beside(published: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """The paper's rows and then ours, for one `layout`; a column `source` tells them apart.

    Of ours only the columns (sets and metrics) that the paper has. Of the paper's own models
    follows the difference, ours minus paper, of each cell that both have.
    """
    printed = published[CELL].drop_duplicates()
    ours = ours.assign(model=[published_name(model) or model for model in ours["model"]])
    parts = [published.assign(source="paper"), ours.merge(printed, on=CELL).assign(source="ours")]
    both = ours.merge(
        published[[*KIND, *CELL, "value_pct"]], on=[*KIND, *CELL], suffixes=("", "_printed")
    )
    value = both["value_pct"] - both.pop("value_pct_printed")
    both = both.assign(value_pct=value, std_pts=math.nan, source=DIFFERENCE)
    return pd.concat([*parts, both] if len(both) else parts, ignore_index=True)


def side_by_side(
    published: pd.DataFrame, ours: pd.DataFrame, by_model: bool = False
) -> pd.DataFrame:
    """The effect of each kind of row in the paper and in our runs, and whether signs agree.

    One of the paper's own models is compared with itself, where its rows are there; any other
    with the mean over the paper's models. `by_model` compares each with the one it stands for
    alone (its name is in brackets, see STANDS_FOR), as the DINO tables need.
    Columns: model (ours), method, masks, classes, dataset, metric, paper_pts (mean over the
    paper's models), paper_min_pts, paper_max_pts, ours_pts, ours_std_pts, seeds, lost,
    sign_agrees (NaN where ours is missing or a change rounds to 0.0).
    """
    keys = [*KIND[1:], *CELL, "place"]
    places = {model: _place_of(model) for model in ours["model"].unique()}
    if not by_model:
        known = set(published["model"])
        places = {model: place if place in known else "" for model, place in places.items()}
    theirs = published.assign(pts=published["value_pct"] - published["reference_pct"])
    theirs = pd.concat([theirs.assign(place=theirs["model"]), theirs.assign(place="")])
    theirs = theirs.dropna(subset="pts").groupby(keys)["pts"].agg(["mean", "min", "max"])
    theirs.columns = ["paper_pts", "paper_min_pts", "paper_max_pts"]
    mine = ours.assign(ours_pts=ours["value_pct"] - ours["reference_pct"])
    mine = mine.assign(place=mine["model"].map(places)).rename(columns={"std_pts": "ours_std_pts"})
    both = mine.merge(theirs.reset_index(), on=keys)
    agrees = [_same_sign(*pair) for pair in zip(both["paper_pts"], both["ours_pts"], strict=True)]
    both["sign_agrees"] = pd.Series(agrees, dtype="object")
    columns = [*theirs.columns, "ours_pts", "ours_std_pts", "seeds", "lost", "sign_agrees"]
    return both[[*KIND, *CELL, *columns]]


def sign_table(side: pd.DataFrame, metric: str | None = "top1") -> pd.DataFrame:
    """`side_by_side` for a report: `paper | ours` in each cell.

    The last columns: how many signs agree, and our seeds (of the set with the fewest).
    """
    rows = side if metric is None else side[side["metric"] == metric]
    rows = rows.assign(cell=[_pair(row) for row in rows.to_dict("records")])
    kinds = [name for name in KIND if rows[name].nunique() > 1 or name in KIND[:2]]
    column = "dataset" if rows["dataset"].nunique() > 1 else "metric"
    wide = rows.pivot(index=kinds, columns=column, values="cell").fillna(NOT_RUN)
    order = sorted(wide.columns, key=lambda name: _place((name, "")))
    known = rows.dropna(subset="sign_agrees").groupby(kinds)["sign_agrees"]
    counts = pd.DataFrame({"yes": known.sum(), "of": known.size()}).reindex(wide.index).fillna(0)
    wide = wide[order]
    wide["sign agrees"] = [f"{int(yes)} of {int(of)}" for yes, of in counts.itertuples(index=False)]
    wide["seeds"] = rows.groupby(kinds)["seeds"].min()
    order = rows[kinds].drop_duplicates().itertuples(index=False, name=None)
    return wide.loc[list(order)].rename_axis(columns=None)


def _place_of(model: str) -> str:
    """The paper's model that a row is compared with."""
    return published_name(model) or re.sub(r".*\(for (.*)\)$", r"\1", model)


def _place(cell: tuple[str, str]) -> tuple[int, int]:
    """Where a column stands: sets as in the paper, then metrics."""
    sets, metrics = list(TEST_SETS), [*METRICS, "pixel_accuracy_pct", "miou_pct", "map_pct"]
    places = [
        order.index(name) if name in order else len(order)
        for order, name in zip((sets, metrics), cell, strict=True)
    ]
    return places[0], places[1]


def _cell(row: Mapping[str, float], changes: bool) -> str:
    if math.isnan(row["value_pct"]):
        return MISSING if row["lost"] else NOT_RUN
    if row.get("source") == DIFFERENCE:
        return signed(row["value_pct"])
    text = f"{row['value_pct']:.1f}"
    if not math.isnan(row["std_pts"]):
        text += f" ± {row['std_pts']:.1f}"
    change = row["value_pct"] - row["reference_pct"]
    return f"{text} ({signed(change)})" if changes and not math.isnan(change) else text


def _pair(row: Mapping[str, float]) -> str:
    ours = signed(row["ours_pts"]) if not math.isnan(row["ours_pts"]) else NOT_RUN
    ours = MISSING if ours == NOT_RUN and row["lost"] else ours
    return f"{signed(row['paper_pts'])} | {ours}"


def _same_sign(theirs: float, ours: float) -> bool | float:
    if math.isnan(ours) or min(abs(theirs), abs(ours)) < PRINTED_PTS:
        return math.nan
    return (theirs > 0) == (ours > 0)


# The nine sets, cell by cell.


def nine_sets(changes: pd.DataFrame, model: str) -> pd.DataFrame:
    """RobustViT T1 and T2 for one model: published, here, and here minus published; as text.

    `changes` is `robustness.change_table` (means over seeds, ± std); a change whose 95 % interval
    does not hold 0 is marked. Rows: metric and set.
    Columns: original and finetuned in percent, both with the difference in points, and the
    change. A dash stands where the paper does not have the model.
    """
    rows = published_rows("main_T1", "main_T2")
    rows = rows[
        (rows["model"] == published_name(model)) & rows["masks"].isin(["none", "annotated"])
    ]
    keys = ["metric", "dataset", "method"]
    printed = rows.drop_duplicates(keys).set_index(keys)["value_pct"].to_dict()
    ours = changes.set_index("dataset")
    table = {}
    for metric in METRICS:
        for name in TEST_SETS:
            theirs = [printed.get((metric, name, method), math.nan) for method in (ORIGINAL, OURS)]
            cells = _cells(ours.loc[name], metric, *theirs)
            low, high = (ours.loc[name, f"change_{metric}_{end}_pts"] for end in ("low", "high"))
            cells[7] += f" {MARK}" if low * high > 0 else ""
            table[metric, name] = cells
    columns = pd.MultiIndex.from_product(
        [["original", "finetuned", "change"], ["paper", "here", "difference"]]
    )
    index = pd.MultiIndex.from_tuples(table, names=["metric", "dataset"])
    return pd.DataFrame(list(table.values()), index=index, columns=columns)


def with_note(table: pd.DataFrame, note: str) -> Styler:
    """The table with a sentence under it."""
    below = [{"selector": "caption", "props": "caption-side: bottom; text-align: left"}]
    return table.style.set_caption(note).set_table_styles(below)


def _cells(row: pd.Series, metric: str, original: float, finetuned: float) -> list[str]:
    """The texts of one row; `original` and `finetuned` are the paper's, NaN without them."""
    before, after = row[f"original_{metric}_pct"], row[f"ours_{metric}_pct"]
    change, std = row[f"change_{metric}_pts"], row[f"change_{metric}_std_pts"]
    published = finetuned - original
    return [
        _percent(original),
        _percent(before),
        _points(before - original),
        _percent(finetuned),
        _percent(after),
        _points(after - finetuned),
        _points(published),
        signed(change, std),
        _points(change - published),
    ]


def _percent(value: float) -> str:
    return NOT_RUN if math.isnan(value) else f"{value:.1f}"


def _points(value: float) -> str:
    return NOT_RUN if math.isnan(value) else signed(value)
