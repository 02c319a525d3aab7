"""Erasing with a slider: what goes is what the map says, and the answer is that of the model."""

from __future__ import annotations

import pytest
import torch

from relevit.evaluate.perturbation import Erasing, Judged, erase, perturbation_rows
from relevit.plots.widgets.erasing import ErasingExplorer, erasing_explorer


@pytest.fixture
def batch(bench, spec):
    return bench.draw("val", range(3), size=spec.image_size)


@pytest.fixture
def maps():
    random = torch.Generator().manual_seed(3)
    return {name: torch.rand(3, 4, generator=random) for name in ("rollout", "gae")}


@pytest.fixture
def explorer(network, spec, batch, maps, bench):
    return erasing_explorer(network, spec, batch, maps, bench.classes)


@pytest.mark.parametrize(
    ("control", "value", "words"),
    [
        ("share", 75, "75 % erased"),
        ("image", 3, "20 % erased"),
        ("method", "rollout", "rollout, most relevant first"),
        ("order", "least relevant first", "gae, least relevant first"),
    ],
)
def test_a_control_changes_picture_and_text(explorer, shown, control, value, words):
    before = shown(explorer)
    getattr(explorer, control).value = value
    after = shown(explorer)
    assert after[0] != before[0] and words in after[1]


def test_the_probability_is_that_of_the_perturbation_test(
    explorer, network, spec, batch, maps, shown
):
    explorer.share.value = 50
    tested = [Judged(batch.images, maps["gae"], batch.labels)]
    rows = perturbation_rows(network, spec.normalise, tested, (2, 2), Erasing(unit="token"))
    one = rows[(rows["index"] == 0) & (rows["direction"] == "positive")].set_index("share_pct")
    text = shown(explorer)[1]
    assert f"has {one.loc[50, 'probability_pct']:.0f} %" in text
    assert f"(whole image: {one.loc[0, 'probability_pct']:.0f} %)" in text


def test_the_slider_only_draws(network, spec, batch, maps, bench, monkeypatch):
    asked = []
    forward = network.forward
    monkeypatch.setattr(network, "forward", lambda x: (asked.append(len(x)), forward(x))[1])
    explorer = erasing_explorer(network, spec, batch, maps, bench.classes)
    assert len(asked) == 2, "both orders"
    for share in (0, 40, 95):
        explorer.share.value = share
    assert len(asked) == 2
    explorer.method.value = "rollout"
    assert len(asked) == 4
    explorer.method.value = "gae"
    assert len(asked) == 4


def test_what_is_shown_is_what_is_answered(network, spec, batch, maps, bench):
    explorer = erasing_explorer(network, spec, batch, maps, bench.classes, unit="pixel")
    half = explorer._shown(0, 10)
    black = (half == 0).all(dim=0).float().mean()
    assert 0.5 <= float(black) < 0.6
    mean = erasing_explorer(network, spec, batch, maps, bench.classes, fill="mean")
    grey = torch.full((3,), 128, dtype=torch.uint8)
    hidden = mean._erased(0, "most relevant first", [10])[0]
    marked = erase(torch.zeros(1, 3, 28, 28), hidden, torch.ones(1, 3, 28, 28))[0, 0].bool()
    assert bool((mean._shown(0, 10)[:, marked] == grey[:, None]).all())


def test_a_slider_at_zero_leaves_the_answer(explorer, shown):
    explorer.share.value = 0
    assert shown(explorer)[1].endswith("the answer stays.")
    assert isinstance(explorer, ErasingExplorer)


def test_errors(network, spec, batch, maps, bench):
    with pytest.raises(ValueError, match=r"3 images and maps \{\}; give one map an image"):
        erasing_explorer(network, spec, batch, {}, bench.classes)
    with pytest.raises(ValueError, match=r"3 images and maps \{'gae': 2\}"):
        erasing_explorer(network, spec, batch, {"gae": maps["gae"][:2]}, bench.classes)
