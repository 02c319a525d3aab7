"""Checks of the exercises on what the original model looks at (00_start)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from checks.feedback import choice, compare, guess, passed, result, wrong
from relevit.data.cutouts import home_family
from relevit.finetune.baselines import background_share_pct

CLASSES, HOMES = 40, 8
CLOSE_PCT = 8.0  # how near a prediction counts as a good one


def elsewhere(prediction: float | None, accuracy_pct: float) -> None:
    """A prediction of the accuracy on animals that are not at home."""
    guess(
        prediction, accuracy_pct, within=CLOSE_PCT, unit="%",
        low="It is better than that: the animal still counts for something, only not for enough.",
        high="The animals are the same, in the same places. Only their homes are gone.",
    )  # fmt: skip


def at_home_there(answer: Callable) -> None:
    """Of the wrong answers, percent that are at home in the picture: answers, labels, homes."""
    answers, labels, homes, home_of = answers_example()
    missed = answers != labels
    there = home_of[answers] == homes
    right = 100 * there[missed].double().mean()
    compare(result(answer, answers, labels, homes, home_of, shape=()), right, {
        "You divide by all pictures: only the wrong answers are asked about.":
            100 * (there & missed).double().mean(),
        "That is a share from 0 to 1: it is asked for in percent.": right / 100,
        "That is a count: divide it by the number of wrong answers, and give percent.":
            (there & missed).sum(),
        "You look up the home of the animal that is in the picture, and it is never there. Look up "
        "the home of the animal that is answered.": torch.tensor(0.0),
        "You compare classes with homes, and these are different numbers: home_of turns one into "
        "the other.": 100 * (answers == homes)[missed].double().mean(),
        "That is the share of the wrong answers that do not live there: use ==.": 100 - right,
        "That is the share of wrong answers among all: ask which of them live there.":
            100 * missed.double().mean(),
    })  # fmt: skip
    passed("So one can ask where a mistake comes from, and not only how many there are.")


def share_on_object(answer: Callable) -> None:
    """Percent of the relevance on the object. Heatmap and mask, batch x 1 x side x side."""
    heat, mask = heat_and_mask()
    every = (1, 2, 3)
    on_object = (heat * mask).sum(dim=every)
    # Its maps are squared: of the root, that leaves the map.
    right = 100 - background_share_pct(heat.sqrt(), mask)
    slips = {
        "That is a share from 0 to 1: it is asked for in percent.": right / 100,
        "You measure what lies off the animal: the mask is 1 on it.": 100 - right,
        "That is the mean heat on the animal: you divide by its area. Divide by all of the "
        "relevance, or a map that is bright everywhere would reach 100 %.":
            100 * on_object / mask.sum(dim=every),
        "You divide by the number of pixels: divide by the sum of the relevance, or a pale map "
        "would count less.": 100 * (heat * mask).mean(dim=every),
        "That is how much of the picture the animal covers: the relevance is not in it.":
            100 * mask.mean(dim=every),
        "You cut the map to yes and no before you add it up: add up the relevance itself.":
            _cut_first(heat, mask),
    }  # fmt: skip
    given = result(answer, heat, mask)
    if given.ndim == 0:
        wrong("One number for each picture is asked for: add up each for itself, by dim=(1, 2, 3).")
    compare(given, right, slips)
    passed("So 00_start measures where a model looks; the other number it gives there is the IoU.")


def conclusion(answer: str | None) -> None:
    """What follows when the relevance lies on the animal as before, and the answer is wrong."""
    choice(answer, "b", {
        "a": "Nothing but the home has changed: who else could it have been? And nearly half of "
             "the relevance lies off the animal, in both cases.",
        "b": "Right: a map shows where the evidence was taken from. Which way it speaks, only an "
             "experiment shows, and you have made one: change one thing and look at the answer.",
        "c": "A map belongs to the answer that was given, also to a wrong one. A lobster may be "
             "looked at closely, and still be taken for something else.",
    })  # fmt: skip


def answers_example() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Answers, labels and homes of ten pictures, no animal being at home; the home of each class.

    Seven answers are wrong, and five of these live in the home that is shown.
    """
    home_of = torch.tensor([home_family(label) for label in range(CLASSES)])
    labels = torch.arange(1, 20, 2)
    homes = (home_of[labels] + 3) % HOMES
    answers = labels.clone()
    for place in range(4):
        answers[place] = (home_of == homes[place]).nonzero()[-1, 0]
    answers[4] = homes[4]  # a class whose number is that of its home
    for place in (5, 6):  # animals of a third home
        answers[place] = (home_of == (homes[place] + 1) % HOMES).nonzero()[0, 0]
    return answers, labels, homes, home_of


def heat_and_mask() -> tuple[Tensor, Tensor]:
    """Two maps with values from 0 to 1, and masks of unlike size."""
    draw = torch.Generator().manual_seed(2)
    heat = torch.rand(2, 1, 6, 6, generator=draw, dtype=torch.float64)
    mask = torch.zeros_like(heat)
    mask[0, :, 1:4, 2:5] = 1
    mask[1, :, 2:5, 0:5] = 1
    return heat, mask


def _cut_first(heat: Tensor, mask: Tensor) -> Tensor:
    found = heat > heat.mean(dim=(1, 2, 3), keepdim=True)
    return 100 * (found * mask).sum(dim=(1, 2, 3)) / found.sum(dim=(1, 2, 3))
