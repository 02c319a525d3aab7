"""Each criterion on RobustViT met, missed and without its rows, on made tables."""

from __future__ import annotations

import pytest

from relevit.claims import attribution as claims_attribution
from relevit.claims import verdicts as claims
from relevit.claims.robustvit import (
    CRITERIA,
    OUTSIDE,
    SCHEMAS,
    baselines_behind,
    robustvit_verdicts,
)
from relevit.paper import published as paper

from ..robustvit_tables import (
    VARIANTS,
    ablations,
    accuracies,
    finetuned_images,
    gains,
    knn,
    looks,
    made,
    methods_perturbation,
    object_size,
    rates,
    sensitivity,
    sis,
    table,
)
from ..robustvit_tables import changed_images as made_changes

# One model cannot be both of the paper's, and DINO's probe not be worst and best.
DO_NOT_HOLD = {"RV-12", "RV-35"}
HARMLESS = VARIANTS["no_classification"] | {"val": -0.4}


TABLES = {
    "looks": ["RV-27", "RV-41"],
    "rates": ["RV-21"],
    "object_size": ["RV-23"],
    "changed_images": ["RV-22", "RV-23", "RV-28"],
    "finetuned_images": ["RV-28"],
    "accuracies": ["RV-05", "RV-07", "RV-31", "RV-32", "RV-33", "RV-34", "RV-35"],
    "methods_perturbation": ["RV-43"],
    "ablations": ["RV-10", "RV-11", "RV-12", "RV-13", "RV-14", "RV-15", "RV-29", "RV-30", "RV-42"],
    "sensitivity": ["RV-16", "RV-17", "RV-18"],
    "sis": ["RV-26"],
    "knn": ["RV-36", "RV-37", "RV-38"],
    "quality": [],
}


def judged(**tables):
    return {v.id: v for v in robustvit_verdicts(made() | tables)}


def judge(claim, tables):
    """One claim alone, on its own tables: some of the others change."""
    needed = {name: table(name) for name, claims in TABLES.items() if claim in claims}
    return {v.id: v for v in robustvit_verdicts(needed | tables)}[claim]


def test_all_hold():
    verdicts = judged()
    assert list(verdicts) == list(CRITERIA)
    missed = {v.id for v in verdicts.values() if v.verdict != "holds"}
    assert missed == DO_NOT_HOLD | set(OUTSIDE)
    for claim, verdict in verdicts.items():
        assert verdict.reason
        assert verdict.number or claim == "RV-25"
    harmless = {"ablations": ablations(no_classification=HARMLESS)}
    assert judge("RV-12", harmless).verdict == "holds"
    assert judge("RV-35", {"accuracies": accuracies(probe=60.0)}).verdict == "holds"


def test_every_claim_of_robustvit_has_one_criterion():
    parts = [claims.CRITERIA, CRITERIA, claims_attribution.CRITERIA]
    named = sorted(claim for part in parts for claim in part if claim.startswith("RV"))
    table = paper.claims()
    assert named == table.loc[table["paper"] == "robustvit", "id"].tolist()


@pytest.mark.parametrize(
    ("claim", "number"),
    [
        ("RV-05", "tiny, gradmask (3 seeds): val +0.1 ± 0.1, v2 +0.1 ± 0.1, ours above it "),
        ("RV-07", "tiny, 3 seeds: +3.3 ± 0.1 against +3.1 ± 0.1 on the shifted sets, "),
        ("RV-10", "tiny, val: full -1.2 ± 0.1, without L_bg +0.0 ± 0.1"),
        ("RV-17", "tiny, shifted average, images × classes: 2 × 20 against 3 × 20 -0.4 ± "),
        ("RV-21", "fall of the background term, by rate: gradmask 1.0e-06 +1.0 %, 1.0e-05 "),
        ("RV-22", "A: std over classes 20.5, mean +0.0, of luck alone 6.4; B: "),
        ("RV-24", "a: ant -40.0, honeybee -40.0; v2: "),
        ("RV-26", "20 of 20 pairs (4 images, 5 labels)"),
        ("RV-27", "of 320 sure answers: most relevance off the object 37.5 %, less than "),
        ("RV-32", "difference: val +5.0 ± 0.7, a +2.0 ± 0.7, "),
        ("RV-36", "objectnet k = 1 +2.5 ± 0.7, k = 10 +2.5 ± 0.7; val k = 1 "),
    ],
)
def test_numbers(claim, number):
    tables = {"changed_images": table("changed_images")}
    assert judge(claim, tables).number.startswith(number)


FAILS = [
    ("RV-05", {"accuracies": accuracies(gradmask=gains(-1.5, 0.0, 0.0, 0.0))}, "gradmask keeps v"),
    ("RV-05", {"accuracies": accuracies(rrr=gains(0.0, 0.0, 1.0, 4.0))}, "rrr behind on a; "),
    ("RV-07", {"accuracies": accuracies(tokencut=gains(shifted=0.0, steep=2.0))}, "just as well"),
    ("RV-07", {"accuracies": accuracies(tokencut=gains())}, "tiny: better on five of nine sets"),
    ("RV-10", {"ablations": ablations(no_background=gains(-0.7))}, "intact without L_bg; L_bg is"),
    ("RV-11", {"ablations": ablations(no_background=gains())}, "without L_bg clearly less"),
    ("RV-11", {"ablations": ablations(no_foreground=gains(steep=-1.0))}, "L_bg matters more than"),
    ("RV-12", {}, "not met: val without the class term"),
    ("RV-13", {"ablations": ablations(no_classification=HARMLESS)}, "falls by more than 2 points"),
    ("RV-13", {"ablations": ablations(full=gains(-2.5))}, "not met: by less with it"),
    ("RV-14", {"ablations": ablations(ground_truth=gains(-2.0))}, "labels keep val better"),
    ("RV-14", {"ablations": ablations(ground_truth=gains(steep=5.0))}, "confidence better on"),
    ("RV-15", {"ablations": ablations(no_classification=gains(-2.9))}, "falls by more than 3 po"),
    ("RV-16", {"sensitivity": sensitivity(changed={(5, 20): gains(steep=9.0)})}, "5 × 20 is not"),
    ("RV-16", {"sensitivity": sensitivity(changed={(3, 20): gains(val=-1.5)})}, "not met: val"),
    ("RV-17", {"sensitivity": sensitivity(changed={(2, 20): gains(steep=1.0)})}, "2 × 20 again"),
    ("RV-17", {"sensitivity": sensitivity(changed={(5, 10): gains(steep=1.0)})}, "5 × 10 again"),
    ("RV-18", {"sensitivity": sensitivity(changed={(1, 20): gains(0, 0, 0, 0)})}, "1 × 20 gains"),
    ("RV-18", {"sensitivity": sensitivity(changed={(5, 10): gains(v2=-2.1)})}, "5 × 10 keeps v2"),
    ("RV-21", {"rates": rates(gradmask=(12.0, 30.0))}, "not met: gradmask fits at no rate"),
    ("RV-22", {"changed_images": made_changes(alike=True)}, "classes A: spread above the mean"),
    ("RV-23", {"object_size": object_size(context=0.2)}, "not met: context: the interval is not"),
    ("RV-23", {"object_size": object_size(0.3, 0.4)}, "not met: object size: the interval is not"),
    ("RV-23", {"object_size": object_size(high=0.1, context=0.2)}, "not met: context: the int"),
    ("RV-26", {"sis": sis(missed=1)}, "not met: a subset for every pair"),
    ("RV-27", {"looks": looks(off=0)}, "not met: most relevance off the object"),
    ("RV-27", {"looks": looks(off=1)}, "not met: most relevance off the object"),
    ("RV-27", {"looks": looks(images=250, off=2)}, "not met: most relevance off the object"),
    ("RV-28", {"finetuned_images": finetuned_images((-2.0, 5.0))}, "not met: seed0 improves"),
    ("RV-29", {"ablations": ablations(rollout=gains(sketch=1.1))}, "above rollout on sketch"),
    ("RV-31", {"accuracies": accuracies(probe=50.0)}, "not met: below tiny on val; "),
    ("RV-33", {"accuracies": accuracies(tokencut=gains(shifted=6.0, steep=1.0))}, "above on a; "),
    ("RV-34", {"accuracies": accuracies(dino=gains(sketch=0.0))}, "not met: sketch rises"),
    ("RV-35", {}, "not met: finetuning lowers the shifted average"),
    ("RV-36", {"knn": knn(rise=(-1.0, 4.0))}, "val: k = 1 above its std; val: k = 10 above"),
    ("RV-37", {"knn": knn(rise=(-1.0, 4.0))}, "val: every seed rises for k = 1"),
    ("RV-37", {"knn": knn(rise=(-1.0, 4.0), data=("val",))}, "every seed rises for k = 10"),
    ("RV-38", {"knn": knn(ten=-1.0)}, "not met: k = 10 better in more than half"),
    ("RV-41", {"looks": looks(off=5, part=5)}, "the background is the more common issue"),
    ("RV-41", {"looks": looks(off=2, part=1)}, "the background is the more common issue"),
    ("RV-42", {"ablations": ablations(predicted_target=gains(0, 0, 0, 0))}, "gains without labels"),
    ("RV-43", {"methods_perturbation": methods_perturbation(54.5)}, "worse than gae, positive"),
    ("RV-43", {"methods_perturbation": methods_perturbation(70.0, error=5.0)}, "worse than gae, n"),
]


@pytest.mark.parametrize(("claim", "tables", "reason"), FAILS)
def test_a_changed_table_fails_the_claim(claim, tables, reason):
    verdict = judge(claim, tables)
    assert verdict.verdict == "fails", verdict
    assert verdict.reason.startswith("not met: ")
    assert reason in verdict.reason


def test_top5_against_top1():
    table = ablations()
    rows = table["variant"] == "rollout"
    table.loc[rows, "top5_pct"] += 5.0
    verdict = judge("RV-30", {"ablations": table})
    assert verdict.reason == "not met: rollout same sign"


def test_dino_must_be_better_beyond_the_luck_of_the_images():
    table = accuracies()
    verdict = judge("RV-32", {"accuracies": table.assign(images=100)})
    assert verdict.verdict == "fails"
    assert "above on val" in verdict.reason


@pytest.mark.parametrize("name", SCHEMAS)
def test_without_a_table_its_claims_are_not_testable(name):
    tables = {
        other: table(other)
        for claims in [TABLES[name]]
        for other in TABLES
        if other != name and set(TABLES[other]) & set(claims)
    }
    verdicts = {v.id: v for v in robustvit_verdicts(tables)}
    for claim in TABLES[name]:
        assert verdicts[claim].verdict == "not testable here"
        assert verdicts[claim].reason == f"no table {name}: run the notebook that writes it"


def test_without_any_table_nothing_is_testable():
    assert {v.verdict for v in robustvit_verdicts({})} == {"not testable here"}


def without(table, **names):
    for column, name in names.items():
        table = table[table[column] != name]
    return table


LACKING = [
    (
        "RV-05",
        {"accuracies": without(accuracies(), method="rrr")},
        "no run with model tiny, method rrr, protocol published: run it",
    ),
    (
        "RV-07",
        {"accuracies": accuracies(method=gains(shifted=-0.1, steep=-0.1))},
        "annotated masks do not gain on the shifted sets, so there is nothing to match",
    ),
    ("RV-05", {"accuracies": without(accuracies(), protocol="published")}, "no run of gradma"),
    ("RV-07", {"accuracies": without(accuracies(), masks="tokencut")}, "no model with both annota"),
    ("RV-10", {"ablations": ablations(full=gains(0.2))}, "the full method loses nothing on val"),
    ("RV-11", {"ablations": without(ablations(), dataset="r")}, "has all nine sets: evaluate it"),
    (
        "RV-12",
        {"ablations": without(ablations(), variant="full")},
        "no run with model tiny, variant full: run it, or see what diverged in 08_ablations",
    ),
    (
        "RV-12",
        {"ablations": ablations(full=gains(shifted=-0.1, steep=-0.1))},
        "the full method does not gain on the shifted sets here (-0.1 ± 0.1), so there is nothing",
    ),
    ("RV-16", {"sensitivity": without(sensitivity(), images_per_class=5)}, "with more than 3 imag"),
    ("RV-17", {"sensitivity": without(sensitivity(), classes=10)}, "needs runs with at most 2 ima"),
    (
        "RV-17",
        {"sensitivity": sensitivity(changed={(3, 20): gains(shifted=-0.1, steep=-0.1)})},
        "the run with more data, 3 × 20, does not gain on the shifted sets here (-0.1 ± 0.1)",
    ),
    (
        "RV-17",
        {"sensitivity": sensitivity(changed={(5, 20): gains(shifted=-0.1, steep=-0.1)})},
        "the run with more data, 5 × 20, does not gain on the shifted sets here",
    ),
    ("RV-21", {"rates": rates().query("lr < 5e-6")}, "gradmask was run at 1 rate; 2 are needed"),
    ("RV-21", {"rates": rates(protocol="described")}, "no run with method gradmask, proto"),
    (
        "RV-22",
        {"changed_images": made_changes(spread=1)},
        "the variance between classes is not more than 2 times what so few images explain: ",
    ),
    (
        "RV-23",
        {"object_size": object_size(high=0.1)},
        "object size: the interval contains 0: more classes or seeds are needed",
    ),
    ("RV-23", {"object_size": object_size(high=0.1, context=0.0)}, "object size and context: the"),
    ("RV-26", {"sis": sis(labels=2)}, "too few pairs: 4 images with 5 labels are needed"),
    ("RV-26", {"sis": sis(images=2, missed=1)}, "too few pairs: 4 images with 5 labels are needed"),
    ("RV-27", {"looks": looks(confidence_pct=80.0)}, "0 images answered with more than 90 % confi"),
    (
        "RV-27",
        {"looks": looks(images=149)},
        "298 images answered with more than 90 % confidence; at least 300 are needed",
    ),
    ("RV-28", {"finetuned_images": finetuned_images(images=10)}, "at least 20 are needed"),
    ("RV-34", {"accuracies": without(accuracies(), model="dinov2-s")}, "no run with model dinov2"),
    ("RV-36", {"knn": knn(data=("pneumonia",))}, "neither inat2021_mini nor a set of"),
    ("RV-36", {"knn": knn(data=("cifar100_coarse",))}, "neither inat2021_mini nor a set of"),
    ("RV-37", {"knn": knn(data=("val", "a"))}, "1 of 3 data sets were run"),
    ("RV-37", {"knn": knn(data=("val", "cifar100", "cifar100_coarse"))}, "2 of 3 data sets were"),
    ("RV-38", {"knn": without(knn(), model_run="original")}, "needs the original and finetuned ru"),
    ("RV-41", {"looks": looks(images=5, off=2, part=1)}, "10 images of val and v2; at least 20"),
    ("RV-41", {"looks": looks(off=1, part=0)}, "2 of 320 images have either issue: too few to"),
    (
        "RV-43",
        {"methods_perturbation": methods_perturbation(54.5, error=5.0)},
        "a combined standard error of 7.1 points, above 3, could hide a gain: run more images",
    ),
    (
        "RV-43",
        {"methods_perturbation": without(methods_perturbation(), method="gae")},
        "no row for tiny, gae",
    ),
]


def test_maps_of_a_set_of_their_own_say_themselves_what_is_right():
    """Images turned wrong and those of unknown class are left out, and 03's answers not asked."""
    maps = finetuned_images(rise=(2.0,), images=60).assign(right=1.0)
    place = maps.groupby("model_run").cumcount()
    finetuned = maps["model_run"] == "seed0"
    maps.loc[finetuned & (place < 20), ["right", "iou_pct"]] = [0.0, 0.0]
    maps.loc[place >= 50, "right"] = float("nan")
    maps.loc[finetuned & (place >= 50), "iou_pct"] = 0.0
    verdict = {v.id: v for v in robustvit_verdicts({"finetuned_images": maps})}["RV-28"]
    assert verdict.number.startswith("change of IoU: seed0 +3.0"), verdict
    few = maps.assign(right=maps["right"].where(place < 15))
    verdict = {v.id: v for v in robustvit_verdicts({"finetuned_images": few})}["RV-28"]
    assert verdict.verdict == "not testable here" and "at least 20" in verdict.reason


@pytest.mark.parametrize(("claim", "tables", "reason"), LACKING)
def test_without_its_rows_a_claim_is_not_testable(claim, tables, reason):
    verdict = judge(claim, tables)
    assert verdict.verdict == "not testable here", verdict
    assert reason in verdict.reason


def test_one_seed_decides_nothing_but_shows_the_numbers():
    one = (0,)
    verdicts = judged(
        accuracies=accuracies(seeds=one),
        ablations=ablations(seeds=one),
        sensitivity=sensitivity(seeds=one),
        knn=knn(rise=(2.0,)),
        finetuned_images=finetuned_images((2.0,)),
        changed_images=made_changes(runs=("seed0",)),
    )
    undecided = set(TABLES["accuracies"]) - {"RV-32"}
    for name in ("ablations", "sensitivity", "knn", "changed_images"):
        undecided |= set(TABLES[name])
    for claim in undecided:
        assert verdicts[claim].verdict == "not testable here", claim
        assert verdicts[claim].reason.startswith("1 finetuned run; at least 2 seeds are needed")
        assert verdicts[claim].number
    assert baselines_behind(accuracies(seeds=one)) == {}
