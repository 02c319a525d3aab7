"""Widgets and exercises as people meet them: JupyterLab in a browser, and pages without a kernel.

A browser is needed for the first (Chromium or Chrome, driven by Playwright); what it opens is made
here, from the notebooks' own cells.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import URLError

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from relevit.pipeline import exercises
from relevit.pipeline.notebooks import clean

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",  # which root has to do without
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
TOKEN = "of-this-test"
LIVE = ".relevit-live"
STATIC = ".jp-OutputArea-child img:not(.relevit-live img)"
SOON_S, LONG_S = 60, 120  # to start a server; to load a model on a busy machine
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
WIDGET = "application/vnd.jupyter.widget-view+json"

# What the cells that show a widget need of those above them.
PREPARED = """
from relevit import attribution, evaluate, models, plots
from relevit.config import StartParams
from relevit.data.benchmark import open_benchmark

plots.set_style()
cfg = StartParams()
bench = open_benchmark(cfg)
spec = bench.spec(cfg.model)
network = models.load_model(cfg.model).eval()
""".strip()
ERASING = """
batch = bench.draw("val", range(1, 3), size=spec.image_size)
maps = evaluate.shared_maps(network, spec, batch.images, ["rollout", "gae"])
plots.erasing_explorer(network, spec, batch, maps, bench.classes)
""".strip()


def cell_of(notebook: str, name: str) -> str:
    """The source of one cell of a notebook of the suite."""
    cells = nbformat.read(ROOT / "notebooks" / f"{notebook}.ipynb", as_version=4).cells
    return next(cell.source for cell in cells if cell.id == name)


def notebook_of(*sources: str) -> NotebookNode:
    return new_notebook(cells=list(map(new_code_cell, sources)), metadata={"kernelspec": KERNEL})


# Pages without a kernel


@pytest.fixture(scope="module")
def executed() -> NotebookNode:
    """The cells that show the widget of 00_start, run as the pipeline runs them."""
    notebook = notebook_of(PREPARED, cell_of("00_start", "00-hand"))
    NotebookClient(notebook, timeout=LONG_S, kernel_name="python3").execute()
    return notebook


@pytest.mark.slow
def test_stored_outputs_have_the_first_picture_in_words_too(executed):
    first, second = executed.cells[-1].outputs
    assert WIDGET in second.data and "image/jpeg" in first.data
    stored = clean(nbformat.from_dict(executed))
    (output,) = stored.cells[-1].outputs
    assert "image/jpeg" in output.data and WIDGET not in output.data
    assert output.metadata["image/jpeg"]["alt"].startswith("ant: at home (forest) the answer is")


@pytest.mark.slow
def test_a_static_page_has_one_picture_and_no_empty_cell(executed):
    page, _ = HTMLExporter().from_notebook_node(clean(nbformat.from_dict(executed)))
    assert page.count("<img") == 1
    assert "HabitatExplorer" not in page and "jupyter-widgets jp-OutputArea-output" not in page


# JupyterLab


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[tuple[Path, str]]:
    """JupyterLab on a folder of its own; the folder and the address, up to the path."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "notebooks").mkdir()  # where the lab of this project begins
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = {
        "JUPYTER_CONFIG_PATH": str(ROOT / "profiles" / "lab"),  # as `make lab` has it
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--port={port}", "--port-retries=0", f"--IdentityProvider.token={TOKEN}"]
    command += ["--expose-app-in-browser", f"--ServerApp.root_dir={folder}"]
    log = (folder / "log.txt").open("w")
    process = subprocess.Popen(
        command, env=os.environ | places, stdout=log, stderr=subprocess.STDOUT, cwd=folder
    )
    address = f"http://127.0.0.1:{port}"
    try:
        answers(f"{address}/api?token={TOKEN}", process)
        yield folder, address
    finally:
        process.terminate()
        try:
            process.wait(SOON_S)
        except subprocess.TimeoutExpired:
            process.kill()
        log.close()


def answers(address: str, process: subprocess.Popen) -> None:
    """Wait for a server."""
    end = time.monotonic() + SOON_S
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except URLError:
            time.sleep(0.3)
    pytest.fail(f"JupyterLab did not start: {process.poll()}")


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """Chromium without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="the browser is driven by Playwright")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def opened(browser, server) -> Iterator[Callable]:
    """Open a notebook in JupyterLab; at the end its kernel is stopped."""
    folder, address = server
    page = browser.new_page(viewport={"width": 1400, "height": 1100})
    page.set_default_timeout(1000 * LONG_S)

    def show(notebook: NotebookNode, name: str):
        nbformat.write(notebook, folder / name)
        page.goto(f"{address}/lab/tree/{name}?token={TOKEN}&reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget?.sessionContext?.isReady"
        )
        return page

    yield show
    page.evaluate("() => window.jupyterapp?.serviceManager.sessions.shutdownAll()")
    page.close()


def run_all(page) -> None:
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")


def seen(page) -> tuple[str, str]:
    """The picture's bytes and the text of the widget that is alive."""
    picture = page.eval_on_selector(
        f"{LIVE} img",
        """async image => {
            const bytes = new Uint8Array(await (await fetch(image.src)).arrayBuffer());
            return Array.from(bytes).join(" ");
        }""",
    )
    return picture, page.inner_text(f"{LIVE} [role=status]")


def after(page, move: Callable) -> tuple[str, str]:
    """What is seen when the text has changed. Fails where it does not."""
    before = page.inner_text(f"{LIVE} [role=status]")
    move()
    page.wait_for_function(
        "([where, before]) => document.querySelector(where)?.innerText !== before",
        arg=[f"{LIVE} [role=status]", before],
    )
    return seen(page)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_another_habitat_changes_picture_and_answer(opened):
    page = opened(notebook_of(PREPARED, cell_of("00_start", "00-hand")), "habitats.ipynb")
    run_all(page)
    page.wait_for_selector(f"{LIVE} [role=status]")
    page.wait_for_selector(f"{LIVE} img[src^=blob]")
    first = seen(page)
    animal, habitat = page.locator(f"{LIVE} select").all()
    assert "ant: at home (forest) the answer is ant" in first[1]
    home = after(page, lambda: habitat.select_option("forest"))
    assert home[1].endswith("this is its home.") and home[0] != first[0]
    other = after(page, lambda: animal.select_option("parrot"))
    assert other[1].startswith("parrot: at home (") and other[0] != home[0]
    assert page.locator(STATIC).count() == 1, "the picture of pages without a kernel is there"
    assert not page.locator(STATIC).is_visible(), "and nobody sees it twice"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_slider_erases_and_the_answer_falls(opened):
    page = opened(notebook_of(PREPARED, ERASING), "erasing.ipynb")
    run_all(page)
    page.wait_for_selector(f"{LIVE} img[src^=blob]")
    slider = page.locator(f"{LIVE} [role=slider]").last
    slider.focus()
    whole = after(page, lambda: page.keyboard.press("Home"))
    assert " 0 % erased" in whole[1] and whole[1].endswith("the answer stays.")
    least = after(page, lambda: page.keyboard.press("End"))
    assert "95 % erased" in least[1] and "the answer is now" in least[1]
    assert least[0] != whole[0]
    shares = [int(re.search(r"has (\d+) %", text).group(1)) for _, text in (whole, least)]
    assert shares[1] < shares[0]


# Exercises

# A cell, what a beginner may write there, and what the check says to it.
EMPTY = {None: "✗ The function is still empty"}
ANSWERS = {
    ("02_finetune", "02-gae-write"): {
        **EMPTY,
        """
def gae(attention, gradients):
    R = torch.eye(5)
    for A, G in zip(attention, gradients):
        R = R + (A * G).clamp(min=0).sum(0) @ R
    return R[0, 1:]
""": "✗ You take the sum over heads",
    },
    ("02_finetune", "02-background"): {
        **EMPTY,
        "def background_loss(r, s):\n  return (r * s).square().mean()": "✗ You punish",
        "def background_loss(r, s)": "SyntaxError",
    },
    ("03_robustness", "03-adds"): {
        **EMPTY,
        """
def adds(right):
    sets = 100 * right.groupby("dataset").mean().mean()
    return sets["with"] - sets["original"]
""": "✗ That is the change since the original",
    },
    ("06_attribution", "05-follow"): {
        **EMPTY,
        """
def follow(matrices):
    rows = torch.eye(5)
    for matrix in matrices:
        rows = matrix @ rows
    return rows
""": "✗ You left the identity out",
    },
    ("07_segmentation", "04-miou"): {
        **EMPTY,
        "def miou(a, b):\n  return 100 * (a & b).sum() / (a | b).sum()": "✗ Your number is the IoU",
    },
    ("07_segmentation", "06-area"): {
        **EMPTY,
        """
def area(shares, accuracy):
    return torch.trapezoid(torch.tensor([*accuracy, 0.0]), torch.tensor([*shares, 1.0])) / 100
""": "✗ Your last point lies at 1: shares are in percent",
    },
    ("08_iav", "iav-score-write"): {
        **EMPTY,
        "def ia_score(a, m):\n  return (a * m).sum(-1)": "✗ This is the plain inner product",
    },
    ("08_iav", "iav-centred"): {
        **EMPTY,
        "def centred_score(a, m):\n  return ia_score(a, m)": "✗ This is still the IA-score",
    },
}


def write_cell(page, place: int, text: str) -> None:
    """Type into a cell as a student does, instead of all that is there."""
    page.locator(".jp-Cell").nth(place).locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text.strip())


def run_cells(page, place: int, count: int) -> None:
    """As a student does. After an error *run all* may still run cells, when the machine is busy."""
    page.locator(".jp-Cell").nth(place).locator(".cm-content").click()
    for _ in range(count):
        page.keyboard.press("Shift+Enter")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_lesson_with_students_copies_wrong_and_right(opened, server):
    """Every exercise; nothing is printed that a student must ignore."""
    folder, _ = server
    lesson = notebook_of("import torch\nfrom relevit.pipeline import checks")
    for path in exercises.write_copies(ROOT / "notebooks", folder / "students"):
        cells = {cell.id: cell for cell in nbformat.read(path, as_version=4).cells}
        for stem, name in ANSWERS:
            if stem == path.stem:
                lesson.cells += [cells[name], cells[f"{name.removesuffix('-write')}-check"]]
    page = opened(lesson, "students/lesson.ipynb")
    cells, said = page.locator(".jp-Cell"), page.locator(".jp-OutputArea-output")
    run_cells(page, 0, 1)
    for number, ((stem, name), answers) in enumerate(ANSWERS.items()):
        place, right = 1 + 2 * number, cell_of(stem, name)
        for text, sentence in {**answers, right: "✓ "}.items():
            if text is not None:
                write_cell(page, place, text)
            run_cells(page, place, 2)
            heard = said.filter(has_text=sentence)
            heard.nth(number if sentence == "✓ " else 0).wait_for()
            cells.nth(place + 1).filter(has_not_text="[*]").wait_for()
            others = said.filter(has_not_text=re.compile(f"^[✓✗]|{sentence}"))
            assert others.all_inner_texts() == []
    assert page.locator(".Toastify__toast").count() == 0, "no news, no warnings"
    assert "without encryption" not in (folder / "log.txt").read_text()
