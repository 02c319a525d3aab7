"""The last sentences of a lesson: they follow from this run's numbers, and those of the stored run
stand beside them."""

from __future__ import annotations

from relevit.base.files import project_root
from reproduction.params.cells import Params
from reproduction.params.order import notebook_file
from reproduction.pipeline.notebooks import committed
from reproduction.runs.stored import PRESET as STORED
from reproduction.stages import changed_from_preset


def side(
    low: float, high: float, line: float = 0.0, *, digits: int, above: str, below: str, between: str
) -> str:
    """What an interval says: it lies above a line, below it, or on both sides.

    Its ends are rounded to the `digits` that the sentence prints: what a reader sees as +0.0 is 0.
    """
    low, high = round(low, digits), round(high, digits)
    return above if low > line else below if high < line else between


def closing(cfg: Params, *sentences: str) -> str:
    """The sentences, and where this is another run than the stored one, that one's below them."""
    own = "\n".join(sentences)
    if cfg.preset == STORED and not changed_from_preset(cfg):
        return own
    return f"{own}\n\nThe stored run ({STORED}):\n{stored(cfg.notebook)}"


def stored(notebook: str) -> str:
    """What the committed notebook's cell `lesson` has printed, whatever was run in it since."""
    cells = committed(project_root() / notebook_file(notebook)).cells
    (cell,) = (cell for cell in cells if "lesson" in cell.metadata.get("tags", []))
    return "".join(output.get("text", "") for output in cell.outputs).strip() or "not stored"
