"""Claims on the papers' own numbers, the rule on made rows, and wrong rows."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from relevit.evaluate.intervals import estimate
from reproduction.claims import CLAIMS, judge, verdict_table
from reproduction.claims.chance import by_chance
from reproduction.claims.judging import Claim, Verdict, judged
from reproduction.claims.numbers import Number, least_error, mean, wide
from reproduction.paper.published import claims as sentences

from . import heads, papers

ROOT = Path(__file__).parents[3]

STORED = ROOT / "docs" / "results" / "notes" / "paper_numbers.csv"
CHANGES = papers.CHANGES
NEVER = [*("RV-25", "RV-35", "BI-05", "BI-06", "BI-14", "BI-21", "BI-22")]
NEVER += ["IAV-21", "IAV-22"]
# Whose rows name the papers' own models or data: no stand-in may decide them.
OWN = ["RV-12", "RV-13", "RV-31", "RV-32", "RV-33"]
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


def test_the_papers_own_numbers_are_stored():
    """Anew: PYTHONPATH=tests python -c "from unit.claims import test_claims as t; t.store()"."""
    stored = pd.read_csv(STORED)
    pd.testing.assert_frame_equal(papers.numbers(), stored, rtol=1e-5)


def store():
    papers.numbers().to_csv(STORED, index=False, float_format="%.6g", lineterminator="\n")


@pytest.mark.parametrize("claim", OWN)
def test_no_stand_in_decides_another_question(claim):
    (made, *_) = papers.NUMBERS[claim].values()
    tables = {
        name: table.assign(**{c: "other" for c in ("model", "data") if c in table})
        for name, table in made().items()
    }
    (found,) = judge(tables, only=[claim])
    assert found.verdict == "not testable" and found.decides == "nothing here", found
    assert CLAIMS[claim].reason and CLAIMS[claim].reason in found.reason
    assert "run it" in found.reason


MADE = heads.tables()


@pytest.mark.parametrize("claim", [id for id in CLAIMS if id.startswith("IAV")])
def test_heads_as_the_paper_says_they_are_meet_each_criterion_of_iav(claim):
    """IAV prints few numbers, so its tables are made: a wrong sign of a criterion is seen here."""
    (found,) = judge(MADE, only=[claim])
    assert found.verdict == ("not testable" if claim in NEVER else "holds"), found


@pytest.mark.parametrize(
    ("claim", "names"),
    [
        *((claim, "") for claim in ("IAV-02", "IAV-06", "IAV-09", "IAV-20")),
        *((claim, "falls") for claim in ("IAV-11", "IAV-12")),
        ("IAV-19", "slope"),
    ],
)
def test_other_images_are_in_the_interval_where_a_table_has_them(claim, names):
    (found,) = judge(MADE, only=[claim])
    of_images = [part.spread["images"] > 0 for part in found.parts if names in part.name]
    assert of_images and (all if names else any)(of_images), found


def test_maps_are_held_image_by_image_as_the_one_kind_of_interval_does():
    """Few images: Student's t; runs answer the same ones, in any order of the rows."""
    random = np.random.default_rng(0)
    values = random.normal(3, 2, 5) + random.normal(0, 0.02, (3, 5))  # images move all runs alike
    rows = pd.DataFrame([
        {"model_run": f"seed{run}", "metric": metric, "index": image, "change_pts": value}
        for metric in ("pixel_accuracy_pct", "miou_pct", "map_pct")
        for (run, image), value in np.ndenumerate(values)
    ]).sample(frac=1, random_state=0)  # fmt: skip
    (found,) = judge({papers.TUNED + "changes": rows}, only=["RV-08"])
    wanted = estimate([values])
    assert len(found.parts) == 3
    for part in found.parts:
        assert (part.value, part.low, part.high) == pytest.approx(
            (wanted.mean, wanted.low, wanted.high), rel=1e-3
        )


def test_where_no_answer_changes_others_could_have():
    """An error of 0 is not taken for certainty: of 240 images a loss of 1 % may miss all."""
    rows = pd.DataFrame({"x": 0.0, "error": 0.0, "images": 240, "seed": range(3)})
    (found,) = mean(rows, "x", seed="seed", error="error", images="images").held("at least", -1)
    assert not found.met and found.spread["images"] == pytest.approx(least_error(1, 240) ** 2)


def test_small_models_stand_in_by_their_own_names_and_never_beside_the_papers():
    def with_ours(table, of):
        return table.replace({"model": of, "other": of}) if "model" in table else table

    ours = {of: own for own, of in CLAIMS["IAV-01"].instead.items()}
    made = {name: with_ours(table, ours) for name, table in MADE.items()}
    for id in ("IAV-01", "IAV-08", "IAV-17"):
        (theirs,), (found,) = judge(MADE, only=[id]), judge(made, only=[id])
        assert found.verdict == theirs.verdict == "holds"
        assert len(found.stand_ins) == 4 and not theirs.stand_ins
        assert not any(of in found.number for of in ours)
    both = {name: pd.concat([MADE[name], made[name]]) for name in MADE}
    (found,) = judge(both, only=["IAV-01"])
    assert not found.stand_ins and found.number == judge(MADE, only=["IAV-01"])[0].number
    some = {name: with_ours(table, {**ours, "dino-b": "dino-b"}) for name, table in MADE.items()}
    for mixed in (some, MADE | {"08a_iav/shift": made["08a_iav/shift"]}):
        (found,) = judge(mixed, only=["IAV-03"])
        assert found.verdict == "not testable" and not found.stand_ins, found


@pytest.mark.parametrize("claim", ["BI-15", "BI-18", "BI-19", "RV-36"])
def test_what_stands_in_is_judged_and_named(claim):
    """The paper's numbers, as if what stands in had given them."""
    (made, *_) = papers.NUMBERS[claim].values()
    ours = {of: own for own, of in CLAIMS[claim].instead.items()} | {"inat2021_mini": "val"}
    moved = {papers.OUTLINES: "08a_iav/outlines"} if claim in ("BI-18", "BI-19") else {}
    tables = {moved.get(name, name): table.replace(ours) for name, table in made().items()}
    (found,) = judge(tables, only=[claim])
    assert found.verdict == "holds" and found.stand_ins, found


def test_each_claim_has_numbers_of_its_paper_or_a_reason_why_not():
    assert not set(papers.NUMBERS) & set(papers.WITHOUT)
    assert set(papers.NUMBERS) | set(papers.WITHOUT) == set(CLAIMS)


def test_every_sentence_has_a_criterion_and_what_was_judged_by_it_is_stored():
    assert len(CLAIMS) == 87 and all(one.criterion.endswith((".", ")")) for one in CLAIMS.values())
    table_of = verdict_table(judge({}))  # nothing was run
    assert list(table_of["id"]) == list(sentences()["id"])
    assert set(table_of["verdict"]) == {"not testable"}
    lacking = table_of["reason"].str.contains(r"no table \d")
    assert set(table_of.loc[~lacking, "id"]) == set(NEVER)
    stored = pd.read_csv(ROOT / "docs" / "results" / "claims.csv").set_index("id")
    assert stored["criterion"].to_dict() == {id: one.criterion for id, one in CLAIMS.items()}


def test_the_method_is_judged_by_runs_with_its_own_class_term():
    """A preset with another one has them as an arm; what its own runs say stands beside."""
    (ours,) = papers.changes(*papers.SEVEN).values()
    tables = {CHANGES: pd.concat([ours, turned(ours).assign(arm="published")])}
    tables |= papers.runs(*papers.SEVEN)
    by_arm, without = judge(tables, only=["RV-01", "RV-07"], own_terms=True)
    assert by_arm.verdict == "undecided" and by_arm.ours.startswith("holds: a +5.8")
    assert without.verdict == "not testable" and without.ours.startswith("holds: ")
    assert "Eq. 4" in without.reason
    assert [one.verdict for one in judge(tables, only=["RV-01", "RV-07"])] == ["holds", "holds"]
    (other,) = judge(papers.methods_of_all(), only=["BI-17"], own_terms=True)
    assert (other.verdict, other.ours) == ("holds", "")


def test_input_times_gradient_is_held_against_gae():
    """No paper has its numbers. Of erasing the most relevant first a small area is good."""
    good = {"positive": 20.0, "negative": 60.0}
    gae, other = (
        pd.DataFrame({"direction": [*good], "auc_pct": [x + sign * 5 for x, sign in zip(
            good.values(), signs, strict=True)], "model": "tiny"}).eval(
                "low_pct = auc_pct - 1 \n high_pct = auc_pct + 1")
        for signs in ((-1, 1), (1, -1))
    )  # fmt: skip
    for mine, theirs, verdict in ((gae, other, "holds"), (other, gae, "contradicted")):
        tables = {
            "07a_segmentation/methods_perturbation": mine.assign(method="gae", target="predicted"),
            "07a_segmentation/input_gradient": theirs,
        }
        (found,) = judge(tables, only=["RV-43"])
        assert found.verdict == verdict, found


@pytest.mark.parametrize(("std", "verdict"), [(1.0, "no difference"), (2.1, "undecided")])
def test_the_papers_effect_is_what_no_difference_is_measured_by(std, verdict):
    """Of three seeds the interval is ±2.48 std; the paper gains 5.8 on a and 5.0 on objectnet."""
    table = papers.changes(*papers.SEVEN)[CHANGES].assign(
        change_top1_pts=0.1, change_top1_std_pts=std, change_top5_pts=0.1
    )
    (found,) = judge({CHANGES: table}, only=["RV-01"])
    assert found.verdict == verdict, found.number
    assert [round(part.d, 1) for part in found.parts] == [5.8, 5.0]


# The rule

RUNS = pd.DataFrame(
    {
        "seed": [0, 1, 2] * 4,
        "who": list("aaabbbcccddd"),
        "v": [1.0, 1.1, 0.9, -1.0, -1.1, -0.9, 0.5, 4, -3, 0, 0.1, -0.1],
        "place": np.repeat([0.0, 1.0, 2.0, 3.0], 3),
    }
)


def of(who="", x="v", by="", query="", **how):
    """A number of the made rows; what is not asked of `mean` is asked of `held`."""
    asked = {"name": who, "side": "above"} | how
    taken = {key: asked.pop(key) for key in ("least", "error") if key in asked}
    return lambda t: _number(t, who, x, by, query, taken).held(**asked)


def _number(t, who, x, by, query, taken):
    chosen = f"who in {list(who)}" if who else ""
    return mean(t.rows("s/t", chosen, query), x, by, **{"seed": "seed"} | taken)


def less(factor=1.0, **how):
    """a minus b."""
    return lambda t: _number(t, "a", "v", "", "", {}).minus(
        _number(t, "b", "v", "", "", {}), factor).held(**how)  # fmt: skip


def apart(one, other, **how):
    def numbers(t):
        right = t.rows("s/t", f"who == '{other}'").rename(columns={"who": "other"})
        left = _number(t, one, "v", "who", "", {})
        both = left.minus(mean(right, "v", "other", seed="seed"))
        return both.over("who", "other", how="apart").held(**how)

    return numbers


def course(who, **how):
    return lambda t: _number(t, who, "v", "place", "", {}).over("place", how="slope").held(
        "below", **how)  # fmt: skip


A, B, C = of("a"), of("b"), of("c")
NEEDS_A, NEEDS_B, NEEDS_C = (of(who, role="needs") for who in "abc")
EITHER = lambda t: NEEDS_B(t) + NEEDS_A(t)  # noqa: E731
ROOM = of("b", role="room")


@pytest.mark.parametrize(
    ("verdict", "reason", "numbers"),
    [
        ("holds", "all on the right side", [A]),
        ("contradicted", "on the wrong side: b", [A, B]),
        ("undecided", "cannot be told: c", [A, C]),
        ("contradicted", "on the wrong side: b", [B, C]),
        ("undecided", "too few seeds", [of("a", query="seed == 0")]),
        ("undecided", "too few seeds", [of("a", runs=4)]),
        ("not testable", "no rows where who in ['e']", [A, of("e")]),
        ("not testable", "s/t has 1 rows of 4", [of("a", least=4)]),
        ("not testable", "1 of 2 numbers", [of("a", by="who", parts=2)]),
        ("holds", "", [of("ab", by="who", side="within", line=2)]),
        ("holds", "", [A, NEEDS_A]),
        ("no room", "taken for granted, and not so here: b", [A, NEEDS_B]),
        ("undecided", "taken for granted, and not shown here: c", [A, NEEDS_C]),
        ("holds", "", [A, EITHER]),
        ("holds", "", [of("ab", by="who"), of("ab", by="who", role="needs")]),
        ("no room", "no gain could be seen: b", [C, ROOM]),
        ("holds", "", [A, ROOM]),
        ("holds", "", [less(side="above", line=1.5)]),
        ("contradicted", "", [less(-2, side="above")]),
        ("holds", "", [apart("a", "b", side="above", line=1.5)]),
        ("holds", "", [apart("b", "a", side="above", line=1.5)]),
        ("holds", "", [course("abd")]),
        ("holds", "", [course("abd", line=-0.5)]),
        ("not testable", "at least 3", [course("ab")]),
        ("holds", "", [of("a", side="not above", line=9)]),
        ("contradicted", "", [of("a", side="not above")]),
        ("undecided", "", [of("c", side="at least")]),
        ("holds", "", [of("c", side="not above")]),
        ("holds", "", [of("c", side="not below")]),
        ("contradicted", "", [of("b", side="within", line=0.5)]),
        ("no difference", "within d of the line: ad d", [of("ad", by="who", d={"a": 0.1, "d": 1})]),
        ("no difference", "", [of("d", side="below", d=1)]),
        ("undecided", "", [of("d", d=0.1)]),
        ("undecided", "cannot be told: d; c", [of("d", d=1), C]),
        ("contradicted", "", [of("d", d=1), B]),
        ("no room", "", [of("d", d=1), ROOM]),
    ],
)
def test_the_verdict_on_made_rows(verdict, reason, numbers):
    claim = Claim("RV-01", lambda t: (each(t) for each in numbers))
    found = judge_of(claim)
    assert (found.verdict, reason in found.reason) == (verdict, True), found


def judge_of(claim, **tables):
    return judged(claim, {"s/t": RUNS} | tables)


LUCK = [  # of a claim with these numbers; at 99 % t is 9.92, and 4.30 at 95 %
    ([A], 0.05, 0.05, "yes"),
    ([B], 0.05, 0.05, "yes"),
    ([C], 0.05, 0.05, None),
    ([of("a", side="above", line=0.7)], 0.05, 0.05, "no"),
    ([of("d", d=0.4)], 0.05, 0.05, "no"),
    ([A, C], 0.05, 0.025**2 + 1 - 0.975**2, None),
    ([of("c", side="not above")], 1, 1, "yes"),
    ([A, NEEDS_C], 0, 0, None),
    ([of("a", query="seed == 0")], 0, 0, None),
]


@pytest.mark.parametrize(("numbers", "one", "apart", "stays"), LUCK)
def test_luck_decides_as_often_as_a_claim_has_chances(numbers, one, apart, stays):
    made = Claim("RV-01", lambda t: (each(t) for each in numbers))
    levels = [[judged(made, {"s/t": RUNS}, level=level)] for level in (0.95, 0.99)]
    (found,) = by_chance(*levels).to_dict("records")
    assert (found["chance_one"], found["chance_each"]) == pytest.approx((one, apart))
    assert found["stays"] == stays


def test_the_values_of_a_column_become_columns():
    found = wide(RUNS.assign(who=RUNS["who"]).drop(columns="place"), "who", "v")
    assert (found["a"] - found["b"]).mean() == pytest.approx(2)


NUMBERS = pd.DataFrame({"seed": [0, 1, 2, 0, 1, 2], "who": list("aaabbb"), "v": [1, 2, 3, 4, 6, 5]})


def number(who, **how):
    return mean(NUMBERS[NUMBERS["who"] == who], "v", seed="seed", **how)


def test_the_interval_over_seeds_is_students():
    (part,) = number("a").held("above")
    half = 4.302653 / 3**0.5  # t of 2 degrees of freedom, std 1
    assert (part.value, part.low, part.high) == pytest.approx((2, 2 - half, 2 + half))
    assert not part.met and not part.against
    (both,) = number("a", error="x * 0 + 1.0").held("above")
    assert both.high - both.value == pytest.approx(half), "wider than that over images"
    (both,) = number("a", error="x * 0 + 5.0").held("above")
    assert both.high - both.value == pytest.approx(1.959964 * (1 / 3 + 5**2) ** 0.5)


def test_an_interval_of_another_level_is_made_of_the_same():
    """Student's t of 2 degrees is 9.924843 at 99 %; images alone have the normal's 2.575829."""
    for error in (0.0, 1.0, 5.0):
        (part,) = number("a", error=f"x * 0 + {error}").held("above")
        half = max(9.924843 / 3**0.5, 2.575829 * (1 / 3 + error**2) ** 0.5)
        assert part.at(0.99).high - part.value == pytest.approx(half)
        assert part.at(0.95) == part
    (alone,) = mean(NUMBERS[:1], "v", seed="seed").held("above")
    assert alone.at(0.99) == alone and not alone.spread


@pytest.mark.parametrize(
    ("x", "how", "unit"),
    [("v_pct - 1", "mean", "points"), ("v_pct < 5", "sum", "count"), ("v", "mean", "")],
)
def test_a_unit_is_that_of_the_columns_name(x, how, unit):
    rows = NUMBERS.assign(v_pct=NUMBERS["v"])
    numbers = mean(rows, x, "who", how=how)
    assert {part.unit for part in numbers.minus(numbers).over("who").held("above")} == {unit}


def test_answers_have_the_interval_of_the_notebooks():
    """Two runs on the same images of two sets, also where a run lacks one."""
    random = np.random.default_rng(0)
    values = 100.0 * random.integers(-1, 2, size=(2, 3, 30)) + 20  # sets, runs, images
    sets, runs, images = np.indices(values.shape).reshape(3, -1)
    table = pd.DataFrame({"dataset": sets, "run": runs, "index": images, "v": values.ravel()})
    (part,) = mean(table, "v", seed="run", error="sem").held("above")
    found = estimate(list(values))
    assert part.value == pytest.approx(found.mean)
    # Of 58 images at hand Student's t is a little wider than of any number.
    assert (part.low, part.high) == pytest.approx(found[2:], rel=0.03)
    (lacking,) = mean(table.drop(index=[3, 40]), "v", seed="run", error="sem").held("above")
    assert lacking.high > lacking.low


def test_differences_are_taken_run_by_run():
    (part,) = number("b").minus(number("a")).held("above")
    assert part.value == 3 and part.high - part.low == pytest.approx(2 * 4.302653 / 3**0.5)


def test_one_seed_decides_nothing():
    (part,) = mean(NUMBERS[:1], "v", seed="seed").held("not above", 99.0)
    assert not part.met and not part.against and part.low == -math.inf


def test_an_error_of_images_is_scaled_and_of_both_sides():
    pair = (number(who, error="x * 0 + 3.0") for who in "ba")
    (one, other) = pair
    assert one.minus(other, 2).frame["error"][0] == pytest.approx((3**2 + (2 * 3) ** 2) ** 0.5)


def test_the_least_error_of_a_change():
    assert least_error(50, 100) == 5.0 and least_error(0, 9) == 0.0


# Wrong rows

ROWS = papers.changes("ViT-B")[CHANGES]


@pytest.mark.parametrize("table", [ROWS.drop(columns="change_top1_pts"),
                                   ROWS.assign(change_top1_pts="x")])  # fmt: skip
def test_a_table_with_other_columns_is_refused(table):
    with pytest.raises(ValueError, match=r"RV-01: .*delete the folder of 03_robustness"):
        judge({CHANGES: table}, only=["RV-01"])


# What would decide it

SEEDS = {"runs": 3}
DECIDED_BY = [
    ((4.0, 5.0, "above", {}), "about 1.6 times the seeds and images"),  # (5 / 4) ** 2
    ((-4.0, 5.0, "above", {}), "about 1.6 times the seeds and images"),  # to contradict
    ((0.5, 3.0, "within", {}), "about 36 times the seeds and images"),  # line 1
    ((0.001, 5.0, "above", {}), "nothing here: a number is too near its line"),
    ((4.0, math.inf, "above", {"runs": 1}), "3 seeds or more (here 1)"),
    ((-4.0, 0.0, "above", {"known": False}), "nothing here: x has no interval"),
]


def part_of(value, half, side="above", **more):
    return Number("x", value, value - half, value + half, side, float(side == "within"), **more)


@pytest.mark.parametrize(("number", "text"), DECIDED_BY)
def test_what_would_decide_a_number(number, text):
    *number, more = number
    assert Verdict("RV-01", "undecided", "", [part_of(*number, **more)]).decides == text


def test_what_would_decide_a_claim():
    right, wrong, near = part_of(2.5, 5), part_of(-4.5, 5), part_of(1, 5)
    told = [Verdict("RV-01", "undecided", "", parts).decides
            for parts in ([right, wrong], [right, near])]  # fmt: skip
    assert told[0] == "about 1.2 times the seeds and images"
    assert told[1] == "about 25 times the seeds and images"
    assert Verdict("RV-01", "holds", "", [right]).decides == "decided"
