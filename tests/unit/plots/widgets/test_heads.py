"""The explorer: what is chosen is what is drawn, marked and said."""

from __future__ import annotations

import time
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from relevit.iav.measure import Explanation
from relevit.iav.scores import class_attention
from relevit.plots.widgets.explorer import jpeg
from relevit.plots.widgets.heads import (
    Choice,
    HeadPicture,
    explorer_picture,
    head_explorer,
    method_explorer,
)

IMAGES, SIZE, PATCHES = 3, 28, 16
NAN = float("nan")
TITLES = ["cat", "dog & <ox>", "ant"]


def make_view(layers: int, heads: int, seed: int = 0, maps=("SmoothGrad", "mask")) -> Explanation:
    random = torch.Generator().manual_seed(seed)
    return Explanation(
        attention=torch.rand(IMAGES, layers, heads, PATCHES, generator=random),
        maps={name: torch.rand(IMAGES, PATCHES, generator=random) for name in maps},
        grid=(4, 4),
    )


@pytest.fixture
def images():
    random = torch.Generator().manual_seed(7)
    return torch.randint(0, 256, (IMAGES, 3, SIZE, SIZE), generator=random, dtype=torch.uint8)


@pytest.fixture
def views():
    """One model of 4 layers with 3 heads, another of 2 layers with 5 and fewer maps."""
    return {"deep": make_view(4, 3), "wide": make_view(2, 5, seed=1, maps=("mask",))}


@pytest.fixture
def explorer(images, views):
    return head_explorer(images, views, TITLES)


def score_text(view: Explanation, map_name: str, image: int, layer: int, head: int) -> str:
    return f"IA-score {float(view.scores(map_name)[image - 1, layer - 1, head - 1]):.2f} "


# The controls


def test_it_starts_in_the_last_layer_with_a_picture(explorer, views, shown):
    picture, state = shown(explorer)
    assert Image.open(BytesIO(picture)).format == "JPEG"
    assert "deep, image 1: cat, SmoothGrad: layer 4, head 1, " in state
    assert score_text(views["deep"], "SmoothGrad", 1, 4, 1) in state


@pytest.mark.parametrize(
    ("control", "value", "place"),
    [
        ("layer", 2, ("SmoothGrad", 1, 2, 1)),
        ("head", 3, ("SmoothGrad", 1, 4, 3)),
        ("image", 3, ("SmoothGrad", 3, 4, 1)),
        ("map_name", "mask", ("mask", 1, 4, 1)),
    ],
)
def test_a_control_changes_picture_and_score(explorer, views, control, value, place, shown):
    picture, _ = shown(explorer)
    getattr(explorer, control).value = value
    after, state = shown(explorer)
    assert after != picture
    assert score_text(views["deep"], *place) in state
    assert f"layer {place[2]}, head {place[3]}" in state


def test_back_where_it_was_it_shows_what_it_showed(explorer, shown):
    before = shown(explorer)
    for value in (1, 4):
        explorer.layer.value = value
    for name in ("wide", "deep"):
        explorer.model.value = name
    explorer.layer.value, explorer.map_name.value = 4, "SmoothGrad"
    assert shown(explorer) == before


def test_limits_and_maps_follow_the_model(explorer, views):
    explorer.head.value = 3
    explorer.model.value = "wide"
    assert (explorer.layer.max, explorer.head.max, explorer.image.max) == (2, 5, IMAGES)
    assert (explorer.layer.value, explorer.head.value) == (2, 3), "only what is too large moves"
    assert explorer.map_name.options == ("mask",)
    assert score_text(views["wide"], "mask", 1, 2, 3) in explorer.state.value
    explorer.head.value = 5
    explorer.model.value = "deep"
    assert (explorer.layer.max, explorer.head.max) == (4, 3)
    assert explorer.map_name.value == "mask", "a map that both have stays"
    assert score_text(views["deep"], "mask", 1, 2, 3) in explorer.state.value


def test_another_model_draws_once(explorer, monkeypatch):
    drawn = []
    show = HeadPicture.show
    monkeypatch.setattr(
        HeadPicture, "show", lambda self, *args: (drawn.append(args[2]), show(self, *args))
    )
    explorer.model.value = "wide"
    assert drawn == [Choice("wide", "mask", 1, 2, 1)]


def test_sliders_wait_until_the_hand_lets_go(explorer):
    for slider in (explorer.image, explorer.layer, explorer.head):
        assert slider.continuous_update is False and slider.min == 1


@pytest.mark.parametrize("count", [1, 2])
def test_one_model_needs_no_choice(images, views, count):
    explorer = head_explorer(images, dict(list(views.items())[:count]))
    assert (explorer.model in explorer.children[0].children) == (count > 1)
    assert "image 1, SmoothGrad" in explorer.state.value, "no titles were given"


def test_the_state_is_text_for_everybody(explorer):
    explorer.image.value = 2
    assert "dog &amp; &lt;ox&gt;" in explorer.state.value
    assert 'role="status"' in explorer.state.value
    assert explorer.picture.tooltip is None, "ipywidgets shows an error for a picture that has one"


def test_a_change_is_drawn_fast(images):
    explorer = head_explorer(images, {"mini": make_view(12, 12)})
    seconds = []
    for layer in range(1, 9):
        start = time.process_time()
        explorer.layer.value = layer
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.15  # of this process, the fastest: other work is no fault of ours


# The picture


def test_the_picture_holds_the_chosen_head(images, views):
    view, choice = views["deep"], Choice("deep", "mask", 2, 3, 1)
    picture = HeadPicture(SIZE)
    picture.show(images, view, Choice("deep", "SmoothGrad", 1, 1, 3), "cat")
    picture.show(images, view, choice, "dog")
    left, middle, right = picture.pictures
    assert np.array_equal(left.images[0].get_array(), images[1].permute(1, 2, 0))
    assert np.allclose(middle.images[0].get_array(), images[1].float().mean(dim=0))
    for axis, values in ((middle, view.maps["mask"][1]), (right, view.attention[1, 2, 0])):
        heat = np.asarray(axis.images[1].get_array())
        assert heat.min() == 0 and heat.max() == pytest.approx(1)
        top = np.unravel_index(heat.argmax(), heat.shape)
        assert (top[0] // 7, top[1] // 7) == divmod(int(values.argmax()), 4)
    assert [axis.get_title() for axis in picture.pictures] == [
        "dog",
        "mask",
        "attention, layer 3, head 1",
    ]


def test_the_grid_marks_the_cell(images, views):
    score = float(views["deep"].scores("mask")[1, 2, 0])
    picture = HeadPicture(SIZE)
    picture.show(images, views["deep"], Choice("deep", "mask", 2, 3, 1), "dog")
    cells = picture.grid.images[0]
    assert np.allclose(cells.get_array(), views["deep"].scores("mask")[1])
    assert tuple(cells.get_extent()) == (0.5, 3.5, 4.5, 0.5)
    assert picture.grid.get_xlim() == (0.5, 3.5) and picture.grid.get_ylim() == (4.5, 0.5)
    assert picture.mark.get_xy() == (0.5, 2.5)  # around head 1 of layer 3
    assert picture.scale.get_title() == f"IA-score\n{score:.2f}"
    assert picture.scale.lines[0].get_ydata() == pytest.approx([score])


def test_the_figure_is_what_the_widget_shows(explorer, images, views, shown):
    explorer.image.value, explorer.layer.value, explorer.head.value = 2, 3, 2
    figure = explorer_picture(images, views, TITLES, image=2, layer=3, head=2)
    assert jpeg(figure) == shown(explorer)[0]


def test_a_map_that_says_nothing_is_drawn_too(images):
    """A mask may be empty, and a constant map of GradCAM is zero."""
    nothing = replace(make_view(2, 2), maps={"mask": torch.zeros(IMAGES, PATCHES)})
    assert "IA-score 0.00" in head_explorer(images, {"m": nothing}).state.value


def test_tensors_in_a_graph_and_in_half_precision_are_taken(images):
    view = make_view(2, 2, maps=("mask",))
    maps = {"mask": view.maps["mask"].double().requires_grad_()}
    made = replace(view, attention=view.attention.half(), maps=maps)
    assert "layer 2, head 1" in head_explorer(images, {"m": made}).state.value


# Errors


@pytest.mark.wrong_types
@pytest.mark.parametrize("make", [head_explorer, lambda *a: explorer_picture(*a, layer=1, head=1)])
def test_errors_of_what_is_given(images, views, make):
    with pytest.raises(ValueError, match=r": no view; one model at least is needed; give its Expl"):
        make(images, {})
    with pytest.raises(ValueError, match=r"images of torch.float32 .* uint8 \[images, 3, size, si"):
        make(images / 255, views)
    with pytest.raises(ValueError, match=r"2 images, but view of 'deep': 3; give one each"):
        make(images[:2], views)
    with pytest.raises(ValueError, match=r"3 images, but titles: 1; give one each"):
        make(images, views, ["cat"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"layer": 5}, "explorer_picture: layer 5 is not there; give 1 to 4"),
        ({"head": 0}, "explorer_picture: head 0 is not there; give 1 to 3"),
        ({"image": 4}, "explorer_picture: image 4 is not there; give 1 to 3"),
        ({"model": "x"}, r"model 'x' is not there; give one of \['deep', 'wide'\]"),
        ({"model": "wide", "map_name": "SmoothGrad"}, r"map 'SmoothGrad' .* one of \['mask'\]"),
    ],
)
def test_errors_of_a_choice_that_does_not_exist(images, views, options, text):
    with pytest.raises(ValueError, match=text):
        explorer_picture(images, views, **({"layer": 1, "head": 1} | options))


# Methods


def test_a_method_is_chosen_and_held_against_a_head(network, spec, bench, shown):
    images = bench.draw("val", range(2), size=spec.image_size).images
    maps = {"gae": torch.rand(2, 4), "lrp": torch.rand(2, 4) - 0.5, "flat": torch.full((2, 4), NAN)}
    explorer = method_explorer(network, spec, images, maps, ["ant", "bee"])
    before, text = shown(explorer)
    assert text.startswith("micro, image 1: ant, gae: layer 2, head 1, cosine ")
    explorer.map_name.value = "lrp"
    after, text = shown(explorer)
    assert after != before and "lrp" in text
    row = class_attention(network, spec.normalise(images))[0, 1, 0]
    cosine = torch.nn.functional.cosine_similarity(row, maps["lrp"][0].clamp(min=0), dim=0)
    assert f"cosine {float(cosine):.2f} " in text
    explorer.map_name.value = "flat"
    assert "cosine 0.00" in shown(explorer)[1], "published as NaN; it marks nothing"
