"""The paper's hyperparameters, against its tables."""

from __future__ import annotations

import pytest

from relevit.finetune.hyperparameters import (
    BASELINE_WEIGHTS,
    BASELINES,
    LossWeights,
    paper_rate,
    paper_weights,
    table_model,
)
from relevit.paper.published import hyperparameters


@pytest.mark.parametrize("method", BASELINES)
def test_weights_and_rates_are_those_of_the_tables(method):
    for row in hyperparameters().query("method == @method").itertuples():
        expected = LossWeights(1.0, row.lambda_classification, row.lambda_bg, 0.0)
        assert paper_weights(method, row.model) == expected
        assert paper_rate(method, row.model) == row.lr
    assert BASELINE_WEIGHTS["paper"][method] == paper_weights(method)
    assert BASELINE_WEIGHTS["script"][method] == LossWeights(1.0, 0.2, 0.8, 0.0)


def test_ours_has_one_set_of_weights_and_a_rate_for_each_model():
    for row in hyperparameters().query("method == 'ours'").itertuples():
        weights = paper_weights("relevance", row.model)
        assert (weights.background, weights.classification) == (2.0, 0.2)
        assert (row.lambda_bg, row.lambda_classification) == (2.0, 0.2)
        assert paper_rate("relevance", row.model) == row.lr


@pytest.mark.parametrize(
    ("method", "name", "model"),
    [
        ("relevance", "vit-l", "ViT-L"),
        ("rrr", "vit-l", "ViT-B"),  # the baselines were not run on it
        ("gradmask", "deit-s-cut", "DeiT-S"),
        ("relevance", "tiny", "ViT-B"),
        ("relevance", "dino-b", "DeiT-B"),  # supp. L (RV-34)
        ("rrr", "dino-b", "ViT-B"),
    ],
)
def test_a_model_takes_the_settings_of_its_own_row_or_of_vit_b(method, name, model):
    assert table_model(method, name) == model


def test_the_rate_of_dino_is_the_one_of_the_text():
    assert paper_rate("relevance", table_model("relevance", "dino-b")) == 8e-7


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: paper_weights("ours+"), "method 'ours.' is unknown; use one of .'gradmask'"),
        (
            lambda: paper_weights("rrr", source="mine"),
            "source 'mine' is unknown; use one of .'paper'",
        ),
        (lambda: paper_weights("rrr", "ViT-L"), "no rrr on 'ViT-L'; use one of"),
        (lambda: paper_rate("sgd"), "method 'sgd' is unknown"),
    ],
)
@pytest.mark.wrong_types
def test_unknown_names(call, text):
    with pytest.raises(ValueError, match=text):
        call()
