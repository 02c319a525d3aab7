"""k-NN finds what scikit-learn finds, ties go to the nearest, and changes are paired."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from relevit.config import KnnParams
from relevit.data.cutouts import Cutouts
from relevit.data.drawings import UNSEEN
from relevit.evaluate import knn
from relevit.evaluate.knn import knn_answers, knn_changes, knn_table, nearest, vote
from relevit.models.spec import ModelSpec

from ..in_memory import in_memory

THINGS = Cutouts(drawings=UNSEEN)

SPEC = ModelSpec("small", "none", 28, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def blobs(count: int, seed: int, width: int = 5, classes: int = 4):
    """Overlapping clouds, so that neighbours disagree."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    centres = torch.eye(width).double()[:classes]
    return centres[labels] + 0.6 * torch.randn(count, width, generator=random).double(), labels


def nearest_breaks_ties(distances: np.ndarray) -> np.ndarray:
    """Weights with which scikit-learn follows our rule: a vote, and a bit more when nearer."""
    return np.tile(1 + 0.5 ** np.arange(2, distances.shape[1] + 2), (len(distances), 1))


# Neighbours


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_answers_are_those_of_scikit_learn(metric, k):
    (known, labels), (asked, true) = blobs(90, 0), blobs(70, 1)
    oracle = KNeighborsClassifier(
        k, metric=metric, algorithm="brute", weights=nearest_breaks_ties
    ).fit(known.numpy(), labels.numpy())
    places = oracle.kneighbors(asked.numpy(), return_distance=False)
    assert np.array_equal(nearest(asked, known, k, metric).numpy(), places)
    answers = knn_answers(known, labels, asked, true, [k], metric)
    assert np.array_equal(answers["prediction"], oracle.predict(asked.numpy()))
    assert np.array_equal(answers["label"], true) and (answers["k"] == k).all()


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_neighbours_do_not_depend_on_what_fits_in_memory(monkeypatch, metric):
    known, asked = blobs(50, 0)[0], blobs(33, 1)[0]
    whole = nearest(asked, known, 7, metric)
    monkeypatch.setattr(knn, "AT_ONCE", 120)  # two rows at a time
    assert torch.equal(nearest(asked, known, 7, metric), whole)


def test_cosine_ignores_length_and_euclidean_does_not():
    known = torch.tensor([[10.0, 1.0], [0.5, 0.5]])
    asked = torch.tensor([[1.0, 0.0]])
    assert nearest(asked, known, 1).item() == 0
    assert nearest(asked, known, 1, "euclidean").item() == 1


@pytest.mark.parametrize(
    ("labels", "answer"),
    [
        ([3], 3),
        ([1, 0], 1),  # one vote each: the nearest
        ([2, 0, 0], 0),  # more votes beat the nearest
        ([5, 1, 0, 0, 1], 1),  # two each: 1 comes first
        ([9, 9, 4, 4, 4, 9, 0], 9),
    ],
)
def test_most_votes_win_and_the_nearest_decides_ties(labels, answer):
    assert vote(torch.tensor([labels])).tolist() == [answer]


def test_one_search_serves_every_k():
    (known, labels), (asked, true) = blobs(40, 0), blobs(12, 1)
    both = knn_answers(known, labels, asked, true, [1, 10])
    alone = [knn_answers(known, labels, asked, true, [k]) for k in (1, 10)]
    pd.testing.assert_frame_equal(both, pd.concat(alone, ignore_index=True))


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"k": 0}, r"k = 0 with 4 known vectors; use 1\.\.4"),
        ({"k": 5}, r"k = 5 with 4 known vectors; use 1\.\.4"),
        ({"metric": "l1"}, r"metric 'l1' is unknown; use one of \('cosine', 'euclidean'\)"),
        ({"asked": torch.ones(2, 3)}, "vectors of 3 and 5 numbers; take both from the same model"),
    ],
)
def test_bad_searches_are_errors(arguments, text):
    good = {"asked": torch.ones(2, 5), "known": torch.ones(4, 5), "k": 1}
    with pytest.raises(ValueError, match=f"nearest: {text}"):
        nearest(**good | arguments)


def test_no_number_of_neighbours_is_an_error():
    none = torch.zeros(1).long()
    with pytest.raises(ValueError, match="knn_answers: no number of neighbours; give at least"):
        knn_answers(torch.ones(1, 2), none, torch.ones(1, 2), none, [])


def test_same_answers_in_the_same_format(build_vit):
    model = build_vit().float()
    spec = ModelSpec("small", "none", 28, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    known, asked = (THINGS.pictures(name, 24, size=28) for name in ("train", "val"))
    assert knn.same_answers_pct(model, spec, known, asked, "float32") == 100.0
    assert 0.0 <= knn.same_answers_pct(model, spec, known, asked, "bfloat16", k=5) <= 100.0


def test_pixel_features_are_colours_without_brightness():
    dark = THINGS.pictures("val", 24, size=28)
    bright = in_memory("bright", dark.classes, dark.labels, dark.read(range(24)).images // 2 + 100)
    one, other = knn.pixel_features(dark), knn.pixel_features(bright)
    assert tuple(one.shape) == (24, 3 * (28 // knn.CELL) ** 2)
    torch.testing.assert_close(one / 2, other, atol=0.6, rtol=0)
    assert (nearest(one, one, 1)[:, 0] == torch.arange(24)).all()


# Tables


def answers(run: str, right: list[int], k: int = 1, data: str = "val") -> pd.DataFrame:
    """One row an image: label 0, prediction 0 where it is right."""
    rows = pd.DataFrame({"index": range(len(right)), "label": 0, "prediction": 1 - np.array(right)})
    return rows.assign(model_run=run, data=data, k=k)


def test_table_and_paired_changes_by_hand():
    rows = pd.concat(
        [
            answers("original", [1, 0, 0, 1]),
            answers("seed0", [1, 1, 0, 1]),
            answers("seed1", [1, 1, 1, 0]),
            answers("original", [1, 1], data="other"),
            answers("seed0", [1, 0], data="other"),
            answers("seed1", [1, 1], data="other"),
        ]
    )
    table = knn_table(rows).set_index(["model_run", "data"])
    assert list(knn_table(rows).columns) == ["model_run", "data", "k", "images", "accuracy_pct"]
    assert table.loc[("seed0", "val"), "accuracy_pct"] == 75.0
    assert table.loc[("seed0", "val"), "images"] == 4
    changes = knn_changes(rows).set_index("data")
    assert list(changes.index) == ["val", "other"], "in the order given"
    first = changes.loc["val"]
    assert (first["original_pct"], first["ours_pct"], first["change_pts"]) == (50.0, 75.0, 25.0)
    assert first["change_std_pts"] == 0.0 and first["seeds"] == 2 and first["seeds_better"] == 2
    # Changes of 0, 100, 0, 0 and of 0, 100, 100, -100 points over four images.
    expected = np.mean([np.std(c, ddof=1) / 2 for c in ([0, 100, 0, 0], [0, 100, 100, -100])])
    assert first["standard_error_pts"] == pytest.approx(expected)
    assert changes.loc["other", "change_pts"] == -25.0
    assert changes.loc["other", "seeds_better"] == 0


def test_a_single_run_has_no_spread():
    rows = pd.concat([answers("original", [1, 0]), answers("seed0", [1, 1])])
    assert np.isnan(knn_changes(rows)["change_std_pts"]).all()


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([answers("original", [1])], r"runs \['original'\]; it needs 'original' and at least one"),
        ([answers("seed0", [1]), answers("seed1", [1])], r"runs \['seed0', .*'original'"),
        ([answers("original", [1, 0]), answers("seed0", [1])], "runs hold other images; classify"),
        ([answers("original", [1]), *2 * [answers("seed0", [1])]], "an image occurs twice in a"),
    ],
)
def test_changes_need_paired_runs(rows, text):
    with pytest.raises(ValueError, match=f"knn_changes: {text}"):
        knn_changes(pd.concat(rows))


def test_examples_are_the_first_corrected_and_ruined():
    rows = pd.concat(
        [
            answers("original", [0, 1, 0, 0, 1]),
            answers("seed0", [1, 0, 0, 1, 0]),
            answers("seed0", [0, 0, 0, 0, 0], k=10),
        ]
    )
    assert knn.changed_examples(rows, "seed0", "val", 1, 5) == ([0, 3], [1, 4])
    assert knn.changed_examples(rows, "seed0", "val", 1, 1) == ([0], [1])


# Opening


def test_open_data_draws_things_in_both_kinds():
    known, asked = knn.open_data(KnnParams(train_images=24, test_images=30), 32)
    assert len(known) == 24 and list(asked) == ["val", "objectnet"]
    assert {len(images) for images in asked.values()} == {30}
    assert known.classes == UNSEEN.classes


def test_open_data_wants_a_folder_for_real_data():
    with pytest.raises(ValueError, match="10_knn: data 'cifar100' without data_root; give the"):
        knn.open_data(KnnParams(data="cifar100"), 32)


def test_colours_of_a_large_set_are_those_of_a_sample(monkeypatch):
    labels = torch.arange(40) % 4
    pixels = torch.randint(256, (40, 3, 28, 28), dtype=torch.uint8)
    images = in_memory("noise", tuple("abcd"), labels, pixels)
    whole = knn.colour_answers(images, {"noise": images}, [1, 3], 0)
    assert len(whole) == 80 and (whole["model_run"] == "colours").all()
    assert (whole[whole["k"] == 1]["prediction"] == whole[whole["k"] == 1]["label"]).all()
    monkeypatch.setattr(knn, "FLOOR", 10)
    part = knn.colour_answers(images, {"noise": images}, [1], 0)
    assert part["label"].tolist() == images.sample(10, 0).labels.tolist()


def test_species_have_short_names():
    long = "00000_Animalia_Annelida_Clitellata_Haplotaxida_Lumbricidae_Lumbricus_terrestris"
    assert knn.short_names([long, "maple_tree", "NORMAL"]) == [
        "Lumbricus terrestris",
        "maple_tree",
        "NORMAL",
    ]
