"""A notebook's cell as its parameters: what papermill reads, and what is refused in one line."""

from __future__ import annotations

import math
from typing import Any

import pytest
from annotated_types import Ge, Gt, Le, Lt, MultipleOf
from papermill import inspect_notebook
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from relevit.base.files import project_root
from relevit.choices.finetuning import LOSS_WEIGHTS
from relevit.choices.words import CURES, MORE_LOSSES
from relevit.finetune.settings import FinetuneSettings
from reproduction.params.cells import BASES, FINETUNED, Params, cell, params_of, take
from reproduction.params.order import NOTEBOOKS, notebook_file
from reproduction.params.preset import Pipeline

ROOT = project_root()
INJECTED = "# Parameters\n"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_cell_is_what_papermill_reads_and_the_quick_preset(name):
    of, path = params_of(name), ROOT / notebook_file(name)
    told = inspect_notebook(path)
    fields = {key: field.description for key, field in of.model_fields.items()}
    assert told.keys() == fields.keys() and all(fields.values())
    assert {key: each["help"] for key, each in told.items()} == {key: fields[key] for key in told}
    assert of() == of.from_preset(ROOT / "params" / "quick.yaml")
    assert of.checked(of().model_dump(), "test") == of()
    with pytest.raises(ValidationError, match="frozen"):
        of().preset = "paper"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_what_is_allowed_is_said_once(name):
    """Of a parameter that the library's record has in that; the cell has a plain type there."""
    known = {*Params.model_fields, *(BASES[name].model_fields if name in BASES else ())}
    for key, (kind, _, _) in cell(ROOT / notebook_file(name)).items():
        if key in known:
            assert kind in (str, int, float, bool, list, dict, int | None), key
        else:
            assert kind not in (int, float, list, dict), f"{key}: its type says too little"


def beyond(field: FieldInfo) -> list[float]:
    """The values next to the ends of a number's range, which are not in it."""
    ends = {type(each): each for each in field.metadata}
    step = ends[MultipleOf].multiple_of if MultipleOf in ends else 1
    found = [ends[Gt].gt] if Gt in ends else [ends[Ge].ge - step]
    return [*found, ends[Lt].lt if Lt in ends else (ends[Le].le // step + 1) * step]


@pytest.mark.parametrize("cls", [*map(params_of, NOTEBOOKS), Pipeline])
def test_every_number_has_two_ends_and_is_refused_beyond_them(cls):
    for key, field in cls.model_fields.items():
        for value in beyond(field) if field.annotation in (int, float) else ():
            with pytest.raises(ValueError, match=rf"here: {key} = \S+ \(\w+\): .* than "):
                cls.checked({key: field.annotation(value)}, "here")


# From a notebook


def test_a_notebook_takes_its_own_variables_and_what_papermill_injected():
    namespace: dict[str, Any] = {"__name__": "__main__", "np": object(), "_": 3, "cfg": None}
    of = params_of("02_finetune")
    given = {"lr": 2.0e-5, "epochs": 7, "In": ["", "lr = 2.0e-5"]}
    assert take("02_finetune", namespace | given) == of(lr=2.0e-5, epochs=7)
    history = ["", "lr = 1.0e-5\nepochs = 2", INJECTED + 'lr = 3.0e-6\nmodel = "tiny"\n', "cfg = 1"]
    given = {"In": history, "lr": 3.0e-6, "model": "tiny"}
    assert take("02_finetune", given) == of(lr=3.0e-6, model="tiny")


def test_a_run_has_the_parameters_of_its_notebook_but_for_the_notebooks_own():
    cfg = params_of("02_finetune")(lr=1.0e-5, rates=[1.0e-6])
    assert cfg.run == params_of(FINETUNED)(lr=1.0e-5) and not hasattr(cfg.run, "rates")
    assert cfg.run.notebook == cfg.notebook


# Wrong values

HUB = ["beit-b", "dino-b", "deit-b", "vit-b-in21k"]
PAPER = {"models": HUB, "data": "cifar10", "data_root": "data"}
NOTHING = r"weight_foreground = \S+ .*nothing to train"
COMPARED = r"reference = '{}' \(str\): .*it is not among models; name one of them \[one of models"
WRONG: list[tuple[str, dict[str, Any], str]] = [
    # misspelt or unknown
    ("02_finetune", {"epohcs": 3}, r"epohcs = 3 is no parameter; allowed are preset, .*epochs"),
    ("03_robustness", {"lr": 1.0e-5}, "lr = 1e-05 is no parameter; allowed are .*images_per_set"),
    # wrong type
    ("02_finetune", {"epochs": "2"}, r"epochs = '2' \(str\): .*valid integer"),
    ("02_finetune", {"epochs": True}, r"epochs = True \(bool\): .*valid integer"),
    ("02_finetune", {"lr": math.nan}, r"lr = nan \(float\)"),
    ("02_finetune", {"rates": [1.0e-6, "1e-5"]}, r"rates\.1 = '1e-5' \(str\): .*with a dot"),
    ("03_robustness", {"seeds": [0, "1"]}, r"seeds\.1 = '1' \(str\): .*valid integer"),
    ("08_iav", {"models": "mini-dino"}, r"models = 'mini-dino' \(str\): .*valid list"),
    # out of range
    ("00_start", {"training_images": 41}, "training_images = 41.*multiple of 40"),
    ("00_start", {"images_per_set": 10**12}, r"images_per_set = 10+ .*equal to 10000000 \[test"),
    ("00_start", {"preset": "a" * 101}, r"preset = 'a+' \(str\): .*at most 100 characters"),
    ("03_robustness", {"seeds": []}, r"seeds = \[\] \(list\): .*at least 1 item"),
    ("08a_iav", {"blurs": [0.0]}, r"blurs\.0 = 0\.0 .*greater than 0 \[sigma"),
    ("08a_iav", {"ratios_pct": [100.0]}, r"ratios_pct\.0 = 100\.0 .*less than 100 \[shares of"),
    # the same again
    ("03_robustness", {"seeds": [2, 0, 2]}, r"seeds = \[2, 0, 2\].* 2 occurs twice; give each"),
    # none of the allowed
    ("02_finetune", {"model": "vit-c"}, r"model = 'vit-c' .*'mini-dino'.* \[model of the"),
    ("02_finetune", {"protocol": "code"}, "protocol = 'code' .*'published' or 'described'"),
    ("05_ablations", {"variants": ["no_backgroud"]}, r"variants\.0 = .*'no_background', 'no_fo"),
    ("00_start", {"device": "gpu0"}, "device = 'gpu0' .*cuda:N or mps"),
    ("00_start", {"preset": "../paper"}, r"preset = '\.\./paper' .*\[file in params/"),
    ("08_iav", {"data": "cifar100"}, "data = 'cifar100' .*'cutouts' or 'cifar10'"),
    # not with the others
    ("02_finetune", dict.fromkeys(LOSS_WEIGHTS, 0.0), NOTHING),
    ("02_finetune", dict.fromkeys(LOSS_WEIGHTS[:2], 0.0), NOTHING),
    ("02_finetune", dict.fromkeys(LOSS_WEIGHTS[1:], 0.0), NOTHING),
    ("02_finetune", {"method": "rrr", "masks": "a_third"}, "masks = .*need masks of all images"),
    ("03_robustness", {"arms": {"ours": {}}}, "arms = .*arm 'ours': give it a name of small"),
    ("03_robustness", {"arms": {"a": {"method": "rrr"}}}, "arms = .*arm 'a' changes method, in"),
    ("03_robustness", {"arm_seeds": [7]}, r"arm_seeds = \[7\] .*are not among seeds"),
    ("03_robustness", {"home_arm": "b"}, "home_arm = 'b' .*it is no arm; use one of ours"),
    ("04_cures", {"arms": {"a": {}}}, "arms = .*lack the control or the method; name one"),
    ("04_cures", {"arm_settings": {"seed": 3}}, "arm_settings = .*seed belong to the preset"),
    ("04_cures", {"followed": ["a"]}, r"followed = .*\['a'\] are no arms"),
    ("05a_ablations", {"maps": {"a": {"masks": "boxes"}}}, "maps = .*arm 'a' changes masks"),
    ("08_iav", {"models": HUB, "reference": "dino-b"}, "128 pixels, .* need 224; use cifar10"),
    ("08_iav", {"data": "cifar10"}, "data_root = '' .*data cifar10 has no folder"),
    ("08_iav", {"models": ["deit-b", "mini-dino"]}, "mini models and vit-b have other sizes"),
    ("08_iav", {"models": ["mini-mae", "mini-dino"]}, "both kinds are compared; name one of"),
    ("08_iav", {"reference": "dino-b"}, COMPARED.format("dino-b")),
    ("08_iav", {"models": ["mini-deit", "mini-mae"]}, COMPARED.format("mini-dino")),
    ("08_iav", PAPER, COMPARED.format("mini-dino")),
    ("09_text", {"explained_texts": 300}, "explained_texts = 300 .*held_out_texts, which are 200"),
    ("09_text", {"corpora": ["newsgroups"]}, "corpus_root = '' .*are read from a folder"),
    ("09_text", {"source": "random"}, "source = 'random' .*of bert-base, and text_model is tiny-b"),
    ("09_text", {"weights_root": "w"}, "weights_root = 'w' .*tiny-bert.*leave it out"),
    (
        "09_text",
        {"text_model": "bert-base", "source": "random", "weights_root": "w"},
        "weights_root = 'w' .*source = random reads no weights",
    ),
]
WRONG_IDS = [" ".join(f"{k}={v}" for k, v in values.items())[:80] for _, values, _ in WRONG]


@pytest.mark.parametrize(("name", "values", "text"), WRONG, ids=WRONG_IDS)
def test_a_wrong_parameter_in_a_notebook_is_one_clear_line(name, values, text):
    # papermill sets the variables and its cell names them: this is how a misspelling is seen.
    cell = INJECTED + "".join(f"{key} = 0\n" for key in values)
    with pytest.raises(ValueError, match=rf"^{name} parameters: .*{text}") as caught:
        take(name, {"In": ["", cell]} | values)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, ValidationError), "pydantic's own text is many lines"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("08_iav", {"models": ["mini-deit", "mini-dino"]}),
        ("08_iav", PAPER | {"reference": "dino-b"}),
        ("09_text", {"text_model": "bert-base", "source": "random"}),
        ("09_text", {"text_model": "bert-base", "weights_root": "w"}),
    ],
)
def test_what_goes_together_is_taken(name, values):
    found = params_of(name).checked(values, "here")
    assert {key: getattr(found, key) for key in values} == values


@pytest.mark.parametrize("values", [{"model": "a" * 5000}, {"a" * 5000: 1}, {"lr": "1" * 5000}])
def test_a_long_value_is_shortened(values):
    with pytest.raises(ValueError, match=r"… \(50\d\d characters\)") as caught:
        params_of("02_finetune").checked(values, "here")
    assert len(str(caught.value)) < 1500


def test_each_problem_has_its_own_line():
    with pytest.raises(ValueError, match="epohcs") as caught:
        params_of("02_finetune").checked({"epohcs": 3, "lr": -1.0, "model": "vit-c"}, "here")
    lines = str(caught.value).splitlines()
    assert len(lines) == 3 and all(line.startswith("here: ") for line in lines)
    assert {line.split()[1] for line in lines} == {"epohcs", "lr", "model"}


# What others add


def test_parameters_take_the_names_that_are_there_and_none_of_ours_twice(monkeypatch):
    of, asked = params_of(FINETUNED), {"augmentation": "fog", "more_losses": {"dust": 1.0}}
    text = r"augmentation = 'fog'.* use none, swap, .*\n.*more_losses.dust.*'dust'"
    with pytest.raises(ValueError, match=text):
        of.checked(asked, "here")
    monkeypatch.setitem(CURES, "fog", print)
    monkeypatch.setitem(MORE_LOSSES, "dust", print)
    assert of.checked(asked, "here").more_losses == {"dust": 1.0}
    monkeypatch.setitem(CURES, "swap", print)
    with pytest.raises(ValueError, match=r"augmentation = 'swap'.* the name is ours"):
        of.checked({"augmentation": "swap"}, "here")
    monkeypatch.setitem(MORE_LOSSES, "background", print)
    with pytest.raises(ValueError, match="losses: the name 'background' is ours"):
        FinetuneSettings(lr=1.0, weights={"background": 1.0})
