"""The registry: every claim has a rule, tables decide, and what they lack is named."""

from __future__ import annotations

import math
import re
from functools import cache
from types import SimpleNamespace

import pandas as pd
import pytest

from relevit import paper
from relevit.base.errors import NotYetError
from relevit.claims import CLAIMS, TABLES, Verdict, judge, read_tables, signed, verdict_table
from relevit.claims.attribution import ATTRIBUTION
from relevit.claims.iav import IAV
from relevit.claims.registry import (
    CONTRADICTED,
    HOLDS,
    NO_ROOM,
    NOT_TESTABLE,
    VERDICTS,
    Part,
    decide,
    errors_needed,
    every,
    part,
)
from relevit.claims.robustvit import ROBUSTVIT
from relevit.data.cutouts import CUTOUTS

from .made import SHOWN, changed, made, other, table
from .made.heads import DINO
from .test_robustvit_images import IMAGENET

# One model cannot be both of the paper's, and DINO's probe not be worst and best.
DO_NOT_HOLD = {"RV-12": CONTRADICTED, "RV-35": CONTRADICTED}
NEVER_TESTABLE = ["RV-24", "RV-25", "BI-05", "BI-13", "BI-14", "BI-21", "IAV-21"]
NUMBERED = {"seed", "index", "image", "layer", "head", "block", "epoch", "level", "lr", "ratio_pct"}
JUDGED = [name for name in TABLES if name not in SHOWN]


def decided(*parts, **options):
    return decide({f"part {i}": one for i, one in enumerate(parts, 1)}, "+1", **options)


@pytest.mark.parametrize(
    ("parts", "verdict", "reason"),
    [
        ([part(1.0, 1.0), part(0.1)], HOLDS, "every part is met"),
        (
            [part(-2.1, 1.0)],
            CONTRADICTED,
            "not met: part 1. Beyond chance: part 1, by 2.1 errors (2.0 needed)",
        ),
        (
            [every([part(-9.0, 1.0), part(-8.0, 1.0)])],
            CONTRADICTED,
            "not met: part 1. Beyond chance: part 1, at worst by 9.0 errors (2.3 needed)",
        ),
        # A standard deviation over few seeds is uncertain itself.
        ([part(-9.0, 1.0, seeds=2)], NO_ROOM, "not met: part 1. None beyond chance (9.9 errors)"),
        ([part(-3.0, 1.0, seeds=3)], CONTRADICTED, None),
        (
            [part(-3.0, 1.0, seeds=3), part(-0.5, 1.0)],
            NO_ROOM,
            "not met: part 1; part 2. None beyond chance (2.3 or 3.8 errors)",
        ),
        ([part(-1.9, 1.0)], NO_ROOM, "not met: part 1. None beyond chance (2.0 errors)"),
        # One of two is so far off by luck twice as often.
        (
            [part(-2.1, 1.0), part(1.0, 1.0)],
            NO_ROOM,
            "not met: part 1. None beyond chance (2.3 errors)",
        ),
        ([part(-2.1, 1.0), part(1.0)], CONTRADICTED, None),  # looked at without an error: no look
        ([part(-9.0)], NO_ROOM, "not met: part 1. No error is known, so this may be chance"),
        ([part(-9.0, 0.0)], NO_ROOM, "not met: part 1. No error is known, so this may be chance"),
        ([False, True], NO_ROOM, "not met: part 1. No error is known, so this may be chance"),
        (
            [part(-1.0, 1.0), False],
            NO_ROOM,
            "not met: part 1; part 2. None beyond chance (2.0 errors); no error known: part 2",
        ),
        ([part(-1.0, 1.0), part(-9.0, 1.0)], CONTRADICTED, None),
        ([True, Part(None, 1.0, 5.0)], NO_ROOM, "cannot be told from chance: part 2"),
        ([part(-9.0, 1.0), None], CONTRADICTED, None),  # what is open does not excuse
    ],
)
def test_one_rule_for_all_claims(parts, verdict, reason):
    found = decided(*parts)
    assert (found.verdict, found.number) == (verdict, "+1")
    assert reason in (None, found.reason)


def test_what_a_claim_takes_for_granted_comes_first_and_seeds_before_it():
    needs = {"there is nothing to lose": False, "there are images": True}
    found = decided(part(-9.0, 1.0), needs=needs)
    assert (found.verdict, found.reason) == (NO_ROOM, "there is nothing to lose")
    found = decided(part(-9.0, 1.0), needs=needs, seeds=1)
    assert found.verdict == NOT_TESTABLE
    assert found.reason == "1 finetuned run; at least 2 seeds are needed"
    assert decided(part(-9.0, 1.0), seeds=2, least=3).reason.startswith("2 finetuned runs; at le")
    found = decided(False, unknown="This shows the search")
    assert (found.verdict, found.reason) == (NO_ROOM, "not met: part 1. This shows the search")
    assert decided(part(-9.0, 1.0), seeds=2, needs={"nothing": True}).verdict == CONTRADICTED


def test_several_parts_as_one():
    one = every([part(3.0, 1.0), part(-1.0, 0.5), part(-9.0)])
    assert (one.met, one.margin, one.error, one.looks) == (False, -1.0, 0.5, 2)
    assert every([part(1.0), part(2.0)]).met and not every([part(1.0)]).judged
    assert every([part(1.0, 1.0), Part(None, 5.0, 1.0)]).met is None
    assert errors_needed(1) == pytest.approx(2.0)
    assert errors_needed(4) == pytest.approx(2.53, abs=0.01)
    # Student's t with one and two degrees of freedom, over the root of the seeds.
    assert errors_needed(1, 2) == pytest.approx(13.97 / 2**0.5, abs=0.03)
    assert errors_needed(1, 3) == pytest.approx(4.53 / 3**0.5, abs=0.01)
    assert errors_needed(1, 30) == errors_needed(1), "all seeds see the same images"
    assert not part(0.0, 1.0) and part(0.0, 1.0, met=True)


def users(name):
    return [id for id, claim in CLAIMS.items() if name in (*claim.tables, *claim.also)]


@cache
def small(name):
    """A made table, that of many heads and images with fewer."""
    few = {"head": (1, 2, 3, 4), "image": tuple(range(4))}
    found = table(name)
    for column, values in few.items():
        if TABLES[name].notebook == "07_iav" and column in found:
            found = found[found[column].isin(values)]
    return found


def beside(name):
    """The tables that claims on this one read too."""
    read = {t for id in users(name) for t in (*CLAIMS[id].tables, *CLAIMS[id].also)}
    return {each: small(each) for each in read - {name}}


def test_every_claim_of_the_papers_has_a_rule_and_a_criterion():
    assert [found.id for found in judge({})] == paper.claims()["id"].tolist()
    assert all(claim.criterion for claim in CLAIMS.values())
    assert {name for claim in CLAIMS.values() for name in (*claim.tables, *claim.also)} == {*JUDGED}


def test_all_hold():
    verdicts = {found.id: found for found in judge(made())}
    missed = {id: found.verdict for id, found in verdicts.items() if found.verdict != "holds"}
    assert missed == DO_NOT_HOLD | dict.fromkeys(NEVER_TESTABLE, NOT_TESTABLE)
    assert all(found.reason for found in verdicts.values())
    silent = {id for id, found in verdicts.items() if not found.number}
    assert silent == {"BI-06", *NEVER_TESTABLE} - {"RV-24", "IAV-21"}


def test_without_any_table_nothing_but_an_identity_is_testable():
    found = {found.id: found for found in judge({})}
    assert [id for id in found if found[id].verdict != NOT_TESTABLE] == ["BI-06"]
    reason = "no table methods_segmentation and no methods_perturbation: run the notebook"
    assert found["BI-07"].reason.startswith(reason)


@pytest.mark.parametrize("name", JUDGED)
def test_without_a_table_its_claims_are_not_testable(name):
    for found in judge(beside(name), only=users(name)):
        if name in CLAIMS[found.id].tables:
            assert found.verdict == NOT_TESTABLE
            assert found.reason == f"no table {name}: run the notebook that writes it"


def gaps(name):
    """A table that is empty, lacks a column, or lacks all rows with one of the names in it."""
    found, known = small(name), TABLES[name]
    yield "no row", found.head(0)
    yield "nothing", pd.DataFrame()
    columns = (*known.keys, *known.numbers, *known.masked)
    yield from ((f"no {column}", found.drop(columns=column)) for column in columns)
    for column in [column for column in known.keys if column not in NUMBERED]:
        first = found[column] == found[column].iloc[0]
        yield f"not the first {column}", found[~first]
        yield f"the first {column} alone", found[first]


@pytest.mark.parametrize("name", JUDGED)
def test_a_gap_is_no_error_and_named(name):
    for gap, gappy in gaps(name):
        named = {
            "no row": f"table {name} is empty: this preset has nothing to put there",
            "nothing": f"table {name} is empty: this preset has nothing to put there",
        } | {f"no {column}": f"table {name} lacks ['{column}']: run" for column in gappy.columns}
        for found in judge(beside(name) | {name: gappy}, only=users(name)):
            assert found.verdict in VERDICTS, gap
            assert found.reason, gap
            if gap in named and name in CLAIMS[found.id].tables:
                assert found.verdict == NOT_TESTABLE and named[gap] in found.reason, gap


def test_categories_are_taken_as_text():
    tables = {}
    for name in JUDGED:
        found = small(name)
        texts = [key for key in TABLES[name].keys if pd.api.types.is_string_dtype(found[key])]
        tables[name] = found.astype(dict.fromkeys(texts, "category"))
    assert judge(tables) == judge({name: small(name) for name in JUDGED})


def test_tables_come_from_the_stage_folders_and_decide(tmp_path):
    for name in JUDGED:
        path = tmp_path / TABLES[name].path
        path.parent.mkdir(exist_ok=True)
        small(name).to_parquet(path)
    (tmp_path / "09_sis" / "sis.parquet").unlink()
    folders = {path.name: path for path in tmp_path.iterdir()}
    assert set(read_tables(folders)) == set(JUDGED) - {"sis"}
    only = ["RV-26", "IAV-05"]
    before = [found.verdict for found in judge(read_tables(folders), only=only)]
    # A results file on disk decides: change it, and the verdict changes.
    other("sis", missed=2)["sis"].to_parquet(tmp_path / "09_sis" / "sis.parquet")
    changed("drift", 0.1, model=DINO)["drift"].to_parquet(tmp_path / "07_iav" / "drift.parquet")
    after = [found.verdict for found in judge(read_tables(folders), only=only)]
    assert (before, after) == ([NOT_TESTABLE, "holds"], [NO_ROOM, CONTRADICTED])


def test_what_has_not_landed_is_waited_for(tmp_path):
    """In a report on a run that goes on: an older file of a stage that is to run is not read."""
    path = tmp_path / TABLES["sis"].path
    path.parent.mkdir()
    small("sis").to_parquet(path)
    tables = read_tables({"09_sis": path.parent, "10_knn": tmp_path}, landed=["10_knn"])
    with pytest.raises(NotYetError, match=r"^09_sis has no results yet$"):
        tables["sis"]
    found = {verdict.id: verdict for verdict in judge(tables)}
    assert (found["RV-26"].verdict, found["RV-26"].reason) == ("open", "09_sis has no results yet")
    assert found["BI-01"].verdict == NOT_TESTABLE, "its table is of a stage that is not waited for"


def test_wrong_tables():
    with pytest.raises(ValueError, match=r"judge: tables \['runs'\] are unknown; use some of"):
        judge({"runs": table("knn")})
    for name, row in (("two_objects", "token_wise"), ("knn", "seed1"), ("drift", "mini-deit")):
        twice = pd.concat([table(name), table(name).tail(1)])
        with pytest.raises(
            ValueError, match=rf"{name} has \{{.*{row}.*\}} twice; one row is needed"
        ):
            judge({name: twice})
    infinite = other("two_objects", error=math.nan)
    with pytest.raises(
        ValueError, match=r"not finite at \{'method': 'raw_attention'\}; standard er"
    ):
        judge(infinite)
    for column, values in (("own_object_pct", "1.5"), ("method", [[1]] * 3), ("method", b"x")):
        odd = {"two_objects": table("two_objects").assign(**{column: values})}
        with pytest.raises(ValueError, match=rf"two_objects has \w+ in the column '{column}', nee"):
            judge(odd)
    for name, tables in (
        ("looks", {"looks": table("looks").assign(confidence_pct=math.nan)}),
        ("space", changed("space", math.nan, model=DINO, layer=3)),
    ):
        with pytest.raises(ValueError, match=rf"{name} has a number that is not finite at \{{'"):
            judge(tables)


def test_verdict_table():
    verdicts = judge(made("knn"))
    found = verdict_table(verdicts)
    assert found.columns.tolist() == ["id", "claim", "criterion", "verdict", "number", "reason"]
    assert found["id"].tolist() == [verdict.id for verdict in verdicts]
    assert (found[["claim", "criterion"]] != "").all(axis=None)
    assert "INet-A" in found.loc[0, "claim"]
    with pytest.raises(ValueError, match=r"verdict_table: no claim or criterion for \['RV-99'\]"):
        verdict_table([Verdict("RV-99", "holds", "", "")])


def test_signed():
    assert signed(1.25, 0.04) == "+1.2 ± 0.0"
    assert signed(-0.04) == "+0.0"
    assert signed(-2.0, math.nan) == "-2.0"


# The papers' own models: judged as the stand-ins are, under their own names.

STAND_INS = re.compile(r"\b(tiny|dinov2-s|mini-\w+|stands? in for (?!both))\b")


def of_the_papers(subject):
    """The made tables, with the papers' models in the place of those that stand in."""
    names = dict(subject.roles.values())
    found = {t.name: table(t.name) for t in subject.tables if t.name not in SHOWN}
    return {name: t.replace({"model": names}) if "model" in t else t for name, t in found.items()}


@pytest.mark.parametrize(
    ("subject", "numbers"),
    [
        (
            ATTRIBUTION,
            {
                "BI-07": "vit-b, lead over the best baseline: ",
                "BI-15": "lead on mae-b against vit-b: ",
                "BI-18": "dino-b minus vit-b",
                "RV-43": "vit-b, gain of gae over integrated_gradients: ",
            },
        ),
        (ROBUSTVIT, {"RV-31": "linear probe minus deit-b: "}),
        (IAV, {"IAV-01": "validation top-1, %: dino-b "}),
    ],
)
def test_papers_models_under_their_own_names(subject, numbers):
    only = [id for id, claim in CLAIMS.items() if claim.subject is subject]
    if subject is IAV:  # its other claims are slow, and alike
        only = ["IAV-01", "IAV-02", "IAV-03", "IAV-04", "IAV-10", "IAV-12"]
    theirs = judge(of_the_papers(subject), only=only)
    ours = judge({t.name: table(t.name) for t in subject.tables if t.name not in SHOWN}, only=only)
    assert [found.verdict for found in theirs] == [found.verdict for found in ours]
    for found in theirs:
        assert found.number.startswith(numbers.get(found.id, ""))
        assert not STAND_INS.search(found.number + found.reason)
        if found.id != "RV-37":  # Cutouts stands in for a data set there
            assert not STAND_INS.search(found.criterion), found.criterion


def test_criteria_on_the_papers_models_and_data():
    criteria = {found.id: found.criterion for found in judge(of_the_papers(IAV), only=["IAV-10"])}
    assert criteria["IAV-10"].startswith("After finetuning, last layer, each head's median")
    (found,) = judge(of_the_papers(ATTRIBUTION), only=["BI-19"])
    assert found.criterion == (
        "Raw attention of dino-b is better than that of vit-b in pixel accuracy, mIoU and mAP, "
        "by more than the combined standard error."
    )
    criteria = {v.id: v.criterion for v in judge(of_the_papers(ROBUSTVIT), IMAGENET, only=["RV"])}
    assert criteria["RV-32"].startswith("On each of the nine sets the finetuned one's top-1")
    assert criteria["RV-27"].startswith("Of the images of ImageNet that have masks (Im")
    criteria = {v.id: v.criterion for v in judge({}, CUTOUTS, only=["RV"])}
    assert criteria["RV-32"].startswith("dinov2-s stands in for DINO, tiny, a smaller model, for ")
    assert criteria["RV-27"].startswith("Of the val and v2 images that the original")


def test_a_model_that_is_not_there_is_named():
    tables = {
        name: table(name).query("model == 'tiny'").assign(model="vit-l")
        for name in ("methods_segmentation", "methods_perturbation")
    }
    (found,) = judge(tables, only=["BI-07"])
    assert found.verdict == NOT_TESTABLE
    assert found.reason == "no rows for vit-b or dino-b: run one of them"


def test_a_cut_model_of_a_rehearsal_counts_as_the_whole():
    tables = {"knn": pd.DataFrame({"model": ["deit-b-cut", "deit-s-cut"]})}
    assert ROBUSTVIT.models(tables) == SimpleNamespace(dino="dino-b", supervised="deit-b-cut")
    ours = IAV.models({"models": pd.DataFrame({"model": ["mini-dino"]})})
    assert ours.self_supervised == ("mini-dino", "mini-mae")
