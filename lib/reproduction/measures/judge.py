"""An attribution method judged: three tests, on scenes and models that are the same for all.

The tests are those of `07_segmentation`. *Truth*: of a map's mass, the share that lies where the
worth of the drawn parts is. *Outlining*: its mIoU with the object. *Erasing*: by how much longer
the answer holds when the least relevant pixels go first than when the most relevant do. What
explains an answer is judged by it: erased is until the answer changes, whether it was right or not.

Scenes are of two sets: one mostly at home, where texture and things speak for the class, and one
never at home. Of the two models one answers by its class token, the other by the mean of its
patches, and leans on single things as well. MARKS are maps that nobody has to make: the true
worths, the same everywhere, chance, and the object's mask.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
import timm
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

import relevit
from habitats.homes import habitats
from relevit.attribution import to_heatmap
from relevit.base.seeding import seeded
from relevit.data.batch import join
from relevit.evaluate.intervals import PERCENT, mean_interval
from relevit.evaluate.perturbation import Erasing, image_auc_pct
from relevit.evaluate.predictions import predict
from relevit.evaluate.segmentation import segmentation_intervals, segmentation_rows
from relevit.models.dinov2 import fingerprint
from relevit.models.loading import load_model
from relevit.models.spec import ModelSpec
from relevit.protocols import options
from reproduction.measures.causal import (
    Scenes,
    causal_scores,
    draw_scenes,
    part_masses,
    part_worths,
    worth_maps,
    worth_overlap_pct,
)
from reproduction.measures.methods import BATCH, chance_maps, explained_by, perturb

MODELS = ("dinov2-s8", "tiny-mae")
SETS = ("val", "a")
SCENES, QUICK = 60, 3  # of each set; three draws of 20 give the same order (docs/judge.md)
PROBE = 2  # scenes on which a method is tried, and timed, before the work
ERASING = Erasing(shares_pct=(20, 40, 60, 80))
MARKS = ("truth", "flat", "random", "object")
BOUNDS = {"rank_correlation": (-1.0, 1.0), "erasing_pts": (-100.0, 100.0)}

Maps = Float[Tensor, "scenes patches"] | Float[Tensor, "scenes 1 height width"]
# (model, normalised images, the class answered for each) -> a value for each patch, or pixel
Method = Callable[[nn.Module, Tensor, Tensor], Any]
Score = tuple[float, float, float]  # value, and the ends of its 95 % interval over scenes


class Task(NamedTuple):
    """A model, scenes, what it answers to them, and what each part is worth to the answer."""

    name: str
    model: nn.Module
    spec: ModelSpec
    scenes: Scenes
    target: Int[Tensor, " scenes"]
    worths: Float[Tensor, "scenes parts"]

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
    bench, tasks = habitats(), []
    parts = [
        draw_scenes(bench, name, range(count), size=bench.spec(MODELS[0]).image_size)
        for name in SETS
    ]
    without = {part: torch.cat([each.without[part] for each in parts]) for part in parts[0].without}
    owners = torch.cat([each.owners for each in parts])
    scenes = Scenes(join([each.whole for each in parts]), without, owners)
    for name in models:
        model, spec = load_model(name, device=device), bench.spec(name)
        tasks.append(make_task(name, model, spec, scenes))
    return tasks


def make_task(name: str, model: nn.Module, spec: ModelSpec, scenes: Scenes) -> Task:
    """What a model answers to scenes, and what their parts are worth to it."""
    answers = predict(model, spec, scenes.whole.split(BATCH))["prediction"]
    target = torch.tensor(answers.to_numpy("int64"))
    return Task(name, model, spec, scenes, target, part_worths(model, spec, scenes))


def scene_names(count: int) -> list[str]:
    """Names of the scenes' pictures, in order."""
    return [f"{name}_{place:02}.png" for name in SETS for place in range(count)]


def marks(task: Task) -> dict[str, Maps]:
    """MARKS: what true, meaningless and outlining maps score."""
    true = worth_maps(task.worths, task.scenes)
    chance = chance_maps(len(true), task.spec.grid[0] * task.spec.grid[1])
    found = (true, torch.ones_like(true), chance, task.scenes.whole.masks.float())
    return dict(zip(MARKS, found, strict=True))


def maps_of(task: Task, method: Method, count: int | None = None) -> Maps:
    """A method's maps of the first `count` scenes, each for the answer; it draws from seed 0.

    Raises: ValueError for maps of another shape, for those of all scenes as `need_saying`, and for
    a method that changes the model; whatever the method raises.
    """
    images, before = task.scenes.whole.images[:count], task.weights()

    def rule(pixels: Tensor, target: Tensor | None) -> dict[str, Tensor]:
        return {"": fitting(method(task.model, pixels, target), task, len(pixels))}

    with seeded(0, next(task.model.parameters()).device):
        found = explained_by(task.model, task.spec, images, rule, task.target[:count])[""]
    if task.weights() != before:
        raise ValueError(
            f"judge: {task.name} has other weights after the method than before; explain a copy "
            "(copy.deepcopy), or put them back"
        )
    return need_saying(found, task) if count is None else found


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


def seconds(tasks: list[Task], method: Method | None) -> float:
    """About how long all tests take, by those of PROBE scenes, on which the method is tried.

    Raises: as `maps_of`.
    """
    start = time.perf_counter()
    for task in tasks:
        some = task.scenes.whole.select(range(PROBE))
        maps = marks(task)["random"][:PROBE] if method is None else maps_of(task, method, PROBE)
        perturb(task.model, task.spec, some, {"": maps}, ERASING)
    return (time.perf_counter() - start) * len(tasks[0].target) / PROBE


def compared(task: Task, maps: Mapping[str, Maps]) -> pd.DataFrame:
    """Many maps in the three tests, first the one that tells best what the parts are worth.

    Columns: method, score (the keys of `scores`), value, low, high.
    """
    found = [
        (name, score, *ends)
        for name, each in maps.items()
        for score, ends in scores(task, each).items()
    ]
    table = pd.DataFrame(found, columns=["method", "score", "value", "low", "high"])
    worth = table[table["score"] == "rank_correlation"].set_index("method")["value"]
    return table.sort_values(
        "method", key=lambda names: -names.map(worth), kind="stable", ignore_index=True
    )


def scores(task: Task, maps: Maps) -> dict[str, Score]:
    """All numbers of the three tests, each with its interval over scenes."""
    whole, grid = task.scenes.whole, task.spec.grid
    masses = part_masses(maps, task.scenes, grid)
    values = {"truth_pct": worth_overlap_pct(masses, task.worths).numpy()}
    values |= causal_scores(masses, task.worths).to_dict("series")
    held = replace(whole, labels=task.target)
    rows = perturb(task.model, task.spec, held, {"": maps}, ERASING)
    areas = image_auc_pct(rows, **options("published", "auc_weights"))
    areas = areas.pivot(index="index", columns="direction", values="auc_pct")
    values |= {"erasing_pts": areas["negative"] - areas["positive"]}
    values |= {f"{name}_auc_pct": areas[name] for name in areas}
    heat = maps if maps.ndim == 4 else to_heatmap(maps, tuple(task.scenes.owners.shape[1:]), grid)
    figures = options("published", "segmentation_rows")
    outlines = segmentation_intervals(segmentation_rows(heat, whole.masks, **figures))
    found = {name: _estimate(name, each) for name, each in values.items()}
    ends = outlines[["value_pct", "low_pct", "high_pct"]].itertuples(index=False, name=None)
    return found | dict(zip(outlines["metric"], ends, strict=True))


def _estimate(name: str, values: Any) -> Score:
    numbers = torch.tensor(np.asarray(values))
    return numbers.mean().item(), *mean_interval(numbers, BOUNDS.get(name, PERCENT))


def record(name: str, judged: dict[str, Maps], tasks: list[Task]) -> dict[str, Any]:
    """What is kept of a method, by model: numbers, versions, and hashes of all that made them."""
    of = {task.name: task for task in tasks if task.name in judged}
    device = next(tasks[0].model.parameters()).device
    made_by = (relevit, torch, timm, np, scipy)
    return {
        "method": name,
        "scenes": {
            "sets": list(SETS),
            "count": len(tasks[0].target),
            "sha256": tasks[0].pictures(),
        },
        "models": {key: task.weights() for key, task in of.items()},
        "maps": {key: fingerprint({"maps": maps}) for key, maps in judged.items()},
        "empty": {key: int((~says_something(maps)).sum()) for key, maps in judged.items()},
        "versions": {"python": platform.python_version(), "device": device.type}
        | {each.__name__: each.__version__ for each in made_by},
        "scores": {
            key: {
                score: [round(end, 4) for end in ends]
                for score, ends in scores(of[key], maps).items()
            }
            for key, maps in judged.items()
        },
    }
