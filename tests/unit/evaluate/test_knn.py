"""k-NN finds what scikit-learn finds, ties go to the nearest, and changes are paired."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from habitats.drawings import UNSEEN
from relevit.data.image_set import ImageSet
from relevit.evaluate.frozen_features import knn_answers, nearest, vote
from reproduction.measures import knn
from reproduction.params.cells import params_of


def blobs(count: int, seed: int, width: int = 5, classes: int = 4):
    """Overlapping clouds, so that neighbours disagree."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    centres = torch.eye(width).double()[:classes]
    return centres[labels] + 0.6 * torch.randn(count, width, generator=random).double(), labels


def nearest_breaks_ties(distances: np.ndarray) -> np.ndarray:
    """Weights with which scikit-learn follows our rule: a vote, and a bit more when nearer."""
    return np.tile(1 + 0.5 ** np.arange(2, distances.shape[1] + 2), (len(distances), 1))


@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_answers_are_those_of_scikit_learn(k):
    (known, labels), (asked, true) = blobs(90, 0), blobs(70, 1)
    oracle = KNeighborsClassifier(
        k, metric="cosine", algorithm="brute", weights=nearest_breaks_ties
    ).fit(known.numpy(), labels.numpy())
    places = oracle.kneighbors(asked.numpy(), return_distance=False)
    assert np.array_equal(nearest(asked, known, k).numpy(), places)
    answers = knn_answers(known, labels, asked, true, [k])
    assert np.array_equal(answers["prediction"], oracle.predict(asked.numpy()))
    assert np.array_equal(answers["label"], true) and (answers["k"] == k).all()


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


def test_open_data_draws_things_in_both_kinds():
    known, asked = knn.open_data(params_of("03a_robustness")(known_images=24, asked_images=30), 32)
    assert len(known) == 24 and list(asked) == ["val", "objectnet"]
    assert {len(images) for images in asked.values()} == {30}
    assert known.classes == UNSEEN.classes


def test_open_data_wants_a_folder_for_real_data():
    with pytest.raises(
        ValueError, match="03a_robustness: knn_data 'cifar100' without knn_root; give"
    ):
        knn.open_data(params_of("03a_robustness")(knn_data="cifar100"), 32)


def test_each_run_is_tested_by_neighbours_and_by_a_probe_and_told_by_its_kind():
    """In one set the vectors are those of the known images; in the other the labels are turned."""
    vectors, labels = blobs(40, 0, classes=2)
    vectors = vectors + 5 * torch.eye(5).double()[labels]
    known = ImageSet("known", ("a", "b"), labels, lambda places: None)
    asked = {"val": known, "turned": ImageSet("turned", ("a", "b"), 1 - labels, known.read)}
    tested = knn.tested({seed: {m: m for m in ("original", "without", "with")} for seed in (3, 4)})
    assert tested == {"original": "original", "seed3": "with", "without3": "without",
                      "seed4": "with", "without4": "without"}  # fmt: skip
    kinds = {name: dict.fromkeys(("known", *asked), vectors) for name in tested}
    answers = knn.answers(kinds, known, asked, [1, 3])
    both = pd.concat([answers, knn.probed(kinds, known, asked)])
    found = knn.by_model(knn.knn_table(both))
    wide = found.pivot(index=["data", "test"], columns="model", values="accuracy_pct")
    assert wide.loc["val"].to_numpy().min() == 100 and wide.loc["turned"].to_numpy().max() == 0
    assert wide.loc["val"].index.tolist() == ["k = 1", "k = 3", "linear probe"]
    assert set(wide) == {"original", "without", "with"}
    changes = knn.changes_in_words({"less its twin": knn.knn_changes(both, "without")})
    assert set(changes.index.get_level_values("test")) == {"k = 1", "k = 3", "linear probe"}
    assert (changes["less its twin"].to_numpy() == 0).all()  # the vectors are the same
    other = torch.tensor([int((labels != y).nonzero()[0]) for y in labels])  # of the other class
    kinds["without3"] = kinds["without3"] | {"val": vectors[other]}
    worse = pd.concat([knn.answers(kinds, known, asked, [1]), knn.probed(kinds, known, asked)])
    found = knn.knn_changes(worse, "without").set_index(["data", "k"])["change_pts"]
    assert found.to_dict() == {("val", 1): 50, ("turned", 1): 0, ("val", knn.PROBE): 50,
                               ("turned", knn.PROBE): 0}  # fmt: skip


def test_a_seed_is_held_against_the_original_and_against_its_own_twin():
    """Seed 3 gains one of four images on both, seed 4 loses it to its twin alone."""
    rights = {"original": "0011", "seed3": "0111", "without3": "0011", "seed4": "0011",
              "without4": "0111"}  # fmt: skip
    answers = pd.DataFrame(
        {
            "data": "val",
            "k": 1,
            "model_run": run,
            "index": place,
            "label": 1,
            "prediction": int(is_right),
        }
        for run, right in rights.items()
        for place, is_right in enumerate(right)
    )
    by_original, by_twin = (knn.knn_changes(answers, less) for less in ("original", "without"))
    assert by_original[["images", "seeds", "change_pts"]].values.tolist() == [[4, 2, 12.5]]
    assert by_twin[["images", "seeds", "change_pts"]].values.tolist() == [[4, 2, 0]]
    said = knn.changes_in_words({"less original": by_original, "less its twin": by_twin})
    assert said["less original"]["change, points"].tolist() == [12.5]
    assert said["paper, less original"].tolist() == [5.37]
    with pytest.raises(ValueError, match="2 seeds, 1 answers missing"):
        knn.knn_changes(answers[1:])
