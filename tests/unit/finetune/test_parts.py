"""A study in parts: what is kept is joined to what is made, and to nothing of other settings."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from reproduction.params.preset import read_preset
from reproduction.runs import grids, parts
from reproduction.runs.parts import NAMED, joined
from reproduction.stages import preset_file

PLANNED = ("one", "two", "three")


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Runs that are made here by name, with how many of their four answers are right."""
    here: dict[str, int] = {}

    def split(rows, missing):
        lost = {run.name: f"{run.name} is missing" for run in rows["run"] if run.name not in here}
        return rows[[run.name in here for run in rows["run"]]], lost

    def study(rows, keys):
        seen = {"dataset": "a", "index": range(4), "in_a": True}
        named = rows[[key for key in keys if key != "lr"]].to_dict("records")
        answers = [
            pd.DataFrame(seen | {"right": np.arange(4) < here[row["run_name"]]}).assign(**row)
            for row in named
        ]
        figures = [row | {"lr": 1e-5, "on_object_pct": 50.0} for row in named]
        return pd.concat(answers), pd.DataFrame(figures)

    monkeypatch.setattr(parts.effects, "split", split)
    monkeypatch.setattr(parts.effects, "study", study)
    return here


def planned(tmp_path, names=PLANNED):
    runs = [SimpleNamespace(name=name, folder=tmp_path / name) for name in names]
    named = dict(zip(NAMED, ("label", "annotated", "own", 1), strict=True))
    return pd.DataFrame([named | {"run": run} for run in runs])


def rights(found):
    return found[0].groupby("run")["right"].sum().to_dict()


def test_a_study_goes_on_where_another_machine_stopped(made, tmp_path, capsys):
    made |= {"two": 3}
    assert rights(joined("why", planned(tmp_path), tmp_path)) == {"two": 3}
    assert capsys.readouterr().err == "one is missing\nthree is missing\n"
    made.clear()
    made |= {"one": 1, "three": 2}
    whole = joined("why", planned(tmp_path), tmp_path)
    assert rights(whole) == {"one": 1, "two": 3, "three": 2}
    assert whole[1]["run"].tolist() == [*PLANNED] and whole[0]["seed"].eq(1).all()
    assert capsys.readouterr().err == "why: 1 of 3 runs are kept, made elsewhere\n"
    made.clear()
    again = joined("why", planned(tmp_path), tmp_path)
    for one, other in zip(whole, again, strict=True):
        pd.testing.assert_frame_equal(one, other, check_dtype=False)
    assert capsys.readouterr().err == "why: 3 of 3 runs are kept, made elsewhere\n"


def test_what_is_made_here_goes_before_and_other_settings_are_left_out(made, tmp_path):
    made |= {"one": 1, "two": 2}
    joined("why", planned(tmp_path, PLANNED[:2]), tmp_path)
    made |= {"one": 4}
    assert rights(joined("why", planned(tmp_path, ("one", "three")), tmp_path)) == {"one": 4}
    made.clear()
    assert rights(joined("why", planned(tmp_path), tmp_path)) == {"one": 4, "two": 2}, "kept"


def test_what_is_kept_is_not_made_again_but_for_what_others_need(made, tmp_path):
    made |= {"one": 1}
    joined("why", planned(tmp_path), tmp_path)
    assert parts.kept("why", tmp_path) == {"one"} and parts.kept("dose", tmp_path) == set()
    preset = read_preset(preset_file("why"))
    first = {name for name in grids.of_preset(preset) if ".seed1-" in name}
    lost = next(name for name in first if not name.startswith("original"))
    left = {name for name in grids.of_preset(preset, first - {lost}) if ".seed1-" in name}
    assert left == {lost, *(name for name in first if name.startswith("original"))}


def test_nothing_made_and_nothing_kept_is_said_and_loses_nothing(made, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"params/why.yaml: one is missing"):
        joined("why", planned(tmp_path), tmp_path)
    made |= {"one": 1}
    joined("why", planned(tmp_path), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.rglob("why*")}
    made.clear()
    with pytest.raises(FileNotFoundError, match=r"params/why.yaml: three is missing"):
        joined("why", planned(tmp_path, ("three",)), tmp_path)
    assert before == {path.name: path.read_bytes() for path in tmp_path.rglob("why*")}


def test_the_loss_is_that_of_the_last_epoch_of_the_first(tmp_path):
    run = SimpleNamespace(folder=tmp_path)
    assert np.isnan(parts.loss_pct(run))
    for losses, share in (((0.08, 0.06, 0.02), 25), ((0.0, 0.0), np.nan)):
        logged = [json.dumps({"train_loss_relevance": loss}) + "\n" for loss in losses]
        (tmp_path / "log.jsonl").write_text("".join(logged))
        assert parts.loss_pct(run) == pytest.approx(share, nan_ok=True)
