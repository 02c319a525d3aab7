"""What a reader sees first: every notebook's stored outputs carry its lesson.

The cell tagged `lesson` says it in numbers; here is the side on which these must lie.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest

from reproduction.params.order import NOTEBOOKS

FOLDER = Path(__file__).parents[2] / "notebooks"
NUMBER = re.compile(r"(?<![\w.-])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


class Lesson(NamedTuple):
    """In words, and as a condition on the numbers that the cell has printed, in their order."""

    words: str
    holds: Callable[..., bool]


LESSONS = {
    "00_start": Lesson(
        "and often wrong elsewhere, also where the home alone is another",
        lambda val, a, home: val >= 90 and a < min(val, home) - 15,
    ),
    "01_masks": Lesson("masks without a label", lambda patches, refined: refined > patches > 30),
    "02_finetune": Lesson(
        "relevance goes to the object, and too high a rate costs",
        lambda before, after, rate, _, change, high, lost, loss_before, loss: (
            (after > before + 2 and rate < high and change >= -3 and lost < min(0, change))
            and (lost < -3 or loss > loss_before)  # what the rule refuses it for
        ),
    ),
    "03_robustness": Lesson(
        "the shifted sets rise, and that is due to relevance",
        lambda ours, control, adds, level, low, high, val: (
            ours > 0 < low and control <= 0 and val > -3
        ),
    ),
    "04_cures": Lesson(
        "labels lose, relevance and swap gain, on clouds less; published baselines train nothing",
        lambda label, _, __, more, low, ___, swap, least, ____, clouds, gap, gradmask, rrr: (
            (label < 0 < min(low, least) and clouds < swap < more + 1 and gap == 0)
            and max(gradmask, rrr) < label
        ),
    ),
    "06_attribution": Lesson(
        "some maps know the class and some cannot",
        lambda raw, gae, gae_low, _, token, token_low, __, methods, follow: (
            raw == 50 < min(gae_low, token_low) and follow < methods
        ),
    ),
    "07_segmentation": Lesson(
        "most maps tell more than a flat one",
        lambda best, flat, methods, beyond, *_: best > flat and beyond > methods / 2,
    ),
    "08_iav": Lesson(
        "the zero of the score is not 0, and the correlation shows a choice",
        lambda score, flat, apart, _, __, chosen, chosen_low, ___: (
            flat > 0.3 and abs(apart) < score / 4 and 0 < chosen_low < chosen < 0.5
        ),
    ),
    "05_ablations": Lesson(
        "the background term makes the gain, and rates beyond the rule cost",
        lambda full, without, _, val: full > 0 > max(without, val),
    ),
    "09_text": Lesson(
        "the model needs the words that a map marks",
        lambda random, texts, ranked, gain, low, high: ranked < random and 0 < low < gain < high,
    ),
    "99_report": Lesson(
        "relevance adds, and most claims are left open",
        lambda adds, low, high, seeds, claims, holds, wrong, left: (
            0 < low < adds < high and seeds == 3 and claims == 87 and left > holds + wrong
        ),
    ),
    "10_your_own": Lesson(
        "the model leans, and less after the cure",
        lambda gap, cured, adds, low, high, *_: gap > max(10, cured) and low < adds < high,
    ),
}


def said(name: str) -> str:
    """What the lesson's cell has printed."""
    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    (cell,) = [cell for cell in cells if "lesson" in cell.metadata.get("tags", [])]
    return "".join(output.get("text", "") for output in cell.outputs)


def test_every_notebook_has_a_lesson():
    """An appendix, such as 03a_robustness, needs none."""
    taught = [name for name in NOTEBOOKS if name[2] != "a"]
    assert sorted(LESSONS) == sorted(taught)


@pytest.mark.parametrize("name", LESSONS)
def test_stored_outputs_show_the_lesson(name):
    text = said(name)
    numbers = [float(found) for found in NUMBER.findall(text)]
    assert LESSONS[name].holds(*numbers), f"{LESSONS[name].words}: {text}"
