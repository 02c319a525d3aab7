"""Widgets as people meet them: JupyterLab in a browser, and pages without a kernel.

A browser is needed for the first (Chromium or Chrome, driven by Playwright); what it opens is made
here, from the notebooks' own cells.
"""

from __future__ import annotations

import os
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

# What the cell that shows a widget needs of those above it.
PREPARED = """
from relevit import models, plots
from relevit.config import StartParams
from relevit.data.benchmark import open_benchmark

plots.set_style()
cfg = StartParams()
bench = open_benchmark(cfg)
spec = bench.spec(cfg.model)
network = models.load_model(cfg.model).eval()
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
    assert page.locator(".Toastify__toast").count() == 0, "no news, no warnings"
