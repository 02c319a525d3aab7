"""The command `relevit` on one's own images: what it prints, what it writes, how it refuses."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args
from unittest.mock import Mock

import pandas as pd
import pytest
import timm
from PIL import Image

from habitats.drawings import CLASSES
from relevit.attribution import METHODS
from relevit.choices.words import AttributionName
from relevit.models.registry import MODELS, shipped_weights
from relevit_own.audit import Audit
from relevit_own.choices import OwnChoices
from relevit_own.cli import app, main
from relevit_own.door import in_timm, need_methods, need_model
from reproduction.params.cells import params_of

NAMES = ("no", "01", "$5_$10", "猫", "cat")  # that YAML, mathtext or a terminal may spoil


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bilder mit ä")
    assert main(["example", str(folder), "--images", "4"]) == 0
    return folder


EXTRAS = "IPython ipywidgets nbformat papermill snakemake seaborn onnx h5py captum transformers"
WHEEL_ALONE = f"""
import sys
sys.modules.update(dict.fromkeys({EXTRAS.split()}))  # importing one of these raises ImportError
from relevit_own.cli import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def run(images) -> Path:
    """A whole run, with a new head on five classes of odd names, in a shell of Windows, where
    nothing is installed but the wheel."""
    data = images / "five"
    for kind in ("images", "masks"):
        (data / kind).mkdir(parents=True)
        for name, animal in zip(NAMES, ("ant", "beetle", "whale", "tiger", "cat"), strict=True):
            (data / kind / name).symlink_to(images / "data" / kind / animal)
    arguments = ["finetune", "--model", "tiny", "--new-head", "--data", str(data)]
    arguments += ["--cure", "swap", "--against", "relevance"]
    arguments += ["--out", str(images / "run"), "--set", "epochs=1", "rates=[1.0e-5]"]
    arguments += [f"head_classes=[{','.join(NAMES)}]", "validation_images=8", "test_images=8"]
    for given in (arguments, ["check", str(data)]):
        where = os.environ | {"PYTHONIOENCODING": "cp1252"}
        subprocess.run([sys.executable, "-c", WHEEL_ALONE, *given], check=True, env=where)
    return images / "run"


def test_check_says_what_is_there_and_draws_it(images, capsys):
    picture = images / "drawn" / "samples.png"
    assert main(["check", str(images / "data"), "--picture", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "160 of 40 classes can be used" in said and "masks" in said
    with Image.open(picture) as drawn:
        assert drawn.width >= 4 * 300 and drawn.height >= 4 * 300


def test_a_tilde_is_the_home_folder(images, tmp_path, monkeypatch, capsys):
    """As a shell hands on --picture=~/x; in parameters, too."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "set").symlink_to(images / "data")
    given = ["--picture=~/made/samples.png", "--list=~/made/refused.csv", "--masks=~/set/masks"]
    assert main(["check", "~/set/images", *given]) == 0
    assert {path.name for path in (tmp_path / "made").iterdir()} == {"samples.png", "refused.csv"}
    assert main(["audit", "--model=tiny", "--weights=~/w", "--out=~/out", "--data=~/set"]) == 2
    assert f"--weights {tmp_path}/w is missing" in capsys.readouterr().err
    found = OwnChoices(data="~/a", shifted=["~/b"], own_weights="~/c", own_model="~/d")
    found = [found.data, *found.shifted, found.own_weights, found.own_model]
    assert found == [f"{tmp_path}/{name}" for name in "abcd"]
    assert params_of("08_iav")(weights_root="~/w").weights_root == f"{tmp_path}/w"
    assert not any(here.iterdir())


def test_what_is_written_takes_the_place_of_no_data(images, tmp_path, capsys):
    image = next((images / "a" / "cat").glob("*.jpg"))
    table = tmp_path / "table.csv"
    rows = [f"{path},{path.parent.name}" for path in sorted((images / "a").glob("*/*.jpg"))]
    table.write_text("\n".join(["image,label", *rows]))
    for data, option, path in ((images / "a", "--picture", image), (table, "--list", table)):
        before = path.read_bytes()
        assert main(["check", str(data), option, str(path)]) == 2
        assert f"is of the data; give another file for {option}" in capsys.readouterr().err
        assert path.read_bytes() == before


@pytest.mark.slow
def test_a_run_ends_in_a_report_and_a_card(run):
    page = (run / "report.html").read_text()
    for part in (
        "too few of the held-out images have an object that can be put elsewhere",
        "Finetuned with the class term on swapped backgrounds, top-1 changes by ",
        "The same images and steps with the relevance terms change it by ",
        "The cure is swap: as asked. In the tables &#34;with relevance&#34; is the relevance terms",
        "<td>with swaps - with relevance</td>",
        "relevit finetune --model tiny --data",
        "against=relevance cure=swap",
    ):
        assert part in page
    assert page.count("<img alt=") == 4 and 'alt=""' not in page
    assert json.loads((run / "run.json").read_text())["record"]["classes"] == list(NAMES)
    assert "-0.0" not in page and ">0.000<" not in page and "without text" not in page
    assert "checkpoint_path" in page and "http" not in page.replace("https://github", "")
    card = (run / "README.md").read_text()
    assert "library_name: timm" in card and "'classification': 0.05" in card.replace('"', "'")


@pytest.mark.slow
def test_explain_draws_a_model_by_name_and_that_of_a_run(images, run, capsys):
    image, out = next((images / "a" / "cat").glob("*.jpg")), images / "map.pdf"
    for model, number in (("tiny", 26), (str(run), 4)):
        given = ["explain", str(image), "--model", model, "--target", "cat", "-o", str(out)]
        assert main(given) == 0
        said = capsys.readouterr().out
        assert f"class {number} of {model}, called cat\n" in said
        assert f"{image.name}: cat" in said and f"written: {out}" in said
    maps, cats, masks = images / "maps", *(images / "five" / k / "cat" for k in ("images", "masks"))
    given = [str(cats), "--masks", str(masks), "--model", str(run), "-o", str(maps)]
    assert main(["explain", *given]) == 0
    assert len(list(maps.rglob("*.png"))) == 4 and "iou_pct" in (maps / "manifest.csv").read_text()


def test_an_audit_ends_in_a_page_and_a_verdict(images, capsys):
    names = images / "names.txt"
    names.write_text("\n".join(CLASSES))
    out, weights = images / "audit", shipped_weights("tiny", "habitats")
    given = ["audit", "--model", "tiny", "--weights", str(weights), "--names", str(names)]
    given += ["--data", str(images / "data"), "--most", "80", "--out", str(out)]
    assert main([*given, "--fail-over", "100"]) == 0
    said = capsys.readouterr().out
    assert "80 images, each in 7 ways\n" in said and "(on drawings): leans. With" in said
    found = Audit.model_validate_json((out / "audit.json").read_text())
    assert found.images == 80 and found.masks == "annotated" and len(found.classes) == 20
    page = (out / "index.html").read_text()
    assert [row.method for row in found.maps] == ["gae", "libra_grad"] and "Where it looks" in page
    assert all(0 < row.object_pct < row.on_object_pct.value < 100 for row in found.maps)
    assert found.sentence in page and page.count("<img ") == 12 * 4
    assert all(f"<th>{row.name}</th>" in page for row in found.classes)
    rows = pd.read_csv(out / "rows.csv", keep_default_na=False)
    assert len(rows) == 7 * 80 and set(rows["label"]) <= set(CLASSES)
    assert main([*given, "--fail-over", "10", "--quiet"]) == 1  # in the same folder
    before = found.model_dump_json()
    assert Audit.model_validate_json((out / "audit.json").read_text()).model_dump_json() == before


def test_an_audit_knows_the_classes_of_a_run(images, run):
    given = ["--model", str(run), "--data", str(images / "five"), "--out", str(images / "of_run")]
    assert main(["audit", *given]) == 0
    found = Audit.model_validate_json((images / "of_run" / "audit.json").read_text())
    assert {row.name for row in found.classes} == set(NAMES) and found.model == str(run)


# What is typed and what its sentence says; DATA is a folder of images, PIC one of them.
AUDIT, TUNE = "audit --model tiny --out out --data", "finetune --model tiny --out out --data"
WRONG = {
    # words
    "explan": 'Did you mean "explain"?',
    "explain": "IMAGES requires an argument",
    "audit --data DATA --out out": "--model requires an argument",
    f"{AUDIT} DATA --most x": 'Invalid value for --most: unable to convert "x" into int',
    f"{AUDIT} DATA --mots 3": "Did you mean --most?",
    # files
    "check nowhere": "check: nowhere is missing; check its name",
    "check DATA --masks nowhere": "check: --masks nowhere is missing",
    f"{AUDIT} nowhere": "audit: --data nowhere is missing",
    f"{AUDIT} DATA --names nowhere": "audit: --names nowhere is missing",
    f"{AUDIT} DATA --weights nowhere": "audit: --weights nowhere is missing",
    f"{TUNE} nowhere": "finetune: --data nowhere is missing",
    f"{TUNE} DATA --masks nowhere": "finetune: --masks nowhere is missing",
    f"{TUNE} DATA --shifted nowhere": "finetune: --shifted nowhere is missing",
    "explain nowhere.jpg": "explain: nowhere.jpg is missing",
    "judge nowhere.py:explain": "judge: nowhere.py is missing",
    "judge gae --out mine.txt": "mine.txt is no JSON file",
    "audit --model tiny --data DATA --out PIC/out": "audit: --out cannot be written, for",
    "explain PIC -o PIC/map.png": ".jpg is a file; give another",
    "check DATA --list PIC/list.csv": "check: --list cannot be written, for",
    # names
    "explain PIC --model vit_base_patch16_244": "is unknown, nearest are vit_base_patch16_224",
    "explain PIC --model dinov2-s9": "is unknown, nearest are dinov2-s, dinov2-s8",
    "explain PIC --model DATA": "holds no finished run nor another model with its",
    "explain PIC --method gea": "--method gea is unknown, nearest are ga, gae; use some of",
    "explain PIC --device gpu": "--device gpu; use auto, cpu, cuda",
    f"{TUNE} DATA --cure all": "--cure = 'all' (str): value error, it is unknown; use auto, label",
    f"{TUNE} DATA --set epoch=3": "epoch = 3 is no parameter; allowed are",
    "doctor DATA --set imagenet": "set 'imagenet' is unknown; use some of",
    # values
    "explain PIC --target cat --top 2": "--target is one class, --top asks for the likeliest",
    f"{TUNE} ''": "behind --data stands nothing; is a variable of your shell empty?",
    "check DATA --list=": "behind --list= stands nothing",
    f"{AUDIT} DATA --fail-over nan": "--fail-over nan is no number",
    f"{TUNE} DATA --rate 1e-5 --set rates=[1e-4]": "rates is given by an option and by --set",
    f"{TUNE} DATA --set epochs": "'epochs' is no key=value",
    f"{TUNE} DATA --set rates=[1": "is no valid YAML",
    f"{TUNE} DATA --set rates=[50]": "rates.0 = 50",
    f"{TUNE} DATA --rate 50": "--rate = 50.0 (float)",
    f"{AUDIT} DATA --most 2": "--most = 2 (int)",
    f"{AUDIT} DATA --model-options img_size": "'img_size' is no key=value",
    "doctor --deep": "are of a folder of sets; give it",
    "judge gae --cure label": "Unknown option: --cure",
}
# What only the model or the images tell, once they are opened.
WRONG_LATER = {
    "explain PIC --target dragon": "'dragon' is no class",
    "explain PIC --top 0": "top 0 of 40 classes; ask for 1 to 40",
    "explain PIC DATA -o m.png": "is one picture and",
    "audit --model dinov2-s8 --data DATA --out DATA": "holds no audit",
    "audit --model dinov2-s --data DATA --out out": "has no head",
    f"{TUNE} DATA --device cuda:7": "cuda",
    f"{TUNE} DATA --blocks 9": "9 of a model that",
    f"{TUNE} DATA --set head_classes=[a]": "class",
    "finetune --model resnet18 --data DATA --out out": "resnet18",
}


@pytest.mark.parametrize("typed", [*WRONG, *WRONG_LATER])
def test_wrong_input_is_one_sentence(images, tmp_path, monkeypatch, capsys, typed):
    monkeypatch.chdir(tmp_path)
    assert main(words(typed, images)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    assert {**WRONG, **WRONG_LATER}[typed] in error
    assert list(tmp_path.iterdir()) == []


def words(typed: str, images: Path) -> list[str]:
    there = {"DATA": images / "data", "PIC": next((images / "a" / "cat").glob("*.jpg"))}
    filled = re.sub("DATA|PIC", lambda name: shlex.quote(str(there[name[0]])), typed)
    return shlex.split(filled)


def test_names_files_and_values_are_said_before_torch_is_loaded(images, tmp_path):
    """All in one process, which stops at the first that loads it."""
    asked = [words(typed, images) for typed in WRONG]
    code = (
        "import sys; sys.modules['torch'] = None; from relevit_own.cli import main; "
        f"sys.exit(any(main(typed) != 2 for typed in {asked!r}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True)


def test_all_of_timm_and_of_the_suite_can_be_named_before_torch_is_loaded():
    formerly = timm.models._registry._deprecated_models
    for name in (*timm.list_models(), *timm.list_pretrained(), *formerly):
        assert in_timm(name), name
    assert set(get_args(AttributionName)) == set(METHODS)
    need_methods("explain", METHODS)
    for name in MODELS:
        need_model("finetune", name, None, "cpu")


def test_alone_it_says_what_one_can_do_and_each_command_what_it_takes(capsys):
    assert main([]) == 0
    alone = capsys.readouterr().out
    assert len(alone.splitlines()) < 25 and "relevit explain cat.jpg" in alone
    for name in app.resolved_commands():
        if not name.startswith("-"):
            assert f" {name} " in alone and main([name, "--help"]) == 0
            said = capsys.readouterr().out
            assert f"relevit {name}" in said and "None" not in said and "()" not in said


def test_a_picture_is_enough(images, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    image = next((images / "a" / "cat").glob("*.jpg"))
    assert main(["explain", str(image)]) == 0
    assert "40 animals" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == [f"{image.stem}_map.png"]


def test_stopped_it_says_what_is_kept_and_how_to_go_on(tmp_path, monkeypatch, capsys):
    stop = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("relevit_own.finetune.finetune_folder", stop)
    data = tmp_path / "two words"
    data.mkdir()
    given = ["finetune", "--model", "tiny", "--data", str(data), "--out", str(tmp_path)]
    assert main(given) == 130
    said = capsys.readouterr().err.splitlines()
    assert said[1].startswith(f"stopped; what is done is in {tmp_path}, and the same command goes")
    assert shlex.split(said[2]) == ["relevit", *given]
