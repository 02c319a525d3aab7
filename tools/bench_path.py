"""How many points the path integral of the feedback needs: Gauss-Legendre and Riemann sums.

The feedback F_c and the token-wise map P * F_c of Beyond Intuition on Cutouts, with the shipped
model in float64, from black to the image. An error is the length of the difference over the
length of the reference (both Euclidean), image by image. References: 200 Riemann points as
published, whose own error is about a tenth of that of 20, and 64 Gauss-Legendre points.
"""

from __future__ import annotations

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

MODEL, IMAGES, CHUNK = "tiny", 8, 40
TARGET_POINTS = 6  # that may cost the accuracy of the published 20
REFERENCES = {"200 Riemann": ("published", 200), "64 Gauss": ("described", 64)}
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


def enough(rows: list[dict[str, Any]]) -> int | None:
    """Fewest Gauss points that err no more than 20 Riemann points, in every mean and maximum."""
    errors = {(r["sum"], r["of"], r["against"]): (r["mean"], r["max"]) for r in rows}
    for name, (protocol, points) in SUMS.items():
        pairs = [(value, errors["20 Riemann", *rest])
                 for (which, *rest), value in errors.items() if which == name]  # fmt: skip
        if protocol == "described" and all(
            a <= b for x, y in pairs for a, b in zip(x, y, strict=True)
        ):
            return points
    return None


def measure_path() -> dict[str, Any]:
    """Mean and largest relative error over images of every sum, as plain data."""
    found = results(SUMS | REFERENCES)
    rows = []
    for name in (*SUMS, "200 Riemann"):
        for of in ("feedback", "map"):
            for against in REFERENCES:
                errors = relative_errors(found[name][of], found[against][of])
                rows.append({"sum": name, "of": of, "against": against,
                             "mean": float(errors.mean()), "max": float(errors.max())})  # fmt: skip
    return {"task": "path", "model": MODEL, "images": IMAGES, "errors": rows,
            "points": enough(rows)}  # fmt: skip


def describe_path(row: dict[str, Any]) -> str:
    """The table as text, one line a sum."""
    cells = {(e["sum"], e["of"], e["against"]): f"{e['mean']:.1e} {e['max']:.1e}"
             for e in row["errors"]}  # fmt: skip
    columns = [(of, against) for of in ("feedback", "map") for against in REFERENCES]
    heads = "".join(f"{f'{of}, {against}':>22}" for of, against in columns)
    lines = [f"\npath, {row['model']}, {row['images']} images, relative error: mean, max",
             f"  {'points':12}{heads}"]  # fmt: skip
    for name in dict.fromkeys(e["sum"] for e in row["errors"]):
        lines.append(f"  {name:12}" + "".join(f"{cells[name, *c]:>22}" for c in columns))
    points = row["points"]
    met = "met" if points is not None and points <= TARGET_POINTS else "missed"
    lines.append(f"  Gauss points as exact as 20 Riemann points: {points}, "
                 f"target <= {TARGET_POINTS}: {met}")  # fmt: skip
    return "\n".join(lines)
