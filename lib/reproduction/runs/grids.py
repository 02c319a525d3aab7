"""All finetuning runs of a preset, and which notebook asks for which: a table, a row a run.

The runs of a notebook are lines of grids. A line has values for some of `seed`, `world`, `arm`,
`relevance` and the parameters of 02_finetune, and every combination is a run. An *arm* is a named
choice of parameters, a *world* other images with originals of their own, and `relevance` False the
twin of an arm, which differs from it in the weight of the relevance terms alone: 0.

What the method adds is an arm less its twin, and not what changed since the original: the class
term and the images alone change a model too. RobustViT's Table 4 leaves out one loss at a time, and
has no row without both relevance losses.

The models that IAV compares are rows, too, finetuned on labels by the parameters of 08_iav.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from habitats.benchmark import open_benchmark
from relevit.choices.finetuning import LOSS_WEIGHTS
from relevit.choices.words import Variant
from reproduction.measures.paired import ORIGINAL
from reproduction.params.cells import FINETUNED, Params, params_of
from reproduction.params.preset import Preset
from reproduction.runs.run import (
    Row,
    classifiers,
    needs,
    once,
    origin_weights,
    original_of_world,
    rates_of_arm,
    rates_of_own,
    searched_arms,
    weights_of,
)
from reproduction.stages import preset_file, read_pipeline, read_stage

OURS = "ours"  # the arm of the preset's own settings
OWN = "own"  # the world of the preset's own original
# The models that are set beside each other: their arm, and whether with the relevance terms.
MODELS = {"original": (ORIGINAL, False), "without": (OURS, False), "with": (OURS, True)}
RATES = "rates"  # of an arm, or of all, that it tries by itself
NAMED = ["part", "arm", "relevance", "world"]  # what a notebook calls a run
VARIED = ["model", "method", "protocol", "masks", "classes", "images_per_class", "lr_factor"]
KEYS = [*NAMED, *VARIED, "seed"]  # columns of the table, beside `run`

# What each variant of the method changes in the preset's own settings, whose class term is that of
# ground_truth or of confidence, so that one of the two is full (RobustViT Table 4, supplement
# Tables 8 and 9; A2, A8, A11, B23; RV-42 for predicted_target). The temperature is the published
# one for DeiT-B.
VARIANTS: dict[Variant, dict[str, Any]] = {
    "full": {},
    "no_background": {"weight_background": 0.0},
    "no_foreground": {"weight_foreground": 0.0},
    "no_classification": {"weight_classification": 0.0},
    "only_background": {"weight_foreground": 0.0, "weight_classification": 0.0},
    "only_foreground": {"weight_background": 0.0, "weight_classification": 0.0},
    "only_classification": {"weight_relevance": 0.0},
    "ground_truth": {"class_term": "label"},
    "confidence": {"class_term": "confidence"},
    "predicted_target": {"target": "predicted", "class_term": "confidence"},
    "attention": {"explanation": "attention"},
    "rollout": {"explanation": "rollout"},
    "exact_gradient": {"options": {"exact_gradient": True}},
    "temperature": {"temperature": 0.65},
    "constant_rate": {"options": {"decay": 1.0}},
}


@dataclass(frozen=True)
class Lines:
    """What the lines of one part of a notebook share: settings of all runs, arms, what is asked."""

    cfg: Params
    part: str
    arms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    asked: Mapping[str, int] = field(default_factory=dict)

    def grid(self, **axes: Sequence[Any]) -> Iterator[dict[str, Any]]:
        """A row for each combination of the values, of which the last change fastest.

        Masks are no axis for a run that uses none. Raises: ValueError for a parameter that
        02_finetune does not have or allow, which names the arm.
        """
        alike = {key: value for key, value in self.settings.items() if key != RATES}
        base = read_stage(self.cfg, FINETUNED, **alike).model_dump()
        for values in product(*axes.values()):
            row = self._row(base, **dict(zip(axes, values, strict=True)))
            if "masks" not in axes or needs_masks(row["run"].params):
                yield row

    def _row(
        self,
        base: dict[str, Any],
        *,
        arm: str = OURS,
        relevance: bool = True,
        world: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> dict[str, Any]:
        changes = dict(self.arms.get(arm, {})) | values
        changes["options"] = base["options"] | changes.get("options", {})
        changes["benchmark"] = base["benchmark"] | (world or {})
        where = f"{preset_file(self.cfg.preset)}: {self.cfg.notebook}: arm {arm!r}"
        if not relevance and arm != ORIGINAL:
            changes["weight_relevance"] = 0.0
            where += " without the relevance terms"
        rates = changes.pop(RATES, self.settings.get(RATES, []))
        if rates:  # checked as those of 02_finetune
            rates = read_stage(self.cfg, "02_finetune", rates=rates).rates
        params = params_of(FINETUNED).checked(base | changes, where)
        run = Row(params, **self.asked, rates=tuple(rates))
        if arm == ORIGINAL:
            run = original_of_world(params, **self.asked)
        row = _row(self.part, run, arm, relevance, _named(world))
        return row | {"seed": params.seed}  # an original may be one for all seeds


def _row(
    part: str, run: Row, arm: str = OURS, relevance: bool = True, world: str = OWN
) -> dict[str, Any]:
    named = dict(zip(NAMED, (part, arm, relevance, world), strict=True))
    return named | _varied(run) | {"run": run}


def _varied(run: Row) -> dict[str, Any]:
    """What tells a run from others; a classifier has few of these."""
    return {key: getattr(run.params, key, "") for key in (*VARIED, "seed")}


def needs_masks(params: Params) -> bool:
    """Whether a run would be another one with other masks."""
    return params.weight_relevance != 0 or params.augmentation != "none"


def _named(world: Mapping[str, Any] | None) -> str:
    words = {key.partition("_")[0]: value for key, value in (world or {}).items()}
    found = (f"{word} {x if isinstance(x, str) else f'{x:g}'}" for word, x in words.items())
    return ", ".join(found) or OWN


def of(cfg: Any) -> pd.DataFrame:
    """The runs that a notebook asks for: KEYS, and `run`, a `run.Row`.

    Each `part` is a comparison, with its originals as the arm `original`, where their answers are
    needed. Raises: ValueError, as `Lines.grid`.
    """
    table = pd.DataFrame([*_ASKED[cfg.notebook](cfg)], columns=[*KEYS, "run"])
    names = table["run"].map(lambda run: run.name)
    return table[~table[KEYS].assign(name=names).duplicated()].reset_index(drop=True)


def models_of(table: pd.DataFrame, seed: int) -> dict[str, Row]:
    """The rows of MODELS of one seed, in the preset's own world."""
    runs_by = table.set_index(["world", "seed", "arm", "relevance"])["run"].sort_index()
    return {name: runs_by.at[OWN, seed, *key] for name, key in MODELS.items()}


def own_arms(table: pd.DataFrame) -> dict[str, Row]:
    """The first run of each arm of 04_cures, in the preset's own world and with exact masks."""
    plain = table[(table["world"] == OWN) & (table["masks"] == "annotated")]
    first = plain.drop_duplicates("arm")
    return dict(zip(first["arm"], first["run"], strict=True))


def _finetune(cfg: Params) -> Iterator[dict[str, Any]]:
    yield from _searched(rates_of_own(cfg))
    yield _row(OWN, Row(cfg.run, validated=None))


def _robustness(cfg: Params) -> Iterator[dict[str, Any]]:
    """The original of each world and seed, and what is finetuned from it: every arm twice.

    The preset's own world has all arms; those of `home_shares` have one, and an original a seed.
    """
    data = cfg.benchmark.data
    if cfg.home_shares and data != "habitats":
        raise ValueError(
            f"{cfg.notebook}: home_shares {cfg.home_shares} with data {data!r}, whose classes have "
            "no homes; give data: habitats in common, or home_shares: []"
        )
    lines = Lines(cfg, "twins", cfg.arms, asked=_asked(cfg))
    worlds = [{"home_share": share} for share in cfg.home_shares]
    first = [(None, seed, [OURS, *cfg.arms]) for seed in cfg.seeds]
    elsewhere = product(worlds, cfg.home_seeds or cfg.seeds, [[cfg.home_arm]])
    for world, seed, arms in (*first, *elsewhere):
        if world is None and seed not in (cfg.arm_seeds or cfg.seeds):
            arms = [OURS]
        place = {"world": [world], "seed": [seed]}
        yield from lines.grid(**place, arm=[ORIGINAL], relevance=[False])
        yield from lines.grid(**place, arm=arms, relevance=[True, False])


def _baselines(cfg: Params) -> Iterator[dict[str, Any]]:
    yield from _sweep(cfg)
    for arm in searched_arms(cfg):
        yield from _searched(rates_of_arm(cfg, *arm))


def _cures(cfg: Params) -> Iterator[dict[str, Any]]:
    if not cfg.arms:
        return
    lines = Lines(cfg, "arms", cfg.arms, cfg.arm_settings, _asked(cfg))
    for seed in cfg.arm_seeds or cfg.seeds:
        yield from lines.grid(seed=[seed], arm=[ORIGINAL, *cfg.arms])
        yield from lines.grid(seed=[seed], masks=cfg.prices, arm=cfg.followed)
        yield from lines.grid(seed=[seed], images_per_class=cfg.counts, arm=cfg.followed)
        yield from lines.grid(seed=[seed], world=cfg.worlds, arm=[ORIGINAL, *cfg.followed])


def _sweep(cfg: Params) -> Iterator[dict[str, Any]]:
    """The preset's own runs and those of its section `pipeline`, after the originals of all.

    The weights of the terms that the preset gives are those of its method: a baseline has the
    paper's.
    """
    asked, sweep = {"images_per_set": cfg.images_per_set}, read_pipeline(cfg.preset).sweep
    plain = Lines(cfg, "sweep", asked=asked)
    papers = Lines(cfg, "sweep", settings=dict.fromkeys(LOSS_WEIGHTS), asked=asked)
    models = dict.fromkeys([cfg.model, *(model for grid in sweep for model in grid.models)])
    seeds = dict.fromkeys([*cfg.seeds, *(seed for grid in sweep for seed in grid.seeds)])
    yield from plain.grid(model=models, arm=[ORIGINAL], seed=seeds)
    yield from plain.grid(seed=cfg.seeds)
    for grid in sweep:
        for model, method in product(grid.models, grid.methods):
            lines = plain if method == "relevance" else papers
            yield from lines.grid(
                model=[model], method=[method], protocol=grid.protocols, masks=grid.masks,
                seed=grid.seeds,
            )  # fmt: skip


def _ablations(cfg: Params) -> Iterator[dict[str, Any]]:
    """Variants, images and classes, factors of the rate.

    The learning rate is the one that the rule chose for `full`, but where the preset gives another.
    """
    settings, seeds = _compared(cfg) | cfg.base_settings, cfg.variant_seeds
    variants, counts, rates = (
        Lines(cfg, part, VARIANTS, settings, {"images_per_set": cfg.images_per_set})
        for part in ("variants", "counts", "rates")
    )
    every = read_stage(cfg, FINETUNED, **settings).classes
    amounts = {(count, every) for count in (cfg.base_images, *cfg.images_per_class)}
    amounts |= {(cfg.base_images, classes) for classes in cfg.classes}
    yield from variants.grid(arm=[ORIGINAL, *cfg.variants], seed=seeds)
    yield from counts.grid(arm=[ORIGINAL], seed=seeds)
    for count, classes in sorted(amounts):
        some = {"images_per_class": [count], "classes": [classes]}
        yield from counts.grid(arm=["full"], **some, seed=seeds)
    yield from rates.grid(arm=[ORIGINAL], seed=seeds)
    yield from rates.grid(arm=["full"], lr_factor=[1.0, *cfg.rate_factors], seed=seeds)


def _maps(cfg: Params) -> Iterator[dict[str, Any]]:
    """Maps to train on, with the figures of 04_cures."""
    asked = _asked(cfg) | {"held_out": cfg.looked_at}
    maps = Lines(cfg, "maps", cfg.maps, _compared(cfg) | cfg.map_settings, asked)
    yield from maps.grid(seed=cfg.map_seeds, arm=[ORIGINAL, *cfg.maps])


def _compared(cfg: Params) -> dict[str, Any]:
    return {"model": cfg.compared_model, "images_per_class": cfg.base_images}


def _segmentation(cfg: Params) -> Iterator[dict[str, Any]]:
    """Scenes are drawn without their parts for a run and its twin; photographs cannot be."""
    yield from _own(cfg, cfg.seeds)
    if open_benchmark(cfg).composable:
        yield from Lines(cfg, OWN).grid(seed=cfg.seeds[:1], relevance=[False])


def _compared_by_iav(cfg: Params) -> Iterator[dict[str, Any]]:
    return (_row("compared", row) for row in classifiers(cfg))


def _iav_figures(cfg: Params) -> Iterator[dict[str, Any]]:
    """The epochs of the lesson's models, and the preset's own runs."""
    yield from _compared_by_iav(read_stage(cfg, "08_iav"))
    yield from _own(cfg, cfg.seeds)


def _own(cfg: Any, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    return Lines(cfg, OWN).grid(seed=seeds)


def _searched(rows: list[Row]) -> Iterator[dict[str, Any]]:
    return (_row("search", row) for row in rows)


def _asked(cfg: Any) -> dict[str, int]:
    asked = {key: getattr(cfg, key) for key in ("images_per_set", "looked_at")}
    return asked | {"challenge": cfg.challenge_images}


_ASKED: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "02_finetune": _finetune,
    "03_robustness": _robustness,
    "03a_robustness": lambda cfg: _robustness(read_stage(cfg, "03_robustness")),
    "04_cures": _cures,
    "04a_cures": _baselines,
    "05_ablations": _ablations,
    "05a_ablations": _maps,
    "07a_segmentation": _segmentation,
    "06a_attribution": lambda cfg: _own(cfg, [cfg.seed]),
    "08_iav": _compared_by_iav,
    "08a_iav": _iav_figures,
    "99_report": lambda cfg: _own(cfg, cfg.seeds),
}


def asks(notebook: str) -> bool:
    """Whether it reads finetuning runs at all."""
    return notebook in _ASKED


def asked(preset: Preset) -> dict[str, dict[str, Row]]:
    """The rows that each notebook of a preset reads, by name. Raises: as `of`."""
    return {name: once(of(preset.stages[name])["run"]) for name in _ASKED if name in preset.stages}


def of_preset(preset: Preset, without: Collection[str] = ()) -> dict[str, Row]:
    """All rows, each once, after those that it needs: a search of rates needs an original, too.

    `without` are names of rows that nobody wants; what others need of them stays.
    """
    rows = (row for each in asked(preset).values() for row in each.values())
    wanted = [row for row in rows if row.name not in without]
    before = once([need for row in once(wanted).values() for need in needs(row)])
    first = [need for row in before.values() for need in needs(row)]
    return once([*first, *before.values(), *wanted])


def shown(preset: Preset) -> pd.DataFrame:
    """The table for people: a row a run, and the notebooks that read it."""
    readers: dict[str, list[str]] = {}
    for notebook, each in asked(preset).items():
        for name in each:
            readers.setdefault(name, []).append(notebook)
    found = [
        {"run": name, "read by": ", ".join(readers.get(name, []))}
        | _varied(row)
        | {"lr": row.params.lr}
        | row.asked
        for name, row in of_preset(preset).items()
    ]
    return pd.DataFrame(found)


def weights(cfg: Any) -> dict[str, Path]:
    """The weights of the `original` and of the preset's own runs, `seed<N>`.

    Raises: as `run.read` and `results_of`.
    """
    own = _run_of(cfg, "relevance")
    found = {ORIGINAL: origin_weights(cfg)}
    return found | {f"seed{row.params.seed}": weights_of(row) for row in own}


def twin_weights(cfg: Any) -> dict[str, Path]:
    """The weights of the preset's first own run, `with` the relevance terms, and of its twin.

    Raises: as `run.read`.
    """
    first = {"with": _run_of(cfg, "relevance"), "without": _run_of(cfg, "not relevance")}
    return {name: weights_of(rows.iloc[0]) for name, rows in first.items()}


def _run_of(cfg: Any, which: str) -> pd.Series:
    return of(cfg).query(f"part == @OWN and {which}")["run"]
