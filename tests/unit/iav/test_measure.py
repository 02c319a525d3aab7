"""What 08_iav measures in a finetuned model: explanations, and the tables made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from habitats.cutouts import CUTOUTS
from relevit.attribution import METHODS
from relevit.iav import class_attention
from relevit.maps import to_heatmap
from reproduction.heads.compared import compared_runs, drawn_to_explain, finetuned, named, spec_of
from reproduction.heads.measure import (
    Explainer,
    Explanation,
    beyond_table,
    chance_table,
    entropy_table,
    explain_runs,
    follow_epochs,
    object_share_pct,
    outline_table,
)
from reproduction.runs.run import make

from ..micro_iav import PATCHES, SIZE, micro_models, params, write_backbones

pytestmark = pytest.mark.usefixtures("no_network")

EXPLAINER = Explainer(draws=3, chunk=7)
LAYERS, HEADS, IMAGES, EPOCHS = 2, 2, 12, 3
RUN = ["model", "kind", "seed"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model that was finetuned for three epochs."""
    with micro_models():
        cfg = params(tmp_path_factory.mktemp("outputs"), epochs=EPOCHS)
        write_backbones(cfg)
        run = compared_runs(cfg)[-1]
        make(run, "cpu")
        yield run


@pytest.fixture(scope="module")
def model(run):
    return finetuned(run)


@pytest.fixture(scope="module")
def pictures():
    return drawn_to_explain(CUTOUTS, IMAGES, SIZE, classes=4)


@pytest.fixture(scope="module")
def found(run, model, pictures):
    return EXPLAINER.of_run(run, pictures)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)


# Explaining


def test_explanation_holds_what_its_parts_give(run, model, pictures, found):
    pixels = spec_of(run).normalise(pictures.images)
    close(found.attention, class_attention(model, pixels))
    named = {"draws": 3, "noise": 0.15, "seed": 0}
    close(found.maps["smoothgrad"], METHODS["smoothgrad"](model, pixels, pictures.labels, **named))
    assert found.attention.shape == (IMAGES, LAYERS, HEADS, PATCHES)
    tensors = [found.attention, *found.maps.values()]
    assert {values.dtype for values in tensors} == {torch.float32}
    assert not any(values.requires_grad or values.is_inference() for values in tensors)


# Of an explanation


def test_any_map_can_be_held_against_the_heads_and_shown(found):
    mask = torch.eye(PATCHES)[:IMAGES]
    more = found.held_against({"mask": mask})
    assert list(more.maps) == ["smoothgrad", "mask"] and "mask" not in found.maps
    length = found.attention.norm(dim=-1)
    alone = torch.stack([found.attention[i, :, :, i] / length[i] for i in range(IMAGES)])
    close(more.scores("mask"), alone)
    few = more.first(5).named({"mask": "object mask"})
    assert list(few.maps) == ["object mask"]
    assert torch.equal(few.scores("object mask"), more.scores("mask")[:5])


def test_it_is_the_same_out_of_a_file(found, tmp_path):
    found.held_against({"other": found.maps["smoothgrad"]}).save(tmp_path / "it.safetensors")
    again = Explanation.read(tmp_path / "it.safetensors")
    assert torch.equal(again.attention, found.attention) and again.grid == found.grid
    assert torch.equal(again.maps["smoothgrad"], found.maps["smoothgrad"])
    with pytest.raises(FileNotFoundError, match=r"other\.safetensors is missing; run the stage"):
        Explanation.read(tmp_path / "other.safetensors")


def test_a_run_is_held_against_the_reference_and_the_objects(run, pictures, found):
    cfg = params(run.folder.parents[2], epochs=EPOCHS, reference=run.params.model)
    held = explain_runs(cfg, [run], EXPLAINER, pictures, {run: found})[run]
    assert list(held.maps) == ["smoothgrad", "aav_dino", "mask"]
    assert torch.equal(held.maps["aav_dino"], found.maps["smoothgrad"])
    assert held.attention is found.attention, "it was known"


# Tables


def test_the_zeros_of_the_score(run):
    """A head that looks everywhere alike is at both; one that knows its image is above them."""
    smooth = torch.rand(IMAGES, PATCHES, generator=torch.Generator().manual_seed(0))
    shape = (IMAGES, LAYERS, HEADS, PATCHES)
    same, knows = (
        chance_table({run: Explanation(rows, {"smoothgrad": smooth}, (4, 4))})
        for rows in (torch.full(shape, 1 / PATCHES), smooth[:, None, None].expand(shape))
    )
    assert list(same.columns) == [*RUN, "layer", "score", "uniform", "other"]
    for zero in ("uniform", "other"):
        np.testing.assert_allclose(same["score"], same[zero], rtol=1e-5)
        assert (knows[zero] < 0.95).all()
    np.testing.assert_allclose(knows["score"], 1, rtol=1e-5)
    found = {run: Explanation(smooth[:, None, None].expand(shape), {"smoothgrad": smooth}, (4, 4))}
    beyond = (
        beyond_table(found, torch.zeros(len(smooth), dtype=int)).groupby("layer")["score"].mean()
    )
    np.testing.assert_allclose(beyond, knows["score"] - knows["other"], rtol=1e-5)


def test_outlines_are_held_against_masks(run, model, pictures):
    """Raw attention outlines what it lies on, the pixels above its mean, without a fault."""
    spec = spec_of(run)
    maps = METHODS["raw_attention"](model, spec.normalise(pictures.images), pictures.labels)
    heat = to_heatmap(maps, (SIZE, SIZE), spec.grid)
    on_it = heat > heat.mean(dim=(1, 2, 3), keepdim=True)
    table = outline_table([run], replace(pictures, masks=on_it.to(pictures.masks)))
    assert set(table["method"]) == {"raw_attention", "token_wise"}
    assert table[RUN].drop_duplicates().to_dict("records") == [named(run)]
    right = table[table["metric"] == "pixel_accuracy_pct"].set_index("method")["value_pct"]
    assert right["raw_attention"] > 99.5 > right["token_wise"]


def test_entropy_table(run, pictures):
    """Uniform attention has log N nats, one patch has none."""
    attention = torch.full((IMAGES, LAYERS, HEADS, PATCHES), 1 / PATCHES)
    attention[2, 1, 0] = torch.eye(PATCHES)[4]
    share = object_share_pct(pictures)
    table = entropy_table({run: Explanation(attention, {}, (4, 4))}, pictures)
    assert list(table.columns) == [*RUN, "image", "layer", "head", "entropy", "object_share_pct"]
    one = (table["image"] == 2) & (table["layer"] == 2) & (table["head"] == 1)
    assert table.loc[one, "entropy"].item() == 0
    np.testing.assert_allclose(table.loc[~one, "entropy"], np.log(PATCHES), rtol=1e-6)
    assert (table["object_share_pct"] == share.numpy()[table["image"]]).all()


# Epochs


@pytest.fixture(scope="module")
def followed(run, found, pictures):
    """Seven of the twelve images after every epoch."""
    return follow_epochs(run, EXPLAINER, pictures.select(range(7)), found)


def test_drift_ends_at_nothing(followed):
    table = followed[1]
    assert list(table.columns) == [*RUN, "epoch", "quantity", "difference"]
    wide = table.pivot(index="epoch", columns="quantity", values="difference")
    assert sorted(wide.columns) == ["attention", "smoothgrad"]
    assert (wide.loc[EPOCHS] == 0).all() and (wide.loc[[1, 2]] > 0).all(axis=None)
