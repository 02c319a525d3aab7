"""Draw the pictures of docs/context.md from the results of the study.

make study && python tools/context_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch
from PIL import Image

from relevit import plots
from relevit.base.files import project_root
from relevit.base.stages import preset_file, stage_folder
from relevit.config import RobustnessParams
from relevit.data.benchmark import open_benchmark
from relevit.data.cutouts import TEST_SETS
from relevit.evaluate import look
from relevit.evaluate.context import relevance_shares
from relevit.evaluate.paired import ORIGINAL, original_gaps_pts
from relevit.finetune import controls, runs
from relevit.finetune.controls import OURS, OWN
from relevit.models import load_model

DOCS = project_root() / "docs"
COLUMNS = 8
SETS = (*TEST_SETS, "mixed_same", "mixed_random", "only_background")
EXAMPLES = 8


def samples(bench, target: Path) -> None:
    """A row of images of each set; the second row has the masks of the first: object, things."""
    rows = []
    for name in SETS:
        batch = bench.draw(name, range(COLUMNS))
        rows.append(batch.images)
        if name == SETS[0]:
            parts = (batch.masks, batch.props, torch.zeros_like(batch.masks))
            rows.append(torch.cat(parts, dim=1).to(torch.uint8) * 255)
    whole = torch.cat([torch.cat(list(row), dim=2) for row in rows], dim=1)
    Image.fromarray(whole.permute(1, 2, 0).numpy()).save(target, quality=80)


def before_after(cfg: RobustnessParams, target: Path) -> None:
    """The images of set a on whose things the original's relevance lies most, by rank alone."""
    bench, twins = open_benchmark(cfg), controls.compared(cfg)
    batch = runs.shared_out(bench, cfg.model, cfg.looked_at)
    spec = bench.spec(cfg.model)
    keys = {"original": (ORIGINAL, False), "without": (OURS, False), "with": (OURS, True)}
    rows = {name: twins[controls.Model(OWN, cfg.seeds[0], *key)] for name, key in keys.items()}
    networks = {name: load_model(cfg.model, runs.weights_of(row)) for name, row in rows.items()}
    shares = relevance_shares(networks["original"], spec, batch.split(50))["on_props_pct"]
    chosen = batch.select(shares.nlargest(EXAMPLES).index.tolist())
    looks = {name: look(n, spec, chosen, bench.classes) for name, n in networks.items()}
    after = looks["with"]
    rows = [(name, seen.heatmaps) for name, seen in looks.items()]
    figure = plots.heatmap_grid(chosen.images, rows, after.titles, after.colours)
    figure.savefig(target, dpi=100)


def main() -> None:
    plots.set_style()
    cfg = RobustnessParams.from_preset(preset_file("study"))
    folder = stage_folder(cfg)
    samples(open_benchmark(cfg), DOCS / "habitats.jpg")
    before_after(cfg, DOCS / "context_maps.png")
    added = pd.read_parquet(folder / "added.parquet")
    bars = plots.added_bars(
        added[added["world"] == OWN], f"Change on the shifted sets, {len(cfg.seeds)} seeds"
    )
    bars.savefig(DOCS / "context_bars.png", dpi=100)
    gaps = original_gaps_pts(pd.read_parquet(folder / "figures.parquet"))
    title = "What relevance adds, over what the original leans on"
    doses = plots.dose_response(added[added["arm"] == cfg.home_arm], gaps, title)
    doses.savefig(DOCS / "dose.png", dpi=100)


if __name__ == "__main__":
    main()
