"""What a reader sees first: every notebook's stored outputs carry its lesson.

The cell tagged `lesson` says it in numbers; here is the side on which these must lie.
"""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import nbformat
import pandas as pd
import pytest
import torch

from relevit.evaluate.intervals import mean_interval
from reproduction.params.order import NOTEBOOKS
from reproduction.runs import effects, stored

FOLDER = Path(__file__).parents[2] / "notebooks"
NUMBER = re.compile(r"(?<![\w.-])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


class Lesson(NamedTuple):
    """In words, and as a condition on the numbers that the cell has printed, in their order."""

    words: str
    holds: Callable[..., bool]


LESSONS = {
    "00_start": Lesson(
        "and often wrong elsewhere, also where the home alone is another",
        lambda val, a, home, lost, _, high, *found: (
            val >= 90 and a < min(val, home) - 15 and lost < high < 0 and found[-2] > 30
        ),
    ),
    "01_masks": Lesson(
        "refining adds to masks without a label",
        lambda images, patches, refined, many, kept, adds, low, _, found, *__: (
            kept > refined > patches > 30 < found and adds > low > 0 and many < images
        ),
    ),
    "02_finetune": Lesson(
        "relevance goes to the object, and few answers are paid",
        lambda before, after, flat, moved, low, high, answers, won, lost, *_: (
            after > before + 2 and before > flat and low > 0 and lost - won < answers / 10
        ),
    ),
    "03_robustness": Lesson(
        "relevance adds, an ellipse does a part of it, and the rest is open",
        lambda seeds, images, adds, low, _, without, _1, _2, more, *rest: (
            low > 0 < rest[3] < adds and abs(more - without - adds) < 0.15
        ),
    ),
    "04_cures": Lesson(
        "the swap is not told from relevance here, and leads on photographs",
        lambda seeds, images, lead, low, high, *_: low < 0 < high,
    ),
    "06_attribution": Lesson(
        "some maps know the class and some cannot",
        lambda images, raw, gae, gae_low, _, token, token_low, __, methods, follow, *___: (
            raw == 50 < min(gae_low, token_low) and follow < methods
        ),
    ),
    "07_segmentation": Lesson(
        "most maps tell more than a flat one",
        lambda scenes, best, flat, beyond, methods, *_: best > flat and beyond > methods / 2,
    ),
    "08_iav": Lesson(
        "heads look at the animal and know the image beyond another's map, whose score is not 0",
        lambda score, images, other, own, low, _, flat, alike, *rest: (
            0.2 < other < score and 0 < low < own and abs(alike) < own and 0 < rest[5] < rest[4]
        ),
    ),
    "05_ablations": Lesson(
        "the background term adds most of the gain",
        lambda seed, images, adds, low, _, *__: adds > low > 5,
    ),
    "09_text": Lesson(
        "answers hang on the words that a map marks, whether they are right or wrong",
        lambda ranked, texts, random, more, low, *_: random < ranked and 0 < low < more,
    ),
    "99_report": Lesson(
        "relevance adds and is a gain, and most claims are not testable or undecided",
        lambda adds, low, high, seeds, gain, at_least, at_most, claims, untold, undecided, *_: (
            0 < low < adds < high
            and 0 < at_least < gain < at_most
            and seeds == 3
            and claims == 87 < 2 * untold + undecided
        ),
    ),
    "10_your_own": Lesson(
        "relevance helps beside labels where the home is another's, and the lean may shrink",
        lambda lean, low, *found: low < lean < 0 and found[10] > found[11] > 0,
    ),
}


def lesson_cells(name: str) -> list[nbformat.NotebookNode]:
    """The cells that say in numbers what came out."""
    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    return [cell for cell in cells if "lesson" in cell.metadata.get("tags", [])]


def said(name: str) -> str:
    """What the lesson's cell has printed."""
    (cell,) = lesson_cells(name)
    return "".join(output.get("text", "") for output in cell.outputs)


def test_every_notebook_has_a_lesson():
    """Those of appendices, such as 03a_robustness, are in `test_last_sentences`."""
    taught = [name for name in NOTEBOOKS if name[2] != "a"]
    assert sorted(LESSONS) == sorted(taught)


@pytest.mark.parametrize("name", LESSONS)
def test_stored_outputs_show_the_lesson(name):
    text = said(name)
    numbers = [float(found) for found in NUMBER.findall(text)]
    assert LESSONS[name].holds(*numbers), f"{LESSONS[name].words}: {text}"


TURNED = {  # mean and 95 % interval
    "up": (2.0, 1.0, 3.0),
    "down": (-2.0, -3.0, -1.0),
    "open": (0.5, -1.0, 2.0),
}
VERBS = {  # up and down, of each sentence
    "00_start": [
        ("gives some", "takes some"),
        ("moves onto", "moves off"),
        ("name these more", "name these less"),
    ],
    "01_masks": [
        ("adds overlap", "costs overlap"),
        ("finds more", "finds fewer"),
        ("fits better", "fits worse"),
    ],
    "02_finetune": [("moves onto", "moves off"), ("gains answers", "pays with")],
    "03_robustness": [
        ("relevance adds", "takes away"),
        ("the animal adds", "costs"),
        ("the model gains", "loses"),
    ],
    "04_cures": [
        ("leads relevance", "trails relevance"),
        ("leads the swap on clouds", "trails the swap on clouds"),
    ],
    "05_ablations": [
        ("term adds", "costs"),
        ("is larger", "is smaller"),
        ("exceed", "fall short"),
        ("gains answers", "loses answers"),
    ],
}


def ends(name: str, numbers: tuple[float, ...]) -> dict[str, float]:
    """A number and its interval as the columns of a table."""
    return {
        f"{name}{end}_pts": one for end, one in zip(("", "_low", "_high"), numbers, strict=True)
    }


def names_of(name: str, numbers: tuple[float, ...], monkeypatch) -> dict:
    """What the cells above the last one have found, all with this outcome."""
    found = {"yours": numbers, "stored": numbers}
    of_one = torch.linspace(numbers[0] - 1, numbers[0] + 1, 40)  # its interval is about +-0.2
    if numbers[1] < 0 < numbers[2]:
        of_one = torch.linspace(-9, 10, 40)
    if name == "00_start":
        bench = SimpleNamespace(composable=True)
        table = pd.DataFrame({"dataset": ["val", "a"], "top1_pct": [90.0, 50.0]})
        pair = [0 * of_one, of_one]
        return {"bench": bench, "accuracy": table, "right": pair, "on_animal": pair,
                "hits": of_one, "chance": 0.0}  # fmt: skip
    if name == "01_masks":
        stages = [
            pd.DataFrame({"stage": stage, "iou_pct": 50 + part, "located": 0.5 + 0.01 * part})
            for stage, part in (
                ("coarse", 0 * of_one),
                ("refined", of_one),
                ("ellipse", 0 * of_one),
            )
        ]
        quality = pd.concat(stages).assign(images="training", seed=0, kept=True).reset_index()
        return {"quality": quality, "torch": torch}
    if name == "02_finetune":
        shown = ["relevance on the object, %", "right answers, %"]
        looks = [
            SimpleNamespace(on_object_pct=part, right=0.5 + part / 20)
            for part in (0 * of_one, of_one)
        ]
        maps = pd.DataFrame(1.0, shown, ["before", "after", effects.FLAT])
        return {"maps": maps, "before": looks[0], "after": looks[1], "effects": effects,
                "mean_interval": mean_interval}  # fmt: skip
    if name == "03_robustness":
        case = {"case": "elsewhere", "original_images": 3200} | ends("adds", numbers)
        masks = pd.DataFrame([ends("exact_leads", numbers)], ["ellipse"])
        change = dict(zip(("change_pts", "low_pts", "high_pts"), numbers, strict=True))
        told = [{"run": run, "what": what} for run in found for what in ("without", "with")]
        shown = pd.DataFrame([row | change for row in told])
        return {"found": found, "masks": masks, "cases": pd.DataFrame([case]), "shown": shown}
    if name == "04_cures":
        photos = pd.DataFrame([{"arm": "swap"} | ends("over_relevance", numbers)])
        wider = pd.DataFrame({"seeds": [5], "widening_high": [1.4]})
        monkeypatch.setattr(stored, "result", {"photos": photos, "coverage_earlier": wider}.get)
        cases = [
            (masks, arm)
            for masks, arms in {
                "annotated": ["l1", "swap_strange"],
                "boxes": ["swap", "swap_5e-6"],
            }.items()
            for arm in arms
        ]
        table = pd.DataFrame([ends("lead", numbers)] * 4, pd.MultiIndex.from_tuples(cases))
        change = dict(zip(("change_pts", "low_pts", "high_pts"), numbers, strict=True))
        exact = pd.DataFrame([{"arm": "swap", "cure": "swap"} | change])
        known = {"found": found, "clouds": found, "study": table, "exact": exact}
        return known | {"effects": effects, "LEAD": ["lead_pts", "lead_low_pts", "lead_high_pts"]}
    of_parts = {(run, "the background term"): numbers for run in found}
    loss = {"full": 0.03, "exact_gradient": 0.02}
    together = dict.fromkeys(found, (numbers,) * 3)
    return {"found": of_parts, "together": together, "exact": found, "loss": loss}


@pytest.mark.parametrize("outcome", TURNED)
@pytest.mark.parametrize("name", VERBS)
def test_last_sentences_turn_with_the_numbers(name, outcome, monkeypatch, capsys):
    """A lesson's last cell says what came out, and not what came out once."""
    (cell,) = lesson_cells(name)
    names = names_of(name, TURNED[outcome], monkeypatch) | {"stored": stored}
    exec(cell.source, names)
    text = capsys.readouterr().out
    told = text.count("points: ")
    assert text.count("cannot be told") == (told if outcome == "open" else 0)
    for up, down in VERBS[name]:
        assert (up in text) == (outcome in ("up", "open")), text
        assert (down in text) == (outcome in ("down", "open")), text


@pytest.mark.parametrize(("numbers", "said"), [((1.0, 0.2, 1.8), 4), ((-2.0, -3.0, -1.0), 0)])
def test_a_lead_that_a_wider_interval_would_not_tell_is_barely_one(
    numbers, said, monkeypatch, capsys
):
    (cell,) = lesson_cells("04_cures")
    exec(cell.source, names_of("04_cures", numbers, monkeypatch) | {"stored": stored})
    assert capsys.readouterr().out.count(", barely\n") == said  # of four lines of the study


def test_where_all_were_right_before_no_gain_is_spoken_of(monkeypatch, capsys):
    (cell,) = lesson_cells("02_finetune")
    names = names_of("02_finetune", TURNED["open"], monkeypatch) | {"stored": stored}
    for wrong, said in ((1, "whether the model pays"), (20, "the model pays with answers")):
        names["before"].right, names["after"].right = torch.ones(40), torch.ones(40)
        names["after"].right[:wrong] = 0
        exec(cell.source, names)
        *_, last = capsys.readouterr().out.strip().splitlines()
        assert said in last and "gain" not in last
