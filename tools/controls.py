"""Write docs/results/controls.csv and docs/controls.png from the runs of `make controls`.

What each control asks, and the criterion that stood before the runs: docs/controls.md.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from habitats.benchmark import Benchmark, open_benchmark
from habitats.cutouts import SHIFTED_SETS
from relevit.base.files import project_root
from relevit.evaluate.predictions import predict
from relevit.models import load_model
from reproduction import plots, runs
from reproduction.measures.paired import ORIGINAL, difference, ends
from reproduction.params.cells import params_of
from reproduction.runs import effects, grids
from reproduction.runs.effects import ARM
from reproduction.runs.grids import OWN
from reproduction.runs.run import Row, training_images
from reproduction.stages import preset_file

DOCS = project_root() / "docs"
CLASSES = {"controls": "animals", "controls_things": "things"}  # of the presets
SAME = ["classes", "world"]
CONTROLS = ("others", "ellipse", "upside_down")
KNOWN = 1000  # images of the training kind that say whether an original is done
BATCH = 50


def with_shares(found: pd.DataFrame) -> pd.DataFrame:
    """The share of what exact masks add that others add, in percent, with its interval.

    Of the ratio of two means, by Fieller (1954), from the half widths of the intervals of both and
    of their difference. Where these are of two rules (`relevit.evaluate.intervals`) it is near.
    """
    exact = found[found["masks"] == "annotated"].set_index([*SAME, "arm"])
    for place, row in found.dropna(subset=["adds_pts", "exact_leads_pts"]).iterrows():
        whole = exact.loc[tuple(row[[*SAME, "arm"]])]
        part, most = row["adds_pts"], whole["adds_pts"]
        a, b, c = (
            (line[f"{name}_high_pts"] - line[f"{name}_low_pts"]) ** 2 / 4
            for line, name in ((row, "adds"), (whole, "adds"), (row, "exact_leads"))
        )
        both = part * most - (a + b - c) / 2
        ends = np.roots([most**2 - b, -2 * both, part**2 - a])
        shares = [100 * part / most, *sorted(100 * np.real(ends))]
        found.loc[place, ["share_pct", "share_low_pct", "share_high_pct"]] = shares
    return found


def overlap_pct(row: Row, bench: Benchmark) -> float:
    """IoU of a run's masks with the exact ones, mean over its training images."""
    exact = row.params.model_copy(update={"masks": "annotated"})
    kinds = [training_images(params, bench).masks > 0.5 for params in (exact, row.params)]
    shared, either = ((kinds[0] & kinds[1]).sum((1, 2, 3)), (kinds[0] | kinds[1]).sum((1, 2, 3)))
    return 100 * float((shared / either).mean())


def known_pct(row: Row) -> float:
    """Top-1 of an original on new images of the kind that it was trained on."""
    bench, network = open_benchmark(row.params), load_model(row.params.model, runs.weights_of(row))
    spec = bench.spec(row.params.model)
    shown = bench.draw("validation", range(KNOWN), size=spec.image_size)
    return 100 * float((predict(network, spec, shown.split(BATCH))["label_rank"] == 0).mean())


def table(preset: str) -> pd.DataFrame:
    """A row for each arm, kind of masks and original, and what it is held against."""
    cfg = params_of("04_cures").from_preset(preset_file(preset))
    bench, asked = open_benchmark(cfg), grids.of(cfg)
    rows, missing = effects.split(asked[asked["part"] == "arms"], missing=True)
    print(*missing.values(), sep="\n")
    if rows.empty:
        return pd.DataFrame()
    answers, figures = effects.study(rows, [*ARM, "seed"])
    seen = dict(list(answers.groupby(ARM, sort=False)))
    looked = figures.groupby(ARM, sort=False)["background_gap_pts"].mean()
    first = rows.drop_duplicates(ARM).set_index(ARM)["run"]
    before_of = dict(list(answers[answers["arm"] == ORIGINAL].groupby("world")))
    found = []
    for key, mine in seen.items():
        arm, masks, count, world = key
        row = first[key]
        before = before_of[world]
        shifted = mine[mine["dataset"].isin(SHIFTED_SETS)]
        line = {
            "classes": CLASSES[preset],
            "arm": arm,
            "masks": masks,
            "world": world,
            "original_images": runs.original_images(row.params),
            "home_pct": 100 * row.params.benchmark.home_share,
            "seeds": 1 if arm == ORIGINAL else mine["seed"].nunique(),
            "shifted_pct": 100 * shifted.groupby(["seed", "dataset"])["right"].mean().mean(),
            "gap_pts": looked[key],
        }
        if arm == ORIGINAL:
            found.append(line | {"known_pct": known_pct(row)})
            continue
        train = training_images(row.params, bench)
        line["steps"] = row.params.epochs * -(-len(train) // row.params.batch_size)
        line["overlap_pct"] = overlap_pct(row, bench)
        line |= ends(difference(mine, before), "change")
        line["val_pts"] = difference(mine, before, ["val"])["change_pts"]
        control = (arm.replace("relevance", "label"), "annotated", count, world)
        if arm.startswith("relevance") and control in seen:
            line |= ends(difference(mine, seen[control]), "adds")
        if masks in CONTROLS and (exact := (arm, "annotated", count, world)) in seen:
            line |= ends(difference(seen[exact], mine), "exact_leads")
        found.append(line)
    return pd.DataFrame(found)


def picture(found: pd.DataFrame) -> plt.Figure:
    """What relevance adds to labels: by what masks know, by the original, by steps."""
    plots.set_style()
    own = found[found["world"] == OWN]
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), width_ratios=[1.3, 1, 1], sharey=True)
    plain = own[own["arm"] == "relevance"]
    for i, (classes, part) in enumerate(plain.groupby("classes", sort=False)):
        names = part["masks"].str.replace("_", " ").replace("annotated", "exact")
        _ends(panels[0], [x + 0.12 * (2 * i - 1) for x in range(len(part))], part, classes, i)
        panels[0].set_xticks(range(len(part)), names)
    panels[0].legend(loc="upper right")
    length = found[(found["arm"] == "relevance") & (found["masks"] == "annotated")]
    length = length[(length["classes"] == "animals")].sort_values("original_images")
    counts = sorted(length["original_images"].unique())
    for i, (home, part) in enumerate(length.groupby("home_pct")):
        at = [counts.index(count) + 0.12 * (2 * i - 1) for count in part["original_images"]]
        _ends(panels[1], at, part, f"{home:g} %", i)
    panels[1].set_xticks(range(len(counts)), [f"{count:,}" for count in counts])
    panels[1].legend(title="at home", loc="upper right", fontsize=7)
    steps = own[own["arm"].str.startswith("relevance") & (own["masks"] == "annotated")]
    steps = steps[steps["classes"] == "animals"].sort_values("steps")
    _ends(panels[2], range(len(steps)), steps, "", 0)
    panels[2].set_xticks(range(len(steps)), [f"{count:,.0f}" for count in steps["steps"]])
    panels[0].set(title="by what the masks know", ylabel="relevance adds (points)")
    panels[1].set(title="by the original's training", xlabel="training images")
    panels[2].set(title="by the length of finetuning", xlabel="steps")
    for axis in panels:
        axis.margins(x=0.25)
        axis.axhline(0, color=plots.INK, linewidth=1)
    figure.tight_layout()
    return figure


def _ends(axis: plt.Axes, at: object, part: pd.DataFrame, label: str, number: int) -> None:
    away = [part["adds_pts"] - part["adds_low_pts"], part["adds_high_pts"] - part["adds_pts"]]
    axis.errorbar(at, part["adds_pts"], away, fmt="o", color=f"C{number}", label=label, capsize=3)


if __name__ == "__main__":
    both = with_shares(pd.concat([table(preset) for preset in CLASSES], ignore_index=True))
    both.to_csv(DOCS / "results" / "controls.csv", index=False, float_format="%.6g")
    picture(both.dropna(subset=["adds_pts"])).savefig(DOCS / "controls.png", dpi=100)
