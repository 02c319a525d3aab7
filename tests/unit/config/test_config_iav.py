"""Parameters of the notebook on IAV: which models, which reference, which seeds."""

from __future__ import annotations

import pytest
import torch

from reproduction.config import IavFiguresParams, IavParams, StartParams
from reproduction.training.classifier import TrainSettings

HUB = ["beit-b", "dino-b", "deit-b", "vit-b-in21k"]
PAPER = {"models": HUB, "data": "cifar10", "data_root": "data"}


def refused(text, **values):
    with pytest.raises(ValueError, match=text) as caught:
        IavParams.checked(values, "here")
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


# Models and data


def test_models_may_be_small_ones_or_the_papers():
    small = ["mini-deit", "mini-dino"]
    assert IavParams.checked({"models": small}, "here").models == small
    paper = {"models": ["deit-b", "dino-b"], "data": "cifar10", "data_root": "data"}
    assert IavParams.checked(paper | {"reference": "dino-b"}, "here").models == paper["models"]


def test_data_must_suit_the_models_and_lie_somewhere():
    models = ["deit-b", "dino-b"]
    refused("128 pixels, .* need 224; use cifar10", models=models, reference="dino-b")
    refused(r"data_root = '' .*data cifar10 has no folder", data="cifar10")


@pytest.mark.parametrize(
    ("models", "text"),
    [
        ([], r"here: models = \[\] \(list\): .*at least 1 item"),
        (["mini-dino", "mini-deit", "mini-dino"], "'mini-dino' occurs twice; give each once"),
        (["deit-b", "mini-dino"], "mini models and vit-b have other sizes"),
        ("mini-dino", r"here: models = 'mini-dino' \(str\): .*valid list"),
    ],
)
def test_wrong_models(models, text):
    refused(text, models=models)


# The reference


@pytest.mark.parametrize(
    "values",
    [
        {"reference": "dino-b"},
        {**PAPER, "reference": "mini-dino"},
        {"models": ["mini-deit", "mini-mae"]},  # the default is not among them
        PAPER,
    ],
)
def test_a_reference_that_is_not_compared_is_named(values):
    reference = values.get("reference", "mini-dino")
    text = (
        rf"^here: reference = '{reference}' \(str\): .*it is not among models; name one of them "
        r"\[one of models, whose SmoothGrad"
    )
    refused(text, **values)


# Settings made from them


def test_training_settings_take_what_the_parameters_name_alike():
    cpu, cfg = torch.device("cpu"), StartParams(epochs=3, seed=4)
    found = TrainSettings.from_params(cfg.model_copy(update={"precision": "bfloat16"}), cpu)
    shared = ("lr", "head_lr", "epochs", "batch_size", "weight_decay")
    assert [getattr(found, n) for n in shared] == [getattr(cfg, n) for n in shared]
    assert (found.precision, found.warmup) == ("bfloat16", getattr(cfg, "warmup", 0.1))
    assert found.seed == getattr(cfg, "seed", 0) and not found.fresh
    others = TrainSettings.from_params(cfg, cpu, seed=9, fresh=True)
    assert (others.seed, others.fresh) == (9, True)


# Values


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"draws": 0}, r"draws = 0 .*greater than or equal to 1 \[noisy copies"),
        ({"images": 9}, "images = 9 .*greater than or equal to 10"),
        ({"epochs": 1}, "epochs = 1 .*greater than or equal to 2"),
        ({"blurs": [0.0]}, r"blurs\.0 = 0\.0 .*greater than 0 \[sigma"),
        ({"swaps": [0]}, r"swaps\.0 = 0 .*greater than or equal to 1"),
        ({"warmup": 1.0}, r"warmup = 1\.0 .*less than 1"),
        ({"data": "cifar100"}, "data = 'cifar100' .*'cutouts' or 'cifar10'"),
    ],
)
def test_values_out_of_range(values, text):
    refused(f"^here: {text}", **values)


@pytest.mark.parametrize(("share", "text"), [(0.0, "greater than 0"), (100.0, "less than 100")])
def test_shares_that_are_masked_leave_something(share, text):
    with pytest.raises(ValueError, match=rf"ratios_pct\.0 = {share} .*{text} \[shares of"):
        IavFiguresParams.checked({"ratios_pct": [share]}, "here")
