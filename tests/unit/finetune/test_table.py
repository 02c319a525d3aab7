"""The table of runs: which a notebook asks for, and that each differs in what it is named for."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import get_args

import pytest

from relevit.choices.words import MAP_LOSSES, Variant
from reproduction.params.cells import FINETUNED, params_of
from reproduction.params.common import Benchmark
from reproduction.params.preset import read_preset
from reproduction.runs import grids
from reproduction.runs.effects import over_twins
from reproduction.runs.grids import OURS, OWN, VARIANTS, needs_masks
from reproduction.runs.run import Row, needs, once, original_images

ROOT = Path(__file__).parents[3]
PRESET = """
common: {model: tiny, seeds: [0, 1]}
02_finetune: {epochs: 1, images_per_class: 3, lr: 1.0e-4, class_term: confidence}
"""
ARMS = {
    "label": {"weight_relevance": 0.0},
    "relevance": {},
    "swap": {"weight_relevance": 0.0, "augmentation": "swap"},
    "head": {"weight_relevance": 0.0, "trained_blocks": 0},
    **{name: {"method": name} for name in MAP_LOSSES[1:]},
}
FOLLOWED = ["label", "relevance", "swap"]
MAPS = {
    "gae": {},
    "readout_last2": {"explanation": "readout", "trained_blocks": 2},
    "label": {"weight_relevance": 0.0},
    "label_last2": {"weight_relevance": 0.0, "trained_blocks": 2},
    "swap_last2": {"weight_relevance": 0.0, "trained_blocks": 2, "augmentation": "swap"},
}

pytestmark = pytest.mark.usefixtures("project_of_one_preset")


def asked(cls, part, **others):
    """The rows of one part of a notebook."""
    found = grids.of(cls(**{"model": "tiny"} | others))
    return found[found["part"] == part]


def twins(**others):
    labels = {"labels": {"class_term": "label", "weight_classification": 0.5}}
    return asked(params_of("03_robustness"), "twins", **{"seeds": [1], "arms": labels} | others)


def cures(**others):
    given = {"arms": ARMS, "arm_seeds": [0, 1], "followed": FOLLOWED}
    return asked(
        params_of("04_cures"), "arms", **given | {"arm_settings": {"class_term": "label"}} | others
    )


def places(rows, *keys):
    return [tuple(row) for row in rows[list(keys)].itertuples(index=False)]


def test_every_run_has_a_twin_that_lacks_the_relevance_terms_alone():
    rows = twins()
    of = [("original", False), *((a, on) for a in (OURS, "labels") for on in (True, False))]
    assert places(rows, "arm", "relevance") == of
    runs = rows.set_index(["arm", "relevance"])["run"]
    for arm in (OURS, "labels"):
        ours, twin = (runs[arm, on].params for on in (True, False))
        assert ours.model_copy(update={"weight_relevance": 0.0}) == twin
        assert (ours.lr, ours.seed) == (1.0e-4, 1)
    assert runs["labels", True].params.weight_classification == 0.5
    # The maps of the same two are tested.
    tested = asked(params_of("07a_segmentation"), OWN, seeds=[1])
    assert [run.name for run in tested["run"]] == [runs[OURS, on].name for on in (True, False)]


def test_arms_and_worlds_may_have_fewer_seeds_and_worlds_another_arm():
    others = {"home_shares": [0.5], "home_seeds": [2], "home_arm": "labels"}
    rows = twins(seeds=[0, 1], arm_seeds=[1], **others)
    own = [(OWN, 0, OURS), (OWN, 1, OURS), (OWN, 1, "labels"), ("home 0.5", 2, "labels")]
    assert places(rows[rows["relevance"]], "world", "seed", "arm") == own


def test_other_worlds_have_their_own_homes_and_an_original_a_seed():
    rows = twins(home_shares=[0.5], seeds=[0, 1])
    originals = rows[rows["arm"] == "original"].set_index(["world", "seed"])["run"]
    assert originals[OWN, 0].name == originals[OWN, 1].name
    assert originals[OWN, 0].name.startswith("original.tiny.seed0-")
    for seed in (0, 1):
        name = originals["home 0.5", seed].name
        assert name.startswith(f"original.tiny.home_0.5.seed{seed}-")
        here = rows.query("world == 'home 0.5' and seed == @seed and arm == @OURS")["run"]
        assert {run.params.benchmark.home_share for run in here} == {0.5}
        assert [need.name for run in here for need in needs(run)] == [name] * 2
    things = Benchmark(home_share=0.5, classes="objects")
    assert twins(benchmark=things)["run"].iloc[0].name not in {row.name for row in originals}


def test_an_arm_differs_from_the_control_in_what_it_is_named_for_alone():
    rows = cures(arm_seeds=[1])
    assert rows["arm"].tolist() == ["original", *ARMS]
    assert set(places(rows, "masks", "world", "seed")) == {("annotated", OWN, 1)}
    runs = rows.set_index("arm")["run"]
    control = runs["label"].params
    assert (control.class_term, control.lr, control.seed) == ("label", 1.0e-4, 1)
    for arm, changes in ARMS.items():
        expected = control.model_copy(update={"weight_relevance": None} | changes)
        assert runs[arm].params == expected
    assert len({run.name for run in runs}) == len(runs)
    assert cures(arms={}, followed=[]).empty


def test_axes_follow_some_arms_and_ask_for_no_run_twice():
    axes = {"prices": ["annotated", "boxes"], "counts": [3, 10], "worlds": [{"home_share": 0.5}]}
    rows = cures(**axes)
    found = places(rows, "arm", "masks", "images_per_class", "world", "seed")
    of_a_seed = [
        *((arm, "annotated", 3, OWN) for arm in ("original", *ARMS)),
        *((arm, "boxes", 3, OWN) for arm in ("relevance", "swap")),  # label looks at no mask
        *((arm, "annotated", 10, OWN) for arm in FOLLOWED),
        *((arm, "annotated", 3, "home 0.5") for arm in ("original", *FOLLOWED)),
    ]
    assert found == [(*key, seed) for seed in (0, 1) for key in of_a_seed]
    # The preset's own original is one, whatever the seed; another world has one a seed.
    assert len(once(rows["run"])) == len(rows) - 1
    free = rows[rows["arm"].isin(["label", "head"])]["run"]
    assert not any(needs_masks(run.params) for run in free)


def test_an_original_of_another_length_is_one_for_all_seeds():
    """As the preset's own is; and its images are those it says, not those of 00_start."""
    rows = cures(worlds=[{"original_images": 1200}, {"home_share": 1}])
    originals = rows[rows["arm"] == "original"]
    assert originals["world"].tolist() == [OWN, "original 1200", "home 1"] * 2
    assert len(once(originals["run"])) == 1 + 1 + 2
    longer = rows[rows["world"] == "original 1200"]["run"]
    origins = {need.name for run in longer for need in needs(run)}
    assert origins == {run.name for run in longer if run.original}
    assert {original_images(run.params) for run in longer} == {1200}


def test_variants_differ_from_the_method_in_what_they_name():
    names = [*VARIANTS]
    rows = asked(params_of("05_ablations"), "variants", variants=names, variant_seeds=[3])
    runs = rows.set_index("arm")["run"]
    base = runs["full"].params
    for name, changed in VARIANTS.items():
        options = base.options.model_dump() | changed.get("options", {})
        expected = base.model_dump() | changed | {"options": options}
        assert runs[name].params.model_dump() == expected
    assert len({json.dumps(changed) for changed in VARIANTS.values()}) == len(VARIANTS)
    assert get_args(Variant) == tuple(VARIANTS)
    off = {name: {key for key, value in c.items() if value == 0.0} for name, c in VARIANTS.items()}
    for term in ("background", "foreground", "classification"):
        assert off[f"no_{term}"] == {f"weight_{term}"}
    assert off["only_background"] == {"weight_foreground", "weight_classification"}
    assert off["only_foreground"] == {"weight_background", "weight_classification"}
    assert off["only_classification"] == {"weight_relevance"}
    assert VARIANTS["temperature"] == {"temperature": 0.65}, "A8"


def test_a_run_that_two_parts_of_the_ablations_ask_for_is_one():
    cfg = params_of("05_ablations")(model="tiny", variants=["full", "only_classification"])
    rows = grids.of(cfg)
    own = Row(params_of(FINETUNED).from_preset(Path("params/quick.yaml"))).name
    same = [row.part for row in rows.itertuples() if row.run.name == own]
    assert same == ["variants", "counts", "rates"], "and it is the preset's own"
    assert (
        grids.of(params_of("05a_ablations")(model="tiny"))["run"]
        .map(lambda run: run.name)
        .eq(own)
        .any()
    )
    assert len({run.name for run in rows["run"]}) == 2 + 2 + 1 + 1


def test_settings_are_of_all_variants_and_maps_have_rivals_that_train_the_same_blocks():
    rows = grids.of(params_of("05_ablations")(base_settings={"trained_blocks": 2, "lr": 1.0e-5}))
    set_to = {(run.params.trained_blocks, run.params.lr) for run in rows["run"]}
    assert set_to == {(2, 1.0e-5)} and not any(run.held_out for run in rows["run"])
    cfg = params_of("05a_ablations")(maps=MAPS)
    maps = grids.of(cfg)
    assert {run.held_out for run in maps["run"]} == {cfg.looked_at}
    assert over_twins(maps) == {
        "over_label": {"gae": "label"}
        | dict.fromkeys(("readout_last2", "swap_last2"), "label_last2"),
        "over_swap": dict.fromkeys(("readout_last2", "label_last2"), "swap_last2"),
        "over_same": {"label": "gae"},
        "over_gae": dict.fromkeys([arm for arm in MAPS if arm != "gae"], "gae"),
    }


def test_figures_of_iav_are_of_the_lesson_s_models_and_of_the_preset_s_own_runs():
    rows = grids.of(params_of("08a_iav")(model="tiny", seeds=[1]))
    parts = {part: [run.name for run in each["run"]] for part, each in rows.groupby("part")}
    lesson = grids.of(params_of("08_iav")(model="tiny"))["run"]
    assert parts["compared"] == [run.name for run in lesson] and not any(map(needs, lesson))
    assert [run.params.seed for run in rows[rows["part"] == OWN]["run"]] == [1]


@pytest.mark.parametrize(
    ("cls", "others", "text"),
    [
        (
            params_of("03_robustness"),
            {"arms": {"odd": {"speed": 3}}},
            "03_robustness: arm 'odd': speed = 3",
        ),
        (
            params_of("04_cures"),
            {"arms": ARMS | {"odd": {"speed": 3}}},
            "04_cures: arm 'odd': speed = 3 is",
        ),
        (
            params_of("05a_ablations"),
            {"maps": {"odd": {"speed": 3}}},
            "05a_ablations: arm 'odd': speed = 3 is",
        ),
        (
            params_of("03_robustness"),
            {"arms": {"odd": {"weight_classification": 0.0}}},
            "arm 'odd' without the relevance terms: weight_foreground = .* nothing to train",
        ),
    ],
)
def test_wrong_parameters_of_an_arm_are_named(cls, others, text):
    with pytest.raises(ValueError, match=rf"quick\.yaml: .*{text}"):
        grids.of(cls(model="tiny", **others))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"seeds": [0], "arm_seeds": [1]}, r"arm_seeds = \[1\] .*\[1\] are not among seeds"),
        ({"home_arm": "none"}, r"home_arm = 'none' .*it is no arm; use one of ours"),
        ({"arms": {"ours": {}}}, "arm 'ours': give it a name"),
        ({"arms": {"a/b": {}}}, "arm 'a/b': give it a name of small letters"),
        ({"arms": {"later": {"seed": 3}}}, "arm 'later' changes seed, in which twins and"),
        ({"home_shares": [1.5]}, r"home_shares\.0 = 1\.5 .*less than or equal to 1"),
    ],
)
def test_wrong_arms_and_worlds_are_refused(values, text):
    with pytest.raises(ValueError, match=text):
        params_of("03_robustness").checked(values, "03_robustness")


def test_images_without_homes_have_no_home_shares():
    text = r"home_shares \[0\.5\] with data 'imagenet', whose classes have no homes; give data"
    with pytest.raises(ValueError, match=text):
        twins(benchmark=Benchmark(data="imagenet", data_root="there"), home_shares=[0.5])


@pytest.mark.parametrize(("preset", "count"), [("quick", 28), ("study", 447)])
def test_a_preset_s_runs_are_those_of_its_lines(monkeypatch, preset, count):
    monkeypatch.chdir(ROOT)
    assert len(grids.of_preset(read_preset(ROOT / "params" / f"{preset}.yaml"))) == count


# Digests of the names of all rows. Where a name changes, its stored run is made anew.
STORED = {
    "quick": (28, "18e175662c3f"),
    "workshop": (69, "c423b331171e"),
    "study": (447, "6e23ef34b10f"),
    "paper": (348, "4c5ecdc443b9"),
    "controls": (70, "bf5fb0f62fca"),
    "controls_things": (26, "0799cd8eb5d2"),
}


@pytest.mark.parametrize("preset", STORED)
def test_stored_runs_are_found_by_the_names_that_they_were_made_by(preset, monkeypatch):
    monkeypatch.chdir(ROOT)
    names = "\n".join(sorted(grids.of_preset(read_preset(ROOT / "params" / f"{preset}.yaml"))))
    found = hashlib.sha256(names.encode()).hexdigest()[:12]
    assert (names.count("\n") + 1, found) == STORED[preset]
