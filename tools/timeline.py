"""Draw which job of a finished `make reproduce` ran when, a line a core: docs/timeline.png.

make reproduce && python tools/timeline.py
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import matplotlib.pyplot as plt

from relevit.base.files import project_root
from reproduction import plots
from reproduction.pipeline.progress import BEGUN, DONE, LOG, PAGE
from reproduction.plots.style import FAINT

ALL_CORES = "00_start"
LEGIBLE_MIN = 0.7  # minutes of a bar that has room for its number
CLOCK = "[%a %b %d %H:%M:%S %Y]"


def jobs(log: Path) -> list[tuple[str, float, float]]:
    """Name, first and last minute of each job, of what Snakemake said of one run."""
    now, begun, found = None, {}, []
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("[") and line.endswith("]"):
            now = datetime.strptime(line, CLOCK)
        elif match := BEGUN.match(line):
            begun[match[1]] = match[2], now
        elif (match := DONE.match(line)) and match[1] in begun:
            found.append((*begun.pop(match[1]), now))
    first = min(start for _, start, _ in found)
    times = [(n, *((t - first).total_seconds() / 60 for t in ends)) for n, *ends in found]
    return sorted(times, key=lambda job: job[1])


def draw(found: list[tuple[str, float, float]]) -> plt.Figure:
    """A line a core; notebooks are dark and named by their number, jobs of runs light."""
    figure, axis = plt.subplots(figsize=(10, 2.2))
    free = [0.0, 0.0]
    for name, start, end in found:
        core = min(range(2), key=free.__getitem__)
        wide = name == ALL_CORES
        free = [end, end] if wide else [end if n == core else t for n, t in enumerate(free)]
        run = name.startswith("runs ")
        colour = plots.OURS if name == PAGE else FAINT if run else plots.INK
        at = 0.5 if wide else core
        axis.barh(at, end - start, 1.9 if wide else 0.9, start, color=colour, edgecolor="white")
        text = name.split()[1] if run else name[:2]
        if end - start > LEGIBLE_MIN:
            axis.text((start + end) / 2, at, text, ha="center", va="center", fontsize=7,
                      color=plots.INK if run else "white")  # fmt: skip
    axis.set(yticks=[0, 1], yticklabels=["core 1", "core 2"], xlabel="minutes", xlim=(0, max(free)))
    axis.invert_yaxis()
    axis.grid(visible=False)
    return figure


def main() -> None:
    """Draw the last run of `workshop`."""
    root = project_root()
    plots.set_style()
    figure = draw(jobs(root / "outputs" / "workshop" / LOG))
    figure.savefig(root / "docs" / "timeline.png", dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
