# The order of the stages and nothing else. Each shell line can be typed by hand.
# Run it through `make quick` or `make reproduce`: they check the parameters first, and write the
# plan and each stage's parameters to outputs/<preset>/params.

import json
import os
from functools import cache
from pathlib import Path

PRESET = config["preset"]
THREADS = config.get("threads", workflow.cores)  # of a stage; on a cluster its profile's cores
GPUS = config.get("gpus", [])  # of this machine, by name
START = os.environ.get("RELEVIT_START", "python")  # another where stages are forked
OUT = f"outputs/{PRESET}"
PLAN = json.loads(Path(f"{OUT}/params/plan.json").read_text())

HAS = PLAN["notebooks"]
BATCHES = {f"runs_{batch['runs'][0]}": batch for batch in PLAN["batches"]}

# What is started first where there is a choice: what the first page waits for, and of both the
# longest way, by the seconds that are known. So 00_start is first, when all cores are free, and
# no long stage is left for the end. Snakemake's greedy choice takes the highest number that fits;
# its other one adds numbers up, so that two small jobs outbid a greater one.
MADE_BY = {run: name for name, batch in BATCHES.items() for run in batch["runs"]}
NEEDS = {n: {*job["before"], *(MADE_BY[run] for run in job["runs"])} for n, job in HAS.items()}
for name, batch in BATCHES.items():
    NEEDS[name] = {*batch["before"], *(MADE_BY[run] for run in batch["needs"])}
PAGE_FIRST = 10**9  # more seconds than any way has


@cache
def way(name):
    """Seconds from the start of a job to the end of all that waits for it."""
    seconds = (HAS | BATCHES)[name]["seconds"]
    return seconds + max((way(other) for other, needs in NEEDS.items() if name in needs), default=0)


def with_needs(name):
    return {name}.union(*map(with_needs, NEEDS[name]))


PAGE = with_needs(PLAN["page"]) if PLAN["page"] in HAS else set()


def rank(name):
    return way(name) + (PAGE_FIRST if name in PAGE else 0)


# Of several GPUs each stage sees one; where it is computed changes nothing.
TURN = {name: number for number, name in enumerate(sorted(NEEDS, key=rank, reverse=True))}


def sees(name):
    """What comes before the command of a stage."""
    return f"CUDA_VISIBLE_DEVICES={GPUS[TURN[name] % len(GPUS)]} " if len(GPUS) > 1 else ""


def room(name):
    """What a stage that computes takes on this machine. Of a cluster the profile says that."""
    return {"place": 1} | ({f"gpu_{TURN[name] % len(GPUS)}": 1} if GPUS else {})


# What the page's runs need. Where that keeps all places busy, nothing else begins before it is
# done: a long stage would hold a core that these runs then wait for.
AHEAD = {run for name in PAGE & BATCHES.keys() for run in BATCHES[name]["needs"]}
if not PLAN["at_once"] or len({MADE_BY[run] for run in AHEAD}) < PLAN["at_once"]:
    AHEAD = set()


def made(run):
    """The last file of a finetuning run."""
    return f"{OUT}/runs/{run}/run.json"


def ahead(name):
    """Of these the order alone counts: a newer one makes nothing anew.

    Nor do they stand before what is there: Snakemake asks no more whether a job has changed that
    waits for such a file which is yet to be made.
    """
    there = Path(f"{OUT}/{name}/summary.json").is_file()
    return ancient([] if there or name in PAGE else [made(run) for run in sorted(AHEAD)])


def summaries(notebooks):
    return [f"{OUT}/{name}/summary.json" for name in notebooks]


for name, job in HAS.items():

    rule:
        name: name
        message: f"{name}: {job['about']}"
        input:
            notebook=ancient(job["file"]),  # of its code the parameters' file tells
            params=f"{OUT}/params/{name}.yaml",
            before=summaries(job["before"]),
            runs=[made(run) for run in job["runs"]],
            ahead=ahead(name),
        output:
            executed=f"{OUT}/{name}/executed.ipynb",
            summary=f"{OUT}/{name}/summary.json",
        threads: 1 if name == "99_report" else workflow.cores if name == "00_start" else THREADS
        priority: rank(name)
        resources:
            **({} if name == "99_report" else room(name)),
        params:
            sees=sees(name),
            start=START,
        # Snakemake counts a stage as done that has left all its files, also where it has failed.
        shell:
            "{params.sees}{params.start} -m papermill {input.notebook} {output.executed} -f {input.params} --engine relevit"
            " --no-progress-bar || (rm -f {output.summary}; exit 1)"


# A run that fails says so in its file instead of stopping the others; the report marks the gap,
# and the next call of the pipeline makes it again.
for number, (name, batch) in enumerate(BATCHES.items()):

    rule:
        name: name
        message: f"runs {number + 1} of {len(BATCHES)}: {batch['told']}"
        input:
            asked=[f"{OUT}/runs/{run}/asked.json" for run in batch["runs"]],
            needs=[made(run) for run in batch["needs"]],
            before=summaries(batch["before"]),
            ahead=ahead(name),
        output:
            made=[made(run) for run in batch["runs"]],
        params:
            runs=batch["runs"],
            sees=sees(name),
            start=START,
        threads: THREADS
        priority: rank(name)
        resources:
            **room(name),
        shell:
            "{params.sees}{params.start} -m reproduction.pipeline.make " + PRESET + " {params.runs}"


rule all:
    default_target: True
    input:
        [rule.output for rule in workflow.rules],
