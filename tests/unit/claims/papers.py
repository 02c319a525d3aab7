"""The papers' own numbers as tables of a run: what each criterion is held against first.

A printed number has no interval, so three equal seeds and images without end stand for it. Of a
claim about an average the table is the mean over the paper's models, else there is one a model.
"""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pandas as pd

from relevit.models.registry import PAPER_MODELS
from reproduction.claims import judge
from reproduction.measures import leads
from reproduction.measures.accuracies import agreement
from reproduction.paper.published import (
    published_ablation,
    published_perturbation,
    published_rows,
    published_segmentation,
)

SEEDS = (0, 1, 2)
DINO, BEIT, DEIT, IN21K = "dino-b", "beit-b", "deit-b", "vit-b-in21k"

RUNS, ABLATIONS, SPLIT = (
    "04a_cures/accuracies",
    "05_ablations/ablations",
    "03a_robustness/split_accuracies",
)
CHANGES = "03_robustness/changes"
OUTLINES, AREAS = "07a_segmentation/methods_segmentation", "07a_segmentation/methods_perturbation"
TUNED = "07a_segmentation/finetuned_"
SEVEN = ("ViT-B", "ViT-L", "AR-S", "AR-B", "AR-L", "DeiT-S", "DeiT-B")
FIVE = ("ViT-B", "AR-S", "AR-B", "DeiT-S", "DeiT-B")  # on which the baselines were run
TWO = ("ViT-B", "DeiT-B")
THREE = ("ViT-B", "DeiT-B", "AR-B")
OUR_NAMES = {
    theirs: ours for ours, model in PAPER_MODELS.items() for theirs in model.papers.values()
}
METHODS = {"ours": "relevance"}


def exact(rows, seed="seed", images=np.inf):
    """The rows for three seeds, over images without end."""
    return pd.concat([rows.assign(**{seed: n}) for n in SEEDS], ignore_index=True).assign(
        images=images
    )


def frame(rows, columns):
    """A table of these rows; the names of its columns stand in one text."""
    return pd.DataFrame(list(rows), columns=columns.split())


@cache
def printed(*tables):
    """Top-1 and top-5 of each method, with the original's, as a run has them."""
    keys = ["model", "method", "masks", "classes", "dataset"]
    rows = published_rows(*tables).drop_duplicates([*keys, "metric"])
    wide = rows.pivot(index=keys, columns="metric", values=["value_pct", "reference_pct"])
    wide.columns = [
        f"{'original_' * (kind == 'reference_pct')}{metric}_pct" for kind, metric in wide
    ]
    return wide.reset_index()


def mean_over_models(rows):
    """One model that is the mean of the paper's; those without a number count for nothing."""
    keys = [name for name in rows.select_dtypes(exclude="number") if name != "model"]
    return rows.groupby(keys).mean(numeric_only=True).reset_index().assign(model="mean")


def changes(*models, masks="annotated"):
    rows = printed("main_T1", "main_T2").query("method == 'ours' and masks == @masks")
    rows = mean_over_models(rows[rows["model"].isin(models)])
    for metric in ("top1", "top5"):
        change = rows[f"{metric}_pct"] - rows[f"original_{metric}_pct"]
        rows = rows.assign(**{f"change_{metric}_{name}": value for name, value in
                              (("pts", change), ("std_pts", 0.0), ("se_pts", 0.0))})  # fmt: skip
    return {CHANGES: rows.assign(arm="ours", seeds=3, images=50_000)}


def of_seeds(model):
    """Three seeds, with their std (T8)."""
    rows = published_rows("arxiv_T8").query("model == @model")
    ours = rows[rows["method"] == "ours"].set_index("dataset")
    first = rows[rows["method"] == "original"].set_index("dataset")["value_pct"]
    table = {"change_top1_pts": ours["value_pct"] - first, "change_top1_std_pts": ours["std_pts"]}
    table = pd.DataFrame(table).reset_index()
    return {CHANGES: table.assign(arm="ours", change_top1_se_pts=0.0, seeds=3, images=50_000)}


def runs(*models):
    rows = printed("main_T1", "main_T2").query("method != 'original'").replace({"method": METHODS})
    rows = mean_over_models(rows[rows["model"].isin(models)])
    return {RUNS: exact(rows.assign(protocol="published", arm=rows["method"]))}


def with_baselines(model):
    return changes(model) | (runs(model) if model in FIVE else {})


def ablations(*models):
    rows = printed("main_T4", "arxiv_T12", "supp_T8", "supp_T9").query("method != 'original'")
    rows = mean_over_models(rows[rows["model"].isin(models)])
    table = exact(rows.assign(variant=rows["method"].replace({"ours": "full"})))
    of_both = table.dropna(subset="top1_pct")  # the losses alone are printed in top-5
    found = agreement(of_both).assign(images=np.inf)
    if len(models) == 1:
        table = table.assign(model=OUR_NAMES[models[0]])
    return {ABLATIONS: table, "05_ablations/agreement": found}


def split():
    rows = printed("arxiv_T10", "arxiv_T11").query("method == 'ours' and classes != 'all'")
    rows = mean_over_models(rows)
    parts = [
        rows.assign(weights=name, top1_pct=rows[f"{prefix}top1_pct"])
        for name, prefix in (("original", "original_"), ("finetuned", ""))
    ]
    columns = ["weights", "dataset", "classes", "top1_pct"]
    return {SPLIT: exact(pd.concat(parts)[columns], "model_run", images=10**15)}


def backbones():
    rows = printed("supp_T10").set_index(["model", "method", "dataset"])["top1_pct"]
    columns = ["top1_pct", "original_top1_pct"]
    kinds = {
        ("dino-b", "linear_probe", "", ""): ("DINO-B", "dino_linear", "DINO-B", "dino_finetuned"),
        ("dino-b", "relevance", "published", "tokencut"): (
            "DINO-B",
            "ours",
            "DINO-B",
            "dino_finetuned",
        ),
        ("deit-b", "relevance", "published", "tokencut"): ("DeiT-B", "ours", "DeiT-B", "original"),
    }
    parts = []
    for kind, (model, method, other, before) in kinds.items():
        table = pd.DataFrame({columns[0]: rows[model, method], columns[1]: rows[other, before]})
        named = dict(zip(("model", "method", "protocol", "masks"), kind, strict=True))
        parts.append(table.reset_index().assign(**named))
    return {RUNS: exact(pd.concat(parts, ignore_index=True))}


def finetuned(model):
    """Maps before and after (T3, supplement T12)."""
    outlined = published_segmentation().query("table == 'main_T3' and model == @model")
    erased = published_perturbation().query("table == 'supp_T12' and model == @model")
    erased = erased.rename(columns={"direction": "metric", "auc_pct": "value_pct"})
    rows = pd.concat([outlined, erased]).pivot(index="metric", columns="method", values="value_pct")
    changes = (rows["ours"] - rows["original"]).rename("change_pts").reset_index()
    alike = [changes.assign(index=image) for image in range(2)]
    return {TUNED + "changes": exact(pd.concat(alike), "model_run")}


def means_of_finetuned(model):
    """The same as means, for the report."""
    outlined = published_segmentation().query("table == 'main_T3' and model == @model")
    erased = published_perturbation().query("table == 'supp_T12' and model == @model")
    return [
        rows.assign(model_run=np.where(rows["method"] == "ours", "seed0", "original"))
        for rows in (outlined, erased)
    ]


def methods(**models):
    """Both tests of Beyond Intuition, of models under our names; and what leads."""
    theirs = {theirs: ours.replace("_", "-") for ours, theirs in models.items()}
    outlined = published_segmentation().query("paper == 'beyond_intuition'")
    erased = published_perturbation().query("table == 'T1'")
    tables = []
    for rows, value in ((outlined, "value_pct"), (erased, "auc_pct")):
        rows = rows[rows["model"].isin(theirs)].replace({"model": theirs})
        tables.append(rows.assign(low_pct=rows[value], high_pct=rows[value]))
    found = dict(zip((OUTLINES, AREAS), tables, strict=True))
    return found | {"07a_segmentation/leads": leads(found[AREAS])} if len(tables[1]) else found


def faithful():
    """GAE, which Beyond Intuition calls GA, over its three models."""
    rows = methods(vit_b="ViT-B", vit_l="ViT-L", mae_b="ViT-MAE")[AREAS].replace({"ga": "gae"})
    keys = ["method", "direction", "target"]
    mean = rows.groupby(keys)[["auc_pct", "low_pct", "high_pct"]].mean()
    return {AREAS: mean.reset_index().assign(model="vit-b")}


def combinations():
    table = published_ablation()
    values = {name.removesuffix("_pct").removesuffix("_auc"): name for name in table.columns[2:]}
    ends = {
        f"{of}_{end}_pct": table[name] for of, name in values.items() for end in ("low", "high")
    }
    return {"06a_attribution/ablation": table.assign(**ends)}


def dual():
    rows = published_perturbation().query("table == 'T3'")
    rows = rows.assign(model="clip-b32")
    areas = rows.assign(low_pct=rows["auc_pct"], high_pct=rows["auc_pct"])
    shot = frame([["clip-b32", 60.0, 60.0, 60.0, 0.1]],
                 "model accuracy_pct low_pct high_pct chance_pct")  # fmt: skip
    return {"09a_text/clip_perturbation": areas, "09a_text/clip_zero_shot": shot}


def neighbours():
    """Supplement M, in the text."""
    rows = [["inat2021_mini", k, 3, change, 0.0, 0.0] for k, change in ((1, 5.37), (10, 5.28))]
    columns = "data k seeds change_pts change_std_pts standard_error_pts"
    return {"03a_robustness/knn_changes": frame(rows, columns)}


def answers():
    """Sec. V.A, in the text: 98 % and about 97 %."""
    top = {DINO: 98.0, BEIT: 97.0, IN21K: 97.0, DEIT: 97.0}
    rows = [[model, 30, value] for model, value in top.items()]
    return {"08a_iav/models": exact(frame(rows, "model epoch validation_top1_pct"))}


def drift():
    """Sec. V.B, in the text: about 0.02 and 0.05."""
    sizes = {DINO: 0.02, BEIT: 0.02, IN21K: 0.05, DEIT: 0.05}
    rows = [[model, what, epoch, size * (epoch < 30)] for model, size in sizes.items()
            for what in ("smoothgrad", "attention") for epoch in (1, 30)]  # fmt: skip
    return {"08a_iav/drift": exact(frame(rows, "model quantity epoch difference"))}


def each(table, models):
    return {model: partial(table, model) for model in models}


def methods_of_all():
    return methods(vit_b="ViT-B", vit_l="ViT-L", mae_b="ViT-MAE", dino_b="ViT-B-DINO")


MEAN = {"mean of seven": partial(changes, *SEVEN)}
OF_TWO = each(ablations, TWO)
# Claim -> the tables that it is held against, by whose they are.
NUMBERS = {
    "RV-01": MEAN,
    "RV-02": MEAN,
    "RV-03": each(changes, SEVEN),
    "RV-04": MEAN,
    "RV-05": {"mean of five": partial(runs, *FIVE)},
    "RV-06": {model: partial(with_baselines, model) for model in SEVEN},
    "RV-07": {"mean of seven": partial(runs, *SEVEN)},
    "RV-08": each(finetuned, SEVEN),
    "RV-09": {"mean of three": split},
    "RV-10": OF_TWO,
    "RV-11": OF_TWO,
    "RV-12": each(ablations, ("DeiT-B",)),
    "RV-13": each(ablations, ("ViT-B",)),
    "RV-14": OF_TWO,
    "RV-15": each(ablations, ("ViT-B",)),
    "RV-19": each(of_seeds, SEVEN),
    "RV-29": OF_TWO,
    "RV-30": OF_TWO,
    **{id: {"DINO-B": backbones} for id in ("RV-31", "RV-32", "RV-33", "RV-34")},
    "RV-36": {"text": neighbours},
    "RV-39": each(finetuned, THREE),
    "RV-40": {"mean of three": faithful},
    **{f"BI-{n:02}": {"four models": methods_of_all} for n in (7, 13, 15, 17, 18, 19)},
    "BI-12": {"CLIP": dual},
    "BI-16": {"ViT-B": combinations},
    "IAV-01": {"text": answers},
    "IAV-05": {"text": drift},
}


def numbers():
    """What the criteria take of the papers' own tables, in the mean over whose these are."""
    rows = [
        (id, part.name, part.value)
        for id, tables in NUMBERS.items()
        for made in tables.values()
        for part in judge(made(), only=[id])[0].parts
    ]
    found = frame(rows, "id name value")
    return found.groupby(["id", "name"], sort=False, as_index=False).mean()


CURVES, WORDS = "in a figure alone", "in words alone"
WITHOUT = {
    **dict.fromkeys(("RV-16", "RV-17", "RV-18", "RV-22", "RV-37", "RV-38"), CURVES),
    **dict.fromkeys(("RV-20", "RV-21", "RV-23", "RV-27", "RV-28", "RV-41", "RV-42"), WORDS),
    "RV-24": "names of classes, without their numbers",
    "RV-25": "answers to single images",
    "RV-26": "20 of 20 pairs, which is the line",
    "RV-35": "its own tables show the opposite",
    "RV-43": "another paper's result",
    **dict.fromkeys(("BI-01", "BI-02", "BI-03", "BI-04"), "curves, and a factor that is the line"),
    **dict.fromkeys(("BI-05", "BI-06", "BI-22"), "an assumption, a derivation, a definition"),
    **dict.fromkeys(("BI-08", "BI-09", "BI-10", "BI-11", "BI-14", "BI-20"), CURVES),
    "BI-21": "one photo",
    **{f"IAV-{n:02}": CURVES for n in (2, 3, 4, *range(6, 20))},
    **dict.fromkeys(("IAV-20", "IAV-21", "IAV-22"), WORDS),
}
