"""The evaluator: the papers' own numbers, made rows whose verdict is known, and wrong rows."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from relevit.evaluate.intervals import estimate
from reproduction.claims import criteria, judge, verdict_table
from reproduction.claims.criteria import Row
from reproduction.claims.deciding import decides
from reproduction.claims.evaluator import Part, Verdict, judge_claim, least_error, row_parts
from reproduction.paper import claims as sentences

from . import heads, papers

ROOT = Path(__file__).parents[3]

CHANGES = papers.CHANGES
NEVER = ["RV-25", "RV-35", "RV-43", "BI-05", "BI-14", "BI-21", "IAV-21"]
# Whose rows name the papers' own models or data: no stand-in may decide them.
OWN = ["RV-12", "RV-13", "RV-31", "RV-32", "RV-33", "RV-36", "BI-18", "BI-19"]
EITHER_WAY = ["RV-19", "BI-17", "BI-18"]  # on how numbers lie to each other, or on their spread
HELD = [(id, who, made) for id, tables in papers.NUMBERS.items() for who, made in tables.items()]


def turned(table):
    """The opposite: each result is negative, and what was the lower end is the upper one."""
    kept = ("std_pts", "se_pts", "error_pts", "images", "chance_pct")
    results = [name for name in table.select_dtypes("float") if not name.endswith(kept)]
    if "change_top1_pts" in table:
        results = [name for name in results if not name.startswith("original_")]
    ends = {name: name.replace("low_", "high_") for name in results if "low_" in name}
    table = table.assign(**{name: -table[name] for name in results})
    return table.rename(columns=ends | {high: low for low, high in ends.items()})


@pytest.mark.parametrize(("claim", "who", "made"), HELD, ids=[f"{id} {who}" for id, who, _ in HELD])
def test_the_papers_own_numbers_meet_the_criterion_and_their_opposite_does_not(claim, who, made):
    """A criterion that they fail would say more than the paper's sentence."""
    tables = made()
    (found,) = judge(tables, only=[claim])
    assert found.verdict == "holds", found.number
    assert "{" not in found.criterion
    (found,) = judge({name: turned(table) for name, table in tables.items()}, only=[claim])
    assert (found.verdict == "holds") == (claim in EITHER_WAY), found
    assert found.verdict != "not testable", found


@pytest.mark.parametrize("claim", OWN)
def test_no_stand_in_decides_another_question(claim):
    (made, *_) = papers.NUMBERS[claim].values()
    tables = {
        name: table.assign(**{c: "other" for c in ("model", "data") if c in table})
        for name, table in made().items()
    }
    (found,) = judge(tables, only=[claim])
    assert found.verdict == "not testable" and decides(found) == "nothing here", found
    assert criteria().claims[claim].reason in found.reason and "no rows where" in found.reason


MADE = heads.tables()


@pytest.mark.parametrize("claim", [id for id in criteria().claims if id.startswith("IAV")])
def test_heads_as_the_paper_says_they_are_meet_each_criterion_of_iav(claim):
    """IAV prints few numbers, so its tables are made: a wrong sign of a criterion is seen here."""
    (found,) = judge(MADE, only=[claim])
    assert found.verdict == ("not testable" if claim in NEVER else "holds"), found


SIDES = "above|at least|below|at most|within|not above|not below"
TOLD = re.compile(rf"(.*?) ?[-+][\d.]+(?: \(.*\))?, ({SIDES}) ±?(-?[\d.]+)")
STORED = pd.read_csv(ROOT / "docs" / "results" / "claims.csv").set_index("id")["number"]


@pytest.mark.parametrize("claim", [id for id, one in criteria().claims.items() if one.rows])
def test_sides_and_lines_are_those_of_the_stored_verdicts(claim):
    rows = criteria().claims[claim].rows
    for told in filter(None, map(TOLD.fullmatch, str(STORED[claim]).split("; "))):
        known = {(row.side, f"{row.line:g}") for row in rows if told[1].startswith(row.name)}
        assert told.groups()[1:] in known, told[0]


def test_each_claim_has_numbers_of_its_paper_or_a_reason_why_not():
    assert not set(papers.NUMBERS) & set(papers.WITHOUT)
    assert set(papers.NUMBERS) | set(papers.WITHOUT) == set(criteria().claims)


def test_every_sentence_has_a_criterion_and_rows_or_a_reason():
    book = criteria()
    assert list(book.claims) == list(sentences()["id"]) and len(book.claims) == 87
    assert {id for id, one in book.claims.items() if not one.rows} == {*NEVER, "BI-06"}
    assert all(one.rows or one.reason for one in book.claims.values())
    table_of = verdict_table(judge({}))  # nothing was run
    assert list(table_of["id"]) == list(book.claims)
    assert set(table_of["verdict"]) == {"not testable", "holds"}
    without_rows = table_of["id"].isin([*NEVER, "BI-06"])
    assert table_of.loc[~without_rows, "reason"].str.contains("run ").all()


# The rule

RUNS = pd.DataFrame(
    {
        "seed": [0, 1, 2] * 4,
        "who": list("aaabbbcccddd"),
        "v": [1.0, 1.1, 0.9, -1.0, -1.1, -0.9, 0.5, 4, -3, 0, 0.1, -0.1],
        "place": np.repeat([0.0, 1.0, 2.0, 3.0], 3),
    }
)
A, B, C, D = ({"where": f"who == '{who}'", "name": who} for who in "abcd")
NEEDS, OR, ROOM, IF = ({"kind": kind} for kind in ("needs", "or needs", "room", "if run"))
NOWHERE = {"where": "who == 'e'"}
COURSE = {"by": "place", "over": "place", "how": "slope", "side": "below"}


@pytest.mark.parametrize(
    ("verdict", "reason", "rows"),
    [
        ("holds", "all on the right side", [A]),
        ("contradicted", "on the wrong side: b", [A, B]),
        ("undecided", "cannot be told: c", [A, C]),
        ("contradicted", "on the wrong side: b", [B, C]),
        ("undecided", "too few seeds", [A | {"where": "who == 'a' and seed == 0"}]),
        ("undecided", "too few seeds", [A | {"runs": 4}]),
        ("not testable", "no rows where who == 'e'", [A, NOWHERE]),
        ("not testable", "1 rows of s/t", [A | {"least": 4}]),
        ("not testable", "1 of 2 numbers", [A | {"by": "who", "parts": 2}]),
        ("holds", "", [{"where": "who in ['a', 'b']", "by": "who", "side": "within", "line": 2}]),
        ("holds", "", [A, NOWHERE | IF]),
        ("contradicted", "b", [A, B | IF]),
        ("holds", "", [A, A | NEEDS]),
        ("no room", "taken for granted, and not so here: b", [A, B | NEEDS]),
        ("undecided", "taken for granted, and not shown here: c", [A, C | NEEDS]),
        ("holds", "", [A, B | NEEDS, A | OR]),
        ("holds", "", [A, A | NEEDS, NOWHERE | OR]),
        ("no room", "not so here: b", [A, B | NEEDS, NOWHERE | OR]),
        ("no room", "no gain could be seen: b", [C, B | ROOM]),
        ("holds", "", [A, B | ROOM]),
        ("holds", "", [A | {"minus": "who == 'b'", "line": 1.5}]),
        ("contradicted", "", [A | {"minus": "who == 'b'", "factor": -2}]),
        ("holds", "", [{"wide": "who=v", "value": "a - b", "line": 1.5}]),
        ("holds", "", [{"by": "who", "over": "who", "how": "furthest", "line": 0.5,
                        "where": "who in ['a', 'b']"}]),
        ("holds", "", [A | {"by": "who", "minus": "who == 'b'", "against": "other=who",
                            "over": "who other", "how": "apart", "line": 1.5}]),
        ("holds", "", [COURSE | {"where": "who != 'c'"}]),
        ("not testable", "at least 3", [COURSE | {"where": "who in ['a', 'b']"}]),
        ("holds", "", [A | {"side": "not above", "line": 9}]),
        ("contradicted", "", [A | {"side": "not above"}]),
        ("undecided", "", [C | {"side": "at least"}]),
        ("holds", "", [C | {"side": "not above"}]),
        ("holds", "", [C | {"side": "not below"}]),
        ("contradicted", "", [B | {"side": "within", "line": 0.5}]),
        ("holds", "", [B | {"by": "who", "minus": "who == 'a'", "against": "other=who",
                            "over": "who other", "how": "apart", "line": 1.5}]),
        ("holds", "", [COURSE | {"where": "who != 'c'", "line": -0.5}]),
    ],
)  # fmt: skip
def test_the_verdict_on_made_rows(verdict, reason, rows):
    rows = [{"table": "s/t", "value": "v", "seed": "seed"} | row for row in rows]
    book = criteria()
    claim = type(book.claims["RV-01"])(criterion="c", rows=rows)
    found = judge_claim("RV-01", claim, {"s/t": RUNS}, book)
    assert (found.verdict, reason in found.reason) == (verdict, True), found


NUMBERS = pd.DataFrame({"seed": [0, 1, 2, 0, 1, 2], "who": list("aaabbb"), "v": [1, 2, 3, 4, 6, 5]})


def parts(**row):
    row = {"table": "s/t", "value": "v"} | row
    return row_parts(Row(**row), {"s/t": NUMBERS}, {})


def test_the_interval_over_seeds_is_students():
    (part,) = parts(where="who == 'a'", seed="seed", side="above")
    half = 4.302653 / 3**0.5  # t of 2 degrees of freedom, std 1
    assert (part.value, part.low, part.high) == pytest.approx((2, 2 - half, 2 + half))
    assert not part.met and not part.against
    (both,) = parts(where="who == 'a'", seed="seed", error="x * 0 + 1.0")
    assert both.high - both.value == pytest.approx(half), "wider than that over images"
    (both,) = parts(where="who == 'a'", seed="seed", error="x * 0 + 5.0")
    assert both.high - both.value == pytest.approx(1.959964 * (1 / 3 + 5**2) ** 0.5)


def test_answers_have_the_interval_of_the_notebooks():
    """Two runs on the same images of two sets, also where a run lacks one."""
    random = np.random.default_rng(0)
    values = 100.0 * random.integers(-1, 2, size=(2, 3, 30)) + 20  # sets, runs, images
    sets, runs, images = np.indices(values.shape).reshape(3, -1)
    table = pd.DataFrame({"dataset": sets, "run": runs, "index": images, "v": values.ravel()})
    row = Row(table="s/t", value="v", seed="run", error="sem")
    (part,) = row_parts(row, {"s/t": table}, {})
    found = estimate(list(values))
    assert part.value == pytest.approx(found.mean)
    # Of 58 images at hand Student's t is a little wider than of any number.
    assert (part.low, part.high) == pytest.approx(found[2:], rel=0.03)
    (lacking,) = row_parts(row, {"s/t": table.drop(index=[3, 40])}, {})
    assert lacking.high > lacking.low


def test_differences_are_taken_run_by_run():
    (part,) = parts(where="who == 'b'", minus="who == 'a'", seed="seed")
    assert part.value == 3 and part.high - part.low == pytest.approx(2 * 4.302653 / 3**0.5)


def test_one_seed_decides_nothing():
    (part,) = parts(where="seed == 0 and who == 'a'", seed="seed", side="not above", line=99.0)
    assert not part.met and not part.against and part.low == -math.inf


def test_an_error_of_images_is_scaled_and_of_both_sides():
    row = {"where": "who == 'b'", "minus": "who == 'a'", "seed": "seed", "error": "x * 0 + 3.0"}
    assert parts(**row, factor=2)[0].error == pytest.approx((3**2 + (2 * 3) ** 2) ** 0.5)


def test_the_least_error_of_a_change():
    assert least_error(50, 100) == 5.0 and least_error(0, 9) == 0.0


# Wrong rows

ROWS = papers.changes("ViT-B")[CHANGES]


def test_a_row_that_names_no_column_says_which_there_are():
    with pytest.raises(ValueError, match=r"RV-01, row 1: .*change_top1_pts.*has the columns"):
        judge({CHANGES: ROWS.drop(columns="change_top1_pts")}, only=["RV-01"])


def test_text_where_a_number_belongs_is_refused():
    with pytest.raises(ValueError, match="RV-01, row 1"):
        judge({CHANGES: ROWS.assign(change_top1_pts="x")}, only=["RV-01"])


# What would decide it

SEEDS = {"std": 2.0, "runs": 3}
DECIDED_BY = [
    ((4.0, 5.0, "above", {}), "about 1.6 times the images"),  # (5 / 4) ** 2
    ((4.0, 5.0, "above", SEEDS | {"error": 0.0}), "about 4 seeds (here 3)"),  # t * 2 / 2 = 3.2
    ((1.0, 5.0, "above", SEEDS | {"error": 0.0}), "about 18 seeds (here 3)"),  # 2.11 * 2 / 4.24
    ((1.0, 5.0, "above", SEEDS | {"error": 0.4}), "about 40 seeds (here 3)"),  # room for 0.62
    (
        (4.9, 6.0, "above", SEEDS | {"error": 3.0}),
        "about 4 seeds (here 3) and about 1.7 times the images",
    ),
    ((-4.0, 5.0, "above", {}), "about 1.6 times the images"),  # to contradict
    ((0.5, 3.0, "within", {}), "about 36 times the images"),  # line 1
    ((0.001, 5.0, "above", {}), "nothing here: a number is too near its line"),
    ((4.0, math.inf, "above", {"runs": 1}), "3 seeds or more (here 1)"),
    ((-4.0, 0.0, "above", {"known": False}), "nothing here: x has no interval"),
]


def part_of(value, half, side="above", **more):
    more = {"error": half / 1.959964} | more
    return Part("x", value, value - half, value + half, side, float(side == "within"), **more)


@pytest.mark.parametrize(("number", "text"), DECIDED_BY)
def test_what_would_decide_a_number(number, text):
    *number, more = number
    assert decides(Verdict("RV-01", "undecided", "", [part_of(*number, **more)])) == text


def test_what_would_decide_a_claim():
    right, wrong, near = part_of(2.5, 5), part_of(-4.5, 5), part_of(1, 5, **SEEDS, error=0.0)
    told = [decides(Verdict("RV-01", "undecided", "", parts))
            for parts in ([right, wrong], [right, near])]  # fmt: skip
    assert told[0] == "about 1.2 times the images"
    assert told[1] == "about 18 seeds (here 3) and about 4.0 times the images"
    assert decides(Verdict("RV-01", "holds", "", [right])) == "decided"
    assert decides(judge({}, only=["RV-01"])[0]) == "a run of 03_robustness"
    found = pd.DataFrame({"model_run": "original", "found": [True] * 16, "confidence_pct": 95.0})
    (few,) = judge({"06a_attribution/sis": found}, only=["RV-26"])
    assert decides(few) == "20 rows of 06a_attribution/sis (here 16)"
