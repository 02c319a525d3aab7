"""Every method finds the one patch that decides: no transposed grid, no shift by prefix tokens."""

from __future__ import annotations

import pytest
import torch

from relevit.attribution import METHODS
from relevit.attribution.integrated_gradients import integrated_gradients_pixels
from relevit.attribution.lrp import lrp_pixels
from relevit.attribution.smoothgrad import smoothgrad_pixels

from .. import patch_finder as finder
from ..attribution_cases import PROTOCOLS, explain, know_black


@pytest.fixture(scope="module")
def models():
    return {kind: know_black(finder.build(kind)) for kind in finder.KINDS}


@pytest.fixture(scope="module")
def image():
    return finder.bright_patch_image()


def test_the_bright_patch_decides(models, image):
    """The premise: without it, the class's logit is far lower."""
    for kind, model in models.items():
        with torch.no_grad():
            bright, dim = model(torch.cat([image, image.clamp(max=0.2)]))[:, finder.CLASS]
        assert bright > dim + 0.4, kind
        assert int(model(image).argmax()) == finder.CLASS, kind


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", finder.KINDS)
@pytest.mark.parametrize("name", METHODS)
def test_the_bright_patch_is_found(models, image, name, kind, protocol):
    found = explain(name, models[kind], image, protocol=protocol)[0]
    if (name, kind, protocol) == ("raw_attention", "average_alone", "published"):
        # Averages over keys (differences D2): without prefix tokens there is nothing to see.
        assert found.isnan().all()
        return
    assert found.shape == (finder.GRID[0] * finder.GRID[1],)
    assert found.isfinite().all()
    assert int(found.argmax()) == finder.BRIGHT
    others = found[torch.arange(len(found)) != finder.BRIGHT]
    assert found[finder.BRIGHT] > others.max() + 1e-6 * found.abs().max()


@pytest.mark.parametrize("kind", ["class_token_and_registers", "average", "distilled", "beit"])
def test_pixel_maps_stand_where_the_pixels_are(models, image, kind):
    rows = slice(finder.ROW * finder.SIDE, (finder.ROW + 1) * finder.SIDE)
    columns = slice(finder.COLUMN * finder.SIDE, (finder.COLUMN + 1) * finder.SIDE)
    inside = torch.zeros(image.shape[2:], dtype=torch.bool)
    inside[rows, columns] = True
    for method in (lrp_pixels, integrated_gradients_pixels, smoothgrad_pixels):
        pixels = method(models[kind], image)[0].abs()
        pixels = pixels.sum(dim=0) if pixels.ndim == 3 else pixels
        assert pixels[inside].mean() > 2 * pixels[~inside].mean(), method.__name__
