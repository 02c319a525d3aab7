"""The recipe of docs/library.md that makes a method one of captum's."""

from __future__ import annotations

import re
from pathlib import Path

import torch

import relevit
from relevit.attribution import METHODS, patch_grid

PAGE = (Path(relevit.__file__).parents[2] / "docs" / "library.md").read_text("utf-8")


def test_the_recipe_spreads_a_patch_evenly_over_its_pixels_and_channels(build_vit):
    (recipe,) = (
        code for code in re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE) if "captum" in code
    )
    model = build_vit(img_size=(14, 28))  # two rows and four columns of patches
    images = torch.randn(2, 3, 14, 28, generator=torch.Generator().manual_seed(1)).double()
    names = {"METHODS": METHODS, "patch_grid": patch_grid, "model": model, "images": images}
    exec(recipe, names)
    assert names["pixels"].shape == images.shape and names["pixels"].std() > 0
    found = names["Patches"](model).attribute(images, target=3)
    maps = METHODS["gae"](model, images, 3).unflatten(1, (2, 4)) / (3 * 7 * 7)
    wanted = maps.repeat_interleave(7, dim=1).repeat_interleave(7, dim=2)[:, None]
    torch.testing.assert_close(found, wanted.expand_as(images))
