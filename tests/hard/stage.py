"""In place of a stage: it notes when it begins and ends, and leaves the files of one.

`stage.py -m papermill NOTEBOOK EXECUTED ...` or `stage.py -m reproduction.pipeline.make PRESET RUN
...`, as the Snakefile has it.
"""

import json
import os
import sys
import time
from pathlib import Path

module, *words = sys.argv[2:]
if module == "papermill":
    executed = Path(words[1])
    made = {executed.parent.name: [executed, executed.with_name("summary.json")]}
else:
    runs = Path("outputs", words[0], "runs")
    made = {name: [runs / name / "run.json"] for name in words[1:]}
job, cores = (os.environ.get(f"SLURM_{name}") for name in ("JOB_ID", "CPUS_PER_TASK"))


def note(what: str, name: str) -> None:
    with Path("noted").open("a", encoding="utf-8") as noted:
        noted.write(f"{what} {name} {job} {cores} {os.environ['OMP_NUM_THREADS']}\n")


for name, paths in made.items():
    note("begins", name)
    time.sleep(float(os.environ["STAGE_S"]))
    for path in paths:
        path.write_text(json.dumps({"failed": "", "asked": {}}))
    note("ends", name)
