# The order of the stages and nothing else. Each shell line can be typed by hand.
# Run it through `make quick` or `make reproduce`: they check the parameters first, and write the
# plan and each stage's parameters to outputs/<preset>/params.

import json
from pathlib import Path

PRESET = config["preset"]
THREADS = config.get("threads", workflow.cores)  # of a stage; on a cluster its profile's cores
GPUS = config.get("gpus", 0)
OUT = f"outputs/{PRESET}"
PLAN = json.loads(Path(f"{OUT}/params/plan.json").read_text())

# Notebooks, and those whose results they read. The finetuning runs that they read are in the plan.
READS = {
    "00_start": [],
    "01_masks": ["00_start"] if PLAN["real"] else [],
    "02_finetune": ["00_start"],
    "03_robustness": ["00_start"],
    "04_cures": ["00_start"],
    "06_attribution": ["00_start"],
    "07_segmentation": ["00_start"],
    "08_iav": ["00_start"],
    "05_ablations": ["00_start"],
    "09_text": [],
    "10_your_own": [],
}
READS["99_report"] = list(READS)
HAS = PLAN["notebooks"]  # a preset may have some of them alone, as study
READS = {name: [n for n in before if n in HAS] for name, before in READS.items() if name in HAS}
# Started first where there is a choice: what most others wait for.
FIRST = ("00_start", "01_masks", "03_robustness")


def made(run):
    """The last file of a finetuning run."""
    return f"{OUT}/runs/{run}/run.json"


def summaries(notebooks):
    return [f"{OUT}/{name}/summary.json" for name in notebooks]


for name, before in READS.items():

    rule:
        name: name
        message: f"{name}: {PLAN['notebooks'][name]['about']}"
        input:
            notebook=f"notebooks/{name}.ipynb",
            params=f"{OUT}/params/{name}.yaml",
            before=summaries(before),
            runs=[made(run) for run in PLAN["notebooks"][name]["runs"]],
        output:
            executed=f"{OUT}/{name}/executed.ipynb",
            summary=f"{OUT}/{name}/summary.json",
        threads: 1 if name == "99_report" else workflow.cores if name == "00_start" else THREADS
        priority: 3 if name == "00_start" else 1 if name in FIRST else 0
        resources:
            gpu=0 if name == "99_report" else 1,
        # Snakemake counts a stage as done that has left all its files, also where it has failed.
        shell:
            "papermill {input.notebook} {output.executed} -f {input.params} --engine relevit"
            " --no-progress-bar || (rm -f {output.summary}; exit 1)"


# A run that fails says so in its file instead of stopping the others; the report marks the gap,
# and the next call of the pipeline makes it again.
for number, batch in enumerate(PLAN["batches"]):

    rule:
        name: f"runs_{number}"
        message: f"runs {number + 1} of {len(PLAN['batches'])}: {batch['told']}"
        input:
            asked=[f"{OUT}/runs/{run}/asked.json" for run in batch["runs"]],
            needs=[made(run) for run in batch["needs"]],
            before=summaries(batch["before"]),
        output:
            made=[made(run) for run in batch["runs"]],
        params:
            runs=batch["runs"],
            # Where a run is made changes nothing.
            device=f" --device cuda:{number % GPUS}" if GPUS > 1 else "",
        threads: THREADS
        priority: 2 if batch["first"] else 0
        resources:
            gpu=1,
        shell:
            "python -m relevit.pipeline.make " + PRESET + " {params.runs}{params.device}"


rule all:
    default_target: True
    input:
        [rule.output for rule in workflow.rules],
