"""What others add: by a call, by entry points, and what becomes of those that are broken."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from relevit.choices.extensions import Extensible
from relevit.choices.words import CURES, MORE_LOSSES
from reproduction.params.cells import FINETUNED, params_of


def mine():
    """A function that is no other's."""


@pytest.fixture
def table() -> Extensible:
    return Extensible("relevit.of_a_test", {"ours": len}, taken=["auto"])


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Puts a module with these entry points where Python finds it."""

    def install(module: str, code: str, points: dict[str, str]) -> None:
        (tmp_path / f"{module}.py").write_text(code)
        about = tmp_path / f"{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Name: {module}\nVersion: 1.0\n")
        lines = [f"{name} = {module}:{place}\n" for name, place in points.items()]
        (about / "entry_points.txt").write_text("".join(["[relevit.of_a_test]\n", *lines]))
        monkeypatch.syspath_prepend(tmp_path)

    yield install
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_what_is_added_by_a_call_is_there_and_may_be_defined_again(table):
    assert table.register(mine) is mine and list(table) == ["ours", "mine"]
    again = partial(mine)  # what a notebook's cell that runs twice comes to
    assert table.register(again, "mine") is again and table["mine"] is again
    del table["mine"]
    assert dict(table) == {"ours": len} and "mine" not in table


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ours", "relevit.of_a_test: the name 'ours' is taken; give another"),
        ("auto", "'auto' is taken"),
        ("theirs", "'theirs' is taken"),
        ("a b", "'a b' is no name; give one of letters"),
    ],
)
def test_a_name_that_is_taken_or_none_is_refused(table, name, text):
    table.register(print, "theirs")
    with pytest.raises(ValueError, match=text):
        table.register(mine, name)
    assert table["theirs"] is print and table["ours"] is len


def test_entry_points_are_loaded_when_they_are_asked_for_and_broken_ones_left_out(table, installed):
    installed("good_one", "def good(): ...\nlate = good", {"good": "good", "ours": "good"})
    installed("sad_one", "import no_such_library", {"sad": "anything"})
    assert "good_one" not in sys.modules
    with pytest.warns(UserWarning, match="left out") as told:
        assert list(table) == ["ours", "good"]
    assert table["good"] is sys.modules["good_one"].good and table["ours"] is len
    taken, broken = (str(each.message) for each in told)
    assert "relevit.of_a_test: 'ours' of good_one is left out (ValueError: " in taken
    assert "'sad' of sad_one is left out (ModuleNotFoundError: No module named" in broken


def test_a_module_may_register_what_its_entry_points_name(table, installed, monkeypatch):
    monkeypatch.setattr("relevit.choices.extensions.of_a_test", table, raising=False)
    code = "from relevit.choices.extensions import of_a_test\n@of_a_test.register\ndef both(): ..."
    installed("both_ways", code, {"both": "both"})
    assert list(table) == ["ours", "both"]


def test_parameters_take_the_names_that_are_there(monkeypatch):
    for table in (CURES, MORE_LOSSES):
        monkeypatch.setattr(table, "_known", {})
    asked = {"augmentation": "fog", "more_losses": {"dust": 1.0}}
    text = r"augmentation = 'fog'.* use none, swap, .*\n.*more_losses.dust.*'dust'"
    with pytest.raises(ValueError, match=text):
        params_of(FINETUNED).checked(asked, "here")
    CURES.register(mine, "fog")
    MORE_LOSSES.register(mine, "dust")
    assert params_of(FINETUNED).checked(asked, "here").more_losses == {"dust": 1.0}
