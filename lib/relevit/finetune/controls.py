"""With and without: the same finetuning, images and steps, once with the relevance terms.

The control of a setting is that setting with the weight of the relevance terms at 0. What the
method adds is the difference of the two, and not what changed since the original: the class term
and the images alone change a model too. RobustViT's Table 4 leaves out one loss at a time, and has
no row without both relevance losses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from relevit.base.device import choose_device
from relevit.base.files import file_fingerprint, run_folder, write_atomically
from relevit.base.results import read_json
from relevit.base.stages import need_stage, preset_folder, read_stage
from relevit.config import (
    BenchmarkParams,
    ControlsParams,
    FinetuneParams,
    OriginalParams,
    RobustnessParams,
)
from relevit.data.batch import Batch
from relevit.data.benchmark import Benchmark, open_benchmark
from relevit.evaluate.context import backgrounds_challenge, relevance_shares
from relevit.evaluate.paired import ORIGINAL
from relevit.evaluate.predictions import BATCH, Classifier
from relevit.evaluate.sets import answer_sets, load_classifier
from relevit.finetune.runs import finetune_at, origin_weights, rate
from relevit.models.loading import load_model
from relevit.training.classifier import TrainSettings
from relevit.training.epochs import WEIGHTS
from relevit.training.original import train_original, untrained

CONTROL = {"weight_relevance": 0.0}
OURS = "ours"  # the arm of the preset's own settings
FIGURES = "figures.json"
OWN = "own"  # the world of the preset's own original
RUN = ["world", "seed", "arm", "relevance"]  # columns that tell one model from another


class Setting(NamedTuple):
    """Images with one strength of context, and the original of one seed there."""

    name: str
    seed: int
    params: BenchmarkParams
    bench: Benchmark
    folder: Path

    @property
    def trained(self) -> bool:
        """Whether its original is trained here, with the seed; else it is the preset's own."""
        return self.name != OWN


class Model(NamedTuple):
    """A model that is compared: where its weights are, and what made it."""

    world: Setting
    arm: str
    relevance: bool
    params: FinetuneParams | None  # None: an original, or a run of 02_finetune
    weights: Path

    @property
    def keys(self) -> dict[str, Any]:
        """Values of RUN."""
        values = (self.world.name, self.world.seed, self.arm, self.relevance)
        return dict(zip(RUN, values, strict=True))

    @property
    def folder(self) -> Path:
        """Where what it answers is kept; the preset's own original is the same for all seeds."""
        if self.arm == ORIGINAL and not self.world.trained:
            return self.world.folder.parent / f"{OWN}.{ORIGINAL}"
        kind = "" if self.arm == ORIGINAL else ".with" if self.relevance else ".without"
        return self.world.folder / f"{self.arm}{kind}"


def worlds(cfg: ControlsParams, folder: Path) -> list[Setting]:
    """The preset's own world and those of `home_shares`, one for each seed.

    Raises: ValueError for home shares where the preset's images have no homes.
    """
    data = cfg.benchmark.data
    if cfg.home_shares and data != "habitats":
        raise ValueError(
            f"{cfg.notebook}: home_shares {cfg.home_shares} with data {data!r}, whose classes have "
            "no homes; give data: habitats in common.yaml, or home_shares: []"
        )
    own, found = cfg.benchmark, []
    shares = {f"home {x:g}": own.model_copy(update={"home_share": x}) for x in cfg.home_shares}
    for name, params in ({OWN: own} | shares).items():
        bench = open_benchmark(cfg.model_copy(update={"benchmark": params}))
        place = name.replace(" ", "")
        found += [Setting(name, s, params, bench, folder / f"{place}.seed{s}") for s in cfg.seeds]
    return found


def compared(cfg: ControlsParams, world: Setting) -> Iterator[Model]:
    """The original of a world, and what is finetuned from it: every arm with and without.

    The preset's own settings in its own world are the runs of 02_finetune, which are made where
    they are missing; the others are still to be made (`run_study`).
    Raises: ValueError for parameters of an arm that 02_finetune does not have; as `need_stage`.
    """
    origin = world.folder / ORIGINAL / WEIGHTS if world.trained else origin_weights(cfg)
    yield Model(world, ORIGINAL, False, None, origin)
    base = read_stage(cfg, FinetuneParams, benchmark=world.params, seed=world.seed)
    base = base.model_copy(update={"lr": rate(base)})
    for arm, changes in ({OURS: {}} | cfg.arms).items():
        where = f"{preset_folder(cfg.preset) / cfg.notebook}.yaml: arm {arm!r}"
        for relevance in (True, False):
            if arm == OURS and relevance and not world.trained:
                run = need_stage(cfg, "02_finetune", f"seed{world.seed}", seed=world.seed)
                yield Model(world, arm, relevance, None, run / WEIGHTS)
                continue
            values = base.model_dump() | changes | ({} if relevance else CONTROL)
            model = Model(world, arm, relevance, FinetuneParams.checked(values, where), Path())
            yield model._replace(weights=model.folder / WEIGHTS)


def run_study(
    cfg: ControlsParams, folder: Path, on_model: Callable[[str], object] = lambda name: None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make all models, and ask all of them. What `folder` holds of the same is read.

    Returns `answers`, one row a model and test image (RUN, dataset, index, label, right, in_a:
    whether the class is in A), and `figures`, one row a model (RUN, means of `relevance_shares`,
    and of Habitats what `backgrounds_challenge` finds).
    Raises: FloatingPointError when a run diverges; as `worlds` and `compared`, before any work.
    """
    answers, figures = [], []
    everything = [(world, list(compared(cfg, world))) for world in worlds(cfg, folder)]
    for world, models in everything:
        origin = models[0].weights
        if world.trained:
            train_world(cfg, world)
        for model in models:
            if model.params is not None:
                lr = model.params.lr
                finetune_at(model.params, world.bench, lr, origin, model.folder, validated=())
            classifier = load_classifier(
                world.bench, cfg.model, model.weights, cfg.precision, cfg.device
            )
            found = _answers(cfg, model, classifier)
            answers.append(found.assign(**model.keys)[[*RUN, *found.columns]])
            figures.append(model.keys | _figures(cfg, model, classifier))
            on_model(str(model.folder.relative_to(folder)))
    return pd.concat(answers, ignore_index=True), pd.DataFrame(figures)


def looked_at(cfg: ControlsParams, bench: Benchmark) -> Batch:
    """The images whose relevance is shared out: of set `a` where it has masks."""
    name = "a" if "a" in bench.outlined_sets else bench.outlined
    return bench.draw(name, range(cfg.looked_at), size=bench.spec(cfg.model).image_size)


def train_world(cfg: ControlsParams, world: Setting) -> None:
    """Train the original of a world, in one epoch of `original_images` images of that world.

    Rates and batch size are those of 00_original.
    """
    own = read_stage(cfg, OriginalParams)
    device = choose_device(cfg.device)
    settings = TrainSettings.from_params(
        own, device, images=cfg.original_images, epochs=1, seed=world.seed
    )
    model = untrained(cfg.model, world.seed, device)
    spec = world.bench.spec(cfg.model)
    place = world.folder / ORIGINAL
    train_original(model, spec, settings, place, world.bench, validation_images=40)


def _answers(cfg: ControlsParams, model: Model, classifier: Classifier) -> pd.DataFrame:
    world, weights = model.world, model.weights
    rows = answer_sets(classifier, weights, _kept(cfg, model), world.bench, cfg.images_per_set)
    in_a = rows["label"].isin(world.bench.split(world.seed)[0])
    rows = rows.assign(right=rows["label_rank"] == 0, in_a=in_a)
    return rows[["dataset", "index", "label", "right", "in_a"]]


def _kept(cfg: ControlsParams, model: Model) -> Path:
    """Where the answers of a model are: in 03_robustness, if it asks as much of that one."""
    own = model.params is None and not model.world.trained
    there = preset_folder(cfg.preset) / f"{RobustnessParams.notebook}.yaml"
    if own and there.is_file():
        asked = read_stage(cfg, RobustnessParams)
        if (asked.images_per_set, asked.precision) == (cfg.images_per_set, cfg.precision):
            run = ORIGINAL if model.arm == ORIGINAL else f"seed{model.world.seed}"
            return run_folder(cfg.preset, asked.notebook, run, cfg.output_root)
    return model.folder / "sets"


def _figures(cfg: ControlsParams, model: Model, classifier: Classifier) -> dict[str, float]:
    path, bench = model.folder / FIGURES, model.world.bench
    asked = f"{cfg.challenge_images} {cfg.looked_at} {bench.rules}"
    made_of = f"{file_fingerprint(model.weights)} {asked}"
    if path.is_file() and (kept := read_json(path))["of"] == made_of:
        return kept["figures"]
    network = load_model(cfg.model, model.weights, device=cfg.device)
    spec = bench.spec(cfg.model)
    shown = looked_at(cfg, bench).split(BATCH)
    found = relevance_shares(network, spec, shown).mean().to_dict()
    if bench.challenging:
        found |= backgrounds_challenge(classifier, bench.draw, cfg.challenge_images)
    kept = {"of": made_of, "figures": found}
    model.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda target: target.write_text(json.dumps(kept), encoding="utf-8"))
    return found
