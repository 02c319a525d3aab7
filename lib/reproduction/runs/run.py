"""A run, from its record to its answers: what it is, on what, at which rate, made and read.

Notebooks ask for rows by their parameters, and the pipeline makes them side by side. A row's
folder is named after its record: all that its numbers follow from, and nothing else. So two
notebooks that ask for the same run get the same one, and a run with other settings never takes its
place. In the order of reading: the row, its learning rate, its images and masks, how it is made
and read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import count, product
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tqdm.auto import tqdm

from habitats.benchmark import Benchmark, open_benchmark
from relevit.base.device import choose_device, choose_precision
from relevit.base.errors import FailedError
from relevit.base.files import file_fingerprint, run_folder, write_atomically
from relevit.base.results import Kept, read_json, read_rows, read_table
from relevit.choices.finetuning import LOSS_WEIGHTS
from relevit.choices.words import HABITATS, MAP_LOSSES, PACS, MaskSource, Method, Protocol
from relevit.data.batch import Batch
from relevit.evaluate.lean import background_gap, lean_rows
from relevit.evaluate.predictions import BATCH, Classifier
from relevit.finetune.epochs import LOG, WEIGHTS, History
from relevit.finetune.learning_rate import judge, kept_epoch, taken_rate
from relevit.finetune.run import MADE, Start, named, noted, read_run
from relevit.finetune.settings import paper_rate, resolved
from relevit.finetune.step import products
from relevit.masks import MASKS, AutomaticMasks, in_the_middle, load_masks, masks_of
from relevit.models.loading import load_model
from relevit.models.registry import PAPER_MODELS, shipped_weights
from relevit.models.spec import ModelSpec
from relevit.models.trunk import Frozen
from reproduction.measures.context import backgrounds_challenge, relevance_shares
from reproduction.measures.sets import answer_sets, load_classifier
from reproduction.params.cells import CLASSIFIED, FINETUNED, Params, params_of
from reproduction.params.common import Benchmark as Images
from reproduction.stages import FREE, read_pipeline, read_stage, results_of
from reproduction.training.classifier import TrainSettings
from reproduction.training.original import train_original, untrained
from reproduction.training.pretrained import FROM_HUB, finetune_pretrained, pretrained_file

ROOM = "runs"  # their folder, beside those of the notebooks
TOKENS = "tokens"  # of frozen blocks, beside the runs that share them until all are made
SETS = "sets"  # its answers
LEAN = "lean.parquet"  # and those to its pictures on other backgrounds
OF_LEAN = {"condition": "dataset", "image": "index", "answer": "prediction"}
ORIGINAL = "original"
SEARCHED = 0  # the seed whose runs an arm tries its own rates on
HELD_OUT = "libra_grad"  # the map that no run is trained on
ASKED = ("images_per_set", "challenge", "looked_at", "held_out")
# Parameters that a name says where they are not the cell's; its digest has all. Of the first the
# value says what they are.
WORDS = ("method", "protocol", "masks", "augmentation", "explanation", "class_term", "target")
NUMBERS = ("classes", "images_per_class", "epochs", "trained_blocks", "weight_relevance")
NUMBERS += ("weight_background", "weight_foreground", "weight_classification", "lr", "lr_factor")
WEIGHTS_ROOT = {"weights_root"}  # of files that are told by their bytes
NOT_OF_TRAINING = {"model", "benchmark", "training_images", "images_per_set", "shown", "others"}


@dataclass(frozen=True)
class Row:
    """A run, or the original that runs start from, and what it is asked beside its weights.

    A run is finetuned as its parameters say: on maps, or for IAV on labels alone, which is asked
    nothing more. Of an original, model, benchmark and seed of `params` count alone; in a world of
    its own it is trained with that seed. `images_per_set` are test images answered of each test
    set, `challenge` and `looked_at` those of its figures, `held_out` says whether one of
    these is by HELD_OUT, too (0: no), and `validated` the epochs whose validation images are looked
    at (None: all, 0: before). `rates` are those that an arm tries by itself, where it has no rate.
    """

    params: Params
    original: bool = False
    images_per_set: int = 0
    challenge: int = 0
    looked_at: int = 0
    held_out: int = 0
    validated: tuple[int, ...] | None = ()
    rates: tuple[float, ...] = ()

    @cached_property
    def record(self) -> dict[str, Any]:
        """Everything that its numbers follow from, as plain values: no device, place or preset.

        Of a run whose rate the rule chooses the runs that it looks at are among it, by name.
        """
        params = self.params
        if self.original:
            seed = params.seed if is_trained(self) else 0
            images = _pictures(params)
            return {"model": params.model, "seed": seed} | images | {"original": _training(params)}
        values = params.model_dump(exclude=FREE | WEIGHTS_ROOT) | _pictures(params)
        if of_labels(params):
            return values
        tried = [row.name for row in searched(params, self.rates)]
        values["lr"] = {"tried": tried, "limit_pts": _limit_pts(params)} if tried else rate(params)
        if params.masks == "tokencut" and params.benchmark.data != PACS:
            values["masks"] = read_stage(params, "01_masks").model_dump(exclude=FREE)
        return values | {"start": original_of_world(params).record}

    @cached_property
    def name(self) -> str:
        """Its folder: the model, what differs from the parameters' own defaults, and a digest."""
        params, images = self.params, self.params.benchmark
        words = [ORIGINAL] if self.original else []
        words += [params.model, *_words(images)]
        if not self.original:
            fields = type(params).model_fields
            changed = (key for key in (*WORDS, *NUMBERS) if key in fields)
            words += [
                _word(key, value)
                for key in changed
                if (value := getattr(params, key)) != fields[key].default
            ]
        return named(words, self.record)

    @property
    def folder(self) -> Path:
        """Where its files are, or will be."""
        return run_folder(self.params.preset, f"{ROOM}/{self.name}", "", self.params.output_root)

    @property
    def asked(self) -> dict[str, Any]:
        """What it is asked beside its weights, as plain values."""
        return {key: getattr(self, key) for key in ASKED} | {
            "validated": None if self.validated is None else list(self.validated)
        }

    def more_than(self, asked: Mapping[str, Any]) -> bool:
        """Whether it is asked more than a row was that is made."""
        epochs = asked["validated"]
        here = epochs is None or (self.validated is not None and set(self.validated) <= set(epochs))
        return not here or any(getattr(self, key) > asked.get(key, 0) for key in ASKED)

    def with_asked(self, other: Row) -> Row:
        """This row, asked also what the other one is asked."""
        both = {key: max(getattr(self, key), getattr(other, key)) for key in ASKED}
        epochs = (self.validated, other.validated)
        every = None in epochs
        validated = None if every else tuple(sorted({*epochs[0], *epochs[1]}))
        return replace(self, **both, validated=validated)


def of_labels(params: Params) -> bool:
    """Whether a run is one of those that IAV compares, which are finetuned on labels alone."""
    return params.notebook == CLASSIFIED.partition("/")[0]


def classifiers(cfg: Params) -> list[Row]:
    """Of 08_iav every model with every seed, seeds first: images of a seed are drawn once."""
    each, base = product(cfg.model_seeds, cfg.models), cfg.run
    return [Row(base.model_copy(update={"model": name, "seed": seed})) for seed, name in each]


def _at_home(params: Params) -> bool:
    """Whether the images are the preset's own, not those of another world, and its original."""
    images = params.benchmark
    return images == read_pipeline(params.preset).benchmark and not images.each_seed


def _words(images: Images) -> list[str]:
    """What an original of its own has learned from."""
    if images.data == PACS:
        return [images.source, f"{images.side}", f"originals_{images.original_epochs}"]
    many, home = images.original_images, type(images).model_fields["home_share"].default
    if images.home_share == home and not many:
        return []
    return [f"home_{images.home_share:g}", *([f"images_{many}"] if many else [])]


def is_trained(row: Row) -> bool:
    """Whether a row is the original of a world of its own, which is trained there."""
    return row.original and not _at_home(row.params)


def _word(key: str, value: Any) -> str:
    if key in WORDS:
        return str(value)
    short = key.removeprefix("weight_").removesuffix("_per_class")
    if value is None:
        return f"{short}_papers"
    return f"{short}_{value:g}" if isinstance(value, float) else f"{short}_{value}"


def _pictures(params: Params) -> dict[str, Any]:
    """Which pictures a run sees: those on a disk whose bytes nobody adds up by their folder."""
    images = params.benchmark
    drawn = images.data in (HABITATS, PACS)
    told = {"benchmark": images.model_dump(exclude={"data_root"} if drawn else None)}
    return told | ({"pictures": open_benchmark(params).rules} if images.data == PACS else {})


def once(rows: Iterable[Row]) -> dict[str, Row]:
    """Rows by name, each once and asked all that it is asked."""
    found: dict[str, Row] = {}
    for row in rows:
        name = row.name
        found[name] = found[name].with_asked(row) if name in found else row
    return found


def own_model(cfg: Params) -> str:
    """The model of the preset, also where a notebook was given another one."""
    return read_pipeline(cfg.preset).model


def original_of_world(params: Params, **asked: int) -> Row:
    """The original that a run starts from: a seed each in worlds of other images.

    One for all seeds, as at home, where it is also said how many images it learns from.
    """
    images = params.benchmark
    one = {"seed": 0} if images.original_images and not images.each_seed else {}
    return Row(params.model_copy(update=one), original=True, **asked)


def origin_weights(cfg: Params, model: str | None = None) -> Path:
    """The weights that finetuning starts from: the preset's own original, or another model's.

    Others are shipped, or models of the papers that 00_start has made ready. On other images
    than the preset's it is a row that is trained on them, a seed each.
    Raises: ValueError for a model that is neither the preset's nor there; as `results_of`, `read`.
    """
    model = model or cfg.model
    if not _at_home(cfg):
        params = read_stage(cfg, FINETUNED, model=model, seed=getattr(cfg, "seed", 0))
        return weights_of(original_of_world(params))
    if model == own_model(cfg):
        return results_of(cfg, "00_start") / WEIGHTS
    if model not in PAPER_MODELS:
        return shipped_weights(model, cfg.benchmark.learned)
    weights = results_of(cfg, "00_start") / f"{model}.safetensors"
    if not weights.is_file():
        raise ValueError(
            f"origin_weights: {weights} is missing; add {model!r} to others of 00_start in "
            f"params/{cfg.preset}.yaml, and run that again"
        )
    return weights


def weights_of(row: Row) -> Path:
    """The weights of a row that is made. Raises: as `read`."""
    if row.original and not is_trained(row):
        return origin_weights(row.params)
    return read(row).path.parent / WEIGHTS


# The learning rate


def searched(params: Params, rates: Sequence[float] = ()) -> list[Row]:
    """The runs whose logs decide the learning rate of a run; none where it is given or a paper's.

    Of our method on the preset's own model those of 02_finetune, of others shorter ones, by the
    parameters of 04a_cures. With `rates` those of the run itself on the seed SEARCHED, with the
    masks and in the world of the preset.
    """
    if params.lr is not None:
        return []
    if rates:
        own = {"seed": SEARCHED, "masks": read_stage(params, FINETUNED).masks, "lr_factor": 1.0}
        own["benchmark"] = read_pipeline(params.preset).benchmark
        tried = [params.model_copy(update=own | {"lr": lr}) for lr in sorted(rates)]
        return [Row(each, validated=(0, each.epochs)) for each in tried]
    if params.method == "relevance" and params.model == own_model(params):
        images = read_pipeline(params.preset).benchmark
        return rates_of_own(read_stage(params, "02_finetune", benchmark=images))
    if params.model in PAPER_MODELS:
        return []
    return rates_of_arm(
        read_stage(params, "04a_cures"), params.model, params.method, params.protocol
    )


def rates_of_own(search: Params) -> list[Row]:
    """The runs of 02_finetune that try a rate each, from the lowest to the highest."""
    base = read_stage(search, FINETUNED, validation_images=search.rate_images)
    found = [base.model_copy(update={"lr": lr}) for lr in sorted(search.rates)]
    return [Row(params, validated=(0, params.epochs)) for params in found]


def searched_arms(search: Params) -> list[tuple[str, Method, Protocol]]:
    """Model, method and protocol of what 04a_cures searches a rate for: arms of the sweep.

    Our method on the preset's own model is searched in 02_finetune. Models of the papers have the
    papers' rates, and are searched all the same where they are the one that is compared.
    """
    arms = [
        arm
        for grid in read_pipeline(search.preset).sweep
        for arm in product(grid.models, grid.methods, grid.protocols)
    ]
    compared = {search.compared_model}
    return [
        arm
        for arm in dict.fromkeys(arms)
        if (arm[0] in compared or arm[0] not in PAPER_MODELS)
        and arm[:2] != (own_model(search), "relevance")
    ]


def rates_of_arm(search: Params, model: str, method: Method, protocol: Protocol) -> list[Row]:
    """The runs of one of `searched_arms`, from the lowest rate to the highest.

    Each grid is that of `search` times `rate_factor` (differences B12).
    """
    params = arm_params(search, read_stage(search, FINETUNED), model, method, protocol)
    grid = [lr * rate_factor(method, protocol) for lr in sorted(search.rates)]
    ends = (0, search.epochs)
    return [Row(params.model_copy(update={"lr": lr}), validated=ends) for lr in grid]


def rate_factor(method: str, protocol: Protocol) -> float:
    """How much higher than ours the grid of learning rates of a method lies.

    Published GradMask scales its one term so far below AdamW's eps that a step is a small part
    of the rate (differences B12: 0.013 of it on a small random network). The paper's rates make
    up for that, and so does this factor: the paper's rate over its rate for our method, of the
    same model. In `described` the background term is far above eps; its grid is ours.
    """
    if method in MAP_LOSSES or protocol == "described":
        return 1.0
    return paper_rate(method) / paper_rate("relevance")


def arm_params(cfg: Params, base: Params, model: str, method: str, protocol: Protocol) -> Params:
    """The parameters of the runs of one method: those of `base`, the preset's own, but shorter.

    Their length is that of `cfg`, the weights of a baseline's losses are the paper's.
    Raises: ValueError.
    """
    arm = {
        "model": model,
        "method": method,
        "protocol": protocol,
        "epochs": cfg.epochs,
        "images_per_class": cfg.images_per_class,
        "validation_images": cfg.validation_images,
        "validation_maps": cfg.validation_maps,
    }
    papers = {} if method in MAP_LOSSES else dict.fromkeys(LOSS_WEIGHTS)
    return params_of(FINETUNED).checked(base.model_dump() | arm | papers, f"{method} {protocol}")


def judged(rows: Iterable[Row]) -> pd.DataFrame:
    """What the rule looks at in runs of a search, a row each (`learning_rate.judge`).

    Raises: as `read`.
    """
    found = []
    for row in rows:
        made = read(row, or_diverged=True)
        history = None if made["failed"] else read_rows(row.folder / LOG)
        found.append(judge(made["lr"], history, row.params))
    return pd.DataFrame(found)


def rate(params: Params, rates: Sequence[float] = ()) -> float:
    """The learning rate of a run: the one asked for, or the one that the paper's rule chose.

    Where none passes, the lowest one tried. Models of the papers take the papers' (T5-T7), or where
    these have none that of another. Raises: as `searched` and `read`.
    """
    if params.lr is not None:
        return params.lr * params.lr_factor
    if rows := searched(params, rates):
        return taken_rate(judged(rows), _limit_pts(params)) * params.lr_factor
    return paper_rate(params.method, params.model) * params.lr_factor


def _limit_pts(params: Params) -> float:
    return read_stage(params, "02_finetune").limit_pts


# The images


def finetuned_classes(cfg: Params, bench: Benchmark) -> list[int]:
    """Labels of the classes that a run is finetuned on: of A (Fig. 7), then of B."""
    first, others = bench.split(cfg.seed)
    return [*first, *others][: cfg.classes]


def training_images(cfg: Params, bench: Benchmark) -> Batch:
    """The images that a run with these parameters is finetuned on, with its kind of masks.

    With automatic masks, images that got none worth training on are left out (B15, B17), where the
    published code takes the next of their class (differences F10).
    """
    labels = finetuned_classes(cfg, bench) * cfg.images_per_class
    size = bench.spec(cfg.model).image_size
    batch = bench.to_finetune(labels, cfg.seed, size, cfg.masks)
    if cfg.masks != "tokencut" or bench.finds_masks:
        return with_masks(batch, cfg.masks)
    found = load_masks(results_of(cfg, "01_masks"), cfg.seed, batch.images)
    _need_kept(found, f"the training images of seed {cfg.seed}")
    return replace(batch, masks=found.refined).select(found.kept.nonzero()[:, 0])


def images_to_crop(cfg: Params, bench: Benchmark) -> Batch:
    """What training crops at random: `training_images`, or larger ones of the same photographs.

    Automatic masks are boolean, of the size that the model takes. Those images are mirrored
    outwards before the crop, like Cutouts; the published code squeezes them, too (F10).
    """
    if cfg.masks == "tokencut":
        return training_images(cfg, bench)
    labels = finetuned_classes(cfg, bench) * cfg.images_per_class
    size = bench.spec(cfg.model).image_size
    return with_masks(bench.to_crop(labels, cfg.seed, size, cfg.protocol), cfg.masks)


def with_masks(batch: Batch, source: MaskSource) -> Batch:
    """Images with cheaper masks than the annotated ones that they have.

    `boxes` are around each mask; `a_third` leaves those of one image in three of each class, with
    classes taking turns at whose first image it is. Three are controls, which know as much of an
    object's size and usual place and nothing of where it is: `others`, the mask of another image
    and class; `ellipse`, one in the middle for all, as large as masks are on average;
    `upside_down`.
    """
    if source == "a_third":
        labels = batch.labels.tolist()
        turns = {label: count(place) for place, label in enumerate(dict.fromkeys(labels))}
        return replace(batch, outlined=torch.tensor([next(turns[x]) % 3 == 0 for x in labels]))
    if source == "others":  # neighbours are of other classes
        return replace(batch, masks=batch.masks.roll(1, 0))
    if source == "ellipse":
        return replace(batch, masks=in_the_middle(batch.masks))
    if source == "upside_down":
        return replace(batch, masks=batch.masks.flip(-2))
    if source != "boxes":
        return batch
    solid = (batch.masks > 0.5).byte()
    # From the first pixel of the object to the last, along both axes.
    rows, columns = (
        part.cummax(-1).values * part.flip(-1).cummax(-1).values.flip(-1)
        for part in (solid.amax(-1), solid.amax(-2))
    )
    boxes = rows[..., :, None] * columns[..., None, :]
    return replace(batch, masks=boxes.to(batch.masks.dtype))


def validation_masks(cfg: Params, bench: Benchmark) -> AutomaticMasks | None:
    """Those of the images whose maps are looked at after each epoch; None: the annotated ones.

    01_masks has masks of the validation images of seed 0, and of the training images of each seed.
    For seed 0 both are the first photographs of their classes, and together of all classes, so
    that the photographs which another seed validates on are among them.
    """
    if cfg.masks != "tokencut" or bench.finds_masks:
        return bench.found_masks(cfg.validation_maps)
    size, folder = bench.spec(cfg.model).image_size, results_of(cfg, "01_masks")
    draw = partial(bench.draw, "validation", range(cfg.validation_maps), size=size)
    images = draw().images
    found = load_masks(folder, "validation", images)
    if seed := bench.validation_seed(cfg.seed):
        first = cfg.model_copy(update={"seed": 0, "masks": "annotated"})
        trained = training_images(first, bench).images
        known = [(found, images), (load_masks(folder, 0, trained), trained)]
        found = masks_of(draw(seed=seed).images, known, "those of seed 0")
    _need_kept(found, "the validation images")
    return found


def _need_kept(masks: AutomaticMasks, of: str) -> None:
    if not bool(masks.kept.any()):
        raise ValueError(
            f"masks: 01_masks kept 0 of {len(masks.kept)} masks of {of}, so there is nothing to "
            "train on; give it another feature_model, key_bias or tau"
        )


# Making and reading


def make(row: Row, device: str = "auto") -> Path:
    """Make what is not there of a row: weights, log, answers and figures; as `noted`."""
    row = replace(row, params=row.params.model_copy(update={"device": device}))
    known: dict[str, Any] = {"record": row.record, "asked": row.asked, "lr": None}
    return noted(row.folder, known, partial(_make, row))


def _make(row: Row, known: dict[str, Any]) -> None:
    if of_labels(row.params):
        finetune_pretrained(row.params, row.folder)
        known |= {"lr": row.params.lr, "origin": _origin(row.params)}
        return
    bench, params = open_benchmark(row.params), row.params
    frozen = Frozen(row.folder.parent / TOKENS, params.trained_blocks)
    if row.original and not is_trained(row):
        weights, known["origin"] = origin_weights(params), _origin(params)
    elif row.original:
        how = {"classes": len(bench.classes), "options": bench.options}
        train_original(
            untrained(params.model, params.seed, choose_device(params.device), **how),
            bench.spec(params.model),
            _train_settings(row),
            row.folder,
            bench,
            validation_images=40,
        )
        weights = row.folder / WEIGHTS
    else:
        known["lr"] = lr = rate(params, row.rates)
        origin, known["origin"] = origin_weights(params), _origin(params)
        _, history = finetune_at(
            params, bench, lr, origin, row.folder, validated=row.validated, kept=frozen.folder
        )
        device = choose_device(params.device)
        known |= {
            "classes_a": finetuned_classes(params, bench),
            "kept_epoch": kept_epoch(history, params.keep),
            "precision": products(params.method, choose_precision(params.precision, device)),
        }
        weights = row.folder / WEIGHTS
    if row.images_per_set or row.looked_at:
        how = (params.device, None if row.original else frozen)
        classifier = load_classifier(bench, params.model, weights, *how)
        known["answered_in"] = classifier.precision
        if row.images_per_set:
            known_in = weights.parent / SETS  # of the preset's own original: 00_start has asked it
            asked = (row.folder / SETS, bench, row.images_per_set)
            answer_sets(classifier, weights, *asked, known=known_in)
        if row.looked_at:
            known["figures"] = _figures(row, bench, weights, classifier)


def finetune_at(
    cfg: Params, bench: Benchmark, lr: float, origin: Path, folder: Path, **how: Any
) -> tuple[torch.nn.Module, History]:
    """One finetuning run as `cfg` describes it, at one learning rate (`run.Start.finetuned`).

    `origin` are the original model's weights. A run that is made keeps its number format, on
    whatever device it is looked at.
    """
    precision = choose_precision(cfg.precision, choose_device(cfg.device))
    made = read_json(folder / MADE).get("precision") if (folder / MADE).is_file() else None
    if made and made != products(cfg.method, precision):
        precision = made
    settings = resolved(cfg, lr, precision)
    return start_of(cfg, bench, origin).finetuned(settings, folder, **how)


def start_of(cfg: Params, bench: Benchmark, origin: Path) -> Start:
    """Where a run starts, from the weights of its original, and what it sees."""
    spec, train = bench.spec(cfg.model), images_to_crop(cfg, bench)
    how = {"seed": bench.validation_seed(cfg.seed), "size": spec.image_size}
    counts = cfg.validation_images, cfg.validation_maps
    return Start(
        load_model(cfg.model, origin, options=bench.options, device=choose_device(cfg.device)),
        spec,
        train,
        bench.draw("validation", range(max(counts)), **how, **bench.masks_for(cfg.protocol)),
        *counts,
        _inputs(cfg, bench, spec, train) | {"origin": file_fingerprint(origin)},
        validation_masks(cfg, bench),
    )


def _inputs(cfg: Params, bench: Benchmark, spec: ModelSpec, train: Batch) -> dict[str, Any]:
    """What a run's images and masks follow from: where they are others, it is another run."""
    names = ("images_per_class", "classes", "validation_images", "validation_maps")
    found: dict[str, Any] = {name: getattr(cfg, name) for name in names}
    if train.images.shape[-1] > spec.image_size:
        found["resized"] = train.images.shape[-1]
    if train.masks.is_floating_point():
        found["edges"] = "soft"
    if bench.composable or bench.finds_masks:
        found["images"] = bench.rules
    if seed := bench.validation_seed(cfg.seed):
        found["validation_seed"] = seed
    if cfg.masks != "annotated":
        found["masks"] = cfg.masks
    if cfg.masks == "tokencut" and not bench.finds_masks:
        found["masks"] = file_fingerprint(results_of(cfg, "01_masks") / MASKS)
    return found


def _training(params: Params) -> dict[str, Any]:
    """How an original comes about: by 00_start, or shipped."""
    if _at_home(params) and not {params.model} & {own_model(params), *PAPER_MODELS}:
        return {"source": "shipped"}
    how = read_stage(params, "00_start").model_dump(exclude=FREE | WEIGHTS_ROOT | NOT_OF_TRAINING)
    return how | {"images": original_images(params)}


def _train_settings(row: Row) -> TrainSettings:
    """How the original of a world is trained: at the rates of 00_start, drawings in one epoch."""
    params = row.params
    images = params.benchmark
    return TrainSettings.from_params(
        read_stage(params, "00_start"),
        choose_device(params.device),
        images=original_images(params),
        epochs=images.original_epochs if images.data == PACS else 1,
        seed=params.seed,
    )


def original_images(params: Params) -> int:
    """The training images of the original of a world of its own."""
    return params.benchmark.original_images or read_stage(params, "00_start").training_images


def shared_out(bench: Benchmark, model: str, count: int) -> Batch:
    """The images whose relevance is shared out: of set `a` where it has masks."""
    name = "a" if "a" in bench.outlined_sets else bench.outlined
    return bench.draw(name, range(count), size=bench.spec(model).image_size)


def _figures(row: Row, bench: Benchmark, weights: Path, classifier: Classifier) -> dict[str, float]:
    """Means of `relevance_shares`, the object by HELD_OUT, and the challenge.

    That is of Habitats. Where it is composed, its answers are written, too.
    """
    model = row.params.model
    network = load_model(model, weights, options=bench.options, device=row.params.device)
    shown = list(shared_out(bench, model, row.looked_at).split(BATCH))
    found = relevance_shares(network, bench.spec(model), shown).mean().to_dict()
    if row.held_out:
        shares = relevance_shares(network, bench.spec(model), shown, HELD_OUT)
        found["on_object_libra_pct"] = shares["on_object_pct"].mean()
    if bench.challenging and row.challenge:
        found |= backgrounds_challenge(classifier, bench.test_batches, row.challenge)
    if bench.leans and row.challenge:
        spec = bench.spec(model)
        batch, _ = bench.with_masks(row.challenge, size=spec.image_size)
        rows = lean_rows(network, spec, batch.images, batch.masks, batch.labels)
        write_atomically(row.folder / LEAN, rows.to_parquet)
        found["background_gap_pts"] = background_gap(rows).value
    return found


def read(row: Row, *, or_diverged: bool = False) -> Kept:
    """What `run.json` of a row says.

    Raises: FileNotFoundError where it is not made, was asked less than now, or was made from
    another original; FailedError for one that failed, but for a diverged one where that is asked
    for.
    """
    path = row.folder / MADE
    if lacks := _older(row, read_json(path)) if path.is_file() else "is not made yet":
        raise FileNotFoundError(
            f"the run {row.name} {lacks}; make all that is missing by: "
            f"python -m reproduction.pipeline {row.params.preset}"
        )
    return read_run(path.parent, or_diverged=or_diverged)


def _older(row: Row, made: Kept) -> str:
    """What a row that is made lacks to be the one that is asked for; nothing if it is."""
    if row.more_than(made["asked"]):
        return "was asked less when it was made"
    if made["failed"] or is_trained(row) or made["origin"] == _origin(row.params):
        return ""
    return "was made from another original"


def _origin(params: Params) -> str:
    """The fingerprint of the weights that a run starts from."""
    path = (pretrained_file if of_labels(params) else origin_weights)(params)
    return FROM_HUB if path is None else _fingerprint(path, path.stat().st_mtime_ns)


@lru_cache
def _fingerprint(path: Path, changed: int) -> str:
    """Many runs have one original."""
    return file_fingerprint(path)


def answers(row: Row) -> pd.DataFrame:
    """What a row answered on the test sets, one row an image (`sets.answer_sets`).

    Where the challenge is composed, each of `lean.CONDITIONS` is a set, too. Raises: as `read`.
    """
    read(row)
    bench = open_benchmark(row.params)
    parts = [read_table(row.folder / SETS / f"{name}.parquet") for name in bench.test_sets]
    found = pd.concat(parts, ignore_index=True)
    found = found[found["index"] < row.images_per_set]
    if bench.leans and row.challenge:
        lean = read_table(row.folder / LEAN).rename(columns=OF_LEAN)
        found = pd.concat([found, lean.assign(label_rank=1 - lean["right"].astype(int))])
    return found.reset_index(drop=True)


def needs(row: Row) -> list[Row]:
    """The rows that are made before this one."""
    if row.original or of_labels(row.params):
        return []
    world = [] if _at_home(row.params) else [original_of_world(row.params)]
    return [*searched(row.params, row.rates), *world]


def make_missing(wanted: Iterable[Row], device: str = "auto") -> None:
    """Make the rows that are not there, and what they need. Raises: as `make`."""
    for row in tqdm(once(wanted).values(), desc="runs"):
        try:
            read(row, or_diverged=True)
        except (FileNotFoundError, FailedError):
            make_missing(needs(row), device)
            make(row, device)
