"""What runs came to: numbers, how an arm is scored against another, and tables of both in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from habitats.benchmark import Benchmark, open_benchmark
from habitats.composing import home_family
from habitats.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.base.results import read_rows
from relevit.data.batch import Batch
from relevit.evaluate.frozen_features import linear_probe
from relevit.evaluate.looking import Look
from relevit.finetune.augmenting import augmented, backgrounds
from relevit.finetune.epochs import LOG, History
from relevit.finetune.epochs import read as read_losses
from relevit.finetune.learning_rate import taken_rate
from relevit.finetune.loop import only, train_step
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import make_optimizer
from relevit.models import checkpoints
from relevit.models.spec import ModelSpec
from reproduction.measures.accuracies import COLUMNS, beside_original, changes
from reproduction.measures.paired import ORIGINAL, difference, ends, figure_means
from reproduction.measures.sets import answer_sets, load_classifier
from reproduction.paper.published import published_changes
from reproduction.params.cells import Params
from reproduction.runs.grids import MODELS, OWN
from reproduction.runs.run import (
    FailedError,
    Row,
    answers,
    judged,
    rates_of_arm,
    read,
    searched_arms,
)
from reproduction.stages import changed_from_preset, read_stage, read_summary, results_of
from reproduction.training.original import untrained

TWINS = [*("world", "seed"), *("arm", "relevance")]  # what tells one model of 03_robustness apart
ARM = ["arm", "masks", "images_per_class", "world"]  # and one arm of 04_cures
ANSWER = ["dataset", "index", "label", "prediction", "label_rank"]
LEANING = {  # what a table for people calls these figures
    "mixed_same_pct": "at home, %",
    "mixed_random_pct": "elsewhere, %",
    "background_gap_pts": "gap, points",
    "on_object_pct": "on the object, %",
}
LOSSES = "background", "relevance"  # of the terms on the map, as logs have them
FLAT = "of a flat map"  # the zero of relevance on the object
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
MAPS = {  # of 05a_ablations and its study, and what trains without a map
    "gae": "GAE",
    "legrad": "LeGrad",
    "attn_lrp": "AttnLRP",
    "label": "labels alone",
}
BLOCKS = {"": "", "1": ", last block", "2": ", last two blocks", "3": ", last three blocks"}
WORDS = {  # what `maps_in_words` calls the columns
    "change_pts": "change",
    "over_label_pts": "over labels",
    "over_swap_pts": "over swap",
    "over_same_pts": "over GAE, same blocks",
    "over_gae_pts": "over GAE, all blocks",
    "val_pts": "val",
    "background_gap_pts": "gap",
    "on_object_pct": "on the object, %",
    "on_object_libra_pct": "by LibraGrad, %",
    "memory_mib": "kept, MiB",
}


def split(table: pd.DataFrame, missing: bool = False) -> tuple[pd.DataFrame, dict[str, str]]:
    """The rows of a table whose runs are there, and by name why others have failed.

    Raises: FileNotFoundError for a run that is not made, as `run.read`, unless `missing` counts
    these with those that failed.
    """
    lost: dict[str, str] = {}
    for run in table["run"]:
        try:
            read(run)
        except (FailedError, FileNotFoundError) as error:
            if isinstance(error, FileNotFoundError) and not missing:
                raise
            lost[run.name] = str(error)
    return table[[run.name not in lost for run in table["run"]]], lost


def study(table: pd.DataFrame, keys: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What runs answered, and their figures.

    `keys` are columns of `grids.of`, or `lr`, the rate of a run. Returns `answers`, one row a run
    and test image (keys, ANSWER, right, in_a: whether the class is in A), and `figures`, one row a
    run (keys, means of `relevance_shares`, and of Habitats what `backgrounds_challenge` finds).
    Raises: as `run.read`.
    """
    parts, figures = [], []
    for row in table.to_dict("records"):
        run, made = row["run"], read(row["run"])
        named = {key: made["lr"] if key == "lr" else row[key] for key in keys}
        looks = dict(made["figures"]) if run.looked_at else {}
        figures.append({key: named[key] for key in keys if key != "lr"} | looks)
        if "lr" in keys:
            figures[-1]["lr"] = named["lr"]
        if run.images_per_set:
            first, _ = open_benchmark(run.params).split(row["seed"])
            seen = answers(run)[ANSWER].assign(**named)
            right, in_a = seen["label_rank"] == 0, seen["label"].isin(first)
            parts.append(seen.assign(right=right, in_a=in_a)[[*keys, *ANSWER, "right", "in_a"]])
    return pd.concat(parts, ignore_index=True), pd.DataFrame(figures)


def right_by_model(answers: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Whether each of MODELS names an image rightly, of one seed in the preset's own world.

    `answers` as from `study` with TWINS. A row an image (dataset, index), a column a model.
    """
    own = answers[(answers["world"] == OWN) & (answers["seed"] == seed)]
    own = own.set_index(["dataset", "index"])
    return pd.DataFrame({
        name: own.loc[(own["arm"] == arm) & (own["relevance"] == on), "right"]
        for name, (arm, on) in MODELS.items()
    })  # fmt: skip


def classes_a(table: pd.DataFrame, arm: str) -> dict[str, list[int]]:
    """The labels that each run of an arm was finetuned on, in the preset's own world, by `seed<N>`.

    `table` is that of `grids.of`. Raises: as `run.read`.
    """
    own = table[(table["world"] == OWN) & (table["arm"] == arm) & table["relevance"]]
    return {f"seed{row.seed}": read(row.run)["classes_a"] for row in own.itertuples()}


def looking(figures: pd.DataFrame) -> pd.DataFrame:
    """Where the preset's own models look, means over seeds.

    Index: original, with and without the relevance terms; columns: figures of `runs.Row`.
    """
    means = figure_means(figures).loc[OWN]
    return pd.DataFrame({name: means.loc[key] for name, key in MODELS.items()}).T


def leaning(figures: pd.DataFrame) -> pd.DataFrame:
    """How much each of MODELS leans on its context, mean over seeds, with LEANING's columns.

    `figures` as from `study` with TWINS. Of photographs only what is known of them.
    """
    return looking(figures).filter(list(LEANING)).rename(columns=LEANING)


def score(table: pd.DataFrame, by: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Runs beside the original of their model, set by set, and groups of them on the shifted sets.

    `by` are columns that tell groups of runs apart, which differ in the seed alone. Returns the
    rows of `beside_original` with these, seed and rate; and the change of each group against the
    original, with its interval as `difference` has it. Raises: as `study`.
    """
    keys = list(dict.fromkeys([*by, "seed", "lr", "model", "arm"]))
    seen, _ = study(table, keys)
    before = dict(list(seen[seen["arm"] == ORIGINAL].groupby(["model", "seed"])))
    parts, found = [], []
    for group, mine in seen[seen["arm"] != ORIGINAL].groupby(list(by), sort=False):
        runs = dict(list(mine.groupby(["model", "seed"], sort=False)))
        for key, run in runs.items():
            named = {name: run[name].iloc[0] for name in (*by, "seed", "lr")}
            parts.append(beside_original(run, before[key]).assign(**named))
        start = pd.concat([before[key] for key in runs])
        found.append(dict(zip(by, group, strict=True)) | difference(mine, start).to_dict())
    columns = [*by, "seed", *COLUMNS, "lr"]
    if not parts:
        return pd.DataFrame(columns=columns), pd.DataFrame()
    return pd.concat(parts, ignore_index=True)[columns], pd.DataFrame(found)


def last_losses(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The terms on the map in the last epoch, mean over its steps and the runs of a group.

    `background_loss` is Eq. 1, `relevance_loss` both with their weights; NaN where nothing trains
    them. Raises: as `run.read`.
    """
    found = []
    for row in table[table["arm"] != ORIGINAL].to_dict("records"):
        log = read_rows(read(row["run"]).path.parent / LOG)[-1]
        losses = {f"{name}_loss": log.get(f"train_loss_{name}") for name in LOSSES}
        found.append({key: row[key] for key in by} | losses)
    return pd.DataFrame(found).groupby(list(by), sort=False).mean().reset_index()


def along(table: pd.DataFrame, axes: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """As `score`, of runs along `axes`; the groups are in their order, with the change on `val`."""
    scores, shifted = score(table, axes)
    val = changes(scores, [*axes])["val"].reset_index()
    return scores, shifted.merge(val).sort_values([*axes])


def compared(
    answers: pd.DataFrame,
    figures: pd.DataFrame,
    bench: Benchmark,
    rivals: Mapping[str, Mapping[str, str]],
) -> pd.DataFrame:
    """One row for each arm, kind of masks, images of a class and world (ARM).

    `answers` and `figures` as from `study` with ARM, seed and lr. `change_pts` against the original
    and `<name>_pts` against the rival of each of `rivals` (by arm) with the same masks and images
    are of the shifted sets, with intervals (`<name>_low_pts`, `<name>_high_pts`); `val_pts` of
    `val`. Further `seeds`, `seeds_better` than the rival called `lead`, `worst_class_pct` and
    `worst_home_pct`, and means of the figures.
    """
    of_group = dict(list(answers.groupby(ARM, sort=False)))
    before = dict(list(answers[answers["arm"] == ORIGINAL].groupby("world")))
    looks = dict(list(figures.groupby(ARM)))
    found = []
    for (arm, *place), seen in of_group.items():
        if arm == ORIGINAL:
            continue
        start = before[place[-1]]
        row = dict(zip(ARM, (arm, *place), strict=True))
        row |= difference(seen, start, bench.shifted_sets).drop("seeds_better")
        row["val_pts"] = difference(seen, start, ["val"])["change_pts"]
        for name, of_arm in rivals.items():
            rival = of_group.get((of_arm.get(arm), *place))
            if rival is not None:
                lead = difference(seen, rival, bench.shifted_sets)
                row |= ends(lead, name)
                row |= {"seeds_better": lead["seeds_better"]} if name == "lead" else {}
        means = looks[arm, *place].drop(columns=[*ARM, "seed"]).mean()
        found.append(row | worst(seen, bench) | means.to_dict())
    return pd.DataFrame(found)


def beside_ours(table: pd.DataFrame, ours: str) -> pd.DataFrame:
    """One row an arm of one model: its change against the original, and what `ours` leads it by.

    `table` has the originals and arms of one model. `change_pts` and `lead_pts`, which the row of
    `ours` lacks, are of the shifted sets, on the same seeds and images, with intervals as
    `difference` has them. Raises: as `study`.
    """
    answered, _ = study(table, ["arm", "seed"])
    of_arm = dict(list(answered.groupby("arm", sort=False)))
    before, found = of_arm.pop(ORIGINAL), {}
    for arm, seen in of_arm.items():
        found[arm] = difference(seen, before).drop("seeds_better").to_dict()
        if arm != ours:
            found[arm] |= ends(difference(of_arm[ours], seen), "lead")
    return pd.DataFrame.from_dict(found, orient="index")


def searches(cfg: Params) -> pd.DataFrame:
    """All learning rates that 04a_cures tries, a row each.

    Model, method and protocol, what `run.judged` has of each rate, and `used`: the highest that
    passes the paper's rule, or where none does the lowest. Raises: as `run.read`.
    """
    limit_pts, found = read_stage(cfg, "02_finetune").limit_pts, []
    for model, method, protocol in searched_arms(cfg):
        tried = judged(rates_of_arm(cfg, model, method, protocol))
        used = tried["lr"] == taken_rate(tried, limit_pts)
        named = {"model": model, "method": method, "protocol": protocol, "used": used}
        found.append(tried.assign(**named))
    return pd.concat(found, ignore_index=True)


def over_relevance(table: pd.DataFrame) -> dict[str, dict[str, str]]:
    """The rival of the arms of 04_cures: `lead` is that over relevance."""
    return {"lead": dict.fromkeys(set(table["arm"]) - {"relevance"}, "relevance")}


def over_twins(table: pd.DataFrame) -> dict[str, dict[str, str]]:
    """The rivals of the maps of 05a_ablations.

    `over_label` and `over_swap` are leads over the arm that trains the same blocks without a map,
    on images as they are and on swapped ones, `over_same` that over GAE on the same blocks, and
    `over_gae` that over GAE on all.
    """
    of_arm = {row.arm: row.run.params for row in table.itertuples() if row.arm != ORIGINAL}
    found: dict[str, dict[str, str]] = {"over_label": {}, "over_swap": {}}
    for name, augmentation in zip(found, ("none", "swap"), strict=True):
        for arm, own in of_arm.items():
            for rival, other in of_arm.items():
                plain = other.weight_relevance == 0 and other.augmentation == augmentation
                if plain and other.trained_blocks == own.trained_blocks and rival != arm:
                    found[name].setdefault(arm, rival)
    gae = {of_arm[arm].trained_blocks: arm for arm in of_arm if arm.split("_last")[0] == "gae"}
    same = {arm: gae.get(own.trained_blocks, arm) for arm, own in of_arm.items()}
    found["over_same"] = {arm: rival for arm, rival in same.items() if rival != arm}
    return found | {"over_gae": {arm: "gae" for arm in of_arm if arm != "gae"}}


def worst(seen: pd.DataFrame, bench: Benchmark) -> dict[str, float]:
    """Top-1 in percent of the class, and of the home whose five classes, that a model knows least.

    Mean over seeds of each run's worst, on the shifted sets: a mean over classes hides whom a cure
    leaves behind.
    """
    shown = seen[seen["dataset"].isin(bench.shifted_sets)]
    groups = {"worst_class_pct": shown["label"]}
    if bench.homes() is not None:
        groups["worst_home_pct"] = shown["label"].map(home_family)
    found = {
        name: 100 * shown.groupby(["seed", by])["right"].mean().groupby("seed").min()
        for name, by in groups.items()
    }
    return pd.DataFrame(found).mean().to_dict()


def probed(cfg: Params, bench: Benchmark, original: Row, folder: Path) -> pd.DataFrame:
    """The preset's model as it comes, under a head fitted to `probe_images`, on the nine sets.

    Rows as of `effects.score`, beside those of the finetuned `original`; method `linear_probe`
    (RobustViT, supplement L). Weights and answers are kept in `folder`.
    """
    spec = bench.spec(cfg.model)
    seen = bench.draw("train", range(cfg.probe_images))
    probe = linear_probe(untrained(cfg.model, device=cfg.device), spec, seen)
    path = folder / "linear_probe.safetensors"
    checkpoints.save_weights(path, probe, cfg.model)
    classifier = load_classifier(bench, cfg.model, path, device=cfg.device)
    found = answer_sets(classifier, path, folder / "linear_probe", bench, cfg.images_per_set)
    named = {"model": cfg.model, "method": "linear_probe", "protocol": "", "masks": "", "seed": 0}
    return beside_original(found, answers(original)).assign(**named)


def step_price(
    network: nn.Module, spec: ModelSpec, train: Batch, settings: FinetuneSettings, steps: int = 3
) -> dict[str, float]:
    """What a step of training costs: `seconds`, the median of some, and `memory_mib`.

    The memory is what autograd keeps for the backward pass, each storage once: nearly all that a
    step needs beside weights and optimiser. `network` is left as it is.
    """
    network, others = deepcopy(network).train(), backgrounds(train, settings.augmentation)
    optimizer, kept, taken = make_optimizer(network, settings), {}, []

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()  # held, as a place that is free is used again
        kept[storage.data_ptr()] = storage
        return tensor

    weights = {weight.untyped_storage().data_ptr() for weight in network.parameters()}
    batch = train.select(range(len(train))[: settings.batch_size])
    with only(network, optimizer.param_groups[0]["params"]):
        for step in range(steps + 1):
            begun, rng = perf_counter(), np.random.default_rng(step)
            changed = augmented(batch, settings.augmentation, others, rng)
            with saved_tensors_hooks(keep, lambda kept: kept) if step == 0 else nullcontext():
                read_losses([train_step(network, spec, optimizer, changed, rng, settings)])
            taken.append(perf_counter() - begun)
    used = sum(part.nbytes() for place, part in kept.items() if place not in weights)
    return {"seconds": float(np.median(taken[1:])), "memory_mib": used / 2**20}


def of_study(question: str = "cures") -> pd.DataFrame:
    """What `make study` came to, as `compared` has it: `cures` of 04_cures, or `maps`.

    These are of 05a_ablations. Five seeds, 40 classes of things, the preset's own original; made
    once. Source: docs/cures.md (on a GPU in float32) and docs/maps.md (on a CPU in mixed
    precision).
    """
    path = files("reproduction") / "assets" / "data" / f"{question}_study.csv"
    with path.open(encoding="utf-8") as table:
        return pd.read_csv(table)


# In words, for people: of one run, then of many


def signed(value: float) -> str:
    """`+0.4`; what rounds to nothing is `+0.0`, and what is not there is left out."""
    return "" if pd.isna(value) else f"{value:+z.1f}"


def points(row: Mapping[str, float], value: str, low: str, high: str) -> str:
    """`+7.0 (+5.4 to +8.7)`, and nothing where a row has no such number."""
    middle, *ends = (signed(row.get(name, float("nan"))) for name in (value, low, high))
    return middle and f"{middle} ({ends[0]} to {ends[1]})"


def before_and_after(looks: Sequence[Look], filled_pct: float) -> pd.DataFrame:
    """Two looks at the same images: before, after, change.

    Beside the relevance on the object stands its zero: what a flat map has there, of images that
    the object fills to so many percent.
    """
    on = "relevance on the object, %"
    figures = {
        on: [float(seen.on_object_pct.mean()) for seen in looks],
        "overlap of map and mask (IoU), %": [float(seen.iou_pct.mean()) for seen in looks],
        "right answers, %": [100 * float(seen.right.float().mean()) for seen in looks],
    }
    table = pd.DataFrame(figures, index=["before", "after"], dtype=float).T
    table["change"] = table["after"] - table["before"]
    table.loc[on, FLAT] = filled_pct
    return table


def searched_logs(rows: Iterable[Row]) -> dict[float, History]:
    """The log of each run of a search by its rate, without those whose loss became infinite."""
    made = [row for row in rows if not read(row, or_diverged=True)["failed"]]
    return {row.params.lr: read_rows(row.folder / LOG) for row in made}


def rates_in_words(judged: pd.DataFrame, chosen: float | None) -> pd.DataFrame:
    """What the rule saw at each rate (`run.judged`); a fall of validation top-1 has a minus."""
    return pd.DataFrame(
        {
            "learning rate": judged["lr"].map("{:g}".format),
            "change of validation top-1, points": (-judged["drop_pts"]).map(signed),
            "class loss rises": judged["rising"].map({True: "yes", False: "no"}),
            "chosen": judged["lr"].eq(chosen).map({True: "yes", False: ""}),
        }
    ).set_index("learning rate")


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
    """The arms of `compared`, the largest gain first."""
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
    """What `beside_ours` has of each arm."""
    return pd.DataFrame(
        {
            "seeds": arms["seeds"].map("{:.0f}".format),
            "change, points": _points(arms, "change_pts", "low_pts", "high_pts"),
            "ours minus this": _points(arms, "lead_pts", "lead_low_pts", "lead_high_pts"),
        }
    )


def rates_told(searched: pd.DataFrame) -> pd.DataFrame:
    """The rate that each method of `searches` uses, and what came of it."""
    rows = searched[searched["used"]]
    fitted = 100 * (rows["background_after"] / rows["background_before"] - 1)
    found = {
        "learning rate": rows["lr"].map("{:.3g}".format),
        "change of top-1, points": (-rows["drop_pts"]).map(signed),
        "class loss rises": rows["rising"].map({True: "yes", False: "no"}),
        "change of background term, %": fitted.map(signed),
    }
    names = rows["method"].map(METHOD_TITLES) + ", " + rows["protocol"]
    return pd.DataFrame(found).set_axis(list(names))


def masks_told(shifted: pd.DataFrame) -> pd.DataFrame:
    """Change on the shifted sets by kind of masks, in points: the paper's mean, then each of ours.

    `shifted` as from `score`, whose intervals stand behind ours.
    """
    ours = shifted.query("method == 'relevance' and protocol == 'published'")
    told = ours.assign(told=_points(ours, "change_pts", "low_pts", "high_pts"))
    by_model = told.pivot(index="model", columns="masks", values="told").fillna("")
    theirs = {
        masks: published_changes(masks).set_index("dataset")["change_top1_pts"][list(SHIFTED_SETS)]
        for masks in MASKS
    }
    paper = pd.DataFrame(theirs).mean().map(signed).to_frame("the paper's seven models").T
    found = pd.concat([paper, by_model])[list(MASKS)]
    return found.rename(columns={name: f"{title} masks" for name, title in MASKS.items()})


def backbones_told(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Top-1 in percent, set by set: linear probe, originals and ours of `score`."""
    probe = accuracy[accuracy["method"] == "linear_probe"].assign(way="a new head alone")
    ours = accuracy.query("method == 'relevance' and protocol == 'published'")
    before = ours.assign(way="finetuned", top1_pct=ours["original_top1_pct"])
    after = ours.assign(way="finetuned, then ours, " + ours["masks"].map(MASKS) + " masks")
    rows = pd.concat([probe, before, after])
    wide = rows.pivot_table("top1_pct", ["model", "way"], "dataset", sort=False)
    found = wide[list(TEST_SETS)].map("{:.1f}".format)
    return found.rename_axis(None, axis=1).rename_axis(["", ""])


def prices_told(prices: pd.DataFrame) -> pd.DataFrame:
    """What a step of each arm keeps (`memory_mib`), and what the study says of it, the least first.

    That is as `of_study` has it: its change, and what it leads relevance by.
    """
    rows = prices.sort_values(["memory_mib", "change_pts"], ascending=[True, False])
    found = {
        "kept, MiB": rows["memory_mib"].map("{:.0f}".format),
        "change in the study, points": _points(rows, "change_pts", "low_pts", "high_pts"),
        "over relevance": _points(rows, "lead_pts", "lead_low_pts", "lead_high_pts"),
    }
    return pd.DataFrame(found).rename(index=ARMS).rename_axis(None)


def map_told(arm: str) -> str:
    """An arm of 05a_ablations: `gae_last3` is GAE, last three blocks."""
    name, _, blocks = arm.partition("_last")
    return MAPS.get(name, name) + BLOCKS.get(blocks, f", last {blocks} blocks")


def maps_in_words(maps: pd.DataFrame) -> pd.DataFrame:
    """What `compared` has of the maps of 05a_ablations, the largest change first.

    Behind what has an interval this stands in brackets.
    """
    rows = maps.sort_values("change_pts", ascending=False)
    found = pd.DataFrame(index=rows.index)
    for name, words in WORDS.items():
        if name in rows and rows[name].notna().any():
            of = name.removesuffix("pts").replace("change_", "")
            ends = f"{of}low_pts", f"{of}high_pts"
            plain = signed if name == "val_pts" else "{:.1f}".format
            found[words] = _points(rows, name, *ends) if ends[0] in rows else rows[name].map(plain)
    return found.rename(index=map_told).rename_axis("map")


def _points(rows: pd.DataFrame, value: str, low: str, high: str) -> pd.Series:
    told = [points(row, value, low, high) for row in rows.to_dict("records")]
    return pd.Series(told, rows.index, dtype=object)


def _plain(rows: pd.DataFrame, column: str) -> pd.Series:
    return rows[column].map("{:.1f}".format) if column in rows else pd.Series("", rows.index)
