"""An animal and a habitat: the same animal at home and elsewhere, and what the model answers."""

from __future__ import annotations

from matplotlib.figure import Figure
from torch import nn

from habitats.benchmark import Benchmark
from habitats.cutouts import home_family
from habitats.homes import HOMES
from habitats.textures import SEEN
from relevit.data.batch import Batch
from relevit.evaluate.looking import Look, look
from relevit.models.spec import ModelSpec
from reproduction.plots.widgets.explorer import Explorer, choice, show_image, slider, strip

POSES = 10


def habitat_explorer(
    model: nn.Module, spec: ModelSpec, bench: Benchmark, *, animal: str = "", seed: int = 0
) -> Explorer:
    """A widget to put an animal into a habitat, and to see the model's answer and relevance.

    It begins with `animal`, by default the first, at home and in the first habitat of another in
    which the answer changes. Each change draws two images and explains their predicted class (GAE).
    The benchmark is `composable`: photographs have one background each.
    """
    homes = [home.name for home in HOMES]

    def seen(label: int, families: list[int], pose: int = 1) -> tuple[Batch, Look]:
        """The same animal on several textures, explained."""
        count, size = len(families), spec.image_size
        same = {"labels": [label] * count, "families": families, "seed": seed, "size": size}
        batch = bench.draw("validation", [pose - 1] * count, **same)
        return batch, look(model, spec, batch, bench.classes)

    def draw(animal: str, habitat: str, pose: int) -> tuple[Figure, str]:
        label, chosen = bench.classes.index(animal), homes.index(habitat)
        home = home_family(label)
        batch, found = seen(label, [home, chosen], pose)
        figure, axes = strip(2.4, *[(0.08, 2.4)] * 2, (0.3, 2.4), (0.08, 2.4))
        for place, title in enumerate((f"at home: {homes[home]}", f"chosen: {habitat}")):
            show_image(axes[2 * place], batch.images[place], title)
            told = {"heat": found.heatmaps[place, 0], "colour": found.colours[place]}
            show_image(axes[2 * place + 1], batch.images[place], found.titles[place], **told)
        return figure, _words(bench, label, chosen, found)

    first = bench.classes.index(animal) if animal else 0
    others = [family for family in range(len(SEEN)) if family != home_family(first)]
    answers = seen(first, [home_family(first), *others])[1].predictions.tolist()
    flips = [at for at, other in zip(others, answers[1:], strict=True) if other != answers[0]]
    return Explorer(
        draw,
        animal=choice("animal", list(bench.classes), animal or None),
        habitat=choice("home", homes, homes[(flips or others)[0]]),
        pose=slider("pose", 1, POSES),
    )


def _words(bench: Benchmark, label: int, chosen: int, found: Look) -> str:
    """What the answers at home and in the chosen habitat are, and whether it has changed."""
    home, (first, second) = home_family(label), found.predictions.tolist()
    names, sure = bench.classes, [f"({share:.0f} %)" for share in found.confidence_pct]
    text = f"{names[label]}: at home ({HOMES[home].name}) the answer is {names[first]} {sure[0]}, "
    text += f"in {HOMES[chosen].name} it is {names[second]} {sure[1]}"
    if chosen == home:
        return f"{text}: this is its home."
    if first == second:
        return f"{text}: the answer stays."
    native = f"; {names[second]} is at home here" if home_family(second) == chosen else ""
    return f"{text}: the answer changes with the background alone{native}."
