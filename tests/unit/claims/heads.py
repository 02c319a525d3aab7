"""Made tables with which every claim of the IAV paper holds."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reproduction.heads import head_numbers

DINO, BEIT, DEIT, IN21K = "dino-b", "beit-b", "deit-b", "vit-b-in21k"
SELF, SUP = (DINO, BEIT), (IN21K, DEIT)
MODELS = (*SELF, *SUP)
SEEDS, LAYERS, HEADS, IMAGES, EPOCHS = (0, 1, 2), range(1, 13), range(1, 7), range(24), range(6)
ODD = tuple(range(1, 24, 2))
VALIDATION = {DINO: 98.0, BEIT: 97.0, IN21K: 97.3, DEIT: 96.8}
CORRUPTED = {DINO: 90.0, BEIT: 85.0, IN21K: 88.0, DEIT: 70.0}


def rows(**axes):
    """Every model and seed with every combination of the axes; `wiggle` is -1, 0 or 1."""
    levels = {"model": MODELS, "seed": SEEDS} | axes
    table = pd.MultiIndex.from_product(levels.values(), names=levels).to_frame(index=False)
    kind = np.where(table["model"].isin(SELF), "self-supervised", "supervised")
    place = table["model"].map({name: place for place, name in enumerate(MODELS)})
    return table.assign(kind=kind, wiggle=(table["seed"] + place) % 3 - 1)


def models():
    table = rows(epoch=EPOCHS)
    final = table["model"].map(VALIDATION) + 0.03 * table["wiggle"]
    values = final - 10 * (max(EPOCHS) - table["epoch"])
    loss = np.where(table["epoch"] > 0, 0.1, np.nan)
    return table.assign(validation_top1_pct=values, train_loss=loss)


def shift():
    cases = {"none": (0.0,), "blur": (1.0, 2.0), "jigsaw": (1.0, 2.0), "patch_jigsaw": (4.0, 16.0)}
    parts = []
    for name, levels in cases.items():
        table = rows(corruption=[name], level=levels)
        means = table["model"].map(VALIDATION if name == "none" else CORRUPTED)
        harder = np.where(table["level"] == max(levels), -2.0, 2.0) * (name != "none")
        parts.append(table.assign(top1_pct=means + harder + 0.1 * table["wiggle"], images=400))
    return pd.concat(parts, ignore_index=True)


def level_of(model, layer, head):
    """IA-scores before the images differ: supervised ones fall and spread in the middle."""
    if model == DINO:
        return 0.8 + 0.008 * (head - 3.5)
    if model == BEIT:
        return 0.4 if head == 1 else 0.75 + 0.01 * (head - 4)
    width = 0.06 if 5 <= layer <= 8 else 0.016
    return 0.85 - 0.05 * (layer - 1) + width * (head - 3.5)


def scores():
    table = rows(image=IMAGES, layer=LAYERS, head=HEADS)
    places = zip(*(table[name] for name in ("model", "layer", "head")), strict=True)
    level = np.array([level_of(*place) for place in places])
    width = table["model"].map(lambda name: 0.008 if name == IN21K else 0.004)
    score = level + width * (-1.0) ** table["image"] + 0.001 * table["wiggle"]
    own = table.assign(map="smoothgrad", score=score)
    return pd.concat([own, own.assign(map="mask", score=0.1 + score / 2)], ignore_index=True)


def numbers():
    """Of the heads, as the stage makes them, and no two seeds quite alike."""
    table = head_numbers(scores(), entropy(), space())
    return table.assign(value=table["value"] + 1e-4 * table["seed"] * table["number"].str.len())


def slopes():
    values = {
        "smoothgrad": {DINO: 0.0, BEIT: 0.02, IN21K: -0.5, DEIT: -0.5},
        "aav_dino": {DINO: 0.0, BEIT: 0.0, IN21K: -0.9, DEIT: -0.9},
    }
    table = rows(map=list(values))
    found = [values[name][model] for name, model in zip(table["map"], table["model"], strict=True)]
    table = table.assign(slope=np.array(found) + 0.01 * table["wiggle"])
    extra = table.iloc[:1].assign(model="dinov2-s")
    table = pd.concat([table, extra], ignore_index=True)
    return table.assign(low=table["slope"] - 0.03, high=table["slope"] + 0.03)


def epochs(**rises):
    """`rises` gives other gains of entropy in an epoch, by model."""
    rise = dict.fromkeys(SELF, -0.05) | dict.fromkeys(SUP, 0.05) | rises
    table = rows(epoch=EPOCHS, layer=(1, 2), head=(1, 2))
    gained = table["model"].map(rise) + 0.001 * table["wiggle"]
    return table.assign(entropy=3 + gained * table["epoch"])


def drift():
    table = rows(epoch=range(1, 6), quantity=("smoothgrad", "attention"))
    start = table["model"].map(lambda name: 0.02 if name in SELF else 0.05)
    values = (start + 0.001 * table["wiggle"]) * (5 - table["epoch"]) / 2.5
    return table.assign(difference=values)


def masking():
    points = {
        "attention": {DINO: 60.0, BEIT: 75.0, IN21K: 65.0, DEIT: 65.0},
        "smoothgrad": {DINO: 59.8, BEIT: 55.0, IN21K: 60.0, DEIT: 60.0},
        "random": dict.fromkeys(MODELS, 80.0),
    }
    table = rows(order=list(points), ratio_pct=(0.0, 10.0, 50.0, 90.0))
    pairs = zip(table["order"], table["model"], strict=True)
    masked = np.array([points[order][model] for order, model in pairs])
    values = np.where(table["ratio_pct"] > 0, masked + 50 - table["ratio_pct"], 98.0)
    wiggle = 0.1 * table["wiggle"] * (table["order"] == "attention")
    return table.assign(top1_pct=values + wiggle, images=40_000)


def entropy():
    """Grows with the object; the last layer has the boxes of IAV-10."""
    table = rows(image=IMAGES, layer=LAYERS, head=HEADS)
    model, layer, head = (table[name] for name in ("model", "layer", "head"))
    tilt = np.where(model.isin(SELF), 0.1, -0.1) * (layer - 6.5) / 5.5
    early = model.map({DINO: 3.02, BEIT: 3.3, IN21K: 2.95, DEIT: 3.2}) + tilt + 0.12 * (head - 3.5)
    width = model.map({IN21K: 0.2}).fillna(0.06)
    last = model.map({DINO: 3.4, BEIT: 3.4, IN21K: 3.0, DEIT: 2.5}) + width * (head - 3.5)
    by_image = model.map({IN21K: 0.4}).fillna(0.05) * (table["image"] / max(IMAGES) - 0.5)
    values = np.where(layer == 12, last, early) + by_image + 0.001 * table["wiggle"]
    return table.assign(entropy=values, object_share_pct=5.0 + table["image"])


def space():
    table = rows(layer=LAYERS)
    top = table["model"].map({DINO: 30.0, BEIT: 40.0, IN21K: 60.0, DEIT: 50.0})
    values = 5 + (top - 5) * table["layer"] / 12 + 0.5 * table["wiggle"]
    return table.assign(silhouette=-0.1, knn_pct=values, chance_pct=2.5)


def tables():
    """All tables of 08_iav and 08a_iav that claims read, by `stage/stem`."""
    lesson = {f"08a_iav/{of.__name__}": of() for of in (models, shift, scores, slopes, entropy)}
    figures = {f"08a_iav/{of.__name__}": of() for of in (epochs, drift, masking, space)}
    return {**lesson, **figures, "08a_iav/heads": numbers()}
