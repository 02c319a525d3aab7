"""The page of homes: what is stored for it belongs to the scenes that are drawn today."""

import base64
import json
from pathlib import Path

import numpy as np
from PIL import Image

from habitats.cutouts import home_family
from habitats.homes import HOMES, habitats

STATIC = Path(__file__).parents[2] / "docs" / "_static"
SIDE, PATCHES, SEEN = 112, 8, 8


def test_what_is_stored_is_of_these_scenes():
    bench = habitats()
    text = (STATIC / "homes.js").read_text(encoding="utf-8")
    stored = json.loads(text.removeprefix("const HOMES = ").removesuffix(";\n"))
    assert stored["animals"] == list(bench.classes)
    assert stored["homes"] == [home.name for home in HOMES[:SEEN]]
    assert stored["home"] == [home_family(label) for label in range(len(bench.classes))]
    count = len(bench.classes) * SEEN
    for model in stored["models"].values():
        assert len(model["answers"]) == len(model["sure"]) == count
        assert len(base64.b64decode(model["maps"])) == count * PATCHES**2
    whole = np.asarray(Image.open(STATIC / "homes.webp").convert("RGB"), dtype=float)
    assert whole.shape == (len(bench.classes) * SIDE, SEEN * SIDE, 3)
    for animal, home in ((3, 2), (30, 7)):
        drawn = bench.draw("validation", [animal], labels=[animal], families=[home], size=SIDE)
        tile = whole[animal * SIDE :][:SIDE, home * SIDE :][:, :SIDE]
        assert np.abs(tile - drawn.images[0].permute(1, 2, 0).numpy()).mean() < 16, "but for WebP"
