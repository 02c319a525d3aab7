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
STATE = f"{LIVE} [role=status]"
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


@pytest.fixture
def address(tmp_path) -> Iterator[str]:
    """JupyterLab on a folder of its own."""
    (tmp_path / "notebooks").mkdir()  # where the lab of this project begins
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kinds = ("_CONFIG", "_DATA", "_RUNTIME", "LAB_SETTINGS", "LAB_WORKSPACES")
    own = {f"JUPYTER{kind}_DIR": str(tmp_path / kind) for kind in kinds}
    own["JUPYTER_CONFIG_PATH"] = str(ROOT / "profiles" / "lab")  # as `make lab` has it
    own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--port={port}", "--port-retries=0", f"--IdentityProvider.token={TOKEN}"]
    command += ["--expose-app-in-browser", f"--ServerApp.root_dir={tmp_path}"]
    with (tmp_path / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command, env=os.environ | own, stdout=log, stderr=subprocess.STDOUT, cwd=tmp_path
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/api?token={TOKEN}", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(SOON_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_for(address: str, process: subprocess.Popen) -> None:
    end = time.monotonic() + SOON_S
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except URLError:
            time.sleep(0.3)
    pytest.fail(f"JupyterLab did not start: {process.poll()}")


@pytest.fixture
def page(address) -> Iterator:
    """A page of Chromium without a window; at the end the kernels are stopped."""
    api = pytest.importorskip("playwright.sync_api", reason="the browser is driven by Playwright")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1400, "height": 1100})
        page.set_default_timeout(1000 * LONG_S)
        yield page
        page.evaluate("() => window.jupyterapp?.serviceManager.sessions.shutdownAll()")
        browser.close()


def after(page, move: Callable) -> tuple[str, str]:
    """The picture's address and the text when it has changed. Fails where it does not."""
    before = page.inner_text(STATE)
    move()
    page.wait_for_function(
        "([where, before]) => document.querySelector(where)?.innerText !== before",
        arg=[STATE, before],
    )
    return page.get_attribute(f"{LIVE} img", "src"), page.inner_text(STATE)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_another_habitat_changes_picture_and_answer(page, address, tmp_path):
    name = "habitats.ipynb"
    nbformat.write(notebook_of(PREPARED, cell_of("00_start", "00-hand")), tmp_path / name)
    page.goto(f"{address}/lab/tree/{name}?token={TOKEN}&reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget?.sessionContext?.isReady")
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_selector(STATE)
    page.wait_for_selector(f"{LIVE} img[src^=blob]")
    animal, habitat = page.locator(f"{LIVE} select").all()
    assert "ant: at home (forest) the answer is ant" in page.inner_text(STATE)
    home = after(page, lambda: habitat.select_option("forest"))
    assert home[1].endswith("this is its home.")
    other = after(page, lambda: animal.select_option("parrot"))
    assert other[1].startswith("parrot: at home (") and other[0] != home[0]
    assert page.locator(STATIC).count() == 1, "the picture of pages without a kernel is there"
    assert not page.locator(STATIC).is_visible(), "and nobody sees it twice"
    assert page.locator(".Toastify__toast").count() == 0, "no news, no warnings"
