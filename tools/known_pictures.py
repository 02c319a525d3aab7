"""Choose the score from which on the default model takes a picture for one of its classes.

    python tools/known_pictures.py                  5 min on 2 cores; writes assets/data/known.yaml
    python tools/known_pictures.py --photos FOLDER  also asks photographs, FOLDER/<class>/*

A softmax is sure of pictures of none of its classes. Four scores are compared: the largest
probability (Hendrycks and Gimpel 2017), the largest logit (Hendrycks et al. 2022), the energy (Liu
et al. 2020), and the cosine between the features and the nearest class mean in training. The rule:
the score whose area under the ROC curve is largest, own pictures against others, mean over kinds of
others, but one of the logits alone if it is at most SLACK_PTS lower, for it
stores one number; then the threshold that refuses as many own pictures as it lets others through.
Own pictures are those of the nine sets that the model answers rightly. An earlier rule, a
threshold that refuses 5 % of all in the nine sets, let three quarters of the others through: of
sketches a model knows hardly more than of noise. Errors are told on other draws and on kinds of
pictures that no choice has seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import yaml
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

from habitats.cutouts import TEST_SETS, Cutouts
from habitats.drawings import OBJECTS, PRETRAINING, UNSEEN
from habitats.homes import habitats
from habitats.textures import FAMILIES, SEEN, SIDE, draw_textures
from relevit.base.files import write_atomically
from relevit.models.loading import OwnModel, open_model

TARGET = Path(__file__).parents[1] / "lib" / "reproduction" / "assets" / "data" / "known.yaml"
SLACK_PTS = 2.0
COUNT, BATCH = 200, 50  # pictures of a kind; at once
CHOICE, TEST = 2, 3  # seeds
FEATURES = "class mean"
SCORES = ("probability", "logit", "energy", FEATURES)


def generated(draw: Callable[[np.random.Generator], np.ndarray], seed: int) -> Tensor:
    pictures = [draw(np.random.default_rng([seed, i])) for i in range(COUNT)]
    return torch.from_numpy(np.stack(pictures).round().clip(0, 255).astype(np.uint8)).movedim(3, 1)


def texture(families: range) -> Callable[[np.random.Generator], np.ndarray]:
    def draw(rng: np.random.Generator) -> np.ndarray:
        family, white = rng.choice(families, 1), rng.standard_normal((1, SIDE, SIDE))
        return draw_textures(family, white)[0, :112, :112]

    return draw


def ramp(rng: np.random.Generator) -> np.ndarray:
    """From one colour to another, in some direction."""
    y, x = np.mgrid[-1:1:112j, -1:1:112j]
    angle, (first, last) = rng.uniform(0, 2 * np.pi), rng.uniform(0, 255, (2, 3))
    share = ((np.cos(angle) * x + np.sin(angle) * y) / 2.83 + 0.5)[..., None]
    return first + share * (last - first)


def noise(rng: np.random.Generator) -> np.ndarray:
    """Colours at random, in squares of 1 to 16 pixels."""
    side = int(rng.choice([1, 2, 4, 8, 16]))
    return rng.uniform(0, 255, (112 // side, 112 // side, 3)).repeat(side, 0).repeat(side, 1)


def colour(rng: np.random.Generator) -> np.ndarray:
    return np.broadcast_to(rng.uniform(0, 255, 3), (112, 112, 3))


def stripes(rng: np.random.Generator) -> np.ndarray:
    y, x = np.mgrid[-1:1:112j, -1:1:112j]
    angle, waves = rng.uniform(0, np.pi), rng.uniform(4, 40)
    light = np.sin(waves * (np.cos(angle) * x + np.sin(angle) * y))[..., None] > 0
    first, last = rng.uniform(0, 255, (2, 3))
    return np.where(light, first, last)


def discs(rng: np.random.Generator) -> np.ndarray:
    y, x = np.mgrid[-1:1:112j, -1:1:112j]
    picture = np.broadcast_to(rng.uniform(0, 255, 3), (112, 112, 3))
    for _ in range(rng.integers(1, 6)):
        (top, left), radius = rng.uniform(-0.8, 0.8, 2), rng.uniform(0.1, 0.6)
        inside = ((y - top) ** 2 + (x - left) ** 2 < radius**2)[..., None]
        picture = np.where(inside, rng.uniform(0, 255, 3), picture)
    return picture


@lru_cache
def own(world: Cutouts, seed: int) -> dict[str, Tensor]:
    return {name: world.draw(name, range(COUNT), seed=seed).images for name in TEST_SETS}


@lru_cache
def others(seed: int) -> dict[str, Tensor]:
    """Pictures without any of the animals. Those of TEST are of other kinds than those of CHOICE,
    of which it has but new homes and things."""
    home = "only_background"
    if seed == CHOICE:
        things, drawn = habitats(drawings=PRETRAINING), habitats(drawings=OBJECTS)
        return {
            "homes": habitats().draw(home, range(COUNT), seed=seed).images,
            "things": things.draw("val", range(COUNT), seed=seed).images,
            "flat things": drawn.draw("r", range(COUNT), seed=seed).images,
            "sketched things": drawn.draw("sketch", range(COUNT), seed=seed).images,
            "textures": generated(texture(range(len(SEEN))), seed),
            "gradients": generated(ramp, seed),
            "noise": generated(noise, seed),
            "colours": generated(colour, seed),
        }
    strange = [len(SEEN) + i % (len(FAMILIES) - len(SEEN)) for i in range(COUNT)]
    things = habitats(drawings=UNSEEN)
    return {
        "new homes": habitats().draw(home, range(COUNT), families=strange, seed=seed).images,
        "new things": things.draw("val", range(COUNT), seed=seed).images,
        "new things, turned": things.draw("objectnet", range(COUNT), seed=seed).images,
        "new textures": generated(texture(range(len(SEEN), len(FAMILIES))), seed),
        "stripes": generated(stripes, seed),
        "discs": generated(discs, seed),
    }


@torch.inference_mode()
def seen(model: OwnModel, images: Tensor) -> tuple[Tensor, Tensor]:
    """Features before the head, and logits."""
    parts = []
    for part in images.split(BATCH):
        tokens = model.network.forward_features(model.spec.normalise(part))
        features = model.network.forward_head(tokens, pre_logits=True)
        parts.append((features, model.network.head(features)))
    return tuple(torch.cat(each) for each in zip(*parts, strict=True))


def scores(model: OwnModel, means: Tensor, images: Tensor) -> dict[str, Tensor]:
    """All scores, and the class that is answered."""
    features, logits = seen(model, images)
    return {
        "probability": logits.softmax(1).amax(1),
        "logit": logits.amax(1),
        "energy": logits.logsumexp(1),
        "class mean": (normalize(features, dim=1) @ means.T).amax(1),
        "answer": logits.argmax(1),
    }


def class_means(model: OwnModel, world: Cutouts) -> Tensor:
    train = world.draw("train", range(COUNT * 2))
    features = seen(model, train.images)[0]
    means = [features[train.labels == label].mean(0) for label in range(len(world.classes))]
    return normalize(torch.stack(means), dim=1)


def area_pct(ours: Tensor, others: Tensor) -> float:
    """That under the ROC curve: how often an own picture scores higher than another."""
    return 100 * float((ours[:, None] > others).double().mean())


def equal_errors(ours: Tensor, others: list[Tensor]) -> float:
    """The threshold that refuses as many own pictures as it lets others through, kinds alike."""
    steps = torch.cat([ours, *others]).sort().values

    def apart(limit: Tensor) -> float:
        through = torch.stack([(kind >= limit).double().mean() for kind in others]).mean()
        return abs(float((ours < limit).double().mean() - through))

    return float(min(steps, key=apart))


def right(found: dict[str, dict[str, Tensor]], score: str) -> dict[str, Tensor]:
    """The scores of pictures that are answered rightly."""
    truth = torch.arange(COUNT) % 40
    return {kind: each[score][each["answer"] == truth] for kind, each in found.items()}


def passed_pct(found: dict[str, Tensor], threshold: float) -> pd.Series:
    through = {kind: 100 * float((v >= threshold).double().mean()) for kind, v in found.items()}
    return pd.Series(through).dropna()


def photographs(folder: Path, model: OwnModel) -> dict[str, Tensor]:
    found = {}
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(place.iterdir())[:COUNT]
        found[place.name] = torch.stack([model.view.picture(Image.open(file)) for file in files])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path)
    asked, kept, score = parser.parse_args(), {}, ""
    for name, world in {"dinov2-s8": habitats()}.items():
        model = open_model(name)
        ask = partial(scores, model, class_means(model, world))
        ours, theirs = (
            {k: ask(v) for k, v in f.items()} for f in (own(world, CHOICE), others(CHOICE))
        )
        areas = pd.DataFrame(
            {
                each: {
                    kind: area_pct(torch.cat(list(right(ours, each).values())), found[each])
                    for kind, found in theirs.items()
                }
                for each in SCORES
            }
        )
        print(name, areas.round(1).to_string(), areas.mean().round(1).to_string(), sep="\n")
        best = areas.mean()
        plain = best.drop(FEATURES)
        score = score or (
            plain.idxmax() if plain.max() >= best.max() - SLACK_PTS else best.idxmax()
        )
        limit = equal_errors(
            torch.cat(list(right(ours, score).values())), [each[score] for each in theirs.values()]
        )
        limit = round(limit, 3)
        ours, theirs = ({k: ask(v) for k, v in f.items()} for f in (own(world, TEST), others(TEST)))
        known = passed_pct(right(ours, score), limit)
        pooled = torch.cat(list(right(ours, score).values()))
        sets = {
            "own": passed_pct({kind: each[score] for kind, each in ours.items()}, limit),
            "own, answered rightly": known,
            "others": passed_pct({kind: each[score] for kind, each in theirs.items()}, limit),
        }
        if asked.photos:
            found = {k: ask(v)[score] for k, v in photographs(asked.photos, model).items()}
            sets["photographs"] = passed_pct(found, limit)
        print(f"{score} from {limit} on: let through, percent")
        for what, told in sets.items():
            print(what, told.round(0).to_string(), f"mean {told.mean():.1f}", sep="\n", flush=True)
        kept[name] = {
            f"{score}_from": limit,
            "own_refused_pct": round(100 * float((pooled < limit).double().mean()), 1),
            "others_passed_pct": round(float(sets["others"].mean()), 1),
        }
    text = "# By tools/known_pictures.py, which says what the numbers are.\n"
    text += yaml.safe_dump(kept, sort_keys=False)
    write_atomically(TARGET, lambda path: path.write_text(text, encoding="utf-8"))


if __name__ == "__main__":
    main()
