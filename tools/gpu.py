"""How long presets take on this machine's GPU, and what the time goes to: `tools/gpu.py quick`.

Each is made anew in a copy of the project; with `--processor` once more without the GPU. A row each
comes out: minutes to the first job, to the nine columns and to the end, the share of all jobs'
seconds that was neither in runs nor in cells, and how much of the time the card computed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pandas as pd

from relevit.base.files import project_root
from reproduction.pipeline.machine.places import VISIBLE
from reproduction.pipeline.progress import LOG, PAGE

COPIED = ("notebooks", "params", "docs/results", "Snakefile")
USED = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
CLOCK = "[%a %b %d %H:%M:%S %Y]"  # Snakemake's
BEGUN, ENDED = r"Job (\d+): ([^:\n]+)", r"Finished jobid: (\d+) "
INSIDE = r"(?m)^\S*/runs/\S+: (\d+) s$"  # what a job of runs says of each


def row(preset: str, gpu: bool) -> dict[str, object]:
    """Make a preset in a copy of the project, and tell of it."""
    with tempfile.TemporaryDirectory(prefix="relevit-gpu-") as folder:
        for name in COPIED:
            path = project_root() / name
            copy = shutil.copytree if path.is_dir() else shutil.copy2
            copy(path, Path(folder, name))
        command = [sys.executable, "-m", "reproduction.pipeline", preset]
        environment = os.environ if gpu else os.environ | {VISIBLE: ""}
        start = time.time()
        with looked_at() as used:
            code = subprocess.run(command, cwd=folder, env=environment).returncode
        results = Path(folder, "outputs", preset)
        found = {"preset": preset, "on": "GPU" if gpu else "processor", "exit code": code}
        found |= times((results / LOG).read_text(errors="replace"), start)
        found["started_pct"] = 100 * (1 - inside_s(results) / found.pop("seconds"))
        return found | used


def times(log: str, start: float) -> dict[str, float]:
    """Minutes of a run, by Snakemake's log, and the seconds of all jobs."""
    now, begun, ended = start, {}, {}
    for line in log.splitlines():
        if line.startswith("[") and line.endswith("]"):
            now = datetime.strptime(line, CLOCK).timestamp()
        elif job := re.match(BEGUN, line):
            begun[job[1]] = job[2], now
        elif job := re.match(ENDED, line):
            ended[job[1]] = now
    page = [ended[job] for job, (name, _) in begun.items() if name == PAGE and job in ended]
    minutes = {
        "first job": min(at for _, at in begun.values()),
        "nine columns": max(page, default=0),
    }
    minutes = {f"{key}, min": (at - start) / 60 for key, at in minutes.items()}
    minutes["all, min"] = (time.time() - start) / 60
    return minutes | {"seconds": sum(at - begun[job][1] for job, at in ended.items())}


def inside_s(results: Path) -> float:
    """Seconds inside runs, as their jobs say, and inside the cells of notebooks."""
    runs = sum(map(int, re.findall(INSIDE, (results / LOG).read_text(errors="replace"))))
    cells = 0.0
    for path in results.glob("*/executed.ipynb"):
        for cell in json.loads(path.read_text())["cells"]:
            cells += cell["metadata"].get("papermill", {}).get("duration") or 0
    return runs + cells


@contextmanager
def looked_at() -> Iterator[dict[str, float]]:
    """How much of the time the first GPU computes while the body runs, and its most memory."""
    found: dict[str, float] = {}
    if not shutil.which(USED[0]):
        yield found
        return
    with subprocess.Popen([*USED, "-l", "1", "-i", "0"], stdout=subprocess.PIPE, text=True) as smi:
        try:
            yield found
        finally:
            smi.terminate()
            lines = [line.split(", ") for line in smi.stdout.read().splitlines()]
    told = [(float(use), float(memory)) for use, memory in lines if memory.isdecimal()]
    if told:
        use, memory = zip(*told, strict=True)
        found |= {"computes_pct": sum(use) / len(use), "most_mb": max(memory)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="+", help="quick, workshop")
    parser.add_argument("--processor", action="store_true", help="without the GPU, too")
    options = parser.parse_args()
    ways = [True, *([False] if options.processor else [])]
    rows = [row(preset, gpu) for preset in options.presets for gpu in ways]
    sys.stdout.write(pd.DataFrame(rows).round(1).to_string(index=False) + "\n")


if __name__ == "__main__":
    main()
