"""The backgrounds challenge and the shares of relevance, on models whose answers are known."""

import numpy as np
import pandas as pd
import pytest

from habitats.benchmark import open_benchmark
from habitats.cutouts import home_family
from relevit.evaluate.predictions import Classifier
from relevit.models.loading import load_model
from relevit.models.registry import model_spec
from reproduction.measures import context
from reproduction.measures.context import PARTS, backgrounds_challenge, relevance_shares
from reproduction.params.cells import params_of
from reproduction.params.common import Benchmark

BENCH = open_benchmark(params_of("00_start")(benchmark=Benchmark(data="habitats")))
SPEC = model_spec("tiny")


def by_home(batch) -> list[int]:
    """The first class of the home that is drawn."""
    first = {home_family(label): label for label in reversed(range(40))}
    return [first[home] for home in batch.families.tolist()]


@pytest.mark.parametrize(
    ("answer", "expected"), [(by_home, (20, 2.5, 20)), (lambda b: b.labels.tolist(), (100,) * 3)]
)
def test_the_gap_is_what_the_home_alone_decides(monkeypatch, answer, expected):
    """Five classes share a home, so that one of five is right there, and one of forty elsewhere."""

    def predict(self, batches):
        right = [a == b for part in batches for a, b in zip(answer(part), part.labels, strict=True)]
        return pd.DataFrame({"label_rank": np.where(right, 0, 1)})

    monkeypatch.setattr(Classifier, "predict", predict)
    seeds = []

    def batches(*args, seed, **options):
        seeds.append(seed)
        return BENCH.test_batches(*args, seed=seed, **options)

    classifier = Classifier(load_model("tiny", "random"), SPEC)
    found = backgrounds_challenge(classifier, batches, 200, seed=7)
    assert seeds == [7, 7, 7]
    rates = [found[f"{name}_pct"] for name in context.CHALLENGE]
    assert rates == pytest.approx(expected, abs=2.5)
    assert found["background_gap_pts"] == rates[0] - rates[1]


def test_shares_are_of_the_whole_and_lie_where_the_masks_are(monkeypatch):
    model, batch = load_model("tiny", "random"), BENCH.draw("a", range(6), size=SPEC.image_size)
    shares = relevance_shares(model, SPEC, batch.split(4))
    assert list(shares.columns) == [f"on_{part}_pct" for part in PARTS]
    assert shares.sum(axis=1).to_numpy() == pytest.approx(100)
    alone = batch.masks.float()
    monkeypatch.setattr(context, "explain", lambda model, images, **how: alone)
    only = relevance_shares(model, SPEC, [batch])
    assert only["on_object_pct"].to_numpy() == pytest.approx(100)
    alone = batch.props.float()
    assert relevance_shares(model, SPEC, [batch])["on_props_pct"].to_numpy() == pytest.approx(100)
