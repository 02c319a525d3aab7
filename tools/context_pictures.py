"""Draw pictures of docs, and write tables: of context.md from the study, of others from results.

make study && python tools/context_pictures.py study && make numbers
python tools/context_pictures.py photos     as `make photos` does; so of controls, why and dose
python tools/context_pictures.py verdicts   as `make decide` and `make notebooks` do
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from PIL import Image

from habitats.benchmark import open_benchmark
from habitats.cutouts import TEST_SETS
from relevit.base.files import project_root
from relevit.evaluate import look
from relevit.models import load_model
from reproduction import plots, runs
from reproduction.claims import CLAIMS
from reproduction.claims.judging import NOT_TESTABLE, PAPERS, by_own
from reproduction.claims.numbers import POINTS, Number
from reproduction.claims.report import COLOURS
from reproduction.measures.context import relevance_shares
from reproduction.measures.paired import ORIGINAL, figure_means, original_gaps_pts
from reproduction.params.cells import Params, params_of
from reproduction.pipeline.results import sets
from reproduction.runs import effects, grids
from reproduction.runs.dose import HOMES
from reproduction.runs.grids import OURS, OWN
from reproduction.runs.mechanism import EXACT, LOSSES, MASKS
from reproduction.runs.studies import line
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
            rows.append((f"`{SETTINGS[arm]}`, {name}", *(f"{value:+z.1f}" for value in values)))

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
    return f"{value:+z.1f} ({low:+z.1f} to {high:+z.1f})"


def _look(means: pd.Series) -> tuple[str, str]:
    shares = (means[f"on_{part}_pct"] for part in ("object", "props", "texture"))
    return f"{means['background_gap_pts']:.1f}", " / ".join(f"{share:.0f}" for share in shares)


def study() -> None:
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
    doses.savefig(DOCS / "context_dose.png", dpi=100)


def photographs(found: pd.DataFrame, habitats: pd.DataFrame) -> plt.Figure:
    """Dose and response: the worlds of Habitats (docs/context.md), and photographs beside them."""
    figure, axis = plt.subplots(figsize=(7, 3.6))
    _bars(axis, habitats, "adds", fmt="o", color="grey", label="Habitats, shifted sets")
    axis.plot("gap_pts", "adds_pts", data=line(habitats), color="grey", label="_")
    every = found["seed"].astype(str) == "all"
    kinds = {"adds": "other domains", "adds_other": "backgrounds of other classes"}
    for i, (name, label) in enumerate(kinds.items()):
        whole = found[every].assign(gap_pts=found["gap_pts"] + 0.5 * i)  # beside each other
        _bars(axis, whole, name, fmt="s", color=f"C{i}", label=f"photographs, {label}")
        each = found[~every]
        axis.plot(each["gap_pts"], each[f"{name}_pts"], ".", color=f"C{i}", alpha=0.5)
    axis.axhline(0, color=plots.INK, linewidth=1)
    axis.set(xlabel="background gap of the original (points)", ylabel="relevance adds (points)")
    axis.legend(fontsize=8)
    figure.tight_layout()
    return figure


def _bars(axis: plt.Axes, rows: pd.DataFrame, name: str, **style: object) -> None:
    low, middle, high = (rows[f"{name}{end}_pts"] for end in ("_low", "", "_high"))
    away = np.clip([middle - low, high - middle], 0, None)
    axis.errorbar(rows["gap_pts"], middle, away, capsize=3, **style)


def controls(found: pd.DataFrame) -> plt.Figure:
    """What relevance adds to labels: by what masks know, by the original, by steps."""
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


def why(found: pd.DataFrame) -> plt.Figure:
    """What each loss of maps adds to labels: by what masks know, and by the gradient."""
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True)
    losses = dict(zip(LOSSES, ("GAE", "the read-out", "L1 on GAE"), strict=True))
    gradients = {"": "published gradient", EXACT: "exact gradient"}
    for axis, (arm, title) in zip(panels, losses.items(), strict=True):
        for i, (end, label) in enumerate(gradients.items()):
            part = found[found["arm"] == arm + end].set_index("masks").loc[[*MASKS]]
            _ends(axis, [x + 0.12 * (2 * i - 1) for x in range(len(part))], part, label, i)
        axis.set_xticks(range(len(MASKS)), ["the object's", "one ellipse", "others'"])
        axis.set(title=title, xlabel="masks")
        axis.margins(x=0.25)
        axis.axhline(0, color=plots.INK, linewidth=1)
    panels[0].set(ylabel="adds to labels (points)")
    panels[0].legend(fontsize=8)
    figure.tight_layout()
    return figure


def dose(found: pd.DataFrame) -> plt.Figure:
    """What each arm adds to labels, and the gap it leaves, by how often a class is at home."""
    found = found[found["masks"] == MASKS[0]]
    arms = {
        "relevance": "relevance",
        f"relevance{EXACT}": "relevance, exact gradient",
        "l1": "L1 on GAE",
        "swap": "swap",
    }
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    panels[1].sharey(panels[0])
    titles = {"adds": "other backgrounds", "adds_photo": "photographs as they are"}
    for axis, (name, title) in zip(panels[:2], titles.items(), strict=True):
        for i, (arm, label) in enumerate(arms.items()):
            part = found[found["arm"] == arm].set_index("world").loc[[*HOMES]]
            _ends(axis, [x + 0.14 * (i - 1.5) for x in range(len(part))], part, label, i, name)
        axis.set(title=title, ylabel="adds to labels (points)")
    gaps = found.pivot(index="world", columns="arm", values="background_gap_pts").loc[[*HOMES]]
    for i, (arm, label) in enumerate(({ORIGINAL: "original", "label": "labels"} | arms).items()):
        colour = ("grey", plots.INK, "C0", "C1", "C2", "C3")[i]
        panels[2].plot(range(len(gaps)), gaps[arm], "o-", color=colour, label=label)
    panels[2].set(title="background gap", ylabel="at home less away (points)")
    figure.legend(*panels[2].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    shares = [f"{world}".removeprefix("home ").replace(OWN, str(OWN_SHARE)) for world in HOMES]
    for axis in panels:
        axis.set_xticks(range(len(HOMES)), [f"{100 * float(share):.0f} %" for share in shares])
        axis.set(xlabel="at home in training")
        axis.margins(x=0.1)
        axis.axhline(0, color=plots.INK, linewidth=1)
    return figure


def _ends(
    axis: plt.Axes,
    at: Sequence[float],
    part: pd.DataFrame,
    label: str,
    number: int,
    name: str = "adds",
) -> None:
    low, middle, high = (part[f"{name}{end}_pts"] for end in ("_low", "", "_high"))
    away = [middle - low, high - middle]
    axis.errorbar(at, middle, away, fmt="o", color=f"C{number}", label=label, capsize=3)


def decide(found: pd.DataFrame) -> plt.Figure:
    """The effects in points that decide, by claim; grey is what is no difference."""
    rows = found[(found["d"] > 0) & np.isfinite(found["low"])].iloc[::-1].reset_index(drop=True)
    figure, axis = plt.subplots(figsize=(9, 1 + 0.19 * len(rows)))
    axis.barh(rows.index, 2 * rows["d"], left=-rows["d"], height=1, color=plots.FAINT, label="d")
    for says, colour in COLOURS.items():
        part = rows[rows["says"] == says]
        ends = part["value"] - part["low"], part["high"] - part["value"]
        how = {"fmt": "o", "color": colour, "capsize": 2, "markersize": 3}
        if len(part):
            axis.errorbar(part["value"], part.index, xerr=ends, label=says, **how)
    axis.set_yticks(rows.index, rows["id"] + "  " + rows["name"].str.slice(0, 48), fontsize=7)
    axis.axvline(0, color=plots.INK, linewidth=1)
    axis.set(xlabel="points", ylim=(-1, len(rows)))
    axis.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=5, fontsize=8)
    figure.tight_layout()
    return figure


def deciding(decided: pd.DataFrame, reproduced: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """The number that decides each claim, by how far it is on the right side of its line.

    Of `make decide` where it has judged the claim. `at`, its interval `low` and `high`, and the
    `paper`'s own are in points, else in half widths of the interval; NaN where there is none.
    """
    both = pd.concat([decided.assign(run="decide"), reproduced.assign(run="reproduce")])
    both = both[both["verdict"] != NOT_TESTABLE].drop_duplicates("id")  # the first one decides
    names = [  # by stand-ins, as these are what was run
        by_own(name, {of: own for own, of in CLAIMS[id].instead.items()})
        for id, name in zip(paper["id"], paper["name"], strict=True)
    ]
    paper = paper.assign(name=names)
    both = both.merge(paper.rename(columns={"value": "theirs"}), "left", on=["id", "name"])
    rows = []
    for one in both.to_dict("records"):
        short = shorten(one["name"], 40, placeholder=" ...")
        number = Number(short, *(one[name] for name in ("value", "low", "high", "side", "line")))
        half = (number.high - number.low) / 2
        ends = [number.low, number.high]
        if number.side == "within" and number.low < 0 < number.high:
            ends.append(0.0)  # which is further on the right side than both
        at, theirs, *ends = (
            number._replace(value=value).ahead for value in (number.value, one["theirs"], *ends)
        )
        known = 0 < half < np.inf
        scale = 1.0 if one["unit"] == POINTS else half if known else np.nan
        low, high = (min(ends) / scale, max(ends) / scale) if known else (np.nan, np.nan)
        drawn = {"at": at / scale, "low": low, "high": high, "paper": theirs / scale}
        rows.append(one | drawn | {"text": str(number._replace(known=half > 0))})
    return pd.DataFrame(rows)


def forest(found: pd.DataFrame) -> plt.Figure:
    """`deciding` as a row a claim: those in points, and below those in units of their own."""
    points = found["unit"] == POINTS
    parts = {
        POINTS: (found[points], (5, 10, 50)),
        "half widths of the row's own interval": (found[~points], (1, 2, 10, 50)),
    }
    sizes = [len(rows) + 3 * rows["id"].str[:2].nunique() for rows, _ in parts.values()]
    figure, axes = plt.subplots(2, 1, figsize=(12, 1.2 + 0.18 * sum(sizes)), height_ratios=sizes)
    for axis, (unit, (rows, ticks)) in zip(axes, parts.items(), strict=True):
        _forest(axis, rows)
        axis.set_xscale("symlog", linthresh=10 if unit == POINTS else 2, linscale=1.5)
        ticks = [*(-tick for tick in ticks), 0, *ticks]
        axis.set_xticks(ticks, [f"{tick:+g}" if tick else "line" for tick in ticks])
        axis.minorticks_off()
        edge = np.nanmax(rows[["at", "low", "high", "paper"]].abs(), initial=50)
        axis.set_xlim(-1.2 * edge, 1.2 * edge)
        axis.set_xlabel(f"{unit}; to the right is what the paper says", fontsize=8)
    axes[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=7, fontsize=8)
    figure.tight_layout()
    return figure


def _forest(axis: plt.Axes, rows: pd.DataFrame) -> None:
    """Rows paper by paper, with the claim at the left and the number at the right."""
    papers = rows["id"].str.split("-").str[0]
    rows = rows.assign(of=papers.map([*PAPERS].index)).sort_values(["of", "id"])
    rows["y"] = -np.arange(len(rows)) - 1.5 * rows["of"].rank(method="dense")
    for of, top in rows.groupby("of")["y"].max().items():
        name = [*PAPERS.values()][of]
        axis.text(
            0.005, top + 0.8, name, transform=axis.get_yaxis_transform(), weight="bold", fontsize=8
        )
    small = rows[rows["unit"] == POINTS]
    axis.barh(small["y"], 2 * small["d"], left=-small["d"], height=1, color=plots.FAINT, label="d")
    axis.plot(
        rows["paper"], rows["y"], "D", color=plots.INK, fillstyle="none", label="the paper's own"
    )
    for (verdict, run), part in rows.groupby(["verdict", "run"]):
        ends = part["at"] - part["low"], part["high"] - part["at"]
        how = {"fmt": "s" if run == "decide" else "o", "capsize": 2, "markersize": 4}
        known = axis.get_legend_handles_labels()[1]
        label = "_" if verdict in known else verdict
        axis.errorbar(part["at"], part["y"], xerr=ends, color=COLOURS[verdict], label=label, **how)
    axis.axvline(0, color=plots.INK, linewidth=1)
    words = [f"{id}  {CLAIMS[id].function.__name__.replace('_', ' ')}" for id in rows["id"]]
    axis.set_yticks(rows["y"], words, fontsize=7)
    axis.set_ylim(rows["y"].min() - 1, 0)
    axis.secondary_yaxis("right").set_yticks(rows["y"], rows["text"], fontsize=7)


PICTURES = {
    "decide": lambda: decide(_read("decide_numbers")),
    "verdicts": lambda: forest(
        deciding(*map(_read, ("decide_numbers", "claims_numbers", "notes/paper_numbers")))
    ),
    "study": study,
    "photos": lambda: photographs(_read("photos_doses"), _read("notes/doses")),
    "controls": lambda: controls(_read("controls").dropna(subset=["adds_pts"])),
    "why": lambda: why(_read("why")),
    "dose": lambda: dose(_read("dose")),
}


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(DOCS / "results" / f"{name}.csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=PICTURES)
    what = parser.parse_args().what
    plots.set_style()
    if figure := PICTURES[what]():
        figure.savefig(DOCS / f"{what}.png", dpi=100)


if __name__ == "__main__":
    main()
