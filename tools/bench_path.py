"""How many points the path integral of the feedback needs: Gauss-Legendre and Riemann sums.

The feedback F_c and the token-wise map P * F_c of Beyond Intuition on Cutouts, with the shipped
model in float64, from black to the image. An error is the length of the difference over the
length of the reference (both Euclidean), image by image. References: 200 Riemann points as
published, whose own error is about a tenth of that of 20, and 64 Gauss-Legendre points.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor

from relevit.attribution.feedback import feed_back
from relevit.attribution.observe import observe
from relevit.attribution.path import integration_path
from relevit.attribution.perception import perceive
from relevit.data.cutouts import draw
from relevit.models import load_model, model_spec
from relevit.rows import pool_rows

MODEL, IMAGES, CHUNK = "tiny", 40, 40
TARGET_POINTS = 6  # that may cost the accuracy of the published 20
REFERENCES = {"200 Riemann": ("published", 200), "64 Gauss": ("described", 64)}
STATISTICS = (("mean", torch.mean), ("median", torch.median), ("max", torch.max))
SUMS = {"20 Riemann": ("published", 20)} | {f"{n} Gauss": ("described", n) for n in range(2, 9)}


@torch.no_grad()
def results(sums: dict[str, tuple[str, int]]) -> dict[str, dict[str, Tensor]]:
    """Feedback and map of every image, [images, patches], for every sum."""
    model, spec = load_model(MODEL).double(), model_spec(MODEL)
    images = spec.normalise(draw("val", range(IMAGES), size=spec.image_size).images).double()
    black = (-torch.tensor(spec.mean) / torch.tensor(spec.std)).view(3, 1, 1).to(images)
    seen = observe(model, images, gradients="last")
    rows = perceive(model, seen, "token_wise", "described", 1)
    found = {}
    for name, (protocol, points) in sums.items():
        path = integration_path(protocol, points)
        feedback = feed_back(model, images, seen, "integrated_gradient", path, black, CHUNK)
        found[name] = {
            "feedback": pool_rows(feedback, seen.pooling, seen.prefix),
            "map": pool_rows(rows * feedback, seen.pooling, seen.prefix),
        }
    return found


def relative_errors(found: Tensor, reference: Tensor) -> Tensor:
    """Length of the difference over the length of the reference, image by image."""
    return (found - reference).norm(dim=1) / reference.norm(dim=1)


def measure_path() -> dict[str, Any]:
    """Relative errors over images of every sum, and how many points are enough, as plain data."""
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
        for statistic, _ in STATISTICS:
            limit = column["20 Riemann"][statistic]
            points = [n for name, (protocol, n) in SUMS.items()
                      if protocol == "described" and column[name][statistic] <= limit]  # fmt: skip
            enough.append({"of": of, "against": against, "statistic": statistic,
                           "points": min(points, default=None)})  # fmt: skip
    return {"task": "path", "model": MODEL, "images": IMAGES, "errors": errors, "enough": enough}


def describe_path(row: dict[str, Any]) -> str:
    """The table as text, one line a sum."""
    names = [name for name, _ in STATISTICS]
    columns = list(product(("feedback", "map"), REFERENCES))
    cells = {(e["sum"], e["of"], e["against"]): " ".join(f"{e[name]:.1e}" for name in names)
             for e in row["errors"]}  # fmt: skip
    heads = "".join(f"{f'{of}, {against}':>27}" for of, against in columns)
    lines = [f"\npath, {row['model']}, {row['images']} images, relative error: {', '.join(names)}",
             f"  {'points':12}{heads}"]  # fmt: skip
    for name in dict.fromkeys(e["sum"] for e in row["errors"]):
        lines.append(f"  {name:12}" + "".join(f"{cells[name, *c]:>27}" for c in columns))
    for name in names:
        points = [e["points"] for e in row["enough"] if e["statistic"] == name]
        lines.append(f"  Gauss points as exact as 20 Riemann points, {name}: "
                     + ", ".join(str(n or "more than 8") for n in points))  # fmt: skip
        met = "met" if points[0] is not None and points[0] <= TARGET_POINTS else "missed"
        lines.append(f"  feedback against 200 Riemann, {name}: target <= {TARGET_POINTS}: {met}")
    return "\n".join(lines)
