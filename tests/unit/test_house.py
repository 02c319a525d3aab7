"""Rules of the house: one list of dependencies, nothing private in the files, rooms in order."""

from __future__ import annotations

import ast
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import relevit

ROOT = Path(__file__).parents[2]
LIB = ROOT / "lib"
PACKAGES = ("relevit", "habitats", "reproduction", "relevit_own")
TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
# From the top: rooms that stand beside each other are one layer.
LAYERS = {
    contract["containers"][0]: [layer.split(" | ") for layer in contract["layers"]]
    for contract in TOOLS["importlinter"]["contracts"]
    if "containers" in contract
}
NOISE = {"__pycache__"}
NO_ROOMS = {"__init__.py", "assets"} | NOISE
# Not the changelog, whose names were right in their time.
NOTES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]
NOTES += [LIB / package / "assets" / "README.md" for package in PACKAGES]
# What is loaded when it is used: a moment each, torch seconds.
LATER = {"torch", "timm", "numpy", "pandas", "matplotlib", "papermill"}
NOT_FOR_ALL = {"scipy.stats", "sklearn", "seaborn", "ipywidgets", "onnx", "h5py", "transformers"}
NOT_FOR_RUNS = NOT_FOR_ALL | {"scipy.special", "scipy.sparse", "scipy.ndimage", "matplotlib"}
ALL_ROOMS = (
    "from relevit import iav, masks, text; from reproduction import claims, heads, language; "
    "from reproduction import plots; plots.set_style()"
)

CONDA_NAMES = {"torch": "pytorch", "snakemake": "snakemake-minimal"}
PYTHONS = ("3.11.9", "3.12.9", "3.13.9")

# Put together here, so that this file does not contain what it looks for.
HOSTS = [
    "".join(parts)
    for parts in (
        ("py", "pi.org"),
        ("python", "hosted.org"),
        ("npm", "js.org"),
        ("npm", "js.com"),
        ("ana", "conda.org"),
        ("ana", "conda.com"),
    )
]
PRIVATE = re.compile(
    "|".join(re.escape(host) for host in HOSTS)
    # A folder of one machine, at the start of a path: base64 and URLs have something before it.
    + r"|(?<![\w.+=~$}{*-])/(?:home|root|Users|work|opt|mnt|srv|scratch)/"
    + r"|\b[A-Za-z]:\\+Users\\"
)


class Pin(NamedTuple):
    requirement: Requirement
    hashes: list[str]


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def dependencies(project) -> dict[str, Requirement]:
    """Every dependency of pyproject.toml by name, those of all extras included."""
    texts = sum(project["optional-dependencies"].values(), project["dependencies"])
    return {canonicalize_name(r.name): r for r in map(Requirement, texts)}


@pytest.fixture(scope="module")
def environment() -> dict:
    return yaml.safe_load((ROOT / "environment.yml").read_text())


@pytest.fixture(scope="module")
def lock() -> list[Pin]:
    text = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    pins = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            requirement, *hashes = re.split(r"\s+--hash=", line.strip())
            pins.append(Pin(Requirement(requirement), hashes))
    return pins


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Files that are in the repository or would be with the next commit."""
    if not (ROOT / ".git").exists():  # an unpacked archive: what it came with
        folders = ("lib", "notebooks", "params", "tests", "docs", "tools")
        inside = [path for folder in folders for path in (ROOT / folder).rglob("*")]
        found = [path for path in (*ROOT.iterdir(), *inside) if path.is_file()]
        return [path for path in found if path.suffix != ".pyc"]
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def name_in_errors(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# One list of dependencies


def test_environment_has_the_dependencies_of_pyproject(project, dependencies, environment):
    wanted = {CONDA_NAMES.get(name, name): r.specifier for name, r in dependencies.items()}
    wanted["python"] = Requirement(f"python{project['requires-python']}").specifier
    listed = [Requirement(entry) for entry in environment["dependencies"] if isinstance(entry, str)]
    assert {r.name: r.specifier for r in listed} == wanted
    assert len(listed) == len(wanted), "environment.yml names a package twice"


@pytest.mark.parametrize("python", PYTHONS)
def test_lock_pins_each_dependency_within_its_bound(project, dependencies, lock, python):
    assert python in Requirement(f"python{project['requires-python']}").specifier
    minor = python.rpartition(".")[0]
    machine = {"python_version": minor, "python_full_version": python}
    pinned = {}
    for requirement, _ in lock:
        if requirement.marker is None or requirement.marker.evaluate(machine):
            pinned[canonicalize_name(requirement.name)] = requirement
    for name, dependency in dependencies.items():
        assert name in pinned, f"requirements.lock lacks {name}; run: make lock"
        (pin,) = pinned[name].specifier
        assert pin.version in dependency.specifier, f"{name} {pin.version}; run: make lock"


def test_one_version_everywhere(project):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.search(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert relevit.__version__ == project["version"] == citation["version"] == newest[1]


# Nothing private


def test_files_name_no_registry_host_and_no_folder_of_one_machine(files):
    found = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not a text file
        found += [f"{name_in_errors(path)}: {match[0]}" for match in PRIVATE.finditer(text)]
    assert found == []


# Rooms


def docstring(package: str, room: str) -> str:
    """The first line of what a room says of itself."""
    folder = LIB / package / room
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return ast.get_docstring(ast.parse(path.read_text())).splitlines()[0]


def plan() -> str:
    """The packages, and the rooms of each in the order of its contract, one a line.

    A bracket joins those of one layer.
    """
    lines = []
    for package in reversed(PACKAGES):
        lines.append(f"{package:<16} {docstring(package, '')}")
        for layer in LAYERS.get(package, []):
            marks = ["┌", *"├" * (len(layer) - 2), "└"] if len(layer) > 1 else [" "]
            lines += [
                f"{mark} {room:<14} {docstring(package, room)}"
                for mark, room in zip(marks, layer, strict=True)
            ]
    return "\n".join(lines)


def test_contributing_has_the_plan_of_the_house():
    notes = (ROOT / "CONTRIBUTING.md").read_text()
    assert f"```\n{plan()}\n```" in notes, f"put this plan there:\n{plan()}"


@pytest.mark.parametrize("package", LAYERS)
def test_the_contract_orders_every_room(package):
    found = {path.stem for path in (LIB / package).iterdir() if path.name not in NO_ROOMS}
    assert sorted(room for layer in LAYERS[package] for room in layer) == sorted(found)


@pytest.mark.parametrize("path", NOTES, ids=name_in_errors)
def test_names_of_the_library_in_the_notes_are_there(path):
    """Also those of README's examples, with what they import."""
    text = path.read_text()
    ours = rf"(?!habitats\.jpg)(?:{'|'.join(PACKAGES)})"
    names = set(re.findall(rf"(?<![\w/.]){ours}(?:\.[a-z_0-9]+)+(?:\.[A-Z_]+)?", text))
    for module, imported in re.findall(rf"(?m)^from ({ours}[\w.]*) import ([\w, ]+)$", text):
        names |= {f"{module}:{name.strip()}" for name in imported.split(",")}
    assert [name for name in sorted(names) if not is_there(name)] == []


def is_there(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_the_names_at_the_top_are_there_and_nothing_is_loaded_before_they_are_asked_for():
    code = (
        "import sys, relevit; assert 'torch' not in sys.modules; "
        "print(*(name for name in relevit.__all__ if not hasattr(relevit, name)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        (
            "import io, sys; from relevit_own.cli import main; sys.stdout = io.StringIO(); "
            "main(['explain', '--help']); sys.stdout = sys.__stdout__",
            {*LATER, "yaml", "tqdm"},
        ),
        (
            "import relevit_own.cli, reproduction.params; "
            "from reproduction.pipeline import make, run",
            LATER,
        ),
        ("from reproduction.runs import grids, run", NOT_FOR_RUNS),
        (ALL_ROOMS, NOT_FOR_ALL),
    ],
    ids=["help", "before any work", "a run", "a notebook"],
)
def test_a_process_loads_no_library_that_it_does_not_use(code, absent):
    code = f"{code}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not absent & set(done.stdout.split())
