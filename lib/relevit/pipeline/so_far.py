"""The report on a run that still goes on: `outputs/<preset>/so_far.html`.

A whole run takes long, and its main table is there early. A process beside the run makes the page
as soon as the nine sets are answered, and again every few minutes when more has landed. It is the
report's own notebook, told what has landed: a cell that needs more says what it waits for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from relevit.base.device import cores
from relevit.base.errors import NotYetError, one_line
from relevit.base.files import project_root, write_atomically
from relevit.base.stages import SUMMARY, preset_folder
from relevit.config import NOTEBOOKS, ReportParams
from relevit.pipeline.kernels import sockets_in_files

PAGE = "so_far.html"
FIRST = "03_robustness"  # the nine sets: with them there is something to read
EVERY_S = 300.0  # a page takes a core for about 20 s
LOOK_S = 2.0
# What a cell may fail with: a stage that has not landed, and what an earlier such cell lacks.
EXPECTED = (NotYetError.__name__, NameError.__name__)
LINK = re.compile(r'\bhref="(?!https?:|#)[^"]*"')  # to a page that comes with the site
RELOAD = '<meta http-equiv="refresh" content="60">'
GOES_ON = "The page is written anew while the run goes on; the report follows."
STOPPED = "The run has stopped: the same command goes on with it."
MOVED = '<meta http-equiv="refresh" content="0; url=site/index.html">The run is done.\n'


@contextmanager
def kept(
    preset: str, waiting: Iterable[str], env: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Keep the page up to date while the body runs; `waiting` are the jobs that are to run.

    They are named as `run.todo` does, `notebook: what`; `env` asks for warm kernels. A page that
    is left at the end no longer says that it is written anew. Yields the process that writes it.
    """
    later = {name for name in NOTEBOOKS if any(job.startswith(name) for job in waiting)}
    left = _folder(preset) / PAGE
    left.unlink(missing_ok=True)  # of an earlier run
    environment = os.environ | env | {"OMP_NUM_THREADS": str(max(1, cores() // 2))}
    arguments = [preset, str(time.time()), *sorted(later)]
    process = subprocess.Popen(
        [sys.executable, "-m", "relevit.pipeline.so_far", *arguments],
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # the pipeline is what Ctrl-C stops
    )
    try:
        yield process
    finally:
        process.stdin.close()  # it ends when nobody holds the other side
        process.wait()
        if left.is_file():
            text = left.read_text(encoding="utf-8").replace(RELOAD, "").replace(GOES_ON, STOPPED)
            write_atomically(left, lambda target: target.write_text(text, encoding="utf-8"))


def finish(preset: str) -> None:
    """Whoever still looks at the page is led to the finished report."""
    left = _folder(preset) / PAGE
    if left.is_file():
        write_atomically(left, lambda target: target.write_text(MOVED, encoding="utf-8"))


def landed_stages(folder: Path, waiting: Iterable[str], since: float) -> list[str]:
    """Stages with results: those that the run did not have to make, and those it has made.

    `since` is when the run began, in seconds since the epoch: what is older is to be made anew.
    """
    later = set(waiting)
    newest = {name: _newest(folder / name) for name in NOTEBOOKS if name != ReportParams.notebook}
    landed = [name for name, at in newest.items() if at and (name not in later or at >= since)]
    # Runs of the sweep come later than those of the preset, which FIRST reads.
    return sorted({*landed, "02_finetune"}) if FIRST in landed else landed


def page(cfg: ReportParams) -> str:
    """Run the report on what has landed; HTML. Raises: nbclient's error of a cell."""
    root = project_root()
    notebook = load_notebook_node(str(root / "notebooks" / f"{cfg.notebook}.ipynb"))
    notebook = parameterize_notebook(notebook, cfg.model_dump())
    client = NotebookClient(
        notebook,
        allow_error_names=list(EXPECTED),
        resources={"metadata": {"path": str(root)}},
        config=sockets_in_files(),
    )
    client.execute()
    mark_waiting(notebook)
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(_banner(cfg)))
    html, _ = HTMLExporter(exclude_input=True).from_notebook_node(notebook)
    return LINK.sub("", html).replace("<head>", f"<head>{RELOAD}", 1)


def mark_waiting(notebook: NotebookNode) -> None:
    """Put what a cell waits for in the place of its error.

    Raises: RuntimeError for a name that is missing though no cell above waits for anything.
    """
    waits = False
    for cell in notebook.cells:
        for number, output in enumerate(cell.get("outputs", [])):
            if output.output_type == "error":
                waits = waits or output.ename == EXPECTED[0]
                if not waits:
                    raise RuntimeError(f"{output.ename}: {output.evalue}")
                text = output.evalue if output.ename == EXPECTED[0] else "waits for what is above"
                data = {"text/markdown": f"*… {text}*"}
                cell.outputs[number] = nbformat.v4.new_output("display_data", data)


def _banner(cfg: ReportParams) -> str:
    later = [n for n in NOTEBOOKS if n not in cfg.landed and n != cfg.notebook]
    still = f"Still to come: {', '.join(f'`{name}`' for name in later)}." if later else ""
    return (
        f"> **So far**, at {time.strftime('%H:%M')}: {len(cfg.landed)} of {len(NOTEBOOKS) - 1} "
        f"notebooks. {still} {GOES_ON}"
    )


def _newest(folder: Path) -> float:
    """When the last of a stage's results was written, its own or of one of its runs; 0 for none.

    Deeper folders are not walked: those of checkpoints come and go while one looks.
    """
    newest = 0.0
    for path in (folder / SUMMARY, *folder.glob(f"*/{SUMMARY}")):
        with suppress(FileNotFoundError):  # a run that is made again removes its own
            newest = max(newest, path.stat().st_mtime)
    return newest


def _folder(preset: str) -> Path:
    read = ReportParams.from_preset(preset_folder(preset))
    return project_root() / read.output_root / preset


def _keep(preset: str, since: float, waiting: list[str]) -> None:
    read = ReportParams.from_preset(preset_folder(preset))
    path = _folder(preset) / PAGE
    last, shown, told = -EVERY_S, 0, set()
    while True:
        landed = landed_stages(path.parent, waiting, since)
        due = time.monotonic() - last >= EVERY_S and len(landed) > shown
        if FIRST in landed and due:
            last = time.monotonic()
            try:
                text = page(read.model_copy(update={"landed": landed}))
                write_atomically(
                    path, lambda target, text=text: target.write_text(text, encoding="utf-8")
                )
            except Exception as error:  # a page that cannot be made must not stop anything
                if (said := _said(error)) not in told:
                    print(f"so_far: no page: {said}", file=sys.stderr)
                told.add(said)
            else:
                if not shown:
                    print(f"The nine sets are there: {path}", flush=True)
                shown = len(landed)
        time.sleep(LOOK_S)


def _said(error: Exception) -> str:
    """A cell's error begins with the cell's source, which hides what went wrong."""
    if isinstance(error, CellExecutionError):
        return f"{error.ename}: {error.evalue}"
    return one_line(error)


def _end_with_caller() -> None:
    sys.stdin.read()
    os._exit(0)  # kernels end with whoever asked for them


if __name__ == "__main__":
    threading.Thread(target=_end_with_caller, daemon=True).start()
    _keep(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
