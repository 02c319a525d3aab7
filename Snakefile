# The order of the stages and nothing else. Each shell line can be typed by hand.
# Run it through `make quick` or `make reproduce`, which check the parameters first.

PRESET = config["preset"]
SEEDS = config["seeds"]
THREADS = config.get("threads", 1)
OUT = f"outputs/{PRESET}"
PARAMS = f"params/{PRESET}"


rule all:
    input:
        f"{OUT}/report.html",


rule original:
    message: "00_original: the model before relevance finetuning"
    input:
        notebook="notebooks/00_original.ipynb",
        params=f"{PARAMS}/00_original.yaml",
    output:
        executed=f"{OUT}/00_original/executed.ipynb",
        summary=f"{OUT}/00_original/summary.json",
        weights=f"{OUT}/00_original/weights.safetensors",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        "papermill {input.notebook} {output.executed} -f {input.params} --no-progress-bar"


rule start:
    message: "00_start: the data, the model, where it looks, where it errs"
    input:
        notebook="notebooks/00_start.ipynb",
        params=f"{PARAMS}/00_start.yaml",
        original=rules.original.output.weights,
    output:
        executed=f"{OUT}/00_start/executed.ipynb",
        summary=f"{OUT}/00_start/summary.json",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        "papermill {input.notebook} {output.executed} -f {input.params} --no-progress-bar"


rule learning_rate:
    message: "02_learning_rate: the highest rate that the validation images allow"
    input:
        notebook="notebooks/02_learning_rate.ipynb",
        params=f"{PARAMS}/02_learning_rate.yaml",
        runs=f"{PARAMS}/02_finetune.yaml",
        original=rules.original.output.weights,
    output:
        executed=f"{OUT}/02_learning_rate/executed.ipynb",
        summary=f"{OUT}/02_learning_rate/summary.json",
        rates=f"{OUT}/02_learning_rate/rates.parquet",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        "papermill {input.notebook} {output.executed} -f {input.params} --no-progress-bar"


rule finetune:
    message: "02_finetune: relevance finetuning, seed {wildcards.seed}"
    input:
        notebook="notebooks/02_finetune.ipynb",
        params=f"{PARAMS}/02_finetune.yaml",
        original=rules.original.output.weights,
        rate=rules.learning_rate.output.summary,
    output:
        executed=f"{OUT}/02_finetune/seed{{seed}}/executed.ipynb",
        summary=f"{OUT}/02_finetune/seed{{seed}}/summary.json",
        weights=f"{OUT}/02_finetune/seed{{seed}}/weights.safetensors",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        "papermill {input.notebook} {output.executed} -f {input.params}"
        " -p seed {wildcards.seed} --no-progress-bar"


rule robustness:
    message: "03_robustness: nine test sets, original against finetuned"
    input:
        notebook="notebooks/03_robustness.ipynb",
        params=f"{PARAMS}/03_robustness.yaml",
        original=rules.original.output.weights,
        finetuned=expand(rules.finetune.output.weights, seed=SEEDS),
    output:
        executed=f"{OUT}/03_robustness/executed.ipynb",
        summary=f"{OUT}/03_robustness/summary.json",
        predictions=f"{OUT}/03_robustness/predictions.parquet",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        "papermill {input.notebook} {output.executed} -f {input.params} --no-progress-bar"


rule segmentation:
    message: "04_segmentation: relevance maps against masks, twelve methods"
    input:
        notebook="notebooks/04_segmentation.ipynb",
        params=f"{PARAMS}/04_segmentation.yaml",
        original=rules.original.output.weights,
        finetuned=expand(rules.finetune.output.weights, seed=SEEDS),
    output:
        executed=f"{OUT}/04_segmentation/executed.ipynb",
        summary=f"{OUT}/04_segmentation/summary.json",
        maps=f"{OUT}/04_segmentation/maps.safetensors",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        "papermill {input.notebook} {output.executed} -f {input.params} --no-progress-bar"


rule attribution:
    message: "05_attribution: the methods side by side, and what they are made of"
    input:
        notebook="notebooks/05_attribution.ipynb",
        params=f"{PARAMS}/05_attribution.yaml",
        original=rules.original.output.weights,
    output:
        executed=f"{OUT}/05_attribution/executed.ipynb",
        summary=f"{OUT}/05_attribution/summary.json",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        "papermill {input.notebook} {output.executed} -f {input.params} --no-progress-bar"


rule faithfulness:
    message: "06_faithfulness: erase what the maps call relevant"
    input:
        notebook="notebooks/06_faithfulness.ipynb",
        params=f"{PARAMS}/06_faithfulness.yaml",
        maps=rules.segmentation.output.maps,
    output:
        executed=f"{OUT}/06_faithfulness/executed.ipynb",
        summary=f"{OUT}/06_faithfulness/summary.json",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        "papermill {input.notebook} {output.executed} -f {input.params} --no-progress-bar"


rule report:
    message: "99_report: everything on one page"
    input:
        notebook="notebooks/99_report.ipynb",
        params=f"{PARAMS}/99_report.yaml",
        start=rules.start.output.summary,
        segmentation=rules.segmentation.output.summary,
        attribution=rules.attribution.output.summary,
        faithfulness=rules.faithfulness.output.summary,
        predictions=rules.robustness.output.predictions,
    output:
        executed=f"{OUT}/99_report/executed.ipynb",
        summary=f"{OUT}/99_report/summary.json",
    shell:
        "papermill {input.notebook} {output.executed} -f {input.params} --no-progress-bar"


rule page:
    message: "report.html"
    input:
        rules.report.output.executed,
    output:
        f"{OUT}/report.html",
    shell:
        "jupyter nbconvert {input} --to html --no-input --output-dir " + OUT + " --output report.html"
