"""The settings of a run: what follows from them, what is the paper's, what is refused."""

from __future__ import annotations

import json

import pytest

from relevit.choices.finetuning import FinetuneOptions
from relevit.finetune.settings import (
    BASELINES,
    FinetuneSettings,
    hyperparameters,
    paper_rate,
    paper_weights,
    resolved,
    script_weights,
)
from reproduction.params.cells import FINETUNED, params_of

SETTINGS = FinetuneSettings(lr=1.0e-3)
OURS = {"relevance": 0.8, "classification": 0.2, "background": 2.0, "foreground": 0.3}


def test_a_run_has_the_protocols_rules_but_where_it_is_told_otherwise():
    published = SETTINGS.changed(lr=1.0, protocol="published")
    described = published.changed(protocol="described")
    assert [published.rate_share(e) for e in (1, 2, 3, 5)] == [1, 1, 0.85, 0.85**2]
    assert described.rate_share(9) == published.changed(options={"decay": 1.0}).rate_share(9) == 1
    assert described.changed(options={"decay": 0.85}).rate_share(3) == 0.85
    for name in FinetuneOptions.model_fields:
        rules = published.rules
        if isinstance(rules[name], bool):
            told = published.changed(options={name: not rules[name]})
            assert told.rules == rules | {name: not rules[name]}
            assert told.identity != published.identity


def test_weights_and_rates_are_those_of_the_tables():
    for row in hyperparameters().itertuples():
        method, model = row.method.replace("ours", "relevance"), row.model.lower()
        own = {"classification": row.lambda_classification, "background": row.lambda_bg}
        others = {"relevance": 1.0} if method in BASELINES else OURS
        assert paper_weights(method, model) == others | own
        assert paper_rate(method, model) == row.lr
    assert script_weights("rrr") == {"relevance": 1.0, "classification": 0.2, "background": 0.8}
    assert SETTINGS.weights == script_weights("relevance") == OURS


@pytest.mark.parametrize(
    ("method", "model", "rate"),
    [
        ("relevance", "tiny", 3.0e-6),  # as ViT-B's
        ("relevance", "dino-b", 8.0e-7),  # supp. L (RV-34)
        ("gradmask", "deit-s-cut", 5.0e-3),  # as DeiT-S's
        ("rrr", "vit-l", paper_rate("rrr", "vit-b")),
        ("rrr", "dino-b", paper_rate("rrr", "vit-b")),
    ],
)
def test_a_model_without_a_row_takes_that_of_vit_b_or_what_the_text_says(method, model, rate):
    assert paper_rate(method, model) == rate


BASELINE = {"relevance": 1.0, "classification": 3.0e-9, "background": 50.0}


@pytest.mark.parametrize(
    ("params", "weights"),
    [
        ({"weight_classification": None}, OURS),
        ({}, OURS | {"classification": 0.05}),  # the default of the parameters
        ({"method": "gradmask", "weight_classification": None}, BASELINE),
        (
            {"method": "gradmask", "weight_classification": 0.5, "weight_background": 0.1},
            BASELINE | {"classification": 0.5, "background": 0.1},
        ),
    ],
)
def test_weights_are_the_papers_unless_given(params, weights):
    assert resolved(params_of(FINETUNED)(**params), 1.0, "float32").weights == weights


@pytest.mark.parametrize(
    ("model", "others", "expected"),
    [
        ("deit-s-cut", {}, 0.55),
        ("ar-l", {}, 1.0),
        ("deit-b", {"protocol": "described"}, 1.0),
        ("deit-b", {"method": "gradmask"}, 1.0),
        ("deit-b", {"temperature": 2.0}, 2.0),
    ],
)
def test_temperature_is_the_published_one_of_the_model_unless_given(model, others, expected):
    """Only the published code has one, for its own method on DeiT (A8)."""
    cfg = params_of(FINETUNED)(model=model, **others)
    assert resolved(cfg, 1.0, "float32").temperature == expected


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"lr": 0.0}, r"lr = 0.0 .*greater than 0 \[learning rate"),
        ({"epochs": 0}, "epochs = 0 .*greater than or equal to 1"),
        ({"options": {"gradient": "exact"}}, "options.gradient = .* is no parameter; .*exact_grad"),
        ({"protocol": "code"}, "protocol = 'code' .*'published' or 'described'"),
        ({"keep": "best"}, "keep.*'best'.*'last'.*'lowest_validation_loss'"),
        ({"weights": {"dust": 1.0}}, r"losses: 'dust' is unknown; use some of \['relevance', "),
        ({"rate": 1.0}, "is no parameter; allowed are"),
    ],
)
def test_wrong_setting_is_named(change, text):
    with pytest.raises(ValueError, match=text):
        SETTINGS.changed(**change)


def test_identity_has_every_setting_as_a_plain_value():
    identity = SETTINGS.identity
    assert set(identity) == set(FinetuneSettings.model_fields)
    assert json.loads(json.dumps(identity)) == identity
