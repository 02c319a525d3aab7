"""Cutouts: drawings with exact masks on generated textures, in the paper's nine sets.

An image is made from (set, seed, index) alone, so any part of any set can be drawn again
with the same bytes and nothing has to be stored. The recipe follows SI-Score (Djolonga et
al. 2021), which pastes cut-out photographs on backgrounds and varies one thing at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import interpolate

from habitats.benchmark import Benchmark, Split
from habitats.composing import PARTS, compose, home_family
from habitats.drawings import ANIMALS, PRETRAINING, Drawings, class_split
from habitats.kept import drawn_once
from habitats.textures import SEEN, SIDE
from relevit.data.batch import Batch, join
from relevit.data.image_set import ImageSet

SIZE = 112  # pixels of a side where no other is asked for
CHUNK = 32  # images drawn at once; the bytes do not depend on it
FRESH = 400  # validation images before those that no choice was made on


@dataclass(frozen=True)
class Recipe:
    """What a set varies. Lengths are fractions of the image side."""

    title: str
    style: str = "3d"
    background: str = "home"  # home | always_home | foreign | seen | unseen | any
    scale: tuple[float, float] = (0.45, 0.75)
    rotation_deg: float = 15.0  # uniform in +- this
    rotation_step_deg: float = 0.0  # 0: continuous
    shift: float = 0.12  # uniform in +- this, from the centre
    brightness: tuple[float, float] = (0.8, 1.15)
    anywhere: bool = False  # any place that keeps the whole square inside
    tilt: float = 0.0  # strength of the perspective
    paper: float = 0.0  # share of white mixed into the background
    props: bool = True  # where the world has any
    camouflage: bool = False  # where the world has it
    empty: bool = False  # the background alone: no animal, so that the mask is empty
    twins: str = ""  # in sets of one such name the animals stand the same


RECIPES: dict[str, Recipe] = {
    "train": Recipe("training images of the original model"),
    "finetune": Recipe("images for relevance finetuning"),
    "validation": Recipe("images for choices made during training"),
    "val": Recipe("same kind as training"),
    "v2": Recipe("new draws of the same kind"),
    "a": Recipe("on the background of another class", background="foreign"),
    "r": Recipe("flat renditions", style="flat"),
    "sketch": Recipe("black sketches on pale ground", style="high_contrast", paper=0.65),
    "objectnet": Recipe(
        "unseen backgrounds, any rotation and viewpoint",
        background="unseen",
        rotation_deg=180.0,
        tilt=0.35,
    ),
    "si_location": Recipe("anywhere", background="any", scale=(0.25, 0.4), anywhere=True),
    "si_rotation": Recipe(
        "turned in steps of 20 degrees",
        background="any",
        rotation_deg=180.0,
        rotation_step_deg=20.0,
    ),
    "si_size": Recipe("from small to large", background="any", scale=(0.15, 0.9)),
}
# The nine test sets, in the order of the columns of RobustViT Tables 1 and 2.
TEST_SETS = ("val", "a", "r", "sketch", "v2", "objectnet", "si_location", "si_rotation", "si_size")
SHIFTED_SETS = ("a", "r", "sketch", "objectnet", "si_location", "si_rotation", "si_size")


@dataclass(frozen=True)
class Home:
    """A place: its texture, and the things that stand about there."""

    name: str
    texture: str
    props: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Cutouts(Benchmark):
    """Which images there are: the sets, what is pasted, and how its context goes with its class.

    `home_share` is how often a class is at home in sets with `background="home"`. `habitats`
    has a home for each texture family, whose props, of `things`, stand behind the animal; without,
    there are textures alone. `opacity` is the lowest with which an animal is drawn where its recipe
    has camouflage.
    """

    name: str = "cutouts"
    home_share: float = 0.7
    recipes: Mapping[str, Recipe] = field(default_factory=lambda: RECIPES)
    drawings: Drawings = ANIMALS  # of the classes
    habitats: tuple[Home, ...] = ()
    things: Drawings = PRETRAINING
    prop_scale: tuple[float, float] = (0.24, 0.36)  # of the image side
    opacity: float = 1.0

    test_sets: ClassVar = TEST_SETS
    shifted_sets: ClassVar = SHIFTED_SETS
    outlined: ClassVar = "val"
    outlined_sets: ClassVar = TEST_SETS
    example_sets: ClassVar = SHIFTED_SETS
    composable: ClassVar = True
    dino_pair: ClassVar = ("dinov2-s", "tiny")

    @property
    def classes(self) -> tuple[str, ...]:
        return self.drawings.classes

    @property
    def challenging(self) -> bool:
        return bool(self.habitats)

    @property
    def rules(self) -> str:
        """What images of other worlds by the same number would differ in."""
        return f"{self.name} {self.drawings.name} home {self.home_share} opacity {self.opacity}"

    def draw(
        self,
        set_name: str,
        indices: Sequence[int],
        *,
        labels: Sequence[int] | None = None,
        families: Sequence[int] | None = None,
        seed: int = 0,
        size: int | None = None,
        without: Collection[str] = (),
    ) -> Batch:
        """Draw images of one set; same arguments, same bytes, in whatever order or batches.

        `labels` gives their classes, by default the index modulo their number, so that any whole
        multiple of it is balanced. `families` puts the same animals on other textures and changes
        nothing else. `without` are those of `composing.PARTS` that are left out, and nothing else
        changes: what lay under a part is seen, and a texture leaves a grey ground. Masks are of
        what is drawn. `size` is the side in pixels, at most 128; an even one up to 256 is drawn at
        half of it and enlarged, as textures are no finer.
        """
        size = size or SIZE
        if set_name not in self.recipes:
            raise ValueError(
                f"{self.name}: set {set_name!r} is unknown; use one of {tuple(self.recipes)}"
            )
        if unknown := [part for part in without if part not in PARTS]:
            raise ValueError(f"{self.name}: part {unknown[0]!r} is unknown; use some of {PARTS}")
        if SIDE < size <= 2 * SIDE and size % 2 == 0:
            options = {"labels": labels, "families": families, "seed": seed, "without": without}
            return _twice_as_large(self.draw(set_name, indices, size=size // 2, **options))
        if not 16 <= size <= SIDE:
            raise ValueError(
                f"{self.name}: size {size} px; it must lie in 16..{SIDE}, or be even and at most "
                f"{2 * SIDE}"
            )
        labels = [i % len(self.classes) for i in indices] if labels is None else labels
        families = [None] * len(indices) if families is None else families
        wanted = list(zip(indices, labels, families, strict=True))
        parts = [wanted[i : i + CHUNK] for i in range(0, len(wanted), CHUNK)]
        return join([self._part(set_name, part, seed, size, without) for part in parts])

    def _part(
        self,
        set_name: str,
        wanted: Sequence[tuple[int, int, int | None]],
        seed: int,
        size: int,
        without: Collection[str],
    ) -> Batch:
        draw = partial(compose, self, set_name, wanted, seed, size, without)
        if set_name == "train" and self.habitats:  # an original looks at each of these once
            return draw()
        numbers = [[None if n is None else int(n) for n in one] for one in wanted]
        world = (self.rules, self.recipes[set_name], self.habitats, self.prop_scale)
        names = (self.drawings.classes, self.things.name, self.things.classes)
        asked = (*world, *names, set_name, numbers, int(seed), size, sorted(without))
        return drawn_once(repr(asked), draw)

    def pictures(
        self, set_name: str, count: int, *, seed: int = 0, size: int | None = None
    ) -> ImageSet:
        """The first images of a set. Nothing is kept: a training may see new ones in each epoch."""
        labels = torch.arange(count) % len(self.classes)
        read = partial(self.draw, set_name, seed=seed, size=size)
        return ImageSet(set_name, self.classes, labels, lambda places: read(list(places)))

    def test_batches(
        self, set_name: str, count: int, batch_size: int, *, skipped: object = None, **options: Any
    ) -> Iterable[Batch]:
        """What many models answer stays in memory once it is drawn."""
        return _drawn(self, set_name, count, batch_size, **options)

    def split(self, seed: int) -> Split:
        return class_split(seed)

    def fresh(self, count: int, *, seed: int = 0, size: int) -> Batch:
        return self.draw("validation", range(FRESH, FRESH + count), seed=seed, size=size)

    def describe(self) -> str:
        home = [home_family(label) for label in range(len(self.classes))]
        shared = sorted({home.count(family) for family in range(len(SEEN))})
        return (
            f"{len(self.classes)} classes, {len(SEEN)} textures seen in training\n"
            f"classes that share a texture: {shared}\n"
            f"at home in {100 * self.home_share:.0f} % of the training images"
        )

    def homes(self) -> pd.DataFrame | None:
        if not self.habitats:
            return None
        names = np.array(self.classes)
        live = np.array([home_family(label) for label in range(len(names))])
        rows = [
            (home.name, home.texture, ", ".join(home.props), ", ".join(names[live == family]))
            for family, home in enumerate(self.habitats[: len(SEEN)])
        ]
        return pd.DataFrame(rows, columns=["home", "texture", "things", "classes"])


CUTOUTS = Cutouts()  # the first generation, textures alone: shipped weights have learned from it


@lru_cache(maxsize=12)  # the nine test sets, and three of the backgrounds challenge
def _drawn(bench: Cutouts, *asked: str | int, **options: Any) -> tuple[Batch, ...]:
    return tuple(bench.batches(*asked, **options))


def _twice_as_large(batch: Batch) -> Batch:
    pixels = interpolate(batch.images.float(), scale_factor=2, mode="bicubic")
    masks, props = (
        None if mask is None else mask.repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1)
        for mask in (batch.masks, batch.props)
    )
    images = pixels.round().clamp(0, 255).to(torch.uint8)
    return replace(batch, images=images, masks=masks, props=props)
