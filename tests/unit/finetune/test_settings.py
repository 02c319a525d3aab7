"""The settings of a run: what follows from them, what parameters leave open, what is refused."""

from __future__ import annotations

import json

import pytest

from relevit.config import FinetuneParams
from relevit.config.robustvit import FinetuneOptions
from relevit.finetune.hyperparameters import LossWeights
from relevit.finetune.settings import FinetuneSettings, resolved

SETTINGS = FinetuneSettings(lr=1.0e-3)


def test_a_run_has_the_protocols_rules_but_where_it_is_told_otherwise():
    published = SETTINGS.changed(lr=1.0, protocol="published")
    described = published.changed(protocol="described")
    assert [published.lr_at(e) for e in (1, 2, 3, 5)] == [1, 1, 0.85, 0.85**2]
    assert described.lr_at(9) == published.changed(options={"decay": 1.0}).lr_at(9) == 1
    assert described.changed(options={"decay": 0.85}).lr_at(3) == 0.85
    for name in FinetuneOptions.model_fields:
        rules = published.rules
        if isinstance(rules[name], bool):
            told = published.changed(options={name: not rules[name]})
            assert told.rules == rules | {name: not rules[name]}
            assert told.identity != published.identity


OPEN = {"weight_classification": None}


def test_weights_are_the_papers_unless_given():
    assert resolved(FinetuneParams(**OPEN), 1.0, "float32").weights == LossWeights()
    assert resolved(FinetuneParams(), 1.0, "float32").weights == LossWeights(classification=0.05)
    gradmask = resolved(FinetuneParams(method="gradmask", **OPEN), 1.0, "float32")
    assert gradmask.weights == LossWeights(
        relevance=1.0, classification=3.0e-9, background=50.0, foreground=0.0
    )
    given = FinetuneParams(method="rrr", weight_classification=0.5)
    assert resolved(given, 1.0, "float32").weights == LossWeights(
        relevance=1.0, classification=0.5, background=1.0e-10, foreground=0.0
    )


@pytest.mark.parametrize(
    ("model", "others", "expected"),
    [
        ("deit-b", {}, 0.65),
        ("deit-s", {}, 0.55),
        ("deit-s-cut", {}, 0.55),
        ("vit-b", {}, 1.0),
        ("ar-l", {}, 1.0),
        ("deit-b", {"protocol": "described"}, 1.0),
        ("deit-b", {"method": "gradmask"}, 1.0),
        ("deit-b", {"temperature": 2.0}, 2.0),
        ("vit-b", {"temperature": 0.65}, 0.65),
    ],
)
def test_temperature_is_the_published_one_of_the_model_unless_given(model, others, expected):
    """Only the published code has one, for its own method on DeiT (A8)."""
    cfg = FinetuneParams(model=model, **others)
    assert resolved(cfg, 1.0, "float32").temperature == expected


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"lr": 0.0}, r"lr = 0.0 .*greater than 0 \[learning rate"),
        ({"epochs": 0}, "epochs = 0 .*greater than or equal to 1"),
        ({"temperature": 0.0}, "temperature = 0.0 .*greater than 0"),
        ({"options": {"gradient": "exact"}}, "options.gradient = .* is no parameter; .*exact_grad"),
        ({"options": {"decay": 2.0}}, "options.decay = 2.0 .*less than or equal to 1"),
        ({"protocol": "code"}, "protocol 'code' is unknown; use 'published' .* or 'described'"),
        ({"target": "labels"}, "target.*'labels'.*'label'.*'predicted'"),
        ({"keep": "best"}, "keep.*'best'.*'last'.*'lowest_validation_loss'"),
        ({"precision": "float16"}, "precision.*'float16'.*'float32'.*'bfloat16'"),
    ],
)
def test_setting_out_of_range_is_an_error(change, text):
    with pytest.raises(ValueError, match=text):
        SETTINGS.changed(**change)
    with pytest.raises(ValueError, match="is no parameter; allowed are"):
        SETTINGS.changed(rate=1.0)


def test_identity_has_every_setting_as_a_plain_value():
    identity = SETTINGS.identity
    assert set(identity) == set(FinetuneSettings.model_fields)
    assert json.loads(json.dumps(identity)) == identity
    assert identity["weights"]["background"] == 2.0
