"""Draw the README's picture from the results of the workshop preset.

make reproduce && python tools/story_picture.py
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd

from relevit import plots
from relevit.base.files import project_root
from relevit.base.stages import read_summary
from relevit.data import cutouts
from relevit.data.foregrounds import CLASSES
from relevit.evaluate import robustness
from relevit.evaluate.looking import look
from relevit.models.loading import load_model, model_spec
from relevit.plots import bars

EXAMPLES = ("a", "si_location", "r", "si_size", "objectnet")
NUMBER = 24  # the same image of each set, chosen before looking: no best cases


def main() -> None:
    plots.set_style()
    outputs = project_root() / "outputs" / "workshop"
    spec = model_spec("dinov2-s")
    batch = cutouts.join([cutouts.draw(name, [NUMBER], size=spec.image_size) for name in EXAMPLES])
    runs = {"original": "00_original", "finetuned": "02_finetune/seed0"}
    looks = {
        name: look(load_model(spec.name, outputs / run / "weights.safetensors"), spec, batch)
        for name, run in runs.items()
    }
    figure = plt.figure(figsize=(13, 4.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    axes = left.subplots(3, len(EXAMPLES))
    left.suptitle("Where it looks: image, original, finetuned")
    for column, (name, image) in enumerate(zip(EXAMPLES, batch.images, strict=True)):
        picture = image.permute(1, 2, 0).numpy()
        axes[0, column].imshow(picture)
        axes[0, column].set_title(f"{name}: {CLASSES[batch.labels[column]]}", fontsize=8)
        for row, seen in enumerate(looks.values(), start=1):
            axes[row, column].imshow(picture.mean(axis=2), cmap="gray", vmin=-80, vmax=335)
            axes[row, column].imshow(seen.heatmaps[column, 0], cmap="inferno", alpha=0.72)
            axes[row, column].set_title(seen.titles[column], fontsize=8)
    for axis in axes.flat:
        axis.set_axis_off()
    predictions = pd.read_parquet(outputs / "03_robustness" / "predictions.parquet")
    classes_a = read_summary(outputs / "03_robustness")["classes_a"]
    split = robustness.split_table(predictions, classes_a)
    names = {"A": "classes finetuned", "B": "classes never shown"}
    bars.draw_changes(
        right.subplots(),
        split.assign(group=split["classes"].map(names)).rename(
            columns={"change_top1_pts": "change", "change_top1_std_pts": "std"}
        ),
        f"Change of top-1, {len(classes_a)} seeds ± standard deviation",
    )
    target = project_root() / "docs" / "story.png"
    figure.savefig(target, dpi=100)
    print(target)


if __name__ == "__main__":
    main()
