"""An attribution method judged: three tests, on scenes and models that are the same for all.

The tests are those of `07_segmentation`. *Truth*: of a map's mass, the share that lies where the
worth of the drawn parts is, counted from both ZEROS. Beside it stands the same method on `shuffled`
weights, which must not pass for the truth (Adebayo et al. 2018, Sanity Checks for Saliency Maps).
*Outlining*: its mIoU with the object. *Erasing*: by how much longer the answer holds when the least
relevant pixels go first than when the most relevant do. What explains an answer is judged by it:
erased is until the answer changes, whether it was right or not.

Scenes are of two sets: one mostly at home, where texture and things speak for the class, and one
never at home. Of the MODELS `tiny-mae` answers by the mean of its patches, the others by their
class token. A part's worth is what the answer loses without it; beside it stands Shapley's value,
from the answers to all sixteen subsets of four parts (`Task.subsets`). MARKS are maps that nobody
has to make: the true worths, the same by Shapley's value, the same everywhere, chance, and the
object's mask.
"""

from __future__ import annotations

import copy
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
import timm
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

import relevit
from habitats.composing import PARTS
from habitats.homes import habitats
from relevit.attribution import to_heatmap
from relevit.evaluate.intervals import PERCENT, mean_interval
from relevit.evaluate.perturbation import Erasing, image_auc_pct
from relevit.evaluate.predictions import predict
from relevit.evaluate.segmentation import image_values, segmentation_rows
from relevit.models.dinov2 import fingerprint
from relevit.models.loading import load_model
from relevit.models.registry import shipped_weights
from relevit.models.spec import ModelSpec
from relevit.protocols import options
from reproduction.measures.causal import (
    ZEROS,
    Scenes,
    Zero,
    causal_scores,
    draw_scenes,
    gap_pct,
    joined,
    part_masses,
    part_worths,
    shapley_worths,
    worth_maps,
    worth_overlap_pct,
)
from reproduction.measures.methods import BATCH, chance_maps, explained_by, perturb
from reproduction.measures.undisturbed import undisturbed

ALL_TESTS = ("dinov2-s8", "tiny-mae")  # erasing on more would double what a method takes
MODELS = (*ALL_TESTS, "tiny", "mini-supervised", "mini-deit", "mini-mae", "mini-dino")
SETS = ("val", "a")
SCENES, QUICK = 60, 3  # of each set; how far draws of 20 agree says docs/judge.md
PROBE = 2  # scenes on which a method is tried, and timed, before the work
ERASING = Erasing(shares_pct=(20, 40, 60, 80))
MARKS = ("truth", "shapley", "flat", "random", "object")
BOUNDS = {"rank_correlation": (-1.0, 1.0), "erasing_pts": (-100.0, 100.0)}

Maps = Float[Tensor, "scenes patches"] | Float[Tensor, "scenes 1 height width"]
# (model, normalised images, the class answered for each) -> a value for each patch, or pixel
Method = Callable[[nn.Module, Tensor, Tensor], Any]
Score = tuple[float, float, float]  # value, and the ends of its 95 % interval over scenes


class Task(NamedTuple):
    """A model, scenes, what it answers to them, and what each part is worth to the answer.

    `subsets` is that by Shapley's value, of tasks of `open_tasks` alone.
    """

    name: str
    model: nn.Module
    spec: ModelSpec
    scenes: Scenes
    target: Int[Tensor, " scenes"]
    worths: Float[Tensor, "scenes parts"]
    subsets: Float[Tensor, "scenes parts"] | None = None

    def weights(self) -> str:
        """The model's SHA-256."""
        return fingerprint({name: some.cpu() for name, some in self.model.state_dict().items()})

    def pictures(self) -> str:
        """The SHA-256 of scenes and masks."""
        return fingerprint({"images": self.scenes.whole.images, "masks": self.scenes.whole.masks})


def open_tasks(
    count: int = SCENES, models: tuple[str, ...] = MODELS, device: torch.device | None = None
) -> list[Task]:
    """Scenes of each of SETS, the first `count`, as each of the models sees them."""
    bench, scenes, found = habitats(), drawn(count), []
    for name in models:
        # By its name alone a model may be one that has learned other drawings.
        model = load_model(name, shipped_weights(name, "habitats"), device=device)
        task = make_task(name, model, bench.spec(name), scenes)
        found.append(task._replace(subsets=shapley_worths(task.model, task.spec, scenes)))
    return found


@cache
def drawn(count: int) -> Scenes:
    """Scenes of each of SETS, the first `count`, also without each subset of their parts."""
    bench = habitats()
    how = {"size": bench.spec(MODELS[0]).image_size, "together": len(PARTS)}
    return joined([draw_scenes(bench, name, range(count), **how) for name in SETS])


def make_task(name: str, model: nn.Module, spec: ModelSpec, scenes: Scenes) -> Task:
    """What a model answers to scenes, and what their parts are worth to it."""
    answers = predict(model, spec, scenes.whole.split(BATCH))["prediction"]
    target = torch.tensor(answers.to_numpy("int64"))
    return Task(name, model, spec, scenes, target, part_worths(model, spec, scenes))


def shuffled(task: Task) -> Task:
    """The same scenes and answers, and a model that knows nothing: the entries of each of its
    tensors stand in another order, drawn from seed 0, so that they are as large as before.
    """
    model = copy.deepcopy(task.model)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for part in model.parameters():
            order = torch.randperm(part.numel(), generator=draw).to(part.device)
            part.copy_(part.flatten()[order].view_as(part))
    return task._replace(model=model)


def marks(task: Task) -> dict[str, Maps]:
    """What true, meaningless and outlining maps score; `shapley` of a task of `open_tasks`.

    Where Shapley's worths fall short of the true ones as far as methods do, the truth is a matter
    of definition.
    """
    true = worth_maps(task.worths, task.scenes)
    chance = chance_maps(len(true), task.spec.grid[0] * task.spec.grid[1])
    masks = task.scenes.whole.masks.float()
    found = {"truth": true, "flat": torch.ones_like(true), "random": chance, "object": masks}
    values = task.subsets
    return found | ({} if values is None else {"shapley": worth_maps(values, task.scenes)})


def maps_of(
    task: Task, method: Method, count: int | None = None, left: set[str] | None = None
) -> Maps:
    """A method's maps of the first `count` scenes, each for the answer.

    It cannot move the scores of others, nor its own: each batch meets a fresh copy of the model,
    and draws from seed 0 (`undisturbed`). `left` gets what it would have left behind.
    Raises: ValueError for maps of another shape; whatever the method raises.
    """
    alone = undisturbed(task.model, method, set() if left is None else left)

    def rule(pixels: Tensor, target: Tensor | None) -> dict[str, Tensor]:
        return {"": fitting(alone(pixels, target), task, len(pixels))}

    images = task.scenes.whole.images[:count]
    return explained_by(task.model, task.spec, images, rule, task.target[:count])[""]


def need_asked_class(task: Task, method: Method) -> str:
    """Whose class a method's maps are of, in words; empty where it is the one asked for.

    It is asked for the second class of PROBE scenes. A map of a class hangs on the row of the head
    that makes its logit, and not on the others alone.
    Raises: ValueError for maps of another class.
    """
    some, device = task.scenes.whole.images[:PROBE], next(task.model.parameters()).device
    pixels = task.spec.normalise(some.to(device), like=next(task.model.parameters()))
    with torch.inference_mode():
        logits = task.model(pixels)
    answer, other = logits.clone().topk(2, dim=1).indices.T
    rows = torch.arange(logits.shape[1], device=device)

    def made(target: Tensor, changed: Tensor | None = None) -> Maps:
        model = task.model if changed is None else _with_rows(task.model, changed)
        return fitting(undisturbed(model, method, set())(pixels, target), task, len(pixels))

    def hang_on_its_row(maps: Maps, target: Tensor) -> bool:
        """Each by itself: one class for all scenes may be the one asked for in one of them."""
        telling = says_something(maps).nonzero().flatten().tolist()  # of others nobody can tell
        return all(_apart(maps[[i]], made(target, rows == target[i])[[i]]) for i in telling)

    plain, of_answer = made(other), made(answer)
    if hang_on_its_row(plain, other):
        return ""
    if not _apart(plain, made(other, torch.ones_like(rows, dtype=torch.bool))):
        return "its maps are of no class: they hang on no row of the head"
    if hang_on_its_row(of_answer, answer) and not _apart(plain, of_answer):
        return "its maps are of the answer, whatever class it is asked for"
    raise ValueError(
        f"judge: {task.name}: the maps are of another class than the one asked for; explain the "
        "logit of `target`"
    )


def _with_rows(model: nn.Module, rows: Bool[Tensor, " classes"]) -> nn.Module:
    """A copy whose head has a little else in these rows."""
    model = copy.deepcopy(model)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        weight = model.head.weight
        more = 0.1 * weight.std() * torch.randn(weight.shape, generator=draw).to(weight)
        weight[rows] += more[rows]
    return model


def _apart(one: Maps, other: Maps) -> bool:
    """Whether maps differ by more than rounding; NaN is a value like others."""
    one, other = one.nan_to_num(), other.nan_to_num()
    return float((one - other).abs().max()) > 1e-4 * max(float(one.abs().max()), 1e-30)


def fitting(values: Any, task: Task, count: int) -> Maps:
    """Maps of so many images as the tests take them. Raises: ValueError for another shape."""
    (rows, columns), size = task.spec.grid, tuple(task.scenes.owners.shape[1:])
    given = f"a {type(values).__name__}"
    if isinstance(values, Tensor | np.ndarray):
        maps = torch.as_tensor(values).detach().cpu().float()
        given, shape = f"{list(maps.shape)}", tuple(maps.shape[1:])
        if len(maps) == count and shape in ((rows * columns,), (rows, columns)):
            return maps.flatten(1)
        if len(maps) == count and shape in (size, (1, *size), (3, *size)):
            return maps.reshape(count, -1, *size).sum(dim=1, keepdim=True)  # over colours
    raise ValueError(
        f"judge: maps are {given} for {count} images of {task.name}; needed is a value for each "
        f"patch, [{count}, {rows * columns}] or [{count}, {rows}, {columns}], or for each pixel, "
        f"[{count}, {size[0]}, {size[1]}]"
    )


def says_something(maps: Maps) -> Bool[Tensor, " scenes"]:
    """Which maps are finite, and not the same everywhere; others score as flat ones or worse."""
    flat = maps.flatten(1)
    return flat.isfinite().all(dim=1) & (flat.amax(dim=1) > flat.amin(dim=1))


def need_saying(maps: Maps, task: Task) -> Maps:
    """The maps. Raises: ValueError where none of them says anything."""
    if bool(says_something(maps).any()):
        return maps
    raise ValueError(
        f"judge: all {len(maps)} maps of {task.name} are the same everywhere, or have NaN or "
        "infinity; give maps that say where the answer comes from"
    )


def seconds(tasks: list[Task], method: Method) -> float:
    """About how long all tests take, by those of PROBE scenes, on which the method is tried.

    Raises: as `maps_of`.
    """
    start = time.perf_counter()
    for task in tasks:
        some = task.scenes.whole.select(range(PROBE))
        maps_of(shuffled(task), method, PROBE)
        maps = maps_of(task, method, PROBE)
        if task.name in ALL_TESTS:
            perturb(task.model, task.spec, some, {"": maps}, ERASING)
    return (time.perf_counter() - start) * len(tasks[0].target) / PROBE


def compared(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Many maps in the three tests, first the one that tells best what the parts are worth.

    `found` has `by_scene` of each. Columns: method, score (its columns), value, low, high.
    """
    rows = [
        (name, score, *ends)
        for name, values in found.items()
        for score, ends in _estimates(values).items()
    ]
    table = pd.DataFrame(rows, columns=["method", "score", "value", "low", "high"])
    worth = table[table["score"] == "truth_pct"].set_index("method")["value"]
    return table.sort_values(
        "method", key=lambda names: -names.map(worth), kind="stable", ignore_index=True
    )


def lead(found: Mapping[str, pd.DataFrame], one: str, other: str, score: str) -> Score:
    """By how much one map of `by_scene` leads another, scene by scene: mean and 95 % interval."""
    pairs = torch.tensor((found[one][score] - found[other][score]).to_numpy())
    return pairs.mean().item(), *mean_interval(pairs)


def best(found: Mapping[str, pd.DataFrame], score: str) -> list[str]:
    """The map of `by_scene` with the highest mean, and those that it does not lead beyond chance.

    It was picked on the same scenes, which is in its favour.
    """
    first = max(found, key=lambda name: found[name][score].mean())
    others = (name for name in found if name != first)
    return [first, *(name for name in others if lead(found, first, name, score)[1] <= 0)]


def truths(task: Task, maps: Maps, zero: Zero) -> pd.DataFrame:
    """The first test, a row a scene: truth_pct, and the columns of `causal_scores`."""
    masses = part_masses(maps, task.scenes, task.spec.grid, zero)
    overlap = worth_overlap_pct(masses, task.worths).numpy()
    return causal_scores(masses, task.worths).assign(truth_pct=overlap)


def other_tests(task: Task, maps: Maps) -> dict[str, Any]:
    """All numbers of erasing and outlining, a value a scene.

    They look at the order of a map's values: no zero counts.
    """
    whole, grid = task.scenes.whole, task.spec.grid
    held = replace(whole, labels=task.target)
    rows = perturb(task.model, task.spec, held, {"": maps}, ERASING)
    areas = image_auc_pct(rows, **options("published", "auc_weights"))
    areas = areas.pivot(index="index", columns="direction", values="auc_pct")
    values = {"erasing_pts": areas["negative"] - areas["positive"]}
    values |= {f"{name}_auc_pct": areas[name] for name in areas}
    heat = maps if maps.ndim == 4 else to_heatmap(maps, tuple(task.scenes.owners.shape[1:]), grid)
    figures = options("published", "segmentation_rows")
    return values | image_values(segmentation_rows(heat, whole.masks, **figures))


def by_scene(task: Task, maps: Maps, zero: Zero = "own") -> pd.DataFrame:
    """All numbers of the three tests, a row a scene, on which two maps are compared."""
    return truths(task, maps, zero).assign(**other_tests(task, maps))


def scores(task: Task, maps: Maps, zero: Zero = "own") -> dict[str, Score]:
    """All numbers of the three tests, each with its interval over scenes."""
    return _estimates(by_scene(task, maps, zero))


def _estimates(values: Mapping[str, Any] | pd.DataFrame) -> dict[str, Score]:
    return {name: _estimate(name, each) for name, each in values.items()}


def _estimate(name: str, values: Any) -> Score:
    numbers = torch.tensor(np.asarray(values))
    return numbers.mean().item(), *mean_interval(numbers, BOUNDS.get(name, PERCENT))


def record(
    name: str, judged: dict[str, Maps], tasks: list[Task], blind: Mapping[str, Maps] | None = None
) -> dict[str, Any]:
    """What is kept of a method, by model: numbers, versions, and hashes of all that made them.

    `tasks` are those of `open_tasks`. `blind` are its maps of `shuffled` models; a mark has none.
    `truth` has, by model and zero, the truth of each scene in percent, of the method by both
    definitions of worth, and of its blind maps.
    """
    device = next(tasks[0].model.parameters()).device
    made_by = (relevit, torch, timm, np, scipy)
    blind = blind or {}
    return {
        "method": name,
        "scenes": {
            "sets": list(SETS),
            "count": len(tasks[0].target),
            "sha256": tasks[0].pictures(),
        },
        "models": {task.name: task.weights() for task in tasks},
        "maps": {key: fingerprint({"maps": maps}) for key, maps in judged.items()},
        "empty": {key: int((~says_something(maps)).sum()) for key, maps in judged.items()},
        "versions": {"python": platform.python_version(), "device": device.type}
        | {each.__name__: each.__version__ for each in made_by},
        "truth": {
            task.name: _truth_of(task, judged[task.name], blind.get(task.name)) for task in tasks
        },
        "scores": {
            task.name: _rounded(_estimates(other_tests(task, judged[task.name])))
            for task in tasks
            if task.name in ALL_TESTS
        },
    }


def _truth_of(task: Task, maps: Maps, blind: Maps | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for zero in ZEROS:
        own = truths(task, maps, zero)
        by_subsets = task._replace(worths=task.subsets)
        found[zero] = _rounded(_estimates(own)) | {
            "scenes_pct": _scenes(own),
            "subsets_scenes_pct": _scenes(truths(by_subsets, maps, zero)),
        }
        if blind is not None:
            found[zero]["shuffled_scenes_pct"] = _scenes(truths(task, blind, zero))
    return found


def _scenes(rows: pd.DataFrame) -> list[float]:
    return rows["truth_pct"].round(2).tolist()


def _rounded(found: Mapping[str, Score]) -> dict[str, list[float]]:
    return {score: [round(end, 4) for end in ends] for score, ends in found.items()}


def worths_record(task: Task) -> dict[str, Any]:
    """What the parts of each scene are worth in logits (None: not seen), and whether that adds up.

    `gap_pct` is `causal.gap_pct`. Of a task of `open_tasks`.
    """
    worths = {
        part: [None if np.isnan(each) else round(each, 3) for each in task.worths[:, i].tolist()]
        for i, part in enumerate(PARTS)
    }
    return worths | {"gap_pct": round(gap_pct(task.model, task.spec, task.scenes), 4)}
