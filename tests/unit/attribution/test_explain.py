"""Heatmaps in one line: the methods' maps at the images' size, whatever the model's mode."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relevit.attribution import METHODS, explain, to_heatmap

from ..attribution_cases import PROTOCOLS, know_black


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("method", METHODS)
def test_heatmaps_at_the_images_size(build_vit, images, method, protocol):
    model = know_black(build_vit())
    maps = explain(model, images, method, protocol=protocol)
    assert maps.shape == (3, 1, 28, 28) and not maps.requires_grad
    assert torch.equal(maps.amin(dim=(1, 2, 3)), torch.zeros(3).double())
    # A map may be the same everywhere, as a clamped one of zeros is.
    assert bool(((maps == 0).flatten(1).all(1) | (maps.amax(dim=(1, 2, 3)) == 1)).all())
    if method != "smoothgrad":  # draws
        plain = METHODS[method](model, images, None, protocol=protocol).nan_to_num()
        assert torch.equal(maps, to_heatmap(plain, (28, 28), (4, 4)))


@pytest.mark.parametrize("target", [2, [2, 2, 2], (2, 2, 2), np.int64(2), torch.tensor(2)])
def test_one_class_for_all_or_one_each(build_vit, images, target):
    model = build_vit()
    wanted = explain(model, images, target=torch.tensor([2, 2, 2]))
    assert torch.equal(explain(model, images, target=target), wanted)
    first = explain(model, images, target=[2, 0, 1])
    assert torch.equal(first[0], wanted[0]) and not torch.equal(first[1], wanted[1])


def test_the_model_is_as_before(build_vit, images, state_of):
    model = build_vit(proj_drop_rate=0.5)
    wanted = explain(model, images)
    model.train()
    model.blocks[0].eval()
    before = state_of(model)
    assert torch.equal(explain(model, images), wanted)
    assert state_of(model) == before
    with pytest.raises(ValueError, match=r"target \[5, 5, 5\] for 3 images and 5 classes"):
        explain(model, images, target=5)
    assert state_of(model) == before


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    "target", [True, 1.0, [1, 2.0, 3], [True, False, True], "1", torch.tensor([1.0, 2, 3])]
)
def test_classes_are_whole_numbers(build_vit, images, target):
    with pytest.raises(ValueError, match=r"target .*: classes are whole numbers; give one for all"):
        explain(build_vit(), images, target=target)


@pytest.mark.wrong_types
def test_wrong_input(build_vit, images):
    model = build_vit()
    with pytest.raises(ValueError, match=r"target \[1, 2\] for 3 images and 5 classes; give one"):
        explain(model, images, target=[1, 2])
    with pytest.raises(ValueError, match=r"methods: \['gea'\] are unknown"):
        explain(model, images, "gea")
    with pytest.raises(ValueError, match=r"protocol 'text' is unknown"):
        explain(model, images, protocol="text")
    with pytest.raises(ValueError, match="explain: NaN or infinity among the pixels; give"):
        explain(model, images / 0)
    for wrong in (images[0], images.to(torch.uint8)):
        with pytest.raises(ValueError, match=r"give normalised ones, \[batch, 3, height, width\]"):
            explain(model, wrong)
