"""The judge: marks stand where they must, files and functions agree, and what is odd is said."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from habitats.homes import habitats
from relevit.attribution import METHODS
from reproduction.measures import judged
from reproduction.measures.causal import worth_overlap_pct
from reproduction.measures.judge import (
    MARKS,
    compared,
    maps_of,
    marks,
    open_tasks,
    scene_names,
    scores,
)
from reproduction.measures.judged import as_json, judge, read_maps, read_method, read_records
from reproduction.pipeline.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "judge.md"
CODE = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"))
ODD = {
    "short": "return images[:, 0, 0]",
    "nan": "return images[:, 0] * float('nan')",
    "chance": "return torch.rand_like(images)",
    "none": "return None",
    "changing": "model.head.bias.data += 1; return images",
}


@pytest.fixture(scope="module")
def tasks():
    return open_tasks(3, ("tiny-mae",))


@pytest.fixture
def task(tasks):
    return tasks[0]


@pytest.fixture
def mine(tmp_path):
    """The page's own example, beside a file that it imports from, and odd ones."""
    path = tmp_path / "mine.py"
    (tmp_path / "beside.py").write_text("from captum.attr import Saliency\n")
    odd = [f"def {name}(model, images, target): {body}" for name, body in ODD.items()]
    path.write_text("\n".join(["from beside import Saliency", CODE[0], *odd]))
    return path


def test_the_overlap_is_the_mass_that_lies_where_the_worth_is():
    worths = torch.tensor([[3.0, 0.0, -1.0, 1.0]])
    masses = {"true": worths, "half": [[1.0, 1, 0, 0]], "below": [[-1.0, 0, -1, -1]]}
    masses |= {"away": [[0.0, 2, 2, 0]], "nan": [[torch.nan] * 4]}
    found = [worth_overlap_pct(torch.as_tensor(each), worths).item() for each in masses.values()]
    assert found == [100, 50, 0, 0, 0]


def test_half_of_the_scenes_are_of_another_set(task):
    whole, there = task.scenes.whole, habitats().draw("a", range(3), size=112)
    assert scene_names(3)[3] == "a_00.png" and torch.equal(whole.labels[3:], there.labels)


def test_true_worths_win_and_flat_and_random_maps_lose(task):
    found = {name: scores(task, maps) for name, maps in marks(task).items()}
    truth = {name: each["truth_pct"][0] for name, each in found.items()}
    assert tuple(truth) == MARKS and truth["truth"] == pytest.approx(100)
    assert max(truth[name] for name in MARKS[1:]) < 60
    assert truth["random"] == pytest.approx(truth["flat"], abs=3), "its mass is area, too"
    assert found["object"]["miou_pct"][0] == pytest.approx(100)
    assert found["flat"]["erasing_pts"] == (0, 0, 0)
    assert found["truth"]["erasing_pts"][0] > max(5, found["random"]["erasing_pts"][0])
    assert all(
        low <= value <= high for each in found.values() for value, low, high in each.values()
    )


def test_many_maps_stand_in_the_order_of_what_they_know_of_the_worth(task):
    known = marks(task)
    table = compared(task, {name: known[name] for name in ("random", "truth")})
    assert list(dict.fromkeys(table["method"])) == ["truth", "random"]
    found = table.set_index(["method", "score"])["value"]
    own = {score: ends[0] for score, ends in scores(task, known["random"]).items()}
    assert found["random"].to_dict() == own and found["truth", "rank_correlation"] == 1


def test_rows_of_other_scenes_or_weights_are_not_compared():
    one = {"scenes": {"sha256": "a"}, "models": {"m": "1"}}
    assert judged.comparable(one, one | {"models": {"n": "2"}})
    assert not judged.comparable(one, one | {"models": {"m": "2"}})
    assert not judged.comparable(one, one | {"scenes": {"sha256": "b"}})


def test_the_same_method_gives_the_same_bytes(mine, tasks):
    """One that draws at random, too."""
    said = []
    one, other = (as_json(judge(f"{mine}:chance", "s", tasks, said.append)) for _ in range(2))
    assert one == other and re.fullmatch(r"6 scenes, 1 models: about \d+ s", said[0])
    assert json.loads(one)["models"] == {"tiny-mae": tasks[0].weights()}


def test_maps_from_files_are_judged_as_the_function_is(task, tasks, tmp_path):
    maps = maps_of(task, METHODS["gae"])
    rows = []
    for name, each in zip(scene_names(3), maps, strict=True):
        np.save(tmp_path / f"{name}.npy", each.reshape(task.spec.grid).numpy())
        rows.append({"file": name, "model": task.name, "map": f"{name}.npy", "answer": "cat"})
    table = pd.DataFrame(rows[::-1])
    table.to_csv(tmp_path / "manifest.csv", index=False)
    assert judge(str(tmp_path), "gae", tasks) == judge("gae", "gae", tasks)
    for some, said in (
        (table[1:], "5 maps of tiny-mae, a_02.png not once; needed is one for each of 6"),
        (pd.concat([table, table[:1]]), "7 maps of tiny-mae, a_02.png not once"),
        (table.drop(columns="model"), "no column model; add it"),
        (table.assign(model="vit"), "has no map of tiny-mae"),
    ):
        some.to_csv(tmp_path / "manifest.csv", index=False)
        with pytest.raises(ValueError, match=said):
            read_maps(tmp_path, tasks)


def test_a_class_of_captums_and_maps_of_pixels_are_judged(mine, task):
    for name in ("explain", "Saliency"):
        maps = maps_of(task, read_method(f"{mine}:{name}"))
        assert maps.shape == (6, 1, 112, 112) and maps.isfinite().all()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("short", r"maps are \[6, 112\] for 6 images of tiny-mae; needed is a value for each p"),
        ("nan", "all 6 maps of tiny-mae are the same everywhere, or have NaN"),
        ("none", "maps are a NoneType for 6 images"),
        ("changing", "tiny-mae has other weights after the method than before"),
    ],
)
@pytest.mark.wrong_types
def test_bad_maps_are_a_sentence(mine, name, said):
    (own,) = open_tasks(3, ("tiny-mae",))
    with pytest.raises(ValueError, match=f"^judge: {said}"):
        maps_of(own, read_method(f"{mine}:{name}"))


def test_single_maps_that_say_nothing_are_counted(tasks):
    def patchy(model, images, target):
        maps = METHODS["gae"](model, images, target)
        maps[0], maps[1, 0], maps[2:3] = 1.0, torch.inf, torch.nan
        return maps

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "patchy", patchy)
        assert judge("patchy", "patchy", tasks)["empty"] == {"tiny-mae": 3}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("gea", "'gea' is no method; give FILE.py:NAME"),
        ("none.py:explain", "the file none.py is missing"),
        ("FILE:other", "'other' in .* is no function"),
        ("FILE:broken", "cannot be loaded .*division by zero"),
        ("gae --out mine.csv", "mine.csv is no JSON file"),
        ("--cure swop", "'swop' is no cure; give FILE.py:NAME"),
        ("--cure a.safetensors", "the file a.safetensors is missing"),
        ("--cure HERE.pth", "1 files of weights; the task has seeds"),
        ("--cure label swap", "are no cure; give one"),
        ("--cure FILE:other", "'other' in .* is no function"),
        ("--cure label --out mine.csv", "mine.csv is no JSON file"),
        ("--cure label --task none.yaml", "none.yaml"),
    ],
)
def test_what_cannot_be_judged_is_said_before_the_work(tmp_path, monkeypatch, capsys, given, said):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file.py"
    path.write_text("1 / 0\n" if "broken" in given else "x = 1\n")
    (tmp_path / "HERE.pth").touch()
    monkeypatch.setattr("reproduction.measures.judge.open_tasks", None)
    monkeypatch.setattr("reproduction.runs.cure_judge.open_task", None)
    assert main(["judge", *given.replace("FILE", str(path)).split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and re.search(said, error)


def test_alone_it_prints_the_table_and_how_to_add_a_row(capsys):
    assert main(["judge"]) == 0
    said = capsys.readouterr().out
    assert all(said.count(f"\n{name} ") == 2 for name in METHODS), "once for each model"
    assert all(f"({name})" in said for name in MARKS) and "docs/results/judge/" in said


@pytest.mark.slow
def test_quick_judges_beside_the_marks_and_its_row_is_refused(mine, tmp_path, capsys):
    out = tmp_path / "rows" / "mine.json"
    arguments = ["judge", f"{mine}:explain", "--quick", "--out", str(out)]
    assert main([*arguments, "--scenes", str(tmp_path / "scenes")]) == 0
    said = capsys.readouterr().out
    assert said.index("about") < said.index("dinov2-s8:") and said.count("(flat)") == 2
    assert {path.name for path in (tmp_path / "scenes").iterdir()} == set(scene_names(3))
    whole = PAGE.parent / "results" / "judge" / "gae.json"
    (out.parent / "gae.json").write_bytes(whole.read_bytes())
    with pytest.raises(ValueError, match=r"mine.json was judged on other scenes or models than"):
        read_records(out.parent)


def test_explain_writes_a_folder_that_can_be_judged(tasks, tmp_path):
    """Pictures of the scenes are the scenes, and its maps are for the same answers."""
    judged.write_scenes(tmp_path / "scenes", tasks[0])
    given = ["explain", str(tmp_path / "scenes"), "--model", "tiny-mae", "--save-maps"]
    assert main([*given, "-o", str(tmp_path / "maps")]) == 0
    found = read_maps(tmp_path / "maps", tasks)["tiny-mae"]
    torch.testing.assert_close(found, maps_of(tasks[0], METHODS["gae"]), rtol=1e-3, atol=1e-5)


@pytest.fixture
def explain_func():
    names: dict = {}
    exec(compile(CODE[-1], PAGE.name, "exec"), names)
    return names["explain_func"]


def test_the_recipe_for_quantus_gives_arrays_for_all_methods(explain_func, task):
    inputs = task.spec.normalise(task.scenes.whole.images[:2]).numpy()
    for name in METHODS:
        how = {"targets": task.target[:2].numpy(), "method": name, "device": "cpu"}
        found = explain_func(model=task.model, inputs=inputs, **how)
        assert isinstance(found, np.ndarray) and found.shape == (2, 1, 112, 112)
