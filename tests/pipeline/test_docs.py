"""What the documentation tells people to type works."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from PIL import Image

from relevit.attribution import METHODS
from relevit.choices.words import READERS
from relevit.finetune.augmenting import CURES
from relevit.finetune.settings import FinetuneSettings, resolved
from relevit.losses import MORE_LOSSES
from relevit.models import MORE_MODELS
from relevit_own import cli
from relevit_own.choices import OwnChoices
from relevit_own.finetune import ABOUT, NAMES, cure_settings
from reproduction.params.cells import FINETUNED, params_of
from reproduction.params.common import Benchmark
from reproduction.params.order import NOTEBOOKS

from .projects import ROOT

WRITTEN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PLACES = [ROOT / name for name in ("Dockerfile", "binder/postBuild", "docs/install.md")]
FENCE = re.compile(r"(?ms)^```(\w*)\n(.*?)^```$")
CUDA = re.compile(r"torch|torchvision|triton|(nvidia|cuda)-.*")


# Each table that others add to, and the most lines of what its page adds.
TABLES = {
    "METHODS": (METHODS, 40),
    "MORE_LOSSES": (MORE_LOSSES, 10),
    "CURES": (CURES, 15),
    "READERS": (READERS, 22),
    "MORE_MODELS": (MORE_MODELS, 20),
}


@pytest.fixture
def blocks() -> Iterator[dict[str, list[str]]]:
    """The blocks of docs/extending.md by language; what they add is taken away again."""
    before = {name: dict(table) for name, (table, _) in TABLES.items()}
    found: dict[str, list[str]] = {}
    for kind, code in FENCE.findall((ROOT / "docs" / "extending.md").read_text()):
        found.setdefault(kind, []).append(code)
    yield found
    for name, (table, _) in TABLES.items():
        table.clear()
        table.update(before[name])


def test_the_examples_of_extending_run(blocks, capsys):
    names: dict = {"__name__": "extending"}
    for number, code in enumerate(blocks["python"]):
        exec(compile(code, f"extending.md, block {number + 1}", "exec"), names)
    assert "last_block: mIoU" in capsys.readouterr().out


def test_extensions_are_short_and_known_to_the_command_and_to_parameters(blocks, tmp_path, capsys):
    added = {name: c for c in blocks["python"] for name in TABLES if f"\n{name}[" in c}
    lines = {name: sum(map(bool, code.splitlines())) for name, code in added.items()}
    assert lines.keys() == TABLES.keys()
    assert all(lines[name] <= most for name, (_, most) in TABLES.items()), lines
    exec("\n".join(added.values()), {"__name__": "mine"})

    Image.new("RGB", (112, 112), "red").save(tmp_path / "cat.png")
    for model in ("tiny", "relu_vit"):
        told = ["explain", f"{tmp_path}/cat.png", "--model", model, "--method", "last_block"]
        assert cli.main([*told, "-o", f"{tmp_path}/map.png"]) == 0, capsys.readouterr().err
    asked = {"augmentation": "blur", "more_losses": {"speckle": 0.1}}
    resolved(params_of(FINETUNED)(**asked), 1e-5, "float32")
    assert Benchmark(data="arrays").data == "arrays"
    assert cure_settings(OwnChoices(cure="blur"), "blur")["augmentation"] == "blur"
    own = cure_settings(OwnChoices(more_losses={"speckle": 3.0}), "relevance")
    assert "speckle" in FinetuneSettings(lr=1.0, **own).terms and own["weights"]["speckle"] == 3.0
    assert ABOUT["blur"] == "the class term on images changed by blur"
    assert NAMES["blur"] == "with blur"


def lines_of(path):
    """What a page tells its reader to type, without what it explains behind a #."""
    for kind, code in FENCE.findall(path.read_text()):
        if kind in ("", "bash"):
            yield from (line.split(" #")[0].strip() for line in code.splitlines())


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_commands_are_there(path):
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    for line in lines_of(path):
        line = re.sub(r"^\.venv[/\\](bin|Scripts)[/\\]", "", line).replace("<data root>", "data")
        if line.startswith("relevit "):
            cli.app.parse_args(shlex.split(line)[1:])
        elif line.startswith("make "):
            called = [word for word in line.split()[1:] if "=" not in word]
            assert set(called) <= targets, line
        elif line.startswith("papermill "):
            assert re.search(r"notebooks/(\w+)\.ipynb", line)[1] in NOTEBOOKS


@pytest.mark.skipif(not shutil.which("awk"), reason="needs awk")
def test_the_lock_without_cuda_is_whole_but_for_it():
    """All places leave the same out: torch for the CPU is fetched first, by its pins."""
    texts = [path.read_text() for path in PLACES]
    (program,) = {re.search(r"awk '([^']+)'", text)[1] for text in texts}
    (pattern,) = {re.search(r"grep -oE '([^']+)'", text)[1] for text in texts}
    lock = ROOT / "requirements.lock"
    entry = re.compile(r"(?m)^([\w.-]+)==.*(?:\n    --hash.*)+")

    def said(*command: str) -> str:
        return subprocess.run([*command, lock], capture_output=True, text=True, check=True).stdout

    everything = entry.findall(lock.read_text())
    kept = entry.findall(said("awk", program))
    assert kept == [name for name in everything if not CUDA.fullmatch(name)] != everything
    pins = said("grep", "-oE", pattern).split()
    assert [pin.split("==")[0] for pin in pins] == ["torch", "torchvision"]
