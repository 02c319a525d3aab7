"""Tables of the IAV paper's claims: too few seeds, rows that lack, wrong ones; no change unseen."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from relevit import iav
from relevit.claims.iav import CRITERIA, NOT_TESTABLE, SCHEMAS, SOURCES, criteria, iav_verdicts
from relevit.claims.iav.heads import identity_share
from relevit.claims.robustvit import read_tables
from relevit.claims.verdicts import verdict_table
from relevit.iav import score_tensor
from relevit.models.loading import MINI_KINDS
from relevit.paper import published as paper

from ..iav_tables import BEIT, DEIT, DINO, IN21K, changed, chosen, made, table, without
from .test_iav import TABLES, judge

TRENDS = ("IAV-07", "IAV-11", "IAV-12", "IAV-18", "IAV-19")


def of_seeds(*seeds):
    return {name: rows[rows["seed"].isin(seeds)] for name, rows in made().items()}


def test_our_models_are_of_the_kinds_that_they_stand_for():
    kinds = dict.fromkeys(criteria.SELF_SUPERVISED, "self-supervised")
    assert kinds | dict.fromkeys(criteria.SUPERVISED, "supervised") == MINI_KINDS


def test_one_seed_decides_nothing_but_shows_the_numbers():
    for verdict in iav_verdicts(of_seeds(0)):
        assert verdict.verdict == "not testable here", verdict.id
        assert verdict.number and "±" not in verdict.number
        least = 3 if verdict.id in TRENDS else 2
        if verdict.id not in NOT_TESTABLE:
            assert verdict.reason == f"1 seed of finetuning a model; at least {least} are needed"


def test_two_seeds_do_for_all_but_trends():
    verdicts = iav_verdicts(of_seeds(0, 2))
    assert {v.id for v in verdicts if v.verdict != "holds"} == {*TRENDS, *NOT_TESTABLE}


def test_a_run_that_stopped_early_is_left_out():
    table_ = without("models", seed=1, epoch=(4, 5), model=BEIT)
    verdict = judge("IAV-01", table_)
    assert verdict.verdict == "holds"
    assert "mini-mae 97.0 ± 0.1" in verdict.number


@pytest.mark.parametrize("name", SCHEMAS)
def test_without_a_table_its_claims_are_not_testable(name):
    others = {
        other: table(other)
        for other in TABLES
        if other != name and set(TABLES[other]) & set(TABLES[name])
    }
    verdicts = {v.id: v for v in iav_verdicts(others)}
    for claim in TABLES[name]:
        assert verdicts[claim].verdict == "not testable here"
        assert verdicts[claim].reason == f"no table {name}: run the notebook that writes it"


def test_without_any_table_nothing_is_testable():
    assert {v.verdict for v in iav_verdicts({})} == {"not testable here"}


LACKING = [
    ("IAV-01", without("models", model=BEIT), "models has no rows with model mini-mae: run it"),
    ("IAV-02", without("shift", corruption="jigsaw"), "shift has no rows with corruption jigsaw: "),
    (
        "IAV-02",
        without("shift", model=DEIT, level=2.0),
        "shift: no run of mini-deit has every corruption and level that others have",
    ),
    ("IAV-05", without("drift", quantity="attention"), "model mini-dino, quantity attention: run "),
    ("IAV-05", without("drift", epoch=(1, 2, 3, 4)), "drift has epochs [5]: it needs one from 1 b"),
    ("IAV-06", without("masking", order="random"), "masking has no rows with order random: run it"),
    (
        "IAV-06",
        changed("masking", -30, model=DINO, order="random"),
        "masking by attention costs mini-dino no more than masking by chance",
    ),
    ("IAV-07", without("epochs", epoch=(3, 4, 5)), "2 epochs: a trend needs at least 3"),
    ("IAV-12", without("slopes", map="aav_dino"), "slopes has no rows with model mini-mae, map a"),
    ("IAV-14", without("scores", head=(4, 5, 6)), "3 heads a layer; at least 4 are needed"),
    ("IAV-18", without("space", model=IN21K), "space has no rows with model mini-supervised: run"),
    ("IAV-20", without("entropy", image=tuple(range(5))), "19 images of mini-dino in both tables"),
    (
        "IAV-20",
        {"entropy": table("entropy").assign(object_share_pct=20.0)},
        "mini-dino: no correlation, because all objects or values are alike",
    ),
    ("IAV-22", without("scores", map="mask"), "scores has no rows with model mini-supervised, map"),
    ("IAV-22", changed("scores", 0.5, model=DEIT), "mini-deit: a seed without Low-IA heads there"),
]


@pytest.mark.parametrize(("claim", "tables", "reason"), LACKING)
def test_without_its_rows_a_claim_is_not_testable(claim, tables, reason):
    verdict = judge(claim, tables)
    assert verdict.verdict == "not testable here", verdict
    assert reason in verdict.reason


def test_the_spread_over_seeds_leaves_a_claim_open():
    """IAV-03: kinds apart by less than the spread. IAV-01: too wide to call anything similar."""
    wide = changed("models", 1.0, model=BEIT)
    rows = chosen("models", model=BEIT)
    wide["models"].loc[rows, "validation_top1_pct"] += 2 * table("models")["wiggle"]
    verdict = judge("IAV-03", wide)
    assert verdict.verdict == "not testable here"
    assert verdict.reason == "left open by the spread or the interval: validation: kinds not apart"
    copy = table("models").copy()
    copy.loc[chosen("models", model=(IN21K, DEIT)), "validation_top1_pct"] -= 20
    copy.loc[rows, "validation_top1_pct"] += 5 * copy["wiggle"] - 20
    verdict = judge("IAV-01", {"models": copy})
    assert verdict.verdict == "not testable here"
    assert verdict.reason.endswith(": mini-mae like mini-supervised; mini-mae like mini-deit")


def test_an_interval_around_zero_leaves_the_size_open():
    noisy = table("entropy").copy()
    rows = chosen("entropy", model=DEIT)
    noisy.loc[rows, "entropy"] += (noisy["image"] * 7 % 24) * 0.05
    verdict = judge("IAV-20", {"entropy": noisy})
    assert verdict.verdict == "not testable here"
    assert verdict.reason.startswith("left open by the spread or the interval: mini-deit: entropy ")


def test_tables_come_from_the_stage_folders_and_decide(tmp_path):
    for notebook, names in SOURCES.items():
        (tmp_path / notebook).mkdir()
        for name in names:
            table(name).to_parquet(tmp_path / notebook / f"{name}.parquet")
    folders = {name: tmp_path / name for name in SOURCES}
    tables = read_tables(folders, SOURCES)
    assert set(tables) == set(SCHEMAS)
    before = {v.id: v.verdict for v in iav_verdicts(tables)}
    # A results file on disk decides: change it, and the verdict changes.
    changed("drift", 0.1, model=DINO)["drift"].to_parquet(tmp_path / "07_iav" / "drift.parquet")
    after = {v.id: v.verdict for v in iav_verdicts(read_tables(folders, SOURCES))}
    assert {claim for claim in after if after[claim] != before[claim]} == {"IAV-05"}
    assert (before["IAV-05"], after["IAV-05"]) == ("holds", "fails")


def test_wrong_tables():
    where = "iav_verdicts: "
    with pytest.raises(ValueError, match=rf"{where}tables \['runs'\] are unknown; use some of"):
        iav_verdicts({"runs": table("space")})
    with pytest.raises(ValueError, match=r"drift has \{.*\} twice; one row is needed"):
        iav_verdicts({"drift": pd.concat([table("drift"), table("drift").tail(1)])})
    with pytest.raises(ValueError, match=r"space has a number that is not finite at \{'model'"):
        iav_verdicts(changed("space", math.nan, model=DINO, layer=3))


def test_the_share_of_the_variance_is_that_of_the_library():
    rows = chosen("scores", model=DEIT, seed=1, map="smoothgrad")
    scores = score_tensor(table("scores")[rows])
    ours = identity_share({"scores": table("scores")}, DEIT)[1]
    assert ours == pytest.approx(float(iav.identity_share(scores).mean()))


def test_sources_name_every_table_once():
    named = [name for names in SOURCES.values() for name in names]
    assert sorted(named) == sorted(SCHEMAS)


def test_every_claim_of_the_paper_has_one_criterion():
    claims = paper.claims()
    assert claims.loc[claims["paper"] == "iav", "id"].tolist() == list(CRITERIA)
    report = verdict_table(iav_verdicts({}), CRITERIA)
    assert report["id"].tolist() == list(CRITERIA)
    assert (report["claim"] != "").all()
