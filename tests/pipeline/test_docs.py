"""What the documentation tells people to type works."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

import pytest

from relevit.attribution import METHODS
from relevit.config import NOTEBOOKS
from relevit.pipeline import cli

from .projects import ROOT

WRITTEN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PLACES = [ROOT / name for name in ("Dockerfile", "binder/postBuild", "docs/install.md")]
FENCE = re.compile(r"(?ms)^```(\w*)\n(.*?)^```$")
CUDA = re.compile(r"torch|torchvision|triton|(nvidia|cuda)-.*")


def test_the_examples_of_extending_run(monkeypatch, capsys):
    text = (ROOT / "docs" / "extending.md").read_text()
    blocks = [code for kind, code in FENCE.findall(text) if kind == "python"]
    assert len(blocks) > 5
    for name in list(METHODS):  # what the example adds is taken away again
        monkeypatch.setitem(METHODS, name, METHODS[name])
    monkeypatch.setitem(METHODS, "last_block", None)
    names: dict = {"__name__": "extending"}
    for number, code in enumerate(blocks):
        exec(compile(code, f"extending.md, block {number + 1}", "exec"), names)
    assert "last_block: mIoU" in capsys.readouterr().out


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
            cli._parser().parse_args(shlex.split(line)[1:])
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
