"""A wrong parameter gives one clear line that names it, long before any work starts."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from relevit.choices.own import OwnChoices
from relevit.choices.words import CURES, MORE_LOSSES
from relevit.finetune.settings import FinetuneSettings
from reproduction.config import (
    NOTEBOOKS,
    AblationsParams,
    FinetuneNotebookParams,
    FinetuneParams,
    OwnParams,
    PipelineParams,
    RobustnessParams,
    StartParams,
)
from reproduction.config.robustvit import LOSS_WEIGHTS

INJECTED = "# Parameters\n"


# Reading


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_defaults_are_valid_and_quick(name):
    params = NOTEBOOKS[name]()
    assert params.notebook == name and params.preset == "quick"
    assert NOTEBOOKS[name].checked(params.model_dump(), "test") == params


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_parameters_are_frozen(name):
    params = NOTEBOOKS[name]()
    with pytest.raises(ValidationError, match="frozen"):
        params.preset = "paper"
    with pytest.raises(ValidationError, match="frozen"):
        params.brand_new = 1
    assert params == NOTEBOOKS[name]()


def test_from_notebook_takes_its_own_variables_alone():
    namespace = {
        "__name__": "__main__",
        "In": ["", "lr = 2.0e-5"],
        "np": object(),
        "_": 3,
        "lr": 2.0e-5,
        "epochs": 7,
        "cfg": None,
    }
    params = FinetuneParams.from_notebook(namespace)
    assert params == FinetuneParams(lr=2.0e-5, epochs=7)


def test_from_notebook_takes_what_papermill_injected():
    history = ["", "lr = 1.0e-5\nepochs = 2", INJECTED + 'lr = 3.0e-6\nmodel = "tiny"\n', "cfg = 1"]
    params = FinetuneParams.from_notebook({"In": history, "lr": 3.0e-6, "model": "tiny"})
    assert params == FinetuneParams(lr=3.0e-6, model="tiny")


# Wrong values

WRONG = [
    # misspelt or unknown
    (FinetuneParams, {"epohcs": 3}, r"epohcs = 3 is no parameter; allowed are preset, .*epochs"),
    (RobustnessParams, {"lr": 1.0e-5}, r"lr = 1e-05 is no parameter; allowed are .*images_per_set"),
    # wrong type
    (FinetuneParams, {"epochs": "2"}, r"epochs = '2' \(str\): .*valid integer"),
    (FinetuneParams, {"epochs": True}, r"epochs = True \(bool\): .*valid integer"),
    (RobustnessParams, {"seeds": [0, "1"]}, r"seeds\.1 = '1' \(str\): .*valid integer"),
    # out of range
    (FinetuneParams, {"lr": 0.0}, r"lr = 0\.0 \(float\): .*greater than 0"),
    (FinetuneParams, {"lr": float("nan")}, r"lr = nan \(float\)"),
    (FinetuneParams, {"weight_background": -0.1}, r"weight_background = -0\.1 .*equal to 0"),
    (FinetuneParams, {"temperature": 0.0}, r"temperature = 0\.0 .*greater than 0 \[of the class"),
    (FinetuneParams, {"seed": 2**31}, r"seed = 2147483648 \(int\): .*less than or equal to"),
    (RobustnessParams, {"seeds": []}, r"seeds = \[\] \(list\): .*at least 1 item"),
    (RobustnessParams, {"seeds": [2, 0, 2]}, r"seeds = \[2, 0, 2\].* 2 occurs twice; give"),
    (
        FinetuneNotebookParams,
        {"rates": [1.0e-6, "1e-5"]},
        r"rates\.1 = '1e-5' \(str\): .*with a dot",
    ),
    (StartParams, {"training_images": 41}, r"training_images = 41.*multiple of 40"),
    (StartParams, {"images_per_set": 10**12}, r"images_per_set = 10+ .*equal to 10000000 \[test"),
    (StartParams, {"preset": "a" * 101}, r"preset = 'a+' \(str\): .*at most 100 characters"),
    # the same again
    (
        FinetuneNotebookParams,
        {"rates": [0.1, 0.2, 0.1]},
        r"rates = .* 0\.1 occurs twice; give each once",
    ),
    # nothing to train
    (
        FinetuneParams,
        dict.fromkeys(LOSS_WEIGHTS, 0.0),
        r"weight_foreground = 0\.0 .*nothing to train",
    ),
    (
        FinetuneParams,
        dict.fromkeys(LOSS_WEIGHTS[:2], 0.0),
        r"weight_foreground = None .*nothing to tr",
    ),
    (
        FinetuneParams,
        dict.fromkeys(LOSS_WEIGHTS[1:], 0.0),
        r"weight_foreground = 0\.0 .*nothing to train",
    ),
    (OwnParams, dict.fromkeys(LOSS_WEIGHTS, 0.0), r"weight_foreground = 0\.0 .*nothing to train"),
    # none of the allowed
    (FinetuneParams, {"model": "vit-c"}, r"model = 'vit-c' .*'mini-dino'.* \[model of the"),
    (FinetuneParams, {"protocol": "code"}, r"protocol = 'code' .*'published' or 'described'"),
    (AblationsParams, {"variants": ["no_backgroud"]}, r"variants\.0 = .*'no_background', 'no_fore"),
    (StartParams, {"device": "gpu0"}, r"device = 'gpu0' .*cuda:N or mps"),
    (StartParams, {"preset": "../paper"}, r"preset = '\.\./paper' .*\[file in params/"),
]
WRONG_IDS = [" ".join(f"{k}={v}" for k, v in values.items())[:80] for _, values, _ in WRONG]


@pytest.mark.parametrize(("cls", "values", "text"), WRONG, ids=WRONG_IDS)
def test_wrong_parameter_in_a_notebook_is_one_clear_line(cls, values, text):
    # papermill sets the variables and its cell names them: this is how a misspelling is seen.
    cell = INJECTED + "".join(f"{key} = 0\n" for key in values)
    with pytest.raises(ValueError, match=rf"^{cls.notebook} parameters: {text}") as caught:
        cls.from_notebook({"In": ["", cell]} | values)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, ValidationError), "pydantic's own text is many lines"


def test_float_without_dot_in_yaml_is_explained(tmp_path):
    """YAML 1.1 reads 3e-6 as text."""
    path = tmp_path / "mine.yaml"
    path.write_text("02_finetune: {lr: 3e-6}\n")
    text = r"02_finetune: lr = '3e-6' \(str\): .*as text: write it with a dot, like 3\.0e-6"
    with pytest.raises(ValueError, match=text):
        FinetuneParams.from_preset(path)


@pytest.mark.parametrize("values", [{"model": "a" * 5000}, {"a" * 5000: 1}, {"lr": "1" * 5000}])
def test_a_long_value_is_shortened(values):
    with pytest.raises(ValueError, match=r"… \(50\d\d characters\)") as caught:
        FinetuneParams.checked(values, "here")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("cls", [*NOTEBOOKS.values(), OwnChoices, PipelineParams])
def test_every_number_has_an_upper_end_and_each_end_is_said_once(cls):
    for name, field in cls.model_fields.items():
        if field.annotation in (int, float):
            ends = [type(end).__name__.lower() for end in field.metadata]
            assert len(set(ends)) == len(ends), f"{name}: pydantic keeps the last of two"
            assert {"le", "lt"} & set(ends), name


def test_each_problem_has_its_own_line():
    with pytest.raises(ValueError, match="epohcs") as caught:
        FinetuneParams.checked({"epohcs": 3, "lr": -1.0, "model": "vit-c"}, "here")
    lines = str(caught.value).splitlines()
    assert len(lines) == 3 and all(line.startswith("here: ") for line in lines)
    assert {line.split()[1] for line in lines} == {"epohcs", "lr", "model"}


# What others add


def test_parameters_take_the_names_that_are_there_and_none_of_ours_twice(monkeypatch):
    asked = {"augmentation": "fog", "more_losses": {"dust": 1.0}}
    text = r"augmentation = 'fog'.* use none, swap, .*\n.*more_losses.dust.*'dust'"
    with pytest.raises(ValueError, match=text):
        FinetuneParams.checked(asked, "here")
    monkeypatch.setitem(CURES, "fog", print)
    monkeypatch.setitem(MORE_LOSSES, "dust", print)
    assert FinetuneParams.checked(asked, "here").more_losses == {"dust": 1.0}
    monkeypatch.setitem(CURES, "swap", print)
    with pytest.raises(ValueError, match=r"augmentation = 'swap'.* the name is ours"):
        FinetuneParams.checked({"augmentation": "swap"}, "here")
    monkeypatch.setitem(MORE_LOSSES, "background", print)
    with pytest.raises(ValueError, match="losses: the name 'background' is ours"):
        FinetuneSettings(lr=1.0, weights={"background": 1.0})
