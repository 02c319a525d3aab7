"""The judge of cures: rows, and what is refused before any work."""

import json
import re
from pathlib import Path

import pytest
import yaml

from relevit_own.cli import main
from reproduction.runs import cure_judge
from reproduction.runs.cure_judge import CureTask, judge, open_task, read_cure

PAGE = Path(__file__).parents[3] / "docs" / "judge.md"
(EXAMPLE,) = (
    code for code in re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE.read_text("utf-8"))
    if "def train(" in code
)  # fmt: skip
SMALL = {"model": "tiny", "images_per_class": 1, "seeds": [0, 1], "images_per_set": 40,
         "challenge_images": 40, "epochs": 1}  # fmt: skip
ODD = """
def nothing(model, spec, batch, seed):
    pass
def text(model, spec, batch, seed):
    return "a model"
def infinite(model, spec, batch, seed):
    model.head.bias.data += float("inf")
def failing(model, spec, batch, seed):
    return 1 / 0
"""


@pytest.fixture(scope="module")
def task_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "small.yaml"
    whole = CureTask.read().model_dump()
    path.write_text(yaml.safe_dump(whole | SMALL))
    return path


@pytest.fixture(scope="module")
def opened(task_file):
    return open_task(CureTask.read(task_file))


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(EXAMPLE + ODD)
    return path


def row(given, opened):
    return judge(read_cure(given, opened.task), "mine", opened, str)


def test_a_function_and_a_cure_of_the_task_have_rows(opened, mine):
    nothing = row(f"{mine}:nothing", opened)["numbers"]
    assert nothing["change_pts"] == nothing["val_pts"] == [0, 0, 0]
    assert row(f"{mine}:train", opened)["numbers"]["change_pts"][0] != 0
    own = row("label", opened)  # a cure of the task is its own finetuning
    assert own["numbers"]["change_pts"][0] != 0 and own["task"]["images_per_class"] == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("text", "the cure gives a str"),
        ("infinite", "after the cure head.bias has NaN or infinity"),
        ("failing", r"the cure fails \(division by zero\)|the cure fails \(ZeroDivisionError"),
    ],
)
def test_a_cure_that_gives_no_such_model_is_a_sentence(opened, mine, name, said):
    with pytest.raises(ValueError, match=f"^judge: {said}"):
        row(f"{mine}:{name}", opened)


def test_alone_it_prints_the_rows_and_how_to_add_one(capsys):
    assert main(["judge", "--cure"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n{name} " in said for name in CureTask.read().cures) and "Add a row" in said


def test_rows_of_another_task_are_left_out_and_damaged_ones_named(opened, tmp_path):
    kept = json.loads((cure_judge.kept_in() / "label.json").read_text())
    for name, version in (("one", 1), ("two", 2)):
        changed = kept | {"cure": name, "task": kept["task"] | {"version": version}}
        (tmp_path / f"{name}.json").write_text(json.dumps(changed))
    found = cure_judge.read_records(CureTask.read(), tmp_path)
    assert [each["cure"] for each in found] == ["one"]
    (tmp_path / "three.json").write_text("{}")
    with pytest.raises(ValueError, match=r"three.json is no whole row"):
        cure_judge.read_records(CureTask.read(), tmp_path)
