"""What `relevit judge` does: a row of one's own beside those that are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from relevit.base.device import choose_device
from relevit.base.files import write_atomically
from reproduction.measures import judge as tests
from reproduction.measures import judged
from reproduction.runs import cure_judge

Say = Callable[..., object]


def judge_method(
    given: str | None, out: Path | None, *, quick: bool, device: str, say: Say
) -> None:
    """Judge a method, or say the table of those that were. Raises: as `judged.judge`."""
    records = judged.read_records(judged.kept_in())
    if given is None:
        for model in tests.MODELS:
            say(f"{model}:", judged.in_words(records, model) if records else judged.NO_TABLE, "")
        say(judged.HOW.rstrip())
        return
    if given not in tests.MARKS:
        judged.read_method(given)  # before any work
    count = tests.QUICK if quick else tests.SCENES
    tasks = tests.open_tasks(count, device=choose_device(device))
    name = out.stem if out else given.rpartition(":")[2]
    record = judged.judge(given, name, tasks, say)
    others = [each for each in records if judged.comparable(each, record)]
    others = others or [judged.judge(mark, mark, tasks) for mark in tests.MARKS]
    beside = [record, *(each for each in others if each["method"] != name)]
    for model, empty in record["empty"].items():
        note = f", {empty} maps say nothing (the same everywhere, or NaN)" if empty else ""
        say(f"{model}{note}:", judged.in_words(beside, model), "")
    _keep(record, out, say)


def judge_cure(given: str, task: Path | None, out: Path | None, *, device: str, say: Say) -> None:
    """Judge a cure on its task, or say the rows of those that were."""
    asked = cure_judge.CureTask.read(task)
    known = cure_judge.read_records(asked)
    cure = cure_judge.read_cure(given, asked, device) if given else None
    if cure is None:
        say(cure_judge.in_words(known) if known else cure_judge.NO_ROWS, cure_judge.HOW.rstrip())
        return
    opened = cure_judge.open_task(asked, device)
    name = out.stem if out else given.rpartition(":")[2]
    record = cure_judge.judge(cure, name, opened, say)
    others = [each for each in known if each["cure"] != name]
    others = [each for each in others if cure_judge.comparable(each, record)]
    say(cure_judge.in_words([record, *others]))
    _keep(record, out, say)


def _keep(record: dict[str, Any], out: Path | None, say: Say) -> None:
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, judged.as_json(record))
        say(f"written: {out}")
