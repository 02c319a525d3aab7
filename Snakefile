# The order of the stages and nothing else. Each shell line can be typed by hand.
# Run it through `make quick` or `make reproduce`, which check the parameters first.

from pathlib import Path

from relevit.base.stages import read_pipeline
from relevit.config import AblationsParams
from relevit.pipeline.sweep import compared_models, sweep_runs

PRESET = config["preset"]
SEEDS = config["seeds"]
THREADS = config.get("threads", workflow.cores)  # of a stage; on a cluster its profile's cores
OUT = f"outputs/{PRESET}"
PARAMS = f"params/{PRESET}"
PIPELINE = read_pipeline(PRESET)
SWEEP = {run.name: run.parameters for run in sweep_runs(PIPELINE)}
RUNS = list(SWEEP)
REAL = PIPELINE.benchmark.data == "imagenet"
EVALUATED = compared_models(PIPELINE) if REAL else []
GPUS = config.get("gpus", 0)
ABLATED = AblationsParams.from_preset(Path(PARAMS)).compared_model

PAPERMILL = "papermill {input.notebook} {output.executed}"
OPTIONS = " --engine relevit --no-progress-bar"
# Snakemake counts a stage as done that has left all its files, also where its last cells failed.
OR_FAIL = " || (rm -f {output.summary}; exit 1)"
ALONE = " -f {input.common} -f {input.params}"
SEEDED = " -f {input.common} -f {input.seeds} -f {input.params}"  # reads the preset's own runs


def stage(name, *shared):
    """The files that every stage reads: its notebook, what is shared, and its own parameters."""
    files = {key: f"{PARAMS}/{key}.yaml" for key in ("common", *shared)}
    return {"notebook": f"notebooks/{name}.ipynb", "params": f"{PARAMS}/{name}.yaml", **files}


def device(number, option="-p device"):
    """Runs in turn on several GPUs; not a parameter, since where a run is made changes nothing."""
    return f" {option} cuda:{number % GPUS}" if GPUS > 1 else " "


def searched(model, method="relevance"):
    """02_baselines, for all whose rate it finds: that of our method on the preset's own is older."""
    own = model == PIPELINE.model and method == "relevance"
    return [] if own else rules.baselines.output.summary


def options(run):
    """What papermill is told of a run of the sweep; None leaves a value to the paper."""
    return "".join(f" -p {key} {value}" for key, value in SWEEP[run].items())


wildcard_constraints:
    seed=r"\d+",
    model=r"[^./]+",
    method=r"[^./]+",
    protocol=r"[^./]+",
    masks=r"[^./]+",


rule original:
    message: "00_original: the model before relevance finetuning"
    input:
        **stage("00_original"),
    output:
        executed=f"{OUT}/00_original/executed.ipynb",
        summary=f"{OUT}/00_original/summary.json",
        weights=f"{OUT}/00_original/weights.safetensors",
    threads: workflow.cores
    priority: 1  # before the few that do not wait for it, which would keep a core from it
    resources:
        gpu=1,
    shell:
        PAPERMILL + ALONE + OPTIONS + OR_FAIL


rule start:
    message: "00_start: the data, the model, where it looks, where it errs"
    input:
        **stage("00_start"),
        original=rules.original.output.weights,
    output:
        executed=f"{OUT}/00_start/executed.ipynb",
        summary=f"{OUT}/00_start/summary.json",
        looks=f"{OUT}/00_start/looks.parquet",
    threads: THREADS
    priority: 1
    resources:
        gpu=1,
    shell:
        PAPERMILL + ALONE + OPTIONS + OR_FAIL


rule masks:
    message: "01_masks: masks without annotation"
    input:
        **stage("01_masks", "seeds"),
        runs=f"{PARAMS}/02_finetune.yaml",
        original=rules.original.output.weights if REAL else [],
    output:
        executed=f"{OUT}/01_masks/executed.ipynb",
        summary=f"{OUT}/01_masks/summary.json",
        quality=f"{OUT}/01_masks/quality.parquet",
        masks=f"{OUT}/01_masks/masks.safetensors",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        PAPERMILL + SEEDED + OPTIONS + OR_FAIL


rule learning_rate:
    message: "02_learning_rate: the highest rate that the validation images allow"
    input:
        **stage("02_learning_rate"),
        runs=f"{PARAMS}/02_finetune.yaml",
        original=rules.original.output.weights,
    output:
        executed=f"{OUT}/02_learning_rate/executed.ipynb",
        summary=f"{OUT}/02_learning_rate/summary.json",
        rates=f"{OUT}/02_learning_rate/rates.parquet",
    threads: THREADS
    priority: 2  # the longest chain: 02_learning_rate, 02_finetune, 03_robustness, 03_controls
    resources:
        gpu=1,
    shell:
        PAPERMILL + ALONE + OPTIONS + OR_FAIL


rule finetune:
    message: "02_finetune: relevance finetuning, seed {wildcards.seed}"
    input:
        **stage("02_finetune"),
        original=rules.original.output.weights,
        rate=rules.learning_rate.output.summary,
    output:
        executed=f"{OUT}/02_finetune/seed{{seed}}/executed.ipynb",
        summary=f"{OUT}/02_finetune/seed{{seed}}/summary.json",
        weights=f"{OUT}/02_finetune/seed{{seed}}/weights.safetensors",
    threads: THREADS
    priority: 2
    resources:
        gpu=1,
        device=lambda wildcards: device(SEEDS.index(int(wildcards.seed))),
    shell:
        PAPERMILL + ALONE + "{resources.device} -p seed {wildcards.seed}" + OPTIONS + OR_FAIL


rule baselines:
    message: "02_baselines: what GradMask and RRR train on, and their learning rates"
    input:
        **stage("02_baselines"),
        runs=f"{PARAMS}/02_finetune.yaml",
        original=rules.original.output.weights,
        rates=rules.learning_rate.output.rates,
    output:
        executed=f"{OUT}/02_baselines/executed.ipynb",
        summary=f"{OUT}/02_baselines/summary.json",
        rates=f"{OUT}/02_baselines/rates.parquet",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        PAPERMILL + ALONE + OPTIONS + OR_FAIL


# A run that fails says so in a file instead of stopping the others; the report marks the gap, and
# the next call of the pipeline makes it again.
rule sweep:
    message:
        "02_finetune: {wildcards.model}, {wildcards.method} {wildcards.protocol},"
        " {wildcards.masks} masks, seed {wildcards.seed}"
    input:
        **stage("02_finetune"),
        original=rules.original.output.weights,
        masks=lambda wildcards: rules.masks.output.masks if wildcards.masks == "tokencut" else [],
        rate=rules.learning_rate.output.summary,
        rates=lambda wildcards: searched(wildcards.model, wildcards.method),
    output:
        outcome=f"{OUT}/02_finetune/{{model}}.{{method}}.{{protocol}}.{{masks}}.seed{{seed}}/outcome.txt",
    params:
        folder=lambda wildcards, output: Path(output.outcome).parent,
        options=lambda wildcards, output: options(Path(output.outcome).parent.name),
    threads: THREADS
    resources:
        gpu=1,
        device=lambda wildcards: device(RUNS.index("{model}.{method}.{protocol}.{masks}.seed{seed}".format(**wildcards))),
    shell:
        "rm -f {params.folder}/summary.json; "
        "papermill {input.notebook} {params.folder}/executed.ipynb" + ALONE + "{resources.device}"
        "{params.options}" + OPTIONS +
        " && echo done > {output.outcome} || echo failed > {output.outcome}"


rule robustness:
    message: "03_robustness: nine test sets, original against finetuned"
    input:
        **stage("03_robustness", "seeds"),
        original=rules.original.output.weights,
        finetuned=expand(rules.finetune.output.weights, seed=SEEDS),
    output:
        executed=f"{OUT}/03_robustness/executed.ipynb",
        summary=f"{OUT}/03_robustness/summary.json",
        predictions=f"{OUT}/03_robustness/predictions.parquet",
        sizes=f"{OUT}/03_robustness/object_size.parquet",
    threads: THREADS
    priority: 2
    resources:
        gpu=1,
    shell:
        PAPERMILL + SEEDED + OPTIONS + OR_FAIL


rule controls:
    message: "03_controls: the same finetuning with and without the relevance terms"
    input:
        **stage("03_controls", "seeds"),
        runs=f"{PARAMS}/02_finetune.yaml",
        rate=rules.learning_rate.output.summary,
        answers=rules.robustness.output.predictions,
    output:
        executed=f"{OUT}/03_controls/executed.ipynb",
        summary=f"{OUT}/03_controls/summary.json",
        added=f"{OUT}/03_controls/added.parquet",
    threads: THREADS
    priority: 2
    resources:
        gpu=1,
    shell:
        PAPERMILL + SEEDED + OPTIONS + OR_FAIL


# On real sets it takes longer to evaluate a run than to make it: each run is a job of its own, and
# so is each original. 03_comparison reads what they leave.
rule answers:
    message: "03_comparison: nine test sets, {wildcards.compared}"
    input:
        params=[f"{PARAMS}/{name}.yaml" for name in ("common", "seeds", "03_comparison")],
        answered=lambda wildcards: (
            f"{OUT}/02_finetune/{wildcards.compared}/outcome.txt"
            if wildcards.compared in RUNS
            else rules.original.output.weights
        ),
    output:
        mark=touch(f"{OUT}/03_comparison/{{compared}}/answered"),
    threads: THREADS
    resources:
        gpu=1,
        device=lambda wildcards: device(EVALUATED.index(wildcards.compared), "--device"),
    shell:
        "python -m relevit.pipeline.answers " + PRESET + " {wildcards.compared}{resources.device}"


rule comparison:
    message: "03_comparison: ours, the baselines, both kinds of masks, and DINO"
    input:
        **stage("03_comparison", "seeds"),
        predictions=rules.robustness.output.predictions,
        sweep=expand(f"{OUT}/02_finetune/{{run}}/outcome.txt", run=RUNS),
        answers=expand(rules.answers.output.mark, compared=EVALUATED),
    output:
        executed=f"{OUT}/03_comparison/executed.ipynb",
        summary=f"{OUT}/03_comparison/summary.json",
        accuracies=f"{OUT}/03_comparison/accuracies.parquet",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        PAPERMILL + SEEDED + OPTIONS + OR_FAIL


rule segmentation:
    message: "04_segmentation: relevance maps against masks, twelve methods"
    input:
        **stage("04_segmentation", "seeds"),
        original=rules.original.output.weights,
        finetuned=expand(rules.finetune.output.weights, seed=SEEDS),
    output:
        executed=f"{OUT}/04_segmentation/executed.ipynb",
        summary=f"{OUT}/04_segmentation/summary.json",
        images=f"{OUT}/04_segmentation/finetuned_images.parquet",
        maps=f"{OUT}/04_segmentation/maps.safetensors",
    threads: THREADS
    priority: 1
    resources:
        gpu=1,
    shell:
        PAPERMILL + SEEDED + OPTIONS + OR_FAIL


rule attribution:
    message: "05_attribution: the methods side by side, and what they are made of"
    input:
        **stage("05_attribution"),
        original=rules.original.output.weights,
    output:
        executed=f"{OUT}/05_attribution/executed.ipynb",
        summary=f"{OUT}/05_attribution/summary.json",
    threads: THREADS
    priority: 1
    resources:
        gpu=1,
    shell:
        PAPERMILL + ALONE + OPTIONS + OR_FAIL


rule faithfulness:
    message: "06_faithfulness: erase what the maps call relevant"
    input:
        **stage("06_faithfulness", "seeds"),
        maps=rules.segmentation.output.maps,
    output:
        executed=f"{OUT}/06_faithfulness/executed.ipynb",
        summary=f"{OUT}/06_faithfulness/summary.json",
    threads: THREADS
    priority: 1
    resources:
        gpu=1,
    shell:
        PAPERMILL + SEEDED + OPTIONS + OR_FAIL


rule pretraining:
    message: "07_pretraining: four ways to pretrain, one way to finetune"
    input:
        **stage("07_pretraining"),
    output:
        executed=f"{OUT}/07_pretraining/executed.ipynb",
        summary=f"{OUT}/07_pretraining/summary.json",
        models=f"{OUT}/07_pretraining/models.parquet",
        shift=f"{OUT}/07_pretraining/shift.parquet",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        PAPERMILL + ALONE + OPTIONS + OR_FAIL


rule iav:
    message: "07_iav: do attention heads agree with the decision?"
    input:
        **stage("07_iav", "seeds"),
        pretraining=rules.pretraining.output.summary,
        original=rules.original.output.weights,
        finetuned=expand(rules.finetune.output.weights, seed=SEEDS),
    output:
        executed=f"{OUT}/07_iav/executed.ipynb",
        summary=f"{OUT}/07_iav/summary.json",
        scores=f"{OUT}/07_iav/scores.parquet",
        slopes=f"{OUT}/07_iav/slopes.parquet",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        PAPERMILL + SEEDED + OPTIONS + OR_FAIL


rule ablations:
    message: "08_ablations: what each part of the method does"
    input:
        **stage("08_ablations"),
        runs=f"{PARAMS}/02_finetune.yaml",
        original=rules.original.output.weights,
        rate=rules.learning_rate.output.summary,
        rates=searched(ABLATED),
    output:
        executed=f"{OUT}/08_ablations/executed.ipynb",
        summary=f"{OUT}/08_ablations/summary.json",
        ablations=f"{OUT}/08_ablations/ablations.parquet",
    threads: THREADS
    priority: 1  # long, and nothing but the report waits for it
    resources:
        gpu=1,
    shell:
        PAPERMILL + ALONE + OPTIONS + OR_FAIL


rule sis:
    message: "09_sis: sufficient input subsets"
    input:
        **stage("09_sis"),
        original=rules.original.output.weights,
        finetuned=expand(rules.finetune.output.weights, seed=SEEDS),
    output:
        executed=f"{OUT}/09_sis/executed.ipynb",
        summary=f"{OUT}/09_sis/summary.json",
        subsets=f"{OUT}/09_sis/sis.parquet",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        PAPERMILL + ALONE + OPTIONS + OR_FAIL


rule knn:
    message: "10_knn: nearest neighbours on classes never seen"
    input:
        **stage("10_knn", "seeds"),
        original=rules.original.output.weights,
        finetuned=expand(rules.finetune.output.weights, seed=SEEDS),
    output:
        executed=f"{OUT}/10_knn/executed.ipynb",
        summary=f"{OUT}/10_knn/summary.json",
        answers=f"{OUT}/10_knn/knn.parquet",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        PAPERMILL + SEEDED + OPTIONS + OR_FAIL


rule text:
    message: "11_text: attributions of a text classifier"
    input:
        **stage("11_text"),
    output:
        executed=f"{OUT}/11_text/executed.ipynb",
        summary=f"{OUT}/11_text/summary.json",
        accuracy=f"{OUT}/11_text/text_accuracy.parquet",
        perturbation=f"{OUT}/11_text/text_perturbation.parquet",
        rationales=f"{OUT}/11_text/text_rationales.parquet",
        shaded=f"{OUT}/11_text/shaded.html",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        PAPERMILL + ALONE + OPTIONS + OR_FAIL


rule clip:
    message: "12_clip: attributions of a model of images and text"
    input:
        **stage("12_clip"),
    output:
        executed=f"{OUT}/12_clip/executed.ipynb",
        summary=f"{OUT}/12_clip/summary.json",
        zero_shot=f"{OUT}/12_clip/clip_zero_shot.parquet",
        perturbation=f"{OUT}/12_clip/clip_perturbation.parquet",
        pointing=f"{OUT}/12_clip/clip_pointing.parquet",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        PAPERMILL + ALONE + OPTIONS + OR_FAIL


rule your_own:
    message: "13_your_own: one's own ViT, images and masks, or an example of them"
    input:
        **stage("13_your_own"),
    output:
        executed=f"{OUT}/13_your_own/executed.ipynb",
        summary=f"{OUT}/13_your_own/summary.json",
    threads: THREADS
    resources:
        gpu=1,
    shell:
        PAPERMILL + ALONE + OPTIONS + OR_FAIL


rule report:
    message: "99_report: everything on one page"
    input:
        **stage("99_report", "seeds"),
        start=rules.start.output.summary,
        masks=rules.masks.output.quality,
        baselines=rules.baselines.output.rates,
        segmentation=rules.segmentation.output.summary,
        attribution=rules.attribution.output.summary,
        faithfulness=rules.faithfulness.output.summary,
        iav=rules.iav.output.summary,
        predictions=rules.robustness.output.predictions,
        controls=rules.controls.output.added,
        comparison=rules.comparison.output.accuracies,
        ablations=rules.ablations.output.summary,
        sis=rules.sis.output.summary,
        knn=rules.knn.output.summary,
        text=rules.text.output.summary,
        clip=rules.clip.output.summary,
    output:
        executed=f"{OUT}/99_report/executed.ipynb",
        summary=f"{OUT}/99_report/summary.json",
    shell:
        PAPERMILL + SEEDED + OPTIONS + OR_FAIL


# What every rule makes: results that were deleted are made again while the report still stands.
rule all:
    default_target: True
    input:
        [rule.output for rule in workflow.rules if not rule.has_wildcards()],
        expand(rules.finetune.output, seed=SEEDS),
        expand(f"{OUT}/02_finetune/{{run}}/outcome.txt", run=RUNS),
        expand(rules.answers.output.mark, compared=EVALUATED),
