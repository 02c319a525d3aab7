"""Tables of the studies whose runs have no notebook: photographs, controls, why it works, doses.

`python -m reproduction.runs.studies photos` writes those of what is made of `params/photos.yaml`
and `params/photos_elsewhere.yaml` into docs/results, `controls` those of the presets of CLASSES,
`why` and `dose` those of the presets of these names. What is asked, and the criteria that stood
before the runs: docs/photographs.md, docs/controls.md, docs/why.md, docs/dose.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count

import numpy as np
import pandas as pd
from scipy import special, stats

from habitats.benchmark import Benchmark, open_benchmark
from relevit.base.files import project_root
from relevit.evaluate.intervals import smallest_effect, student
from relevit.evaluate.lean import Interval, lean_of
from relevit.evaluate.predictions import predict
from relevit.finetune.learning_rate import taken_rate
from relevit.models import load_model
from reproduction.measures.class_changes import rank_correlation
from reproduction.measures.paired import ORIGINAL, difference, ends
from reproduction.params.cells import params_of
from reproduction.runs import dose, effects, grids, mechanism, parts
from reproduction.runs.effects import ARM
from reproduction.runs.run import (
    Row,
    judged,
    original_images,
    read,
    searched,
    training_images,
    weights_of,
)
from reproduction.stages import preset_file, read_stage

RESULTS = project_root() / "docs" / "results"
WORLDS = RESULTS / "notes" / "doses.csv"  # of Habitats
VAL, SAME, OTHER = "val", "same", "other"  # sets; the latter two of `lean.CONDITIONS`
LONGER = {"original 6": "_longer"}  # worlds, and how the names of their arms end
GAP = "gap"  # beside the conditions: right on a background of the same class, less of another
BIASES = (0, 4, 8)  # points of a gap that may be the masks' and not the model's
MATTERS = 2.0  # points, the bound of *as good*
POWER = 0.8  # with which the smallest effect that is seen is found beyond chance
RIVALS = ("label", "relevance", "swap")
ASKED = ("change", VAL, "gap_change", *(f"over_{rival}" for rival in RIVALS))
CLASSES = {"controls": "animals", "controls_things": "things"}  # of the presets
WITHIN = ["classes", "world"]
CONTROLS = ("others", "ellipse", "upside_down")
KNOWN = 1000  # images of the training kind that say whether an original is done
BATCH = 50


def planned(preset: str) -> pd.DataFrame:
    """The rows of 04_cures of a preset."""
    return grids.of(params_of("04_cures").from_preset(preset_file(preset)))


def asked(preset: str) -> pd.DataFrame:
    """The `planned` rows that are there; what is not is told.

    Raises: FileNotFoundError where there are none.
    """
    rows, missing = effects.split(planned(preset), missing=True)
    if rows.empty:
        raise FileNotFoundError(f"params/{preset}.yaml: {next(iter(missing.values()))}")
    sys.stderr.writelines(f"{reason}\n" for reason in missing.values())
    return rows


# Photographs


def photos() -> dict[str, pd.DataFrame]:
    """By file: all of `tables` of photographs; what follows from these; rates; and elsewhere."""
    rows = asked("photos")
    made = tables(*collected(rows), shifted_of(rows))
    made["photos_originals"] = originals(made["photos_doses"], pd.read_csv(WORLDS))
    made["photos_chance"] = chance(made["photos"])
    made["photos_rates"] = rates(rows)
    rows = asked("photos_elsewhere")
    there = dict(list(rows.groupby(rows["run"].map(_where), sort=False)))
    others = {where: tables(*collected(part), shifted_of(part)) for where, part in there.items()}
    for kind, name in (("photos", "photos_elsewhere"), ("photos_seeds", "photos_elsewhere_seeds")):
        each = {where: found[kind] for where, found in others.items()}
        made[name] = pd.concat(each, names=["where"]).reset_index("where")
    return made


def shifted_of(rows: pd.DataFrame) -> tuple[str, ...]:
    return open_benchmark(rows["run"].iloc[0].params).shifted_sets


def _where(row: Row) -> str:
    images = row.params.benchmark
    return images.source if images.source != "photo" else f"{images.side} pixels"


def collected(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Answers, on pictures and on changed backgrounds, and figures of rows, by arm and seed.

    The former have arm, seed, dataset (or condition, or GAP), index and right. An arm is named
    after its masks and originals, too.
    """
    masks = rows["masks"].where(rows["masks"] != "annotated", "")
    tails = masks.where(masks == "", "_" + masks) + rows["world"].map(LONGER).fillna("")
    rows = rows.assign(arm=rows["arm"] + tails)
    answers, figures = effects.study(rows, ["arm", "seed", "lr"])
    right = answers[["arm", "seed", "dataset", "index", "right"]].astype({"right": float})
    two = (right[right["dataset"] == name] for name in (SAME, OTHER))
    key = ["arm", "seed", "index"]
    gap = pd.merge(*two, on=key, suffixes=("", "_other"))
    gap = gap.assign(dataset=GAP, right=gap["right"] - gap["right_other"])
    seconds = [read(run)["seconds"] for run in rows["run"]]
    found = figures[["arm", "seed", "lr", "on_object_pct"]].fillna({"lr": 0.0})  # of an original
    found = found.assign(seconds=seconds)
    return pd.concat([right, gap[right.columns]], ignore_index=True), found


def rates(rows: pd.DataFrame) -> pd.DataFrame:
    """What the rule saw of each rate that an arm tried, which passes, and which is taken."""
    found = []
    first = rows[rows["arm"] != ORIGINAL].drop_duplicates("arm")
    for arm, run in zip(first["arm"], first["run"], strict=True):
        if tried := searched(run.params, run.rates):
            limit_pts = read_stage(run.params, "02_finetune").limit_pts
            seen = judged(tried)
            passes = (seen["drop_pts"] <= limit_pts) & ~seen["rising"].astype(bool)
            taken = seen["lr"] == taken_rate(seen, limit_pts)
            found.append(seen.assign(arm=arm, passes=passes, taken=taken))
    kept = ["arm", "lr", "drop_pts", "class_loss_before", "class_loss", "passes", "taken"]
    return pd.concat(found, ignore_index=True).reindex(columns=kept)


def tables(
    answers: pd.DataFrame, figures: pd.DataFrame, shifted: Sequence[str]
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
        for rival in RIVALS:
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
            row |= _ends(ours, label, "adds", shifted) | _ends(ours, label, "adds_other", [OTHER])
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
    own, rival = found["arm"].str.removesuffix("_longer"), found["what"].str[5:]
    tail = found["arm"].str.extract("(_longer$)")[0].fillna("")
    mirrored = (rival + tail).isin(arms["arm"]) & own.isin(RIVALS)
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


# Controls


def controls() -> dict[str, pd.DataFrame]:
    """By file: `controlled` of both presets, with shares."""
    both = pd.concat([controlled(preset) for preset in CLASSES], ignore_index=True)
    return {"controls": with_shares(both)}


def with_shares(found: pd.DataFrame) -> pd.DataFrame:
    """The share of what exact masks add that others add, in percent, with its interval.

    Of the ratio of two means, by Fieller (1954), from the half widths of the intervals of both and
    of their difference. Where these are of two rules (`relevit.evaluate.intervals`) it is near.
    """
    exact = found[found["masks"] == "annotated"].set_index([*WITHIN, "arm"])
    for place, row in found.dropna(subset=["adds_pts", "exact_leads_pts"]).iterrows():
        whole = exact.loc[tuple(row[[*WITHIN, "arm"]])]
        part, most = row["adds_pts"], whole["adds_pts"]
        a, b, c = (
            (line[f"{name}_high_pts"] - line[f"{name}_low_pts"]) ** 2 / 4
            for line, name in ((row, "adds"), (whole, "adds"), (row, "exact_leads"))
        )
        if most**2 <= b:
            continue  # where it is not sure that exact masks add, a share has no ends
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
    bench, network = open_benchmark(row.params), load_model(row.params.model, weights_of(row))
    spec = bench.spec(row.params.model)
    shown = bench.draw("validation", range(KNOWN), size=spec.image_size)
    return 100 * float((predict(network, spec, shown.split(BATCH))["label_rank"] == 0).mean())


def controlled(preset: str) -> pd.DataFrame:
    """A row for each arm, kind of masks and original, and what it is held against."""
    rows = asked(preset)
    bench = open_benchmark(params_of("04_cures").from_preset(preset_file(preset)))
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
        shifted = mine[mine["dataset"].isin(bench.shifted_sets)]
        line = {
            "classes": CLASSES[preset],
            "arm": arm,
            "masks": masks,
            "world": world,
            "original_images": original_images(row.params),
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


def why() -> dict[str, pd.DataFrame]:
    """By file: `mechanism.tables`."""
    rows = planned("why")
    return mechanism.tables(*parts.joined("why", rows), shifted_of(rows))


STUDIES: dict[str, Callable[[], dict[str, pd.DataFrame]]] = {
    "photos": photos,
    "controls": controls,
    "why": why,
    "dose": lambda: dose.tables(*parts.joined("dose", planned("dose"))),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=STUDIES)
    for name, table in STUDIES[parser.parse_args().study]().items():
        path = RESULTS / f"{name}.csv"
        table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")


if __name__ == "__main__":
    main()
