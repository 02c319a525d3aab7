"""Pictures that are drawn once: those that are read are those that are drawn."""

from collections import Counter
from functools import partial
from multiprocessing import get_context

import pytest
import torch

from habitats import cutouts, kept
from habitats.cutouts import CUTOUTS, RECIPES
from habitats.homes import habitats

WORLDS = {"textures": CUTOUTS, "homes": habitats(), "hidden": habitats(0.5, 1.0)}
ASKED = [("a", {}), ("val", {"seed": 3}), ("r", {"size": 64}), ("si_size", {"size": 140})]
ASKED += [("finetune", {"labels": [3] * 35}), ("a", {"families": [2] * 35})]
ASKED += [("a", {"without": [part]}) for part in ("animal", "thing 1", "texture")]


@pytest.fixture
def drawn(monkeypatch) -> Counter:
    """How often parts of each set are drawn."""
    found, compose = Counter(), cutouts.compose

    def counted(world, set_name, *given):
        found[set_name] += 1
        return compose(world, set_name, *given)

    monkeypatch.setattr(cutouts, "compose", counted)
    return found


def equal(one, other) -> bool:
    ours, theirs = one.tensors(), other.tensors()
    assert {k: (v.dtype, v.shape) for k, v in ours.items()} == {
        k: (v.dtype, v.shape) for k, v in theirs.items()
    }
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_what_is_read_is_what_is_drawn(tmp_path, monkeypatch, drawn):
    """Each of these is another file, whatever is asked before."""
    asked = [
        partial(world.draw, name, range(35), **options)
        for world in WORLDS.values()
        for name, options in [*ASKED, *((name, {}) for name in RECIPES if name != "train")]
    ]
    plain = [draw() for draw in asked]
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "images"))
    first = [draw() for draw in asked]
    before = drawn.total()
    again = [draw() for draw in asked]
    assert drawn.total() == before, "nothing is drawn twice"
    assert all(equal(*pair) for found in (first, again) for pair in zip(plain, found, strict=True))


def test_a_damaged_file_is_drawn_again(tmp_path, monkeypatch, drawn):
    monkeypatch.setenv(kept.FOLDER, str(tmp_path))
    whole = CUTOUTS.draw("a", range(3))
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    for damaged in (
        b"",
        content[:-1],
        content[:-1] + bytes([255 - content[-1]]),
        bytes(len(content)),
    ):
        path.write_bytes(damaged)
        assert equal(CUTOUTS.draw("a", range(3)), whole) and path.read_bytes() == content
    assert drawn["a"] == 5


def test_processes_that_draw_the_same_leave_the_same_file(tmp_path, monkeypatch):
    monkeypatch.setenv(kept.FOLDER, str(tmp_path))
    with get_context("spawn").Pool(2) as pool:
        first, second = pool.map(partial(CUTOUTS.draw, "a"), [range(2)] * 2)
    assert equal(first, second) and len([*tmp_path.iterdir()]) == 1


@pytest.mark.parametrize("package", kept.COMPUTES)
def test_another_version_draws_anew(tmp_path, monkeypatch, drawn, package):
    monkeypatch.setenv(kept.FOLDER, str(tmp_path))
    for number in ("1.0", "1.1"):
        kept._drawn_by.cache_clear()
        told = dict.fromkeys(kept.COMPUTES, "1.0") | {package: number}
        monkeypatch.setattr(kept, "version", told.get)
        CUTOUTS.draw("a", [0])
    kept._drawn_by.cache_clear()
    assert drawn["a"] == 2
