"""Numbers of heads, on scores and entropies whose answer is known."""

import pandas as pd
import pytest

from reproduction.heads import head_numbers


@pytest.fixture(scope="module")
def found():
    places = pd.MultiIndex.from_product(
        [["a", "b"], [0], range(24), range(1, 7), range(1, 5)],
        names=["model", "seed", "image", "layer", "head"],
    ).to_frame(index=False)
    # Head 1 of model a is far below the others; its entropy grows with the object.
    low = (places["head"] == 1) & (places["model"] == "a")
    noise = 0.001 * (places["image"] % 3 + places["head"] + places["layer"])
    score = 0.8 - 0.6 * low + noise
    own = places.assign(map="smoothgrad", score=score)
    entropy = places.assign(
        entropy=places["image"] + (places["model"] == "b") * 2.0 + 0.1 * places["head"],
        object_share_pct=places["image"] + 1.0,
    )
    space = places.drop_duplicates(["model", "seed", "layer"]).assign(
        knn_pct=lambda t: 10.0 * t["layer"]
    )
    table = head_numbers(own, entropy, space)
    return table.set_index(["number", "model", "other"])["value"]


@pytest.mark.parametrize(
    ("number", "of_a", "of_b"),
    [
        ("high", 0.75, 1.0),
        ("low last", 0.25, 0.0),
        ("layers with few low", 1.0, 0.0),
        ("last layers best", 20.0, 20.0),
        ("entropy with size", 1.0, 1.0),
    ],
)
def test_a_number_of_each_model(found, number, of_a, of_b):
    assert found[number, "a", ""] == pytest.approx(of_a)
    assert found[number, "b", ""] == pytest.approx(of_b)


def test_what_the_heads_decide_and_how_far_models_are_apart(found):
    assert found["identity", "a", ""] > 0.9
    assert found["lowest first", "a", ""] == pytest.approx(0.203, abs=0.01)
    # Two nats between models, heads of a layer 0.129 apart.
    assert found["apart", "a", "b"] == pytest.approx(2.0 - 0.129, abs=0.01)
    assert found["last among", "a", "b"] == 0
