"""How many passes the path integral of the feedback needs, by three rules.

The feedback F_c and the token-wise map P * F_c of Beyond Intuition on Cutouts, with the shipped
model in float64, from black to the image. An error is the length of the difference over the
length of the reference (both Euclidean), image by image. References: 200 Riemann points as
published, whose own error is about a tenth of that of 20, and 64 Gauss-Legendre points.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

import torch
from torch import Tensor

from habitats.cutouts import CUTOUTS
from relevit.attribution.beyond_intuition import feed_back, perceive
from relevit.attribution.seen import observe
from relevit.models.loading import load_model
from relevit.models.registry import model_spec

MODEL, IMAGES = "tiny", 40
TARGET_PASSES = 6  # that may cost the accuracy of the published 20
REFERENCES = {"200 Riemann": ("riemann", 200), "64 Gauss": ("gauss", 64)}
STATISTICS = (("mean", torch.mean), ("median", torch.median), ("max", torch.max))
# The trapezoid's last point is the image itself, whose gradient is there already: one pass less.
SUMS = (
    {"20 Riemann": ("riemann", 20)}
    | {f"{n} trapezoid": ("trapezoid", n) for n in range(3, 10)}
    | {f"{n} Gauss": ("gauss", n) for n in range(2, 9)}
)


@torch.no_grad()
def results(sums: dict[str, tuple[str, int]]) -> dict[str, dict[str, Tensor]]:
    """Feedback and map of every image, [images, patches], for every sum."""
    model, spec = load_model(MODEL).double(), model_spec(MODEL)
    images = spec.normalise(
        CUTOUTS.draw("val", range(IMAGES), size=spec.image_size).images
    ).double()
    seen = observe(model, images, gradients="last")
    rows = perceive(model, seen, "token_wise")
    found = {}
    for name, (rule, points) in sums.items():
        path = {"steps": points, "rule": rule}
        feedback = feed_back(model, images, seen, "integrated_gradient", **path)
        found[name] = {"feedback": seen.pool(feedback), "map": seen.pool(rows * feedback)}
    return found


def relative_errors(found: Tensor, reference: Tensor) -> Tensor:
    """Length of the difference over the length of the reference, image by image."""
    return (found - reference).norm(dim=1) / reference.norm(dim=1)


def measure(_: argparse.Namespace) -> list[dict[str, Any]]:
    """One row: relative errors of every sum over images, and how many points are enough."""
    found = results(SUMS | REFERENCES)
    errors, enough = [], []
    for of, against in product(("feedback", "map"), REFERENCES):
        column = {}
        for name in (*SUMS, "200 Riemann"):
            values = relative_errors(found[name][of], found[against][of])
            column[name] = {
                statistic: float(function(values)) for statistic, function in STATISTICS
            }
            errors.append({"sum": name, "of": of, "against": against} | column[name])
        for (statistic, _), rule in product(STATISTICS, ("trapezoid", "gauss")):
            limit = column["20 Riemann"][statistic]
            passes = [
                n - (rule == "trapezoid")
                for name, (kind, n) in SUMS.items()
                if kind == rule and column[name][statistic] <= limit
            ]
            enough.append(
                {
                    "of": of,
                    "against": against,
                    "statistic": statistic,
                    "rule": rule,
                    "passes": min(passes, default=None),
                }
            )
    row = {"task": "path", "model": MODEL, "images": IMAGES}
    return [row | {"errors": errors, "enough": enough}]


def describe(row: dict[str, Any]) -> str:
    """The table as text, one line a sum."""
    names = [name for name, _ in STATISTICS]
    columns = list(product(("feedback", "map"), REFERENCES))
    cells = {
        (e["sum"], e["of"], e["against"]): " ".join(f"{e[name]:.1e}" for name in names)
        for e in row["errors"]
    }
    heads = "".join(f"{f'{of}, {against}':>27}" for of, against in columns)
    lines = [
        f"\npath, {row['model']}, {row['images']} images, relative error: {', '.join(names)}",
        f"  {'points':13}{heads}",
    ]
    for name in dict.fromkeys(e["sum"] for e in row["errors"]):
        lines.append(f"  {name:13}" + "".join(f"{cells[name, *c]:>27}" for c in columns))
    for name, rule in product(names, ("trapezoid", "gauss")):
        passes = [e["passes"] for e in row["enough"] if (e["statistic"], e["rule"]) == (name, rule)]
        lines.append(
            f"  passes of {rule} as exact as 20 Riemann points, {name}: "
            + ", ".join(str(n or "more than 8") for n in passes)
        )
        if rule == "trapezoid":
            met = "met" if passes[0] is not None and passes[0] <= TARGET_PASSES else "missed"
            lines.append(
                f"  feedback against 200 Riemann, {name}: target <= {TARGET_PASSES}: {met}"
            )
    return "\n".join(lines)
