"""Draw the README's picture from the results of the workshop preset.

make reproduce && python tools/story_picture.py
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd

from relevit import plots
from relevit.base.files import project_root
from relevit.base.stages import preset_file
from relevit.config import RobustnessParams
from relevit.data.benchmark import open_benchmark
from relevit.data.cutouts import TEST_SETS
from relevit.evaluate import paired
from relevit.evaluate.looking import RIGHT, cured_first, look
from relevit.finetune.controls import OURS, OWN, Model, compared
from relevit.finetune.runs import shared_out, weights_of
from relevit.models.loading import load_model
from relevit.plots.intervals import CHANGE_PTS, draw_intervals
from relevit.plots.style import GREY, HEAT

SHOWN = 5  # of set a: answers that become right, those whose relevance moves to the object most
KINDS = {"with relevance": True, "without, same images and steps": False}


def main() -> None:
    plots.set_style()
    cfg = RobustnessParams.from_preset(preset_file("workshop"))
    outputs = project_root() / "outputs" / "workshop"
    bench, study = open_benchmark(cfg), outputs / cfg.notebook
    spec = bench.spec(cfg.model)
    batch, twins = shared_out(bench, cfg.model, cfg.looked_at), compared(cfg)
    keys = {"original": (paired.ORIGINAL, False), "without": (OURS, False), "with": (OURS, True)}
    rows = {name: twins[Model(OWN, 0, *key)] for name, key in keys.items()}
    looks = {
        name: look(load_model(spec.name, weights_of(row)), spec, batch, bench.classes)
        for name, row in rows.items()
    }
    before, after = looks["original"], looks["with"]
    gained, lost = (int((a.right & ~b.right).sum()) for a, b in ((after, before), (before, after)))
    figure = plt.figure(figsize=(13, 5.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    axes = left.subplots(1 + len(looks), SHOWN)
    left.suptitle(
        f"Of {len(batch)} images of set a, {gained} become right with relevance, "
        f"{lost} become wrong.\nOf the first, the {SHOWN} whose relevance moves to the animal most",
        fontsize=10,
    )
    for column, number in enumerate(cured_first(before, after)[:SHOWN].tolist()):
        picture = batch.images[number].permute(1, 2, 0).numpy()
        axes[0, column].imshow(picture)
        axes[0, column].set_title(bench.names([batch.labels[number]])[0], fontsize=8)
        for row, seen in enumerate(looks.values(), start=1):
            axes[row, column].imshow(picture.mean(axis=2), **GREY)
            axes[row, column].imshow(seen.heatmaps[number, 0], **HEAT)
            mask = batch.masks[number, 0].numpy()
            axes[row, column].contour(mask, levels=[0.5], colors="white", linewidths=0.7)
            colour = seen.colours[number]
            style = "normal" if colour == RIGHT else "italic"
            axes[row, column].set_title(seen.titles[number], fontsize=8, color=colour, style=style)
    for axis, name in zip(axes[:, 0], ("image", *looks), strict=True):
        axis.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    answers = pd.read_parquet(study / "answers.parquet").query("world == @OWN")
    original = answers[answers["arm"] == paired.ORIGINAL]
    own = answers[answers["arm"] == OURS]
    rows = []
    for group, relevance in KINDS.items():
        twin = own[own["relevance"] == relevance]
        for name in TEST_SETS:
            found = paired.paired_change(twin, original, [name]).loc["all"]
            change = {"change": found["change_pts"], "low": found["low_pts"]}
            change["high"] = found["high_pts"]
            rows.append({"dataset": name, "group": group} | change)
    title = f"Change of top-1, {len(cfg.seeds)} seeds, 95 % intervals"
    axis, style = right.subplots(), {"group": "group", "low": "low", "high": "high"}
    draw_intervals(axis, pd.DataFrame(rows), "dataset", "change", **style)
    axis.set(title=title, ylabel=CHANGE_PTS)
    right.axes[0].legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=2)
    target = project_root() / "docs" / "story.png"
    figure.savefig(target, dpi=100)
    print(target)


if __name__ == "__main__":
    main()
