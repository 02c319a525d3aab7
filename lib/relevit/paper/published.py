"""Published tables and claims as data, and the summaries that ours are compared with.

Source: the tables of RobustViT (main text, appendix and supplement), one number a row. The
AR-B rows of T10 are printed in two orders; `robustness_T10_ARB_resolved.csv` holds, column by
column, the order that agrees with the printed averages (differences B22).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import pandas as pd

from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS

# Our name of a set -> its name in the stored tables.
PAPER_SETS = {
    "val": "inet_val",
    "a": "inet_a",
    "r": "inet_r",
    "sketch": "inet_sketch",
    "v2": "inet_v2",
    "objectnet": "objectnet",
    "si_location": "si_location",
    "si_rotation": "si_rotation",
    "si_size": "si_size",
}
SPLIT_NAMES = {"train": "A", "other": "B"}  # classes used for finetuning and the others
SHIFTED_AVERAGE = "shifted_average"  # row that averages the seven shifted sets
METRICS = ("top1", "top5")
MASKS = ("annotated", "tokencut")


def robustness() -> pd.DataFrame:
    """Every published accuracy, in percent, one a row.

    Columns: paper, table, model, method, masks, train_classes (all, train, other), dataset,
    metric (top1, top5), value, std (in T8 and T9 alone, over three seeds).
    """
    return read_table("robustness").copy()


def averages() -> pd.DataFrame:
    """Averages over models as printed, in percentage points.

    Two disagree with the printed cells: T10 v2 top-1 of A, T11 location top-1 of B.
    """
    return read_table("averages").copy()


def hyperparameters() -> pd.DataFrame:
    """Published loss weights and learning rates of ours, RRR and GradMask, by model (T5-T7)."""
    return read_table("hyperparameters").copy()


def claims() -> pd.DataFrame:
    """Claims of the papers: id, paper, where, claim, condition, table_check.

    `table_check` says whether the claim agrees with the paper's own tables; it is empty
    where they have no such numbers.
    """
    return read_table("claims").fillna("")


def published_changes(masks: str = "annotated") -> pd.DataFrame:
    """Change of accuracy by the method, over the seven models, on each of the nine sets.

    Source: RobustViT T1 and T2, method minus original, in percentage points.
    Columns: dataset (our names, order of TEST_SETS), models, and for top1 and top5
    `change_*_pts` (mean), `change_*_min_pts`, `change_*_max_pts`.
    Raises: ValueError for masks other than annotated or tokencut.
    """
    if masks not in MASKS:
        raise ValueError(f"published_changes: masks {masks!r} is unknown; use one of {MASKS}")
    table = read_table("robustness")
    table = table[table["table"].isin(["main_T1", "main_T2"])]
    changes = _minus_original(table, masks)
    return _over_models(changes, ["dataset"]).loc[list(TEST_SETS)].reset_index()


def published_split_changes(model: str | None = None) -> pd.DataFrame:
    """Change of accuracy for classes used in finetuning (A) and for the others (B).

    Source: RobustViT T10 and T11, mean over ViT-B, AR-B and DeiT-B, in percentage points;
    AR-B on the six sets of T10 from the resolved rows. Last comes the average over the
    seven shifted sets. With `model`, one of the three, its own changes; any other gives the mean.
    Columns: dataset, classes (A, B), then as in `published_changes`.
    """
    table = read_table("robustness")
    real = table[(table["table"] == "arxiv_T10") & (table["model"] != "AR-B")]
    si_score = table[table["table"] == "arxiv_T11"]
    resolved = read_table("robustness_T10_ARB_resolved").drop(columns="order_taken_from")
    changes = _minus_original(pd.concat([real, resolved, si_score]), "annotated")
    changes["classes"] = changes["train_classes"].map(SPLIT_NAMES)
    if model in set(changes["model"]):
        changes = changes[changes["model"] == model]
    shifted = changes[changes["dataset"].isin(SHIFTED_SETS)]
    average = shifted.groupby(["model", "classes"])[list(METRICS)].mean().reset_index()
    changes = pd.concat([changes, average.assign(dataset=SHIFTED_AVERAGE)])
    order = [(name, kind) for name in (*TEST_SETS, SHIFTED_AVERAGE) for kind in "AB"]
    return _over_models(changes, ["dataset", "classes"]).loc[order].reset_index()


# Our name of a variant (08_ablations) -> its method in the stored tables. The paper prints the
# last two for top-5 alone.
VARIANT_METHODS = {
    "full": "ours",
    "no_background": "ours_wo_bg",
    "no_foreground": "ours_wo_fg",
    "no_classification": "ours_wo_classification",
    "ground_truth": "ours_ground_truth",
    "attention": "attention_instead_of_gae",
    "rollout": "rollout_instead_of_gae",
    "only_background": "only_bg",
    "only_foreground": "only_fg",
}
ABLATION_TABLES = ("main_T4", "supp_T8", "arxiv_T12", "supp_T9")


def published_ablations(metric: str = "top1") -> pd.DataFrame:
    """Change of accuracy by each variant of the method, mean over ViT-B and DeiT-B.

    Source: RobustViT T4 and supplement T8 (top-1); T12 and supplement T9 (top-5); minus the
    original, in percentage points. Index: variant (our names); only_background and
    only_foreground are printed for top-5 alone. Columns: the nine sets, then shifted_average.
    Raises: ValueError for an unknown metric.
    """
    if metric not in METRICS:
        raise ValueError(f"published_ablations: metric {metric!r} is unknown; use one of {METRICS}")
    table = _named(read_table("robustness"))
    table = table[table["table"].isin(ABLATION_TABLES) & (table["metric"] == metric)]
    keys = ["method", "model", "dataset"]
    values = table.drop_duplicates(keys).set_index(keys)["value"].unstack("dataset")
    change = values.drop(index="original").sub(values.loc["original"], level="model")
    mean = change.groupby("method").mean()[list(TEST_SETS)]
    mean[SHIFTED_AVERAGE] = mean[list(SHIFTED_SETS)].mean(axis=1)
    names = {theirs: ours for ours, theirs in VARIANT_METHODS.items()}
    mean = mean.rename(index=names).rename_axis(index="variant", columns=None)
    return mean.loc[[name for name in VARIANT_METHODS if name in mean.index]]


@cache
def read_table(name: str) -> pd.DataFrame:
    """A stored table as it is in the package; shared, so copy it before a change.

    Raises: FileNotFoundError for a name without a file.
    """
    path = files("relevit") / "assets" / "paper" / f"{name}.csv"
    if not path.is_file():
        raise FileNotFoundError(
            f"paper: {name}.csv is missing in the package; it holds published numbers: "
            "install relevit again"
        )
    with path.open("rb") as file:
        return pd.read_csv(file)


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """The rows with our names of the sets."""
    return table.replace({"dataset": {theirs: ours for ours, theirs in PAPER_SETS.items()}})


def _minus_original(table: pd.DataFrame, masks: str) -> pd.DataFrame:
    """Method minus original: model, dataset, train_classes, and top1, top5 in points."""
    keys = ["model", "dataset", "train_classes", "metric"]
    ours = (table["method"] == "ours") & (table["masks"] == masks)
    values = [
        _named(table[rows]).set_index(keys)["value"]
        for rows in (ours, table["method"] == "original")
    ]
    return (values[0] - values[1]).unstack("metric").reset_index()


def _over_models(changes: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    groups = changes.groupby(by)
    columns = {"models": groups.size()}
    for metric in METRICS:
        columns[f"change_{metric}_pts"] = groups[metric].mean()
        columns[f"change_{metric}_min_pts"] = groups[metric].min()
        columns[f"change_{metric}_max_pts"] = groups[metric].max()
    return pd.DataFrame(columns)
