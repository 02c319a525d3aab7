"""Judge all methods of the package, and the marks: docs/results/judge.

Those that are named, or all: `python tools/judge_all.py gae flat`. 20 minutes on one core.
"""

from __future__ import annotations

import sys

from relevit.attribution import METHODS
from reproduction.measures.judge import MARKS, open_tasks
from reproduction.measures.judged import as_json, judge, kept_in

if __name__ == "__main__":
    tasks = open_tasks()
    kept_in().mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or [*MARKS, *METHODS]:
        path = kept_in() / f"{name}.json"
        path.write_text(as_json(judge(name, name, tasks, print)), encoding="utf-8")
        print(f"written: {path.name}")
