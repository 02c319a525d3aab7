"""Do cures hold on photographs? Make all runs, then docs/results/photos*.csv and docs/photos.png.

`python tools/photos.py PACS` goes on where it stopped. What is asked, and the criterion that stood
before the runs: docs/photographs.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from scipy import special, stats

from habitats.real.pacs import COUNTS, DOMAINS
from relevit.base.device import cores
from relevit.base.files import project_root
from relevit.base.results import read_json, read_rows, read_table
from relevit.evaluate.intervals import smallest_effect, student
from relevit.evaluate.lean import Interval, lean_of
from relevit.finetune.epochs import LOG
from relevit.finetune.learning_rate import judge, taken_rate
from reproduction import plots
from reproduction.measures.class_changes import rank_correlation
from reproduction.measures.paired import ORIGINAL, difference, ends
from reproduction.runs import photos
from reproduction.runs.photos import SEARCHED, TRAIN, VAL, Run, Study, domains, folder_of, tokencut

DOCS = project_root() / "docs"
WORLDS = DOCS / "results" / "notes" / "doses.csv"  # of Habitats
SEEDS = (0, 1, 2, 3, 4)
ARMS = ("label", "relevance", "swap", "swap_strange", "both", "l1", "last_layer_swap")
ARMS += ("gae_last3", "readout_last3")
RATES, HEAD_RATES = (1e-6, 5e-6, 2.5e-5), (1e-4, 1e-3, 1e-2)  # the latter of a head alone
LIMIT_PTS, ONE_RATE = 3.0, 5e-6  # of the rule; the rate of all arms, beside the rule's
CONTROLLED = ("relevance", "swap")
CONTROLS = ("others", "ellipse", "tokencut")  # masks that know no object; all that are kept
LONGER, LONGER_SEEDS, FROM_LONGER = 6, SEEDS[:3], ("label", "relevance")  # epochs; arms
# The same seen at more pixels, and learnt from other domains, at the rates found above.
ELSEWHERE = {"224 pixels": {"side": 224}}
ELSEWHERE |= {name: {"source": name} for name in ("art_painting", "cartoon")}
ELSEWHERE_SEEDS = SEEDS[:2]
ELSEWHERE_ARMS = ("label", "relevance", "swap", "swap_strange", "both")
GAP = "gap"  # beside the conditions: right on a background of the same class, less of another
BIASES = (0, 4, 8)  # points of a gap that may be the masks' and not the model's
MATTERS = 2.0  # points, the bound of *as good*
POWER = 0.8  # with which the smallest effect that is seen is found beyond chance
ASKED = ("change", VAL, "gap_change", "over_label", "over_relevance", "over_swap")


# Which runs


def tries(seed: int = SEARCHED) -> list[Run]:
    """The runs that the rule looks at."""
    grids = {arm: HEAD_RATES if arm.startswith("last_layer") else RATES for arm in ARMS}
    return [Run(arm, seed, lr) for arm, grid in grids.items() for lr in grid]


def judged(study: Study) -> pd.DataFrame:
    """What the rule looks at in each of `tries`, which passes, and which rate of an arm is taken.

    The highest that passes; where none does, the lowest.
    """
    rows = []
    for run in tries():
        folder = folder_of(study, run)
        failed = read_json(folder / photos.MADE)["failed"]
        history = None if failed else read_rows(folder / LOG)
        rows.append({"arm": run.arm} | judge(run.lr, history, photos.settings_of(run)))
    table = pd.DataFrame(rows)
    table["passes"] = (table["drop_pts"] <= LIMIT_PTS) & ~table["rising"].astype(bool)
    parts = table.groupby("arm")
    taken = {arm: taken_rate(part, LIMIT_PTS) for arm, part in parts}
    return table.assign(taken=table["lr"] == table["arm"].map(taken))


def grid(rates: Mapping[str, float]) -> Iterator[tuple[str, Run]]:
    """All runs that answer, with their arm's name in the tables; what matters most is first.

    Where the rule takes another rate than ONE_RATE, that is tried, too.
    """
    for seed in SEEDS:
        yield ORIGINAL, Run(ORIGINAL, seed)
        yield from ((arm, Run(arm, seed, rates[arm])) for arm in ARMS)
    for seed in SEEDS:
        others = [x for x in ARMS if rates[x] != ONE_RATE and not x.startswith("last_layer")]
        yield from ((f"{arm}_5e-6", Run(arm, seed, ONE_RATE)) for arm in others)
    for seed in SEEDS:
        for arm in CONTROLLED:
            yield from ((f"{arm}_{m}", Run(arm, seed, rates[arm], m)) for m in CONTROLS)
    for seed in LONGER_SEEDS:
        yield f"{ORIGINAL}_longer", Run(ORIGINAL, seed, epochs=LONGER)
        for arm in FROM_LONGER:
            yield f"{arm}_longer", Run(arm, seed, rates[arm], epochs=LONGER)


def smaller(rates: Mapping[str, float]) -> Iterator[tuple[str, Run]]:
    """The runs of each of ELSEWHERE, named as those of `grid`."""
    for seed in ELSEWHERE_SEEDS:
        yield ORIGINAL, Run(ORIGINAL, seed)
        yield from ((arm, Run(arm, seed, rates[arm])) for arm in ELSEWHERE_ARMS)


def elsewhere(study: Study) -> dict[str, Study]:
    return {name: replace(study, **changed) for name, changed in ELSEWHERE.items()}


def make_all(study: Study, jobs: int) -> pd.DataFrame:
    """Make what is missing, `jobs` side by side; what the rule saw."""
    threads = (max(1, cores() // jobs),)
    start = {"mp_context": get_context("spawn"), "initializer": torch.set_num_threads}
    with ProcessPoolExecutor(jobs, **start, initargs=threads) as pool:

        def all_of(work: Callable, items: Iterable, of: Study = study) -> None:
            waiting = {pool.submit(work, of, item): item for item in dict.fromkeys(items)}
            for done, each in enumerate(as_completed(waiting), 1):
                each.result()
                print(f"{done} of {len(waiting)}: {waiting[each]}", flush=True)

        all_of(tokencut, [TRAIN, VAL])
        all_of(photos.train, [Run(ORIGINAL, seed) for seed in SEEDS])
        all_of(photos.train, tries())
        rates = judged(study)
        all_of(photos.train, [Run(ORIGINAL, seed, epochs=LONGER) for seed in LONGER_SEEDS])
        all_of(photos.answer, [run for _, run in grid(taken(rates))])
        for other in elsewhere(study).values():
            all_of(tokencut, [TRAIN, VAL], other)
            all_of(photos.train, [Run(ORIGINAL, seed) for seed in ELSEWHERE_SEEDS], other)
            all_of(photos.answer, [run for _, run in smaller(taken(rates))], other)
    return rates


def taken(rates: pd.DataFrame) -> dict[str, float]:
    return rates[rates["taken"]].set_index("arm")["lr"].to_dict()


# What came out


def collected(study: Study, runs: Iterable[tuple[str, Run]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Answers, on pictures and on changed backgrounds, and figures of all runs that have them.

    The first have arm, seed, dataset (or condition), index and right. Runs that are not made yet,
    or whose loss became infinite, are named.
    """
    answers, figures = [], []
    for arm, run in runs:
        named = {"arm": arm, "seed": run.seed}
        try:
            folder = folder_of(study, run)
            made, seen, lean, looks = (
                read_json(folder / photos.MADE),
                *(read_table(folder / f"{name}.parquet") for name in ("answers", "lean", "looks")),
            )
        except FileNotFoundError as error:
            print(f"left out: {run}: {error}", file=sys.stderr)
            continue
        seen["right"] = (seen["label_rank"] == 0).astype(float)
        lean = lean.astype({"right": float}).rename(
            columns={"condition": "dataset", "image": "index"}
        )
        wide = lean.pivot(index="index", columns="dataset", values="right")
        gap = (wide["same"] - wide["other"]).dropna().rename("right").reset_index()
        parts = [seen, lean, gap.assign(dataset=GAP)]
        answers += [part[["dataset", "index", "right"]].assign(**named) for part in parts]
        told = {"lr": run.lr, "on_object_pct": looks["on_object_pct"].mean()}
        figures.append(named | told | {"seconds": made["seconds"]})
    return pd.concat([pd.DataFrame(), *answers], ignore_index=True), pd.DataFrame(figures)


def tables(
    answers: pd.DataFrame, figures: pd.DataFrame, shifted: Sequence[str] = DOMAINS[1:]
) -> dict[str, pd.DataFrame]:
    """By file: arms; by set and condition, seeds together and apart; originals' dose and response.

    Of seeds apart anybody can make the intervals again that the seeds alone decide.
    """
    of = dict(list(answers.groupby("arm", sort=False)))
    means = figures.groupby("arm", sort=False).mean(numeric_only=True)
    places = [VAL, *shifted]
    places += [place for place in answers["dataset"].unique() if place not in places]
    arms, by_set = [], []
    for arm, mine in of.items():
        start = of[_beside(arm, ORIGINAL, of)] if arm != f"{ORIGINAL}_longer" else of[ORIGINAL]
        row = {"arm": arm, "lr": means.loc[arm, "lr"], "seeds": mine["seed"].nunique()}
        row |= _level(mine, "shifted", shifted)
        if arm != ORIGINAL:
            row |= _ends(mine, start, "change", shifted) | _ends(mine, start, VAL, [VAL])
            row |= _ends(mine, start, "gap_change", [GAP])
        for rival in ("label", "relevance", "swap"):
            other = _beside(arm, rival, of)
            if other.endswith("_longer") != arm.endswith("_longer"):
                continue  # from another original
            if other in of and other != arm and ORIGINAL not in arm:
                row |= _ends(mine, of[other], f"over_{rival}", shifted)
                row[f"better_than_{rival}"] = difference(mine, of[other], shifted)["seeds_better"]
        row |= _level(mine, GAP, [GAP])
        arms.append(row | means.loc[arm, ["on_object_pct", "seconds"]].to_dict())
        for place in places:
            found = {"arm": arm, "dataset": place}
            found |= _level(mine, "top1", [place])
            found |= _ends(mine, start, "change", [place]) if arm != ORIGINAL else {}
            by_set.append(found)
    apart = answers.groupby(["arm", "seed", "dataset"], sort=False)["right"].mean()
    return {
        "photos": pd.DataFrame(arms),
        "photos_sets": pd.DataFrame(by_set),
        "photos_seeds": (100 * apart).rename("top1_pct").reset_index(),
        "photos_doses": doses(of, shifted),
    }


def doses(of: Mapping[str, pd.DataFrame], shifted: Sequence[str]) -> pd.DataFrame:
    """How much each original leans, and what relevance adds to labels there.

    `line` is what the worlds of Habitats say of such a gap (docs/context.md). `adds` on the other
    domains, `adds_other` on photographs on another class's background. Rows are
    seeds of either original, and `all` of them together.
    """
    rows, worlds = [], line(pd.read_csv(WORLDS))
    for tail in ("", "_longer"):
        parts = [of.get(name + tail) for name in (ORIGINAL, "relevance", "label")]
        if any(part is None for part in parts):
            continue
        for seed in ("all", *sorted(parts[1]["seed"].unique())):
            three = (part if seed == "all" else part[part["seed"] == seed] for part in parts)
            start, ours, label = three
            row = {"original": ORIGINAL + tail, "seed": seed}
            row |= _level(start, GAP, [GAP])
            row["line_pts"] = np.interp(row["gap_pts"], worlds["gap_pts"], worlds["adds_pts"])
            row |= _ends(ours, label, "adds", shifted) | _ends(ours, label, "adds_other", ["other"])
            rows.append(row)
    return pd.DataFrame(rows)


def originals(found: pd.DataFrame, worlds: pd.DataFrame) -> pd.DataFrame:
    """What `doses` say of the originals, seed by seed: a question each, Student's t over seeds.

    What the line says less what relevance added, were so much of each gap the masks' (BIASES); what
    relevance adds after longer originals less after those of the same seeds; the rank correlation
    of gap and what relevance adds, over all. And of all seeds together the lean, as an audit has
    it, and how many seeds that differ so would see MATTERS points with POWER.
    """
    each = found[found["seed"].astype(str) != "all"]
    shorter, longer = (each[each["original"] == ORIGINAL + tail] for tail in ("", "_longer"))
    known, asked = line(worlds), {}
    for bias in BIASES:
        said = np.interp(shorter["gap_pts"] - bias, known["gap_pts"], known["adds_pts"])
        asked[f"line less relevance, bias {bias}"] = said - shorter["adds_pts"]
    adds = (part.set_index("seed")["adds_pts"] for part in (longer, shorter))
    asked["longer less shorter"] = np.subtract(*pd.concat(adds, axis=1).dropna().to_numpy().T)
    rows = [
        (name, np.mean(x), *stats.t.interval(0.95, len(x) - 1, np.mean(x), stats.sem(x)))
        for name, x in asked.items()
    ]
    correlated = rank_correlation(each["gap_pts"], each["adds_pts"])
    rows.append(("rank correlation", *[*correlated.values()][1:]))
    whole = found[found["original"] == ORIGINAL].drop(index=shorter.index)
    gap = whole[["gap_pts", "gap_low_pts", "gap_high_pts"]].iloc[0]
    rows.append(("lean", *lean_of(Interval(len(shorter), *gap), "tokencut")[1:]))
    seeds = (n for n in count(2) if errors_seen(n) * shorter["adds_pts"].std() / n**0.5 <= MATTERS)
    rows.append((f"seeds that see {MATTERS:g} points", next(seeds), np.nan, np.nan))
    return pd.DataFrame(rows, columns=["question", "value", "low", "high"])


def chance(arms: pd.DataFrame) -> pd.DataFrame:
    """How sure each difference of `arms` is, what of it survives that all are asked, and power.

    A row each; where both arms name it, the better one's. `beyond`: its interval does not reach 0.
    `p` is what Student's t of the seeds makes of that; where images made it wider, p is too large.
    `p_bh` and `p_holm` are p among all rows (Benjamini and Hochberg 1995, Holm 1979). `sees_pts` is
    the smallest effect that as many seeds, which differ as these do, find with POWER.
    """
    rows = []
    for arm in arms.to_dict("records"):
        for what in ASKED:
            ends = [arm[f"{what}{end}_pts"] for end in ("", "_low", "_high")]
            rows.append((arm["arm"], what, *ends, arm["seeds"]))
    columns = ["arm", "what", "value_pts", "low_pts", "high_pts", "seeds"]
    found = pd.DataFrame(rows, columns=columns).dropna()
    tail, rival = found["arm"].str.extract("(_longer$)")[0].fillna(""), found["what"].str[5:]
    mirrored = (rival + tail).isin(arms["arm"]) & found["arm"].isin({"label", "relevance", "swap"})
    mirrored |= found["arm"].isin({"label_longer", "relevance_longer"}) & rival.isin(FROM_LONGER)
    found = found[~(mirrored & (found["value_pts"] < 0))].copy()
    freedom = found["seeds"].to_numpy() - 1
    error = (found["high_pts"] - found["low_pts"]) / 2 / student(freedom)
    found["p"] = 2 * special.stdtr(freedom, -found["value_pts"].abs() / error)
    found["p"] = found["p"].fillna(1.0)  # of one seed, or of no difference in any
    found["beyond"] = (found["low_pts"] > 0) | (found["high_pts"] < 0)
    found["p_bh"] = stats.false_discovery_control(found["p"])
    rising = found["p"].sort_values()
    found["p_holm"] = (rising * np.arange(len(rising), 0, -1)).cummax().clip(upper=1)
    return found.assign(sees_pts=error * found["seeds"].map(errors_seen))


def errors_seen(seeds: int) -> float:
    """How many standard errors off 0 an effect is that so many seeds find with POWER."""
    return float(smallest_effect(student(seeds - 1), seeds - 1, POWER))


def line(worlds: pd.DataFrame) -> pd.DataFrame:
    """Between the worlds of Habitats; of those with the same gap the mean."""
    return worlds.groupby("gap_pts", as_index=False).mean(numeric_only=True)


def _beside(arm: str, rival: str, of: Mapping[str, pd.DataFrame]) -> str:
    """The rival of an arm: of the same original and, where there is one, at the same rate."""
    tails = [tail for tail in ("_longer", "_5e-6") if arm.endswith(tail)]
    return next((rival + tail for tail in tails if rival + tail in of), rival)


def _ends(ours: pd.DataFrame, other: pd.DataFrame, name: str, sets: Sequence) -> dict[str, float]:
    """`name_pts`, `name_low_pts` and `name_high_pts` of a difference, by the seeds of both."""
    pair = [seen[seen["dataset"].isin(sets)] for seen in (ours, other)]
    return ends(difference(*pair, sets), name)


def _level(seen: pd.DataFrame, name: str, sets: Sequence) -> dict[str, float]:
    """The same of top-1 itself, in percent; of the gap in points."""
    found = _ends(seen, seen.assign(right=0.0), name, sets)
    return {key if name == GAP else key.replace("_pts", "_pct"): x for key, x in found.items()}


def picture(found: pd.DataFrame, habitats: pd.DataFrame) -> plt.Figure:
    """Dose and response: the worlds of Habitats (docs/context.md), and photographs beside them."""
    plots.set_style()
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


def write(study: Study, rates: pd.DataFrame, docs: Path = DOCS) -> None:
    """The files in `docs`."""
    made = tables(*collected(study, grid(taken(rates))), study.shifted)
    others = {}
    for name, other in elsewhere(study).items():
        answers, figures = collected(other, smaller(taken(rates)))
        if len(figures):
            others[name] = tables(answers, figures, other.shifted)
    for kind, name in (("photos", "photos_elsewhere"), ("photos_seeds", "photos_elsewhere_seeds")):
        if others:
            each = {where: found[kind] for where, found in others.items()}
            made[name] = pd.concat(each, names=["where"]).reset_index("where")
    worlds = pd.read_csv(WORLDS)
    made["photos_originals"] = originals(made["photos_doses"], worlds)
    made["photos_chance"] = chance(made["photos"])
    kept = ["arm", "lr", "drop_pts", "class_loss_before", "class_loss", "passes", "taken"]
    made["photos_rates"] = rates.reindex(columns=kept)
    for name, table in made.items():
        path = docs / "results" / f"{name}.csv"
        table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
    picture(made["photos_doses"], worlds).savefig(docs / "photos.png", dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=Path("PACS"), help="folder of PACS")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="runs side by side")
    parser.add_argument("--tables", action="store_true", help="of what is made, and no more runs")
    given = parser.parse_args()
    try:
        for name, part in domains(given.data).items():
            print(f"{name}: {len(part)} of {COUNTS[name]} pictures", flush=True)
    except (ValueError, FileNotFoundError) as error:
        sys.exit(str(error))
    study = Study(given.data.resolve(), project_root() / "outputs" / "photos")
    rates = judged(study) if given.tables else make_all(study, given.jobs)
    write(study, rates)


if __name__ == "__main__":
    main()
