"""Each notebook runs to its end where nothing is made, also with one parameter changed."""

import shutil
import subprocess
import sys

import pytest

from pipeline.projects import PRESET, ROOT, copy_project
from reproduction.params.order import NOTEBOOKS, READS, notebook_file
from reproduction.pipeline.plan import write_parameters

CHANGED = {
    "02_finetune": ("lr", "2.0e-5"),
    "03_robustness": ("images_per_set", "60"),
    "04_cures": ("images_per_set", "60"),
    "05_ablations": ("images_per_set", "60"),
    "07_segmentation": ("scenes", "12"),
}
SHOWN = ("shown", "3")
# The others read nothing; the report would run them all, and appendices are as their lessons.
ALONE = [name for name in NOTEBOOKS if READS[name] and name[2] != "a" and name != "99_report"]


def papermill(project, name: str, monkeypatch, *more: str) -> str:
    """What a notebook has said at its end, with the smallest sizes."""
    monkeypatch.chdir(project)
    given = write_parameters(project / "params" / f"{PRESET}.yaml", name)
    out = project / "out.ipynb"
    command = [sys.executable, "-m", "papermill", notebook_file(name), out, "-f", given, *more]
    done = subprocess.run([*map(str, command)], cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return out.read_text()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ALONE)
def test_a_notebook_runs_alone(name, tmp_path, monkeypatch):
    project = copy_project(tmp_path / "project")
    shutil.copytree(ROOT / "docs" / "results", project / "docs" / "results")
    key, value = CHANGED.get(name, SHOWN)
    said = papermill(project, name, monkeypatch, "-p", key, value)
    assert "First, what this notebook reads is made: 00_start" in said
