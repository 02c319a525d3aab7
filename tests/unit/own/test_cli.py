"""The command `relevit` on one's own images: what it prints, what it writes, how it refuses."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
from PIL import Image

from habitats.drawings import CLASSES
from relevit.models.registry import shipped_weights
from relevit_own.audit import Audit
from relevit_own.choices import OwnChoices
from relevit_own.cli import COMMANDS, _parser, main
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


def test_a_path_that_begins_with_a_tilde_lies_in_the_home_folder(images, tmp_path, monkeypatch):
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
    given = ["finetune", "--model=~/run", "--weights=~/w", "--out=~/out", "--data=~/set"]
    arguments = _parser().parse_args(given)
    assert arguments.own_model == f"{tmp_path}/run" and arguments.out == tmp_path / "out"
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
    assert json.loads((run / "run.json").read_text())["classes"] == list(NAMES)
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "nowhere"], "nowhere"),
        (["audit", "--model", "tiny", "--data", "nowhere", "--out", "out"], "nowhere"),
        (["audit", "--model", "dinov2-s8", "--data", "DATA", "--out", "DATA"], "holds no audit"),
        (["audit", "--model", "mini-mae", "--data", "DATA", "--out", "out"], "has no head"),
        (["explain", "nowhere.jpg", "--model", "tiny", "-o", "m.png"], "nowhere.jpg"),
        (["explain", "DATA", "--model", "no_such_vit", "-o", "m"], "no_such_vit"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--set", "epoch=3"], "epoch"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--set", "epochs"], "no key=value"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--set", "rates=[1"], "no valid YAML"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--device", "cuda:7"], "cuda"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--cure", "all"], "cure = 'all'"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--blocks", "9"], "9 of a model that"),
        (["finetune", "--model", "tiny", "--data", ""], "data is empty; give a folder"),
        (
            ["finetune", "--model", "tiny", "--data", "DATA", "--rate", "50"],
            "--rate = 50.0 (float)",
        ),
        (["finetune", "--model", "tiny", "--data", "DATA", "--set", "rates=[50]"], "rates.0 = 50"),
        (["audit", "--model", "tiny", "--data", "DATA", "--out", "o", "--most", "2"], "--most = 2"),
        (["finetune", "--model", "tiny", "--data", "nowhere"], "nowhere"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--shifted", "nowhere"], "nowhere"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--masks", "nowhere"], "nowhere"),
        (["finetune", "--model", "resnet18", "--data", "DATA"], "resnet18"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--set", "head_classes=[a]"], "class"),
    ],
)
def test_wrong_input_is_one_sentence(images, tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    given = [str(images / "data") if word == "DATA" else word for word in arguments]
    if given[0] == "finetune":
        given += ["--out", "out"]
    assert main(given) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and said in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_alone_it_says_what_one_can_do(capsys):
    assert main([]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) < 15 and all(f"relevit {name} " in said for name in COMMANDS)


def test_a_picture_is_enough(images, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    image = next((images / "a" / "cat").glob("*.jpg"))
    assert main(["explain", str(image)]) == 0
    assert "40 animals" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == [f"{image.stem}_map.png"]


def test_stopped_it_says_what_is_kept_and_how_to_go_on(tmp_path, monkeypatch, capsys):
    stop = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("relevit_own.finetune.finetune_folder", stop)
    given = ["finetune", "--model", "tiny", "--data", "two words", "--out", str(tmp_path)]
    assert main(given) == 130
    said = capsys.readouterr().err.splitlines()
    assert said[1].startswith(f"stopped; what is done is in {tmp_path}, and the same command goes")
    assert shlex.split(said[2]) == ["relevit", *given]
