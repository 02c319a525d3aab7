"""The judge: marks stand where they must, both zeros are counted, and what is odd is said."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy
import torch

from habitats.composing import PARTS
from habitats.homes import habitats
from relevit.attribution import METHODS
from relevit.models.dinov2 import fingerprint
from relevit.models.loading import load_model
from relevit.models.registry import shipped_weights
from relevit_own.cli import main
from reproduction.measures import judged
from reproduction.measures.causal import ZEROS, worth_overlap_pct
from reproduction.measures.judge import (
    MARKS,
    by_scene,
    compared,
    maps_of,
    marks,
    need_asked_class,
    need_saying,
    open_tasks,
    scores,
    shuffled,
    truths,
)
from reproduction.measures.judged import as_json, judge, read_method, read_records

PAGE = Path(__file__).parents[3] / "docs" / "judge.md"
CODE = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"))
ODD = {
    "short": "return images[:, 0, 0]",
    "nan": "return images[:, 0] * float('nan')",
    "chance": "return torch.rand_like(images)",
    "none": "return None",
}
GAE = "return METHODS['gae'](model, images, {})"
LEFT = {  # what is left behind, and by what
    "weights": "model.head.bias.data += 1",
    "hooks": "model.blocks[0].register_forward_hook(lambda *of: None)",
    "train or eval mode": "model.train()",
    "frozen weights": "model.requires_grad_(False)",
    "another forward": "model.blocks[0].forward = model.blocks[0].forward",
    "other parts": "model.norm = torch.nn.Dropout(0).eval()",
    "the random state": "torch.rand(1)",
    "the random state, numpy's": "np.random.rand()",
    "the gradient switch": "torch.set_grad_enabled(False)",
}
CLASSES = {  # whose class a method's map is of, and what is said; none: it is refused
    "target": "",
    "None": "its maps are of the answer, whatever class it is asked for",
    "(target + 1) % 40": None,
    "0": None,  # the answer to one of the scenes that are tried
    "28": None,  # the class that is asked for in one of them
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
    assert torch.equal(whole.labels[3:], there.labels)


def test_true_worths_win_and_flat_and_random_maps_lose(task):
    found = {name: scores(task, maps) for name, maps in marks(task).items()}
    truth = {name: each["truth_pct"][0] for name, each in found.items()}
    assert {*truth} == {*MARKS} and truth.pop("truth") == pytest.approx(100)
    assert truth["flat"] < truth.pop("shapley") < 100 and max(truth.values()) < 60
    assert truth["random"] == pytest.approx(truth["flat"], abs=3), "its mass is area, too"
    assert found["object"]["miou_pct"][0] == pytest.approx(100)
    assert found["flat"]["erasing_pts"] == (0, 0, 0)
    assert found["truth"]["erasing_pts"][0] > max(5, found["random"]["erasing_pts"][0])
    assert all(
        low <= value <= high for each in found.values() for value, low, high in each.values()
    )


def test_an_offset_moves_the_truth_from_a_maps_own_zero_alone(task):
    def truth(maps, zero):
        return truths(task, maps, zero)["truth_pct"].to_numpy()

    maps = METHODS["gae"](task.model, task.spec.normalise(task.scenes.whole.images), task.target)
    raised = maps.detach() + maps.detach().max()
    assert np.allclose(truth(maps.detach(), "least"), truth(raised, "least"), atol=0.01)
    assert np.abs(truth(maps.detach(), "own") - truth(raised, "own")).max() > 1
    flat = marks(task)["flat"]  # nothing is left to subtract from: its mass is area by both
    assert (truth(flat, "own") == truth(flat, "least")).all() and truth(flat, "own").min() > 0


def test_a_shuffled_model_is_as_large_and_another(task):
    blind = shuffled(task)
    for one, other in zip(task.model.parameters(), blind.model.parameters(), strict=True):
        assert torch.equal(one.flatten().sort()[0], other.flatten().sort()[0])
    assert blind.weights() != task.weights() and torch.equal(blind.target, task.target)
    own, there = (maps_of(each, METHODS["gae"]) for each in (task, blind))
    assert not torch.allclose(own, there)
    assert torch.equal(there, maps_of(shuffled(task), METHODS["gae"])), "the same each time"


def test_by_all_subsets_shapleys_values_are_the_truth(task):
    record = judged.judge("shapley", "shapley", [task])
    assert record["truth"]["tiny-mae"]["own"]["subsets_scenes_pct"] == [100.0] * 6


def test_the_models_have_learned_the_scenes(tasks):
    """By its name alone `tiny-mae` is one that has learned animals on plain textures."""
    learned = load_model("tiny-mae", shipped_weights("tiny-mae", "habitats"))
    assert tasks[0].weights() == fingerprint(dict(learned.state_dict()))


def test_equals_share_a_group_and_the_clearly_truer_have_one_of_their_own():
    draw = np.random.default_rng(0)
    scene = 20 * draw.standard_normal(100)  # which moves all methods alike
    noise = draw.standard_normal((4, 100))
    means = {"a": 50, "b": 50, "c": 49, "d": 30}
    rows = {
        name: mean + scene + each for (name, mean), each in zip(means.items(), noise, strict=True)
    }
    assert judged.groups(pd.DataFrame(rows)).to_dict() == {"a": 1, "b": 1, "c": 2, "d": 3}


def test_concordance_is_1_of_the_same_orders_and_that_of_scipys_friedman():
    ranks = np.random.default_rng(0).permuted(np.tile(np.arange(1.0, 18), (3, 1)), axis=1).T
    statistic = scipy.stats.friedmanchisquare(*ranks)[0]  # m (n - 1) W
    assert judged.concordance(ranks) == pytest.approx(statistic / (3 * 16))
    assert judged.concordance(ranks[:, [0, 0, 0]]) == pytest.approx(1)


def test_each_draw_has_a_third_of_each_set():
    scenes = {"a": [0.0, 1, 2, 0, 1, 2], "b": [9.0] * 6}
    records = [
        {"method": name, "truth": {"m": {key: {"scenes_pct": each} for key in ZEROS}}}
        for name, each in scenes.items()
    ]
    found = judged.draws(records)
    assert found["spread_pts"].tolist() == [0.5, 0.5], "means 0, 1, 2 of one, and 9 of the other"
    assert found["first"].tolist() == ["b", "b"] and found["zero"].tolist() == [*ZEROS]


def known_records():
    """Two methods and marks on two models, scene by scene; by Shapley's values b is the truer."""
    draw = np.random.default_rng(0)
    means = {
        "a": (80, 60),
        "b": (60, 70),
        "random": (50, 50),
        "shapley": (90, 100),
        "truth": (100, 90),
    }
    noise = draw.standard_normal((5, 40))

    def found(name, each):
        own, subsets = (list(mean + each) for mean in means[name])
        blind = {} if name in MARKS else {"shuffled_scenes_pct": list(50 + each)}
        truth = {"truth_pct": [0, 0, 0], "same_first_pct": [0, 0, 0], "scenes_pct": own}
        return truth | {"subsets_scenes_pct": subsets} | blind

    worths = {part: [1.0, 2.0] for part in PARTS} | {"gap_pct": 10.0}
    return [
        {
            "method": name,
            "truth": {model: {zero: found(name, each) for zero in ZEROS} for model in "mn"},
            "scores": {},
        }
        | ({"worths": {"m": worths, "n": worths}} if name == "truth" else {})
        for name, each in zip(means, noise, strict=True)
    ]


def test_both_definitions_of_worth_have_groups_and_an_order_of_their_own():
    rows = judged.table(known_records()).set_index(["model", "zero", "method"])
    one = rows.loc[("m", "own")]
    assert one["group"].dropna().to_dict() == {"a": 1, "b": 2}
    assert one["subsets_group"].dropna().to_dict() == {"a": 2, "b": 1}
    assert one.loc["a", "beyond"] == "yes" and pd.isna(one.loc["(truth)", "beyond"])
    models = judged.models_table(known_records()).set_index("model").loc["m"]
    assert models["worths_own"] == -1 and models["zeros"] == 1
    assert models["best_method"] == "a"
    assert models["shapley_leads_own_pts"] == pytest.approx(10, abs=1)
    agreed = judged.agreement(known_records())
    assert agreed["w"].eq(1).all() and len(agreed) == 4


def test_a_row_of_before_is_refused(tmp_path):
    """It has the worths of one definition alone."""
    record = json.loads((judged.kept_in() / "gae.json").read_text("utf-8"))
    for zeros in record["truth"].values():
        for found in zeros.values():
            del found["subsets_scenes_pct"]
    (tmp_path / "gae.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"gae.json is no whole record; judge it anew"):
        read_records(tmp_path)


def test_the_files_of_results_are_those_of_the_records():
    for name, text in judged.files(read_records(judged.kept_in())).items():
        assert (judged.kept_in().parent / name).read_text("utf-8") == text, "run make numbers"


def test_many_maps_stand_in_the_order_of_what_they_know_of_the_worth(task):
    known = marks(task)
    table = compared({name: by_scene(task, known[name]) for name in ("random", "truth")})
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
    ],
)
@pytest.mark.wrong_types
def test_bad_maps_are_a_sentence(mine, name, said):
    (own,) = open_tasks(3, ("tiny-mae",))
    with pytest.raises(ValueError, match=f"^judge: {said}"):
        need_saying(maps_of(own, read_method(f"{mine}:{name}")), own)


def written(path, body):
    path.write_text(
        "import numpy as np, torch\nfrom relevit import METHODS\n"
        f"def explain(model, images, target):\n    {body}\n"
    )
    return f"{path}:explain"


@pytest.mark.parametrize("what", LEFT)
def test_a_method_cannot_move_anything_and_is_told_what_it_left(tmp_path, task, what):
    plain = maps_of(task, METHODS["gae"])
    before, random = task.weights(), torch.get_rng_state()
    maps, left = GAE.format("target").replace("return ", "found = "), set()
    method = read_method(written(tmp_path / "m.py", f"{maps}; {LEFT[what]}; return found"))
    assert torch.equal(maps_of(task, method, left=left), plain)
    assert left == {what.partition(",")[0]}
    assert torch.equal(maps_of(task, METHODS["gae"]), plain) and task.weights() == before
    assert torch.equal(torch.get_rng_state(), random) and torch.is_grad_enabled()
    assert not any(part._forward_hooks or part.training for part in task.model.modules())


@pytest.mark.parametrize("of", CLASSES)
def test_maps_of_another_class_are_found_out(tmp_path, task, of):
    method = read_method(written(tmp_path / "m.py", GAE.format(of)))
    if CLASSES[of] is None:
        with pytest.raises(ValueError, match="tiny-mae: the maps are of another class than the on"):
            need_asked_class(task, method)
    else:
        assert need_asked_class(task, method) == CLASSES[of]


@pytest.mark.parametrize("name", METHODS)
def test_our_methods_leave_nothing_and_explain_what_is_asked(task, name):
    left = set()
    maps_of(task, read_method(name), 2, left)
    said = need_asked_class(task, read_method(name))
    assert not left and bool(said) == (name in ("raw_attention", "rollout"))


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
        ("none.py:explain", "none.py is missing"),
        ("FILE:other", "'other' in .* is no function"),
        ("FILE:broken", "cannot be loaded .*division by zero"),
        ("FILE:quits", r"cannot be loaded \(3\)"),
        ("gae --out mine.csv", "mine.csv is no JSON file"),
        ("HERE.pth", "'HERE.pth' is no method"),
    ],
)
def test_what_cannot_be_judged_is_said_before_the_work(tmp_path, monkeypatch, capsys, given, said):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file.py"
    path.write_text({"broken": "1 / 0\n", "quits": "exit(3)\n"}.get(given[5:], "x = 1\n"))
    (tmp_path / "HERE.pth").touch()
    monkeypatch.setattr("reproduction.measures.judge.open_tasks", None)
    assert main(["judge", *given.replace("FILE", str(path)).split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and re.search(said, error)


def test_what_a_method_raises_is_a_sentence_with_its_line(tmp_path):
    (tmp_path / "mine.py").write_text("def explain(*given):\n    return {}['x']\n")
    with pytest.raises(ValueError, match=r"mine.py:explain raises KeyError \('x'\) in line 2 of"):
        read_method(f"{tmp_path}/mine.py:explain")(None, None, None)


def test_alone_it_prints_the_table_and_how_to_add_a_row(capsys):
    assert main(["judge"]) == 0
    said = capsys.readouterr().out
    assert all(said.count(f"\n{name} ") == 3 for name in METHODS), "two zeros, other tests"
    assert all(f"({name})" in said for name in MARKS) and "docs/results/judge/" in said


@pytest.mark.slow
def test_quick_judges_beside_the_marks_and_its_row_is_refused(mine, tmp_path, capsys):
    out = tmp_path / "rows" / "mine.json"
    assert main(["judge", f"{mine}:explain", "--quick", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.index("about") < said.index("dinov2-s8") and said.count("(flat)") == 3
    for by_zero in json.loads(out.read_text())["truth"].values():
        assert set(by_zero) == {"own", "least"}
    whole = PAGE.parent / "results" / "judge" / "gae.json"
    (out.parent / "gae.json").write_bytes(whole.read_bytes())
    with pytest.raises(ValueError, match=r"mine.json was judged on other scenes or models than"):
        read_records(out.parent)


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
