"""Tables in words: rows and columns as one would say them, numbers as one would write them.

Each function returns a table of texts, to be shown as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from habitats.cutouts import SHIFTED_SETS, TEST_SETS
from reproduction.config import FinetuneParams
from reproduction.measures.accuracies import changes
from reproduction.paper.published import published_changes
from reproduction.plots.curves import METHOD_TITLES
from reproduction.plots.style import ARMS

MASKS = {"annotated": "annotated", "tokencut": "TokenCut's"}


def signed(value: float) -> str:
    """`+0.4`; what rounds to nothing is `+0.0`, and what is not there is left out."""
    return "" if pd.isna(value) else f"{value:+z.1f}"


def points(row: Mapping[str, float], value: str, low: str, high: str) -> str:
    """`+7.0 (+5.4 to +8.7)`, and nothing where a row has no such number."""
    middle, *ends = (signed(row.get(name, float("nan"))) for name in (value, low, high))
    return middle and f"{middle} ({ends[0]} to {ends[1]})"


def kind_title(params: FinetuneParams) -> str:
    """What a run of the sweep is: `ours, annotated masks`, `GradMask, published`."""
    title, masks = METHOD_TITLES[params.method], MASKS[params.masks]
    if params.method == "relevance":
        return f"{title}, {masks} masks"
    also = "" if params.masks == "annotated" else f", {masks} masks"
    return f"{title}, {params.protocol}{also}"


def arms_told(cured: pd.DataFrame) -> pd.DataFrame:
    """The arms of `outcomes.compared`, the largest gain first."""
    rows = cured.sort_values("change_pts", ascending=False).set_index("arm")
    found = pd.DataFrame(
        {
            "learning rate": rows["lr"].map("{:.3g}".format),
            "change, points": _points(rows, "change_pts", "low_pts", "high_pts"),
            "over relevance": _points(rows, "lead_pts", "lead_low_pts", "lead_high_pts"),
            "change on val": rows["val_pts"].map(signed),
            "worst home, %": _plain(rows, "worst_home_pct"),
            "gap, points": _plain(rows, "background_gap_pts"),
            "on the object, %": _plain(rows, "on_object_pct"),
        }
    )
    return found.rename(index=ARMS).rename_axis(None)


def leads_told(arms: pd.DataFrame) -> pd.DataFrame:
    """What `outcomes.beside_ours` has of each arm."""
    return pd.DataFrame(
        {
            "seeds": arms["seeds"].map("{:.0f}".format),
            "change, points": _points(arms, "change_pts", "low_pts", "high_pts"),
            "ours minus this": _points(arms, "lead_pts", "lead_low_pts", "lead_high_pts"),
        }
    )


def rates_told(searched: pd.DataFrame) -> pd.DataFrame:
    """The rate that each method of `outcomes.searches` uses, and what came of it."""
    rows = searched[searched["used"]]
    fitted = 100 * (rows["background_after"] / rows["background_before"] - 1)
    found = {
        "learning rate": rows["lr"].map("{:.3g}".format),
        "change of top-1, points": (-rows["drop_pts"]).map(signed),
        "class loss rises": rows["rising"].map({True: "yes", False: "no"}),
        "background term, %": fitted.map(signed),
    }
    names = rows["method"].map(METHOD_TITLES) + ", " + rows["protocol"]
    return pd.DataFrame(found).set_axis(list(names))


def masks_told(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Change on the shifted sets by kind of masks, in points: the paper's mean, then each of ours.

    `accuracy` as from `outcomes.score`.
    """
    ours = accuracy.query("method == 'relevance' and protocol == 'published'")
    by_model = changes(ours, ["model", "masks"])["shifted_average"].unstack("masks")
    theirs = {
        masks: published_changes(masks).set_index("dataset")["change_top1_pts"][list(SHIFTED_SETS)]
        for masks in MASKS
    }
    rows = pd.concat([pd.DataFrame(theirs).mean().to_frame("the paper's seven models").T, by_model])
    found = rows[list(MASKS)].map(signed)
    return found.rename(columns={name: f"{title} masks" for name, title in MASKS.items()})


def backbones_told(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Top-1 in percent, set by set: linear probe, originals and ours of `outcomes.score`."""
    probe = accuracy[accuracy["method"] == "linear_probe"].assign(way="a new head alone")
    ours = accuracy.query("method == 'relevance' and protocol == 'published'")
    before = ours.assign(way="finetuned", top1_pct=ours["original_top1_pct"])
    after = ours.assign(way="finetuned, then ours, " + ours["masks"].map(MASKS) + " masks")
    rows = pd.concat([probe, before, after])
    wide = rows.pivot_table("top1_pct", ["model", "way"], "dataset", sort=False)
    found = wide[list(TEST_SETS)].map("{:.1f}".format)
    return found.rename_axis(None, axis=1).rename_axis(["", ""])


def prices_told(prices: pd.DataFrame) -> pd.DataFrame:
    """What a step of each arm keeps (`memory_mib`) and gains (`change_pts`), the least first."""
    rows = prices.sort_values(["memory_mib", "change_pts"], ascending=[True, False])
    found = {
        "kept, MiB": rows["memory_mib"].map("{:.0f}".format),
        "change in the study, points": rows["change_pts"].map(signed),
    }
    return pd.DataFrame(found).rename(index=ARMS).rename_axis(None)


def _points(rows: pd.DataFrame, value: str, low: str, high: str) -> pd.Series:
    told = [points(row, value, low, high) for row in rows.to_dict("records")]
    return pd.Series(told, rows.index, dtype=object)


def _plain(rows: pd.DataFrame, column: str) -> pd.Series:
    return rows[column].map("{:.1f}".format) if column in rows else pd.Series("", rows.index)
