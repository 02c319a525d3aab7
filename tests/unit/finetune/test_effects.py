"""What runs came to: arms against the original and their rivals, and runs that failed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from habitats.cutouts import SHIFTED_SETS
from habitats.homes import habitats
from reproduction.params.cells import FINETUNED, params_of
from reproduction.params.preset import read_preset
from reproduction.runs import effects, grids
from reproduction.runs.effects import ARM, along, compared, of_study, score, split, worst
from reproduction.runs.grids import ORIGINAL, OURS, OWN
from reproduction.runs.run import FailedError, Row

ROOT = Path(__file__).parents[3]


def test_worst_class_and_home_are_of_each_run_and_their_mean_over_seeds():
    """Of 40 labels, seed 0 knows all but label 7, seed 1 all but half of label 3's images."""
    rows = [
        (s, name, 2 * label + i, label, (label, s) != (7, 0) and (label, s, i) != (3, 1, 0))
        for s in (0, 1)
        for name in ("val", *SHIFTED_SETS)
        for label in range(40)
        for i in range(2)
    ]
    seen = pd.DataFrame(rows, columns=["seed", "dataset", "index", "label", "right"])
    found = worst(seen, habitats())
    assert found == pytest.approx({"worst_class_pct": 25, "worst_home_pct": 85})


def test_arms_are_held_against_the_original_and_against_rivals_of_their_own_kind():
    """Of 40 images a set each run knows so many; relevance with boxes is another rival."""
    known = {
        (ORIGINAL, "annotated"): 20,
        ("label", "annotated"): 16,
        ("relevance", "annotated"): 24,
        ("relevance", "boxes"): 22,
        ("swap", "boxes"): 32,
    }
    parts, figures = [], []
    for (arm, masks), right in known.items():
        for seed in (0, 1):
            key = dict(zip(ARM, (arm, masks, 3, OWN), strict=True)) | {"seed": seed}
            figures.append(key | {"lr": 1.0, "on_object_pct": right + seed})
            for name in ("val", *SHIFTED_SETS):
                seen = {"dataset": name, "index": range(40), "label": range(40)}
                more = seed if name == "val" else 0
                parts.append(
                    pd.DataFrame(seen | key).assign(right=lambda t, k=right + more: t["index"] < k)
                )
    rivals = {"lead": {"label": "relevance", "swap": "relevance"}, "over_x": {"swap": "none"}}
    found = compared(pd.concat(parts), pd.DataFrame(figures), habitats(), rivals)
    assert not any(name.startswith("over_x") for name in found), "a rival that is not there"
    found = found.set_index(["arm", "masks"])
    columns = ["change_pts", "lead_pts", "seeds_better", "val_pts", "on_object_pct"]
    assert found.loc[("label", "annotated"), columns].tolist() == [-10, -20, 0, -10, 16.5]
    assert found.loc[("swap", "boxes"), columns].tolist() == [30, 25, 2, 30, 32.5]
    assert found.loc[[("relevance", "annotated"), ("relevance", "boxes")], "lead_pts"].isna().all()


def test_arms_of_one_model_are_held_against_the_original_and_ours_against_them(monkeypatch):
    known = {ORIGINAL: 20, "ours": 24, "other": 30}
    parts = [
        pd.DataFrame({"index": range(40), "label": 0, "dataset": name, "arm": arm, "seed": 0})
        .assign(right=lambda t, k=right: t["index"] < k)
        for arm, right in known.items() for name in SHIFTED_SETS
    ]  # fmt: skip
    monkeypatch.setattr(effects, "study", lambda table, keys: (pd.concat(parts), None))
    found = effects.beside_ours(None, "ours")
    assert list(found.index) == ["ours", "other"]
    assert found["change_pts"].tolist() == [10, 25]
    assert found.loc["other", "lead_pts"] == -15 and pd.isna(found.loc["ours", "lead_pts"])


def test_losses_are_those_of_the_last_epoch_and_mean_over_seeds(monkeypatch, tmp_path):
    rows = [("full", "0", 1.0), ("full", "1", 3.0), ("exact", "2", 0.5), (ORIGINAL, "none", 9.0)]
    for _, run, loss in rows[:-1]:  # an original has no log
        (tmp_path / run).mkdir()
        epochs = ({f"train_loss_{name}": epoch * loss for name in ("background", "relevance")}
                  for epoch in (2, 1))  # fmt: skip
        (tmp_path / run / "log.jsonl").write_text("\n".join(map(json.dumps, epochs)))
    monkeypatch.setattr(
        effects, "read", lambda run: SimpleNamespace(path=tmp_path / run / "run.json")
    )
    found = effects.last_losses(pd.DataFrame(rows, columns=["arm", "run", "loss"]), ["arm"])
    assert found["arm"].tolist() == ["full", "exact"]
    assert found["background_loss"].tolist() == found["relevance_loss"].tolist() == [2.0, 0.5]


def test_the_rate_that_is_used_is_the_highest_that_passes_or_the_lowest(monkeypatch):
    tried = {
        "rrr": pd.DataFrame({"lr": [1.0, 2.0, 3.0], "drop_pts": [0, 1, 9], "rising": False}),
        "gradmask": pd.DataFrame({"lr": [1.0, 2.0], "drop_pts": 9, "rising": True}),
    }
    monkeypatch.setattr(effects, "read_stage", lambda *_: params_of("02_finetune")())
    arms = [("tiny", method, "published") for method in tried]
    monkeypatch.setattr(effects, "searched_arms", lambda cfg: arms)
    monkeypatch.setattr(effects, "rates_of_arm", lambda cfg, model, method, protocol: method)
    monkeypatch.setattr(effects, "judged", tried.get)
    found = effects.searches(None).query("used")
    assert found[["method", "lr"]].to_numpy().tolist() == [["rrr", 2.0], ["gradmask", 1.0]]


def test_worlds_are_held_against_their_own_original_and_rival():
    known = {
        (ORIGINAL, OWN): (20, 20), ("relevance", OWN): (24, 30), ("swap", OWN): (32, 32),
        (ORIGINAL, "home 1"): (10, 10), ("relevance", "home 1"): (12, 12),
        ("swap", "home 1"): (16, 16),
    }  # fmt: skip
    parts, figures = [], []
    for (arm, world), rights in known.items():
        for seed, right in enumerate(rights):
            key = dict(zip(ARM, (arm, "annotated", 3, world), strict=True)) | {"seed": seed}
            figures.append(key | {"lr": 1.0})
            for name in ("val", *SHIFTED_SETS):
                seen = pd.DataFrame({"index": range(40), "label": range(40), "dataset": name} | key)
                parts.append(seen.assign(right=seen["index"] < (2 if name == "val" else right)))
    rivals = {"lead": {"swap": "relevance"}}
    found = compared(pd.concat(parts), pd.DataFrame(figures), habitats(), rivals)
    found = found.set_index(["world", "arm"]).sort_index()
    assert found["change_pts"].tolist() == [5, 15, 17.5, 30], "home 1 first"
    assert found.xs("swap", level="arm")["lead_pts"].to_dict() == {"home 1": 10, OWN: 12.5}
    lead = found.loc[(OWN, "swap")]
    assert lead["lead_low_pts"] < lead["lead_pts"] < lead["lead_high_pts"] and lead["val_pts"] == 0


def test_runs_are_scored_by_group_and_those_that_failed_leave_their_reason(monkeypatch):
    def read(row):
        if not row.original and row.params.seed == 1:
            raise FailedError("training: loss is nan")
        return {"lr": row.params.lr}

    def answers(row):
        seen = {"dataset": "a", "index": range(2), "label": 3, "prediction": 3}
        return pd.DataFrame(seen | {"label_rank": [1, 1] if row.original else [0, 1]})

    monkeypatch.setattr(effects, "read", read)
    monkeypatch.setattr(effects, "answers", answers)
    rows = pd.DataFrame([
        {"arm": arm, "model": "tiny", "seed": seed, "factor": 2.0, "run": Row(
            params_of(FINETUNED)(lr=1.0e-3, seed=seed), arm == ORIGINAL, images_per_set=40
        )}
        for arm in (ORIGINAL, "full")
        for seed in (0, 1, 2)
    ])  # fmt: skip
    there, lost = split(rows)
    assert len(there) == 5 and list(lost.values()) == ["training: loss is nan"]
    sets, shifted = score(there, ["factor"])
    assert shifted[["factor", "change_pts", "seeds"]].to_numpy().tolist() == [[2.0, 50.0, 2.0]]
    assert sets[["seed", "top1_pct", "original_top1_pct"]].to_numpy().tolist() == [
        [0, 50.0, 0.0],
        [2, 50.0, 0.0],
    ]
    assert sets["change_se_pts"].tolist() == [50.0, 50.0]  # of changes by 0 and 100 points
    sets, shifted = score(there[there["arm"] == ORIGINAL], ["factor"])
    assert sets.empty and shifted.empty and {"factor", "seed", "top1_pct", "lr"} <= set(sets)

    def missing(row):
        raise FileNotFoundError("is not made yet")

    monkeypatch.setattr(effects, "read", missing)
    with pytest.raises(FileNotFoundError, match="not made"):
        split(rows)
    assert split(rows, missing=True)[0].empty


def test_groups_along_an_axis_are_in_its_order_with_the_change_on_val(monkeypatch):
    def answers(row):
        first = 0 if row.original else 2 * row.params.classes
        parts = [
            pd.DataFrame({"dataset": name, "index": range(40), "label": 3, "prediction": 3})
            for name in ("val", *SHIFTED_SETS)
        ]
        seen = pd.concat(parts)
        right = seen["index"] < first // (1 + (seen["dataset"] == "val"))
        return seen.assign(label_rank=(~right).astype(int))

    monkeypatch.setattr(effects, "read", lambda row: {"lr": 1.0})
    monkeypatch.setattr(effects, "answers", answers)
    named = {"model": "tiny", "seed": 0}
    rows = [
        named
        | {
            "arm": "full",
            "classes": n,
            "run": Row(params_of(FINETUNED)(classes=n), images_per_set=40),
        }
        for n in (8, 4)
    ]
    original = Row(params_of(FINETUNED)(), True, images_per_set=40)
    rows.append(named | {"arm": ORIGINAL, "classes": 8, "run": original})
    sets, found = along(pd.DataFrame(rows), ["classes"])
    assert found[["classes", "change_pts", "val"]].to_numpy().tolist() == [[4, 20, 10], [8, 40, 20]]
    assert len(sets) == 2 * (1 + len(SHIFTED_SETS))


@pytest.mark.parametrize(
    ("question", "cls", "part"),
    [("cures", params_of("04_cures"), "arms"), ("maps", params_of("05a_ablations"), "maps")],
)
def test_the_study_that_is_shown_is_that_of_the_preset(monkeypatch, question, cls, part):
    monkeypatch.chdir(ROOT)
    asked = grids.of(read_preset(ROOT / "params" / "study.yaml").stages[cls.notebook])
    asked = asked[(asked["part"] == part) & (asked["arm"] != ORIGINAL)]
    stored = of_study(question)
    keys = [key for key in ARM if key in stored]
    told = [set(each[keys].itertuples(index=False, name=None)) for each in (stored, asked)]
    assert told[0] == told[1]
    rates = {row.arm: row.run.params.lr for row in asked.itertuples()}
    assert all(stored["lr"] == stored["arm"].map(rates))
    if "seeds" in stored and part == "maps":
        assert all(stored["seeds"] == asked["seed"].nunique())


def test_the_original_and_the_twins_of_a_seed_are_told_apart(monkeypatch):
    """Of four images the original knows one, the run without two, and the run with three."""
    known = {(ORIGINAL, False): 1, (OURS, False): 2, (OURS, True): 3}
    rows = [
        (world, seed, arm, on, Row(params_of(FINETUNED)(seed=seed), arm == ORIGINAL))
        for world in (OWN, "home 0.8")
        for seed in (1, 0)
        for arm, on in known
    ]
    runs = pd.DataFrame(rows, columns=[*effects.TWINS, "run"])
    found = grids.models_of(runs, 0)
    assert list(found) == ["original", "without", "with"]
    assert {row.params.seed for row in found.values()} == {0} and found["original"].original
    named = {"classes_a": [3, 7]}
    monkeypatch.setattr(effects, "read", lambda row: named | {"seed": row.params.seed})
    assert effects.classes_a(runs, OURS) == {"seed1": [3, 7], "seed0": [3, 7]}

    of = runs.drop(columns="run").merge(pd.DataFrame({"dataset": "a", "index": range(4)}), "cross")
    keys = zip(of["arm"], of["relevance"], strict=True)
    of["right"] = of["index"] < [known[key] for key in keys]
    right = effects.right_by_model(of, 0)
    assert right.sum().to_dict() == {"original": 1, "without": 2, "with": 3}
    assert right.index.tolist() == [("a", i) for i in range(4)]

    figures = runs.drop(columns="run").assign(background_gap_pts=10.0, on_object_pct=50.0)
    figures.loc[figures["relevance"], "on_object_pct"] = 60.0
    lean = effects.leaning(figures)
    assert list(lean) == ["gap, points", "on the object, %"], "photographs have no homes"
    assert lean["on the object, %"].to_dict() == {"original": 50, "without": 50, "with": 60}
