"""One line that moves while a preset is run: what is done, about how long it takes, what runs now.

Snakemake says when a job begins and ends, between what the jobs say themselves. All of it goes to
a file; to the screen comes what was said last, as soon as a job has failed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

PAGE = "03_robustness"  # what one waits for
LOG = "run.log"  # of a preset's results
BEGUN = re.compile(r"Job (\d+): ([^:]+)")
DONE = re.compile(r"Finished jobid: (\d+) ")
FAILED = re.compile(r" +jobid: (\d+)$")
# On a cluster what went wrong is in the job's own log.
OF_SLURM = re.compile(r" +message: SLURM-job '(\d+)' failed, SLURM status is: '(\w+)'")
OWN_LOG = re.compile(r" +log: (.+) \(check log")
OWN_END = re.compile(r"(?m)^(?:RuleException:|Will exit after|\[.+\]\nError in rule)")
# What Snakemake says beside that, and nobody has to see.
CHATTER = re.compile(r"\[.+\]$|Select jobs to|Execute \d+ jobs|\d+ of \d+ steps|$")
# How torch and CUDA say that the memory of a GPU is full.
FULL_GPU = re.compile("OutOfMemoryError|CUDA (error: )?out of memory")
# What Slurm keeps waiting for, or was not asked to end (`machine.slurm`): said at once.
TOLD = re.compile("Waiting to submit|These jobs may still run")
LAST = 200  # lines of what was said
BEAT_S = 5.0  # between two moves of the line
PRIOR_S = 120.0  # of work whose time was as known, before what is seen says otherwise
CLOSING_S = 5.0  # for processes whose pipeline was killed


class Progress:
    """The jobs of one run, as Snakemake tells of them line by line.

    `jobs` are the names of those that wait, `seconds` what each takes as far as that is known, and
    `page` the file of PAGE, which is told as soon as it is there.
    """

    def __init__(
        self, jobs: Iterable[str], seconds: Mapping[str, float], at_once: int, page: Path
    ) -> None:
        self.left = dict.fromkeys(jobs)
        self.total, self.seconds = len(self.left), seconds
        self.at_once, self.page = at_once, page
        self.running: dict[str, tuple[str, float]] = {}  # by Snakemake's number: name and start
        self.said: deque[str] = deque(maxlen=LAST)
        self.failed = self.full_gpu = False
        self.lost = ""  # what Slurm says of the job that has failed last
        self.start = time.monotonic()
        self.taken_s = self.expected_s = PRIOR_S

    def read(self, line: str) -> str | None:
        """Take in a line; returns what is to be said where a job has ended by it."""
        self.full_gpu |= bool(FULL_GPU.search(line))
        if found := BEGUN.match(line):
            if not self.running:
                self.said.clear()
            self.running[found[1]] = found[2], time.monotonic()
            self.at_once = max(self.at_once, len(self.running))
        elif (found := DONE.match(line)) and found[1] in self.running:
            name, since = self.running.pop(found[1])
            self.left.pop(name, None)
            if name in self.seconds:
                self.taken_s += time.monotonic() - since
                self.expected_s += self.seconds[name]
            there = f"The nine columns are there: {self.page} (make lab opens it)"
            return there if name == PAGE else ""
        elif found := OF_SLURM.match(line):
            self.lost = f"{found[2]} as job {found[1]} of Slurm"
        elif (found := FAILED.match(line)) and (job := self.running.pop(found[1], None)):
            self.failed = True
            if not self.lost:
                return "\n".join(self.said)
            self.lost = f"Failed: {job[0]}: {self.lost}"
        elif self.lost and (found := OWN_LOG.match(line)):
            told, self.lost = f"{self.lost}: {last_words(Path(found[1]))} ({found[1]})", ""
            return told
        elif TOLD.match(line):
            return line
        elif not CHATTER.match(line):
            self.said.append(line)
        return None

    def left_s(self) -> float:
        """Seconds to the end: those that are known, if all goes on as fast as what is done went."""
        each = {name: self.seconds.get(name, 0.0) for name in self.left}
        each = {name: s * self.taken_s / self.expected_s for name, s in each.items()}
        for name, since in self.running.values():
            each[name] = max(0.0, each.get(name, 0.0) - (time.monotonic() - since))
        return max(sum(each.values()) / self.at_once, *each.values(), 0.0)

    def line(self) -> str:
        """How long it runs, what is done, what is left, what runs now."""
        told = f"{(time.monotonic() - self.start) / 60:.0f} min: "
        told += f"{self.total - len(self.left)} of {self.total} jobs done"
        if self.seconds and self.left:
            told += f", about {max(1, round(self.left_s() / 60))} min left"
        now = ", ".join(name for name, _ in self.running.values())
        return told + (f"; now {now}" if now else "")


def last_words(log: Path) -> str:
    """The last line that a job has said itself, between those of the Snakemake around it."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    own = OWN_END.split(text.rpartition("Reason: Forced execution\n")[2])[0].split("\n")
    own += re.findall("(?m)^slurmstepd.*: error: .+$", text)[-1:]  # which knows why it ended it
    return next((line.strip() for line in reversed(own) if line.strip()), "it said nothing")


@contextmanager
def shown(progress: Progress, log: Path) -> Iterator[int]:
    """A file number that a run writes to: it goes to `log`, and its progress to the screen.

    On a terminal the line moves; elsewhere one is printed as a job ends.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    read, write = os.pipe()
    thread = threading.Thread(target=_follow, args=(read, progress, log), daemon=True)
    thread.start()
    try:
        yield write
    finally:
        os.close(write)
        thread.join(CLOSING_S)


def _follow(read: int, progress: Progress, log: Path) -> None:
    moves, ended, lock = sys.stderr.isatty(), threading.Event(), threading.Lock()

    def put(text: str, end: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        clear = f"\r{' ' * width}\r" if moves else ""
        sys.stderr.write(clear + (text if end else text[:width]) + end)
        sys.stderr.flush()

    def beat() -> None:
        while not ended.wait(BEAT_S):
            with lock:
                put("" if ended.is_set() else progress.line(), "")

    if moves:
        threading.Thread(target=beat, daemon=True).start()
    with os.fdopen(read, "rb") as lines, log.open("ab", buffering=0) as kept:
        for line in lines:
            with suppress(OSError):  # of a full disk, too, it must be seen what is said
                kept.write(line)
            with lock:
                running = len(progress.running)
                text = progress.read(line.decode(errors="replace").rstrip())
                if text:
                    put(text, "\n")
                if text is not None or (moves and len(progress.running) != running):
                    put(progress.line(), "" if moves else "\n")
    with lock:
        ended.set()
        put("", "")
