"""Choose the energy from which on the default model takes a picture for one of its classes.

    python tools/known_pictures.py     5 min on 2 cores; writes assets/data/known.yaml

A softmax is sure of pictures of none of its classes, so the score is the energy (Liu et al. 2020).
The rule: the threshold that refuses as many own pictures as it lets others through, kinds alike.
Own pictures are those of the nine sets that the model answers rightly. An earlier rule, a
threshold that refuses 5 % of all in the nine sets, let three quarters of the others through: of
sketches a model knows hardly more than of noise. Errors are told on other draws and on kinds of
pictures that no choice has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import yaml
from torch import Tensor

from habitats.cutouts import TEST_SETS
from habitats.drawings import OBJECTS, PRETRAINING, UNSEEN
from habitats.homes import habitats
from habitats.textures import FAMILIES, SEEN, SIDE, draw_textures
from relevit.base.files import write_atomically
from relevit.models.loading import OwnModel, open_model

TARGET = Path(__file__).parents[1] / "lib" / "reproduction" / "assets" / "data" / "known.yaml"
COUNT, BATCH = 200, 50  # pictures of a kind; at once
CHOICE, TEST = 2, 3  # seeds
MODEL = "dinov2-s8"


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
def asked(model: OwnModel, images: Tensor) -> tuple[Tensor, Tensor]:
    """The energy of each picture, and the class that is answered."""
    parts = [model.network(model.spec.normalise(part)) for part in images.split(BATCH)]
    logits = torch.cat(parts)
    return logits.logsumexp(1), logits.argmax(1)


def energies(model: OwnModel, seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Of own pictures that are answered rightly, and of others, by kind."""
    truth, ours = torch.arange(COUNT) % 40, {}
    for name in TEST_SETS:
        energy, answer = asked(model, habitats().draw(name, range(COUNT), seed=seed).images)
        ours[name] = energy[answer == truth]
    return ours, {kind: asked(model, images)[0] for kind, images in others(seed).items()}


def equal_errors(ours: Tensor, others: list[Tensor]) -> float:
    """The threshold that refuses as many own pictures as it lets others through, kinds alike."""
    steps = torch.cat([ours, *others]).sort().values

    def apart(limit: Tensor) -> float:
        through = torch.stack([(kind >= limit).double().mean() for kind in others]).mean()
        return abs(float((ours < limit).double().mean() - through))

    return float(min(steps, key=apart))


def passed_pct(found: dict[str, Tensor], threshold: float) -> pd.Series:
    through = {kind: 100 * float((v >= threshold).double().mean()) for kind, v in found.items()}
    return pd.Series(through).dropna()


def main() -> None:
    model = open_model(MODEL)
    ours, theirs = energies(model, CHOICE)
    limit = round(equal_errors(torch.cat(list(ours.values())), list(theirs.values())), 3)
    ours, theirs = energies(model, TEST)
    pooled, through = torch.cat(list(ours.values())), passed_pct(theirs, limit)
    for told in (passed_pct(ours, limit), through):
        print(told.round(0).to_string(), f"mean {told.mean():.1f}", sep="\n", flush=True)
    kept = {
        "energy_from": limit,
        "own_refused_pct": round(100 * float((pooled < limit).double().mean()), 1),
        "others_passed_pct": round(float(through.mean()), 1),
    }
    text = "# By tools/known_pictures.py, which says what the numbers are.\n"
    text += yaml.safe_dump({MODEL: kept}, sort_keys=False)
    write_atomically(TARGET, lambda path: path.write_text(text, encoding="utf-8"))


if __name__ == "__main__":
    main()
