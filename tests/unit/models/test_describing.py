"""The families that docs/library.md names, in small: what runs runs, what is refused is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import relevit
from relevit.attribution import METHODS, explain
from relevit.models import load_model, open_model

from .conftest import SMALL, made

pytestmark = pytest.mark.usefixtures("no_network")

PAGE = (Path(relevit.__file__).parents[2] / "docs" / "library.md").read_text("utf-8")
RUN = re.findall(r"^\| .+ \| `(\w+)` \| (all.*) \|$", PAGE, re.MULTILINE)
NO_RULE = "no propagation rule|patches of pixels by one"
MAYBE_FLAT = ("raw_attention", "gradcam")  # differences D2, C19
SWIN = "swin_tiny_patch4_window7_224"  # whose sentence the page has
OTHERS = ("convnext_atto", "cait_xxs24_224", "volo_d1_224", "resnet18", "xcit_nano_12_p16_224")


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
@pytest.mark.parametrize("name", dict(RUN))
def test_a_family_is_read_from_its_own_file(tmp_path, name, ending):
    model, path = made(name), tmp_path / f"mine.{ending}"
    (save_file if ending == "safetensors" else torch.save)(model.state_dict(), path)
    own = open_model(name, path, options=SMALL)
    images = torch.randn(2, 3, 32, 32)
    assert torch.equal(own.network(images), model(images)) and own.spec.classes == 5
    assert (own.spec.image_size, own.spec.grid) == (32, (4, 4))
    body = load_model(name, path, classes=3, new_head=True, options=SMALL)
    assert torch.equal(body.forward_features(images), model.forward_features(images))


@pytest.mark.parametrize(("name", "methods"), RUN)
def test_the_methods_of_a_family(name, methods):
    model, images, no_rule = made(name), torch.randn(2, 3, 32, 32), []
    for method in METHODS:
        try:
            maps = torch.cat([explain(model, images, of, method=method) for of in range(3)])
        except ValueError as error:
            no_rule += [method] * bool(re.search(NO_RULE, str(error)))
            continue
        assert maps.isfinite().all() and (method in MAYBE_FLAT or maps.std() > 0.01), method
    assert methods == (f"all but {', '.join(no_rule)}" if no_rule else "all")


def test_patches_that_leave_a_rest_are_refused_before_any_weights_are_fetched():
    told = "patches of 14 x 14 pixels do not fill .* 384 x 384; give .*img_size.* of 378 x 378"
    with pytest.raises(ValueError, match=told):
        load_model("vit_so400m_patch14_siglip_gap_384")


@pytest.mark.parametrize("name", [SWIN, *OTHERS])
def test_other_families_are_refused_in_a_sentence(name):
    text = rf"'{name}' has no relevance maps: .* no blocks.*use a timm .*DINOv2"
    with pytest.raises(ValueError, match=text):
        load_model(name)  # before any weights are fetched
    with pytest.raises(ValueError, match=text) as caught:
        load_model(name, "random")
    assert name != SWIN or str(caught.value) in PAGE
