"""Draw the pictures of docs/context.md, and write its tables, from the results of the study.

make study && python tools/context_pictures.py && make numbers
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import torch
from PIL import Image

from habitats.benchmark import open_benchmark
from habitats.cutouts import TEST_SETS
from relevit.base.files import project_root
from relevit.evaluate import look
from relevit.models import load_model
from reproduction import plots, runs
from reproduction.measures.context import relevance_shares
from reproduction.measures.paired import ORIGINAL, figure_means, original_gaps_pts
from reproduction.params.cells import Params, params_of
from reproduction.pipeline.results import sets
from reproduction.runs import effects, grids
from reproduction.runs.grids import OURS, OWN
from reproduction.stages import preset_file, stage_folder

DOCS = project_root() / "docs"
COLUMNS = 8
SETS = (*TEST_SETS, "mixed_same", "mixed_random", "only_background")
EXAMPLES = 8
# As the page calls the arms, and those of its table by sets.
SETTINGS = {OURS: "confidence", "half": "half", "published": "published", "labels": "labels"}
BY_SETS = ("labels", OURS, "published")
TWINS = {"with": True, "without": False}
HEADS = {"with": "with", "without": "without", "adds": "relevance adds"}
ENDS = ("", "_low", "_high")
DOSE = ["home_pct", "a_before_pct", "gap_pts"]
OWN_SHARE = 0.95  # in how many training images of the preset's own world a class is at home


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


def before_after(cfg: Params, target: Path) -> None:
    """The images of set a on whose things the original's relevance lies most, by rank alone."""
    bench = open_benchmark(cfg)
    twins = grids.of(cfg).set_index(effects.TWINS)["run"]
    batch = runs.shared_out(bench, cfg.model, cfg.looked_at)
    spec = bench.spec(cfg.model)
    keys = {"original": (ORIGINAL, False), "without": (OURS, False), "with": (OURS, True)}
    rows = {name: twins[OWN, cfg.seeds[0], *key] for name, key in keys.items()}
    networks = {name: load_model(cfg.model, runs.weights_of(row)) for name, row in rows.items()}
    shares = relevance_shares(networks["original"], spec, batch.split(50))["on_props_pct"]
    chosen = batch.select(shares.nlargest(EXAMPLES).index.tolist())
    looks = {name: look(n, spec, chosen, bench.classes) for name, n in networks.items()}
    after = looks["with"]
    rows = [(name, seen.heatmaps) for name, seen in looks.items()]
    figure = plots.heatmap_grid(chosen.images, rows, after.titles, after.colours)
    figure.savefig(target, dpi=100)


def tables(made: Mapping[str, pd.DataFrame], home_arm: str) -> dict[str, pd.DataFrame]:
    """The page's tables by their name in docs/results/notes, from those of 03_robustness."""
    added, columns = made["added"], made["columns"]
    before = sets(made["answers"]).groupby(["world", "dataset"])["original_pct"].mean()
    means, gaps = figure_means(made["figures"]), original_gaps_pts(made["figures"])

    arms = []
    for arm, shown in SETTINGS.items():
        own = added[(added["world"] == OWN) & (added["arm"] == arm)].set_index("classes")
        for classes in ("all", "A", "B"):
            told = {head: _told(own.loc[classes], name) for name, head in HEADS.items()}
            arms.append({"setting": f"`{shown}`", "classes": classes} | told)

    by_set = columns[columns["classes"] == "all"].set_index(["arm", "dataset"])
    start = means.loc[OWN, ORIGINAL, False]
    looks = [("original", f"{before[OWN]['val']:.1f}", *_look(start))]
    for arm, shown in SETTINGS.items():
        for name, on in TWINS.items():
            val = _told(by_set.loc[arm, "val"], name)
            looks.append((f"`{shown}`, {name}", val, *_look(means.loc[OWN, arm, on])))
    heads = ["", "`val`", "gap (points)", "relevance on object / things / texture (%)"]

    rows = [("original (%)", *(f"{before[OWN][name]:.1f}" for name in TEST_SETS))]
    for arm in BY_SETS:
        for name in TWINS:
            values = (by_set.loc[(arm, each), f"{name}_pts"] for each in TEST_SETS)
            rows.append((f"`{SETTINGS[arm]}`, {name}", *(f"{value:+.1f}" for value in values)))

    doses = added[(added["arm"] == home_arm) & (added["classes"] == "all")].set_index("world")
    shares = doses.index.str.removeprefix("home ").str.replace(OWN, str(OWN_SHARE))
    doses["home_pct"] = 100 * shares.astype(float)
    doses["a_before_pct"] = before.unstack()["a"]
    doses["gap_pts"] = gaps
    ends = [f"{name}{end}_pts" for name in HEADS for end in ENDS]
    return {
        "study_arms": pd.DataFrame(arms),
        "study_gaps": pd.DataFrame(looks, columns=heads),
        "study_sets": pd.DataFrame(rows, columns=["", *(f"`{name}`" for name in TEST_SETS)]),
        "doses": doses[[*DOSE, *ends, "seeds"]].sort_values("home_pct"),
    }


def _told(row: pd.Series, name: str) -> str:
    value, low, high = (row[f"{name}{end}_pts"] for end in ENDS)
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"


def _look(means: pd.Series) -> tuple[str, str]:
    shares = (means[f"on_{part}_pct"] for part in ("object", "props", "texture"))
    return f"{means['background_gap_pts']:.1f}", " / ".join(f"{share:.0f}" for share in shares)


def main() -> None:
    plots.set_style()
    cfg = params_of("03_robustness").from_preset(preset_file("study"))
    folder = stage_folder(cfg)
    samples(open_benchmark(cfg), DOCS / "habitats.jpg")
    before_after(cfg, DOCS / "context_maps.png")
    made = {
        name: pd.read_parquet(folder / f"{name}.parquet")
        for name in ("added", "columns", "answers", "figures")
    }
    for name, each in tables(made, cfg.home_arm).items():
        path = DOCS / "results" / "notes" / f"{name}.csv"
        each.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
    added = made["added"]
    bars = plots.added_bars(
        added[added["world"] == OWN], f"Change on the shifted sets, {len(cfg.seeds)} seeds"
    )
    bars.savefig(DOCS / "context_bars.png", dpi=100)
    gaps = original_gaps_pts(made["figures"])
    title = "What relevance adds, over what the original leans on"
    doses = plots.dose_response(added[added["arm"] == cfg.home_arm], gaps, title)
    doses.savefig(DOCS / "dose.png", dpi=100)


if __name__ == "__main__":
    main()
