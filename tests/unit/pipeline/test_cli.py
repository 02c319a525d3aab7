"""The command `relevit` on one's own images: what it prints, what it writes, how it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from relevit.pipeline.cli import main


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bilder mit ä")
    assert main(["example", str(folder), "--images", "4"]) == 0
    return folder


@pytest.fixture(scope="module")
def run(images) -> Path:
    """A whole run, with a new head on five classes."""
    data = images / "five"
    for kind in ("images", "masks"):
        for source in sorted((images / "data" / kind).iterdir())[:5]:
            (data / kind).mkdir(parents=True, exist_ok=True)
            (data / kind / source.name).symlink_to(source, target_is_directory=True)
    arguments = ["finetune", "--model", "tiny", "--new-head", "--data", str(data)]
    arguments += ["--out", str(images / "run"), "--set", "epochs=1", "rates=[1.0e-5]"]
    assert main([*arguments, "validation_images=8", "test_images=8"]) == 0
    return images / "run"


def test_check_says_what_is_there_and_draws_it(images, capsys):
    picture = images / "drawn" / "samples.png"
    assert main(["check", str(images / "data"), "--picture", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "160 of 40 classes can be used" in said and "masks" in said
    with Image.open(picture) as drawn:
        assert drawn.width >= 4 * 300 and drawn.height >= 4 * 300


@pytest.mark.slow
def test_a_run_ends_in_a_report_and_a_card(run):
    page = (run / "report.html").read_text()
    for part in (
        "The answers",
        "Where it looks",
        "The learning rate",
        "McNemar",
        "these terms add",
        "relevit finetune --data",
        "<th>weight_classification</th>\n      <td>0.05</td>",
    ):
        assert part in page
    assert page.count("<img alt=") == 3 + 4 * 5 and 'alt=""' not in page, "one of each class"
    assert all(f"<th>{name}</th>" in page for name in ("ant", "beetle")), "a row a class"
    assert "-0.0" not in page and ">0.000<" not in page and "without text" not in page
    assert "checkpoint_path" in page and "http" not in page.replace("https://github", "")
    assert "library_name: timm" in (run / "README.md").read_text()


@pytest.mark.slow
def test_explain_draws_a_model_by_name_and_that_of_a_run(images, run, capsys):
    image = next((images / "a").rglob("*.jpg"))
    out = images / "map.png"
    for model in ("tiny", str(run)):
        assert main(["explain", str(image), "--model", model, "-o", str(out)]) == 0
        said = capsys.readouterr().out
        assert f"written: {out}" in said and " %" in said
        out.unlink()
    assert "class " not in said, "the classes of a run have names"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "nowhere"], "nowhere"),
        (["explain", "nowhere.jpg", "--model", "tiny", "-o", "m.png"], "nowhere.jpg"),
        (["explain", "DATA", "--model", "no_such_vit", "-o", "m.png"], "no_such_vit"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--set", "epoch=3"], "epoch"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--set", "epochs"], "no key=value"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--set", "rates=[1"], "no valid YAML"),
        (["finetune", "--model", "tiny", "--data", "DATA", "--device", "cuda:7"], "cuda"),
    ],
)
def test_wrong_input_is_one_sentence(images, tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    given = [str(images / "data") if word == "DATA" else word for word in arguments]
    if given[0] == "finetune":
        given += ["--out", "out"]
    assert main(given) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and said in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["example", "check", "finetune", "explain", "doctor"])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert "examples:" in capsys.readouterr().out or command == "doctor"
