"""Tables of runs in words: rows and columns as one would say them, numbers as one would write them.

Of one run: what came of it, by which rate, what a changed parameter has done, how much models lean
on the background. Then of many: arms beside each other, and what `outcomes` makes of a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from habitats.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.base.results import read_rows
from relevit.evaluate.looking import Look
from relevit.finetune.epochs import LOG, History
from relevit.finetune.own_audit import Audited
from reproduction.measures.accuracies import changes
from reproduction.paper.published import published_changes
from reproduction.params.cells import Params
from reproduction.runs.runs import Row, read
from reproduction.stages import changed_from_preset, read_summary, results_of

FIGURES = "figures"  # what a summary calls those that `beside_preset` reads
METHOD_TITLES = {"gradmask": "GradMask", "rrr": "RRR", "relevance": "ours"}
MASKS = {"annotated": "annotated", "tokencut": "TokenCut's"}
ARMS = {  # of 04_cures and its study
    "label": "labels alone",
    "relevance": "relevance",
    "cft": "relevance, cft",
    "energy": "relevance, energy",
    "l1": "relevance, l1",
    "relevance_last3": "relevance, last three blocks",
    "swap": "swap",
    "swap_5e-6": "swap, at the rate of relevance",
    "swap_strange": "swap, on clouds",
    "both": "both",
    "last_layer": "head alone",
    "last_layer_swap": "head alone, swapped images",
    "gradmask": "GradMask, as described",
    "rrr": "RRR, as described",
}
VARIANTS = {  # of 05_ablations
    "full": "all terms",
    "no_background": "without the background term",
    "no_foreground": "without the foreground term",
    "no_classification": "without the class term",
    "only_background": "the background term alone",
    "only_foreground": "the foreground term alone",
    "only_classification": "labels alone",
    "ground_truth": "labels in the class term",
    "confidence": "confidence, not labels",
    "predicted_target": "no label at all",
    "attention": "attention, not GAE",
    "rollout": "rollout, not GAE",
    "exact_gradient": "the exact gradient",
    "temperature": "another temperature",
    "constant_rate": "a rate that stays",
}
WORDS = {  # what `maps_in_words` calls the columns
    "change_pts": "change",
    "low_pts": "at least",
    "high_pts": "at most",
    "over_label_pts": "over labels",
    "over_swap_pts": "over swap",
    "over_gae_pts": "over GAE",
    "val_pts": "val",
    "background_gap_pts": "gap",
    "on_object_pct": "on the object, %",
    "on_object_libra_pct": "by LibraGrad, %",
    "memory_mib": "kept, MiB",
}


def signed(value: float) -> str:
    """`+0.4`; what rounds to nothing is `+0.0`, and what is not there is left out."""
    return "" if pd.isna(value) else f"{value:+z.1f}"


def points(row: Mapping[str, float], value: str, low: str, high: str) -> str:
    """`+7.0 (+5.4 to +8.7)`, and nothing where a row has no such number."""
    middle, *ends = (signed(row.get(name, float("nan"))) for name in (value, low, high))
    return middle and f"{middle} ({ends[0]} to {ends[1]})"


# Of one run


def before_and_after(looks: Sequence[Look]) -> pd.DataFrame:
    """Two looks at the same images: before, after, change."""
    figures = {
        "relevance on the object, %": [float(seen.on_object_pct.mean()) for seen in looks],
        "overlap of map and mask (IoU), %": [float(seen.iou_pct.mean()) for seen in looks],
        "right answers, %": [100 * float(seen.right.float().mean()) for seen in looks],
    }
    table = pd.DataFrame(figures, index=["before", "after"], dtype=float).T
    return table.assign(change=table["after"] - table["before"])


def searched_logs(rows: Iterable[Row]) -> dict[float, History]:
    """The log of each run of a search by its rate, without those whose loss became infinite."""
    made = [row for row in rows if not read(row, or_diverged=True)["failed"]]
    return {row.params.lr: read_rows(row.folder / LOG) for row in made}


def rates_in_words(judged: pd.DataFrame, chosen: float | None) -> pd.DataFrame:
    """What the rule saw at each rate (`runs.judged`); a fall of validation top-1 has a minus."""
    return pd.DataFrame(
        {
            "learning rate": judged["lr"].map("{:g}".format),
            "change of validation top-1, points": (-judged["drop_pts"]).map(signed),
            "class loss rises": judged["rising"].map({True: "yes", False: "no"}),
            "chosen": judged["lr"].eq(chosen).map({True: "yes", False: ""}),
        }
    ).set_index("learning rate")


def gaps_in_words(audits: Mapping[str, Audited]) -> pd.DataFrame:
    """The background gap of each audited model, by its name, with its verdict."""
    found = [(each.audit.gap_pts, each.audit.verdict) for each in audits.values()]
    shown = (
        {row.condition: row.images for row in each.audit.conditions} for each in audits.values()
    )
    return pd.DataFrame(
        {
            "images": [images["same"] for images in shown],
            "background gap, points": [signed(gap.value) for gap, _ in found],
            "95 % interval": [f"{signed(gap.low)} to {signed(gap.high)}" for gap, _ in found],
            "verdict": [verdict for _, verdict in found],
        },
        index=pd.Index(audits, name="model"),
    )


def beside_preset(cfg: Params, yours: Mapping[str, float]) -> pd.DataFrame | None:
    """What was changed and what came of it, beside the preset's own run; None if nothing was.

    `yours` are figures by their words. Those of the preset's run are FIGURES in its summary.
    Raises: as `results_of`, where `prepared` has not made it.
    """
    changed = changed_from_preset(cfg)
    if not changed:
        return None
    theirs = dict(read_summary(results_of(cfg, cfg.notebook)).values_of(FIGURES))
    rows = {name: [_written(value) for value in pair] for name, pair in changed.items()}
    rows |= {name: [_written(theirs.get(name, "")), _written(yours[name])] for name in yours}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["the preset's run", "yours"])


def _written(value: Any) -> str:
    """A number with one decimal, or exactly where that is too few, such as a rate."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:g}"


# Of many


def kind_title(params: Params) -> str:
    """What a run of the sweep is: `ours, annotated masks`, `GradMask, published`."""
    title, masks = METHOD_TITLES[params.method], MASKS[params.masks]
    if params.method == "relevance":
        return f"{title}, {masks} masks"
    also = "" if params.masks == "annotated" else f", {masks} masks"
    return f"{title}, {params.protocol}{also}"


def amounts_told(made: pd.DataFrame, full: Params) -> list[str]:
    """What each run of 05_ablations is: its arm, or what it has more or less of than `full`."""
    told = []
    for row in made.to_dict("records"):
        name = row["arm"]
        if name == "full" and row["images_per_class"] != full.images_per_class:
            name = f"{row['images_per_class']} image{'s' * (row['images_per_class'] > 1)} a class"
        elif name == "full" and row["classes"] != full.classes:
            name = f"{row['classes']} classes"
        elif name == "full" and row["lr_factor"] != 1:
            name = f"{row['lr_factor']:g} times the rate"
        told.append(name)
    return told


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


def maps_in_words(maps: pd.DataFrame) -> Styler:
    """What `outcomes.compared` has of the maps of 05a_ablations, the largest change first."""
    known = {name: WORDS[name] for name in WORDS if name in maps and maps[name].notna().any()}
    table = maps[list(known)].rename(columns=known).sort_values("change", ascending=False)
    with_sign = [known[name] for name in known if name.endswith("_pts") and "gap" not in name]
    styled = table.style.format("{:.1f}", na_rep="")
    return styled.format("{:+.1f}", na_rep="", subset=with_sign)


def _points(rows: pd.DataFrame, value: str, low: str, high: str) -> pd.Series:
    told = [points(row, value, low, high) for row in rows.to_dict("records")]
    return pd.Series(told, rows.index, dtype=object)


def _plain(rows: pd.DataFrame, column: str) -> pd.Series:
    return rows[column].map("{:.1f}".format) if column in rows else pd.Series("", rows.index)
