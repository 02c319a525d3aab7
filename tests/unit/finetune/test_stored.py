"""The stored run's answers: they give the numbers that are quoted, beside a run made here."""

import numpy as np
import pandas as pd
import pytest

from habitats.cutouts import SHIFTED_SETS, TEST_SETS
from reproduction.measures import paired
from reproduction.params.cells import params_of
from reproduction.runs import stored
from reproduction.stages import preset_file

INTERVAL = ["", "_low", "_high"]


def quoted(name: str, **chosen: object) -> pd.DataFrame:
    """The rows of a file of docs/results that the words choose."""
    table = stored.result(name)
    for column, value in chosen.items():
        table = table[table[column] == value]
    return table


def by_three_lines(lesson: str, one: str, other: str) -> list[float]:
    """As a reader of a lesson computes it."""
    images = stored.by_image(stored.answers(lesson))
    pairs = (images[one] - images[other]).dropna(axis="columns", how="all")
    mean = pairs.groupby("dataset").mean().mean().mean()
    return [mean, *stored.interval(pairs)]


def test_what_relevance_adds_is_what_results_say():
    whole = dict(world="own", arm="ours", classes="all", dataset="shifted_average")
    row = quoted("added", **whole).iloc[0]
    for name, pair in {"adds": ("with", "without"), "with": ("with", "original")}.items():
        said = [row[f"{name}{end}_pts"] for end in INTERVAL]
        assert by_three_lines("03_robustness", *pair) == pytest.approx(said, rel=1e-5)


def test_every_cure_and_every_variant_is_what_results_say():
    arms = quoted("cures", run="workshop", masks="annotated", world="own", images_per_class=3)
    of_cures = stored.changes(stored.by_image(stored.answers("04_cures")))
    said = arms.set_index("arm")[["change_pts", "low_pts", "high_pts"]]
    pd.testing.assert_frame_equal(of_cures, said.loc[of_cures.index], check_names=False, rtol=1e-5)
    lead = [arms.set_index("arm").loc["swap", f"lead{end}_pts"] for end in INTERVAL]
    assert by_three_lines("04_cures", "swap", "relevance") == pytest.approx(lead, rel=1e-4)

    variants = stored.result("ablations").set_index("variant")
    of_variants = stored.changes(stored.by_image(stored.answers("05_ablations")))
    said = variants[["change_pts", "low_pts", "high_pts"]]
    pd.testing.assert_frame_equal(of_variants.loc[said.index], said, check_names=False, rtol=1e-5)
    lead = [variants.loc["no_background", f"full_leads{end}_pts"] for end in INTERVAL]
    found = by_three_lines("05_ablations", "full", "no_background")
    assert found == pytest.approx(lead, rel=1e-4)


def test_the_file_is_small():
    assert (stored.project_root() / stored.FILE).stat().st_size < 1_000_000


def made_up(**arms: float) -> pd.DataFrame:
    """Answers of 03_robustness as of `outcomes.study`, by how often each model is right."""
    rng, rows = np.random.default_rng(0), []
    for model, (arm, on) in stored.MODELS.items():
        for seed in (0, 1):
            for many, name in enumerate(TEST_SETS, 32):  # sets weigh the same, however large
                right = rng.random(many) < arms[model]
                seen = {"dataset": name, "index": range(many), "right": right}
                of = {"world": "own", "seed": seed, "arm": arm, "relevance": on, "in_a": True}
                rows.append(pd.DataFrame(seen).assign(**of, label=0, prediction=0, label_rank=0))
    return pd.concat(rows, ignore_index=True)


def test_three_lines_are_the_librarys_number():
    answers = made_up(original=0.5, without=0.4, **{"with": 0.8})
    images = stored.by_image(stored.named(answers))
    pairs = images["with"] - images["without"]
    row = paired.added_table(answers).iloc[0]
    assert pairs.groupby("dataset").mean().mean().mean() == pytest.approx(row["adds_pts"])
    assert stored.changes(images, "without").at["with", "change_pts"] == pytest.approx(
        row["adds_pts"]
    )
    assert stored.interval(pairs) == pytest.approx(tuple(row[["adds_low_pts", "adds_high_pts"]]))
    assert set(images.index.unique("dataset")) == set(SHIFTED_SETS)


def test_a_run_stands_beside_the_stored_one_and_says_what_it_is():
    answers = made_up(original=0.5, without=0.4, **{"with": 0.8})
    cfg = params_of("03_robustness").from_preset(preset_file("quick"))
    runs = stored.beside(cfg, answers)
    assert list(runs) == [
        "yours (quick, 2 seeds, 40 images a set)",
        "stored (workshop, 3 seeds, 240 images a set)",
    ]
    other = cfg.model_copy(update={"images_per_set": 40})
    assert "quick, other than its file: images_per_set, 2 seeds" in next(
        iter(stored.beside(other, answers))
    )
    cfg = params_of("03_robustness").from_preset(preset_file(stored.PRESET))
    assert list(stored.beside(cfg, answers)) == ["workshop, 2 seeds, 40 images a set"]
    other = cfg.model_copy(update={"images_per_set": 40})
    assert len(stored.beside(other, answers)) == 2, "changed, it is not the stored run"


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((10.2, 4.8, 15.6), "+10.2 (+4.8 to +15.6) points: relevance adds"),
        ((-2.0, -3.5, -0.5), "-2.0 (-3.5 to -0.5) points: relevance loses"),
        ((1.6, -5.2, 8.4), "+1.6 (-5.2 to +8.4) points: whether relevance adds or loses cannot"),
        ((0.0, 0.0, 0.0), "+0.0 (+0.0 to +0.0) points: whether relevance adds or loses cannot"),
        ((2.0, 0.04, 4.0), "+2.0 (+0.0 to +4.0) points: whether relevance adds or loses cannot"),
        ((-2.0, -4.0, -0.04), "-2.0 (-4.0 to +0.0) points: whether relevance adds or loses"),
    ],
)
def test_a_sentence_follows_from_its_interval(numbers, said):
    assert stored.says("relevance", *numbers, verbs=("adds", "loses")).startswith(said)
