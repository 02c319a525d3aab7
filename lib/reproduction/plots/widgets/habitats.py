"""An animal and a habitat: the same animal at home and elsewhere, and what the model answers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from habitats.benchmark import Benchmark
from habitats.cutouts import home_family
from habitats.homes import HOMES
from habitats.textures import SEEN
from relevit.attribution import explain
from relevit.evaluate.looking import RIGHT, WRONG
from relevit.models.spec import ModelSpec
from reproduction.plots.style import FAINT, INK
from reproduction.plots.widgets.explorer import Explorer, choice, show_image, slider, strip

POSES = 10
BEST = 3  # answers shown


@dataclass(frozen=True)
class _Seen:
    """One image and what the model makes of it."""

    image: Tensor  # [3, size, size]
    heat: Tensor  # [size, size]
    shares: Tensor  # [classes], softmax


class HabitatExplorer(Explorer):
    """A widget to put an animal into a habitat, and to see the model's answer and relevance.

    It begins with `animal`, by default the first, at home and in the first habitat of another in
    which the answer changes. Each change draws two images and explains their predicted class (GAE).
    `animal`, `habitat` and `pose` are the controls.
    Raises: ValueError for photographs, which have one background each.
    """

    def __init__(
        self,
        model: nn.Module,
        spec: ModelSpec,
        bench: Benchmark,
        *,
        animal: str = "",
        seed: int = 0,
    ) -> None:
        if not bench.composable:
            raise ValueError(
                f"habitat_explorer: the background of a photograph of {bench.name} cannot be "
                "chosen; use one that is drawn, such as habitats"
            )
        self._model, self._spec, self._bench, self._seed = model, spec, bench, seed
        self._names = tuple(home.name for home in HOMES)
        self.animal = choice("animal", list(bench.classes), animal or None)
        self.habitat = choice("home", list(self._names))
        self.pose = slider("pose", 1, POSES)
        self.habitat.value = self._names[self._first_flip()]
        super().__init__([self.animal, self.habitat, self.pose])

    def look(self) -> tuple[Figure, str]:
        """The animal at home and in the habitat that is chosen."""
        label = self._bench.classes.index(self.animal.value)
        home, chosen = home_family(label), self._names.index(self.habitat.value)
        pair = self._seen(label, [home, chosen])
        half = [(0.08, 2.0), (0.08, 2.0), (0.12, 1.3)]
        figure, axes = strip(2.0, *half, (0.3, 2.0), *half[1:])
        places = (f"at home: {self._names[home]}", f"chosen: {self._names[chosen]}")
        for part, seen, place in zip((axes[:3], axes[3:]), pair, places, strict=True):
            show_image(part[0], seen.image, place)
            show_image(part[1], seen.image, "relevance for the answer", heat=seen.heat)
            self._show_answers(part[2], seen, label)
        return figure, self._words(label, home, chosen, pair)

    def _seen(self, label: int, families: list[int]) -> list[_Seen]:
        """The same animal on several textures, explained."""
        drawn = self._bench.draw(
            "validation",
            [self.pose.value - 1] * len(families),
            labels=[label] * len(families),
            families=families,
            seed=self._seed,
            size=self._spec.image_size,
        )
        device = next(self._model.parameters()).device
        pixels = self._spec.normalise(drawn.images.to(device))
        with torch.no_grad():
            shares = self._model(pixels).float().softmax(dim=1).cpu()
        heat = explain(self._model, pixels).cpu()[:, 0]
        return [_Seen(*parts) for parts in zip(drawn.images, heat, shares, strict=True)]

    def _first_flip(self) -> int:
        """The first habitat seen in training in which the answer is not that at home."""
        label = self._bench.classes.index(self.animal.value)
        home = home_family(label)
        others = [family for family in range(len(SEEN)) if family != home]
        answers = [int(seen.shares.argmax()) for seen in self._seen(label, [home, *others])]
        flipped = [
            family for family, other in zip(others, answers[1:], strict=True) if other != answers[0]
        ]
        return (flipped or others)[0]

    def _show_answers(self, axis: Axes, seen: _Seen, label: int) -> None:
        """The best answers as bars, the right one in its colour."""
        best = seen.shares.topk(BEST)
        for row, (share, name) in enumerate(
            zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ):
            colour = RIGHT if name == label else WRONG if row == 0 else FAINT
            axis.barh(row, share, height=0.32, color=colour)
            text = f"{self._bench.classes[name]} {100 * share:.0f} %"
            axis.text(0, row - 0.27, text, fontsize=8.5, color=INK if colour == FAINT else colour)
        axis.set(xlim=(0, 1), ylim=(BEST - 0.5, -0.75), xticks=[], yticks=[])
        axis.set_title("answers", fontsize=9, pad=3)

    def _words(self, label: int, home: int, chosen: int, pair: list[_Seen]) -> str:
        names = self._bench.classes
        answers = [int(seen.shares.argmax()) for seen in pair]
        said = [
            f"{names[answer]} ({100 * float(seen.shares[answer]):.0f} %)"
            for seen, answer in zip(pair, answers, strict=True)
        ]
        text = f"{names[label]}: at home ({self._names[home]}) the answer is {said[0]}, "
        text += f"in {self._names[chosen]} it is {said[1]}"
        if chosen == home:
            return f"{text}: this is its home."
        if answers[0] == answers[1]:
            return f"{text}: the answer stays."
        lives = home_family(answers[1])
        native = f"; {names[answers[1]]} is at home here" if lives == chosen else ""
        return f"{text}: the answer changes with the background alone{native}."
