"""Widgets: a change changes picture and words; pages without a kernel show the first state."""

import pytest
import torch

from habitats.cutouts import home_family
from habitats.homes import HOMES
from relevit.evaluate.perturbation import Erasing, Judged, perturbation_rows
from relevit.finetune.step import make_optimizer, step_losses
from reproduction.heads.measure import Explanation
from reproduction.plots.widgets import (
    erasing_explorer,
    habitat_explorer,
    head_explorer,
    step_explorer,
)
from reproduction.plots.widgets import explorer as shared

from ..micro_finetuning import SETTINGS, pictures

WIDGET = "application/vnd.jupyter.widget-view+json"
QUIET = SETTINGS.changed(lr=1e-4)
TITLES = ["cat", "dog & <ox>", "ant"]


def shown(explorer) -> tuple[bytes, str]:
    """Its picture, and its text without the marks around it."""
    text = explorer.state.value.split(">", 1)[1]
    return bytes(explorer.picture.value), text[: -len("</span>")]


def view(layers: int, heads: int, maps=("SmoothGrad", "mask")) -> Explanation:
    random = torch.Generator().manual_seed(layers)
    return Explanation(
        attention=torch.rand(3, layers, heads, 16, generator=random),
        maps={name: torch.rand(3, 16, generator=random) for name in maps},
        grid=(4, 4),
    )


@pytest.fixture
def views():
    """One model of 4 layers with 3 heads, another of 2 layers with 5 and fewer maps."""
    return {"deep": view(4, 3), "wide": view(2, 5, ("mask",))}


@pytest.fixture
def batch(bench, spec):
    return bench.draw("val", range(3), size=spec.image_size)


@pytest.fixture
def maps():
    random = torch.Generator().manual_seed(3)
    return {name: torch.rand(3, 4, generator=random) for name in ("rollout", "gae")}


@pytest.fixture
def make(network, spec, bench, batch, maps, views):
    return {
        "habitats": lambda: habitat_explorer(network, spec, bench),
        "erasing": lambda **how: erasing_explorer(network, spec, batch, maps, bench.classes, **how),
        "steps": lambda: step_explorer(network, spec, pictures("finetune", 3), QUIET),
        "heads": lambda: head_explorer(batch.images, views, TITLES),
    }


CHANGES = {
    ("habitats", "animal"): ("parrot", "parrot: at home ("),
    ("habitats", "habitat"): ("kitchen", "in kitchen it is"),
    ("habitats", "pose"): (2, "at home"),
    ("erasing", "share"): (75, "75 % erased"),
    ("erasing", "image"): (3, "20 % erased"),
    ("erasing", "method"): ("rollout", "rollout, most relevant first"),
    ("erasing", "order"): ("least relevant first", "GAE, least relevant first"),
    ("steps", "background"): (0.0, "one step: background"),
    ("steps", "foreground"): (3.0, "foreground"),
    ("steps", "classification"): (0.9, "class term"),
    ("steps", "rate"): (30, "relevance on the object"),
    ("steps", "image"): (2, "one step"),
    ("heads", "layer"): (2, "layer 2, head 1"),
    ("heads", "head"): (3, "layer 4, head 3"),
    ("heads", "image"): (2, "image 2: dog &amp; &lt;ox&gt;"),
    ("heads", "view"): ("wide: mask", "wide, image 1: cat, mask: layer 2, head 1"),
}


@pytest.mark.parametrize(("name", "control"), CHANGES)
def test_a_change_changes_picture_and_words_and_nothing_else(make, network, name, control):
    state = {key: values.clone() for key, values in network.state_dict().items()}
    explorer = make[name]()
    before, (value, words) = shown(explorer), CHANGES[name, control]
    first = explorer.control[control].value
    explorer.control[control].value = value
    after = shown(explorer)
    assert after[0] != before[0] and words in after[1]
    explorer.control[control].value = first
    assert shown(explorer) == before
    assert all(torch.equal(values, state[key]) for key, values in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())
    draws = [c for c in explorer.children[0].children if hasattr(c, "continuous_update")]
    assert all(not c.continuous_update for c in draws if c.description != "erased (%)")


def test_a_notebook_gets_the_first_picture_and_then_the_widget(make, monkeypatch):
    """As two outputs: of stored notebooks and pages the second is taken away."""
    given = []
    monkeypatch.setattr(shared, "display", lambda what, **options: given.append((what, options)))
    explorer = make["heads"]()
    first, words = bytes(explorer.picture.value), explorer.state.value
    explorer.control["head"].value = 2
    explorer._ipython_display_()
    (picture, _), (bundle, options) = given
    assert picture.data == first and picture.format == "jpeg" and picture.alt in words
    assert options == {"raw": True} and bundle[WIDGET]["model_id"] == explorer.model_id
    assert picture.width == int(explorer.picture.width), "the file is twice as sharp"
    (style,) = [child for child in explorer.children if "<style>" in getattr(child, "value", "")]
    assert ":has(+ .jp-OutputArea-child .relevit-live) {display: none}" in style.value
    assert "relevit-live" in explorer._dom_classes and 'role="status"' in words


class ByGround(torch.nn.Module):
    """Answers by the texture alone: the animal that the brightness of a corner stands for."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.blocks, self.patch_embed = network.blocks, network.patch_embed

    def forward(self, pixels):
        corner = pixels[:, :, :4, :4].mean(dim=(1, 2, 3))
        wanted = ((corner + 1) * 20).long().clamp(0, 39)
        return self.network(pixels) + 50 * torch.nn.functional.one_hot(wanted, 40)


def test_habitats_begin_where_the_answer_flips(network, spec, bench):
    explorer = habitat_explorer(ByGround(network), spec, bench, animal=bench.classes[3])
    home = HOMES[home_family(3)].name
    text = shown(explorer)[1]
    assert text.startswith(f"{bench.classes[3]}: at home ({home}) the answer is ")
    assert "the answer changes with the background alone" in text
    explorer.control["habitat"].value = home
    assert shown(explorer)[1].endswith("this is its home.")


def test_erasing_is_that_of_the_perturbation_test(make, network, spec, batch, maps, monkeypatch):
    explorer = make["erasing"]()
    forward, asked = network.forward, []
    monkeypatch.setattr(network, "forward", lambda x: (asked.append(len(x)), forward(x))[1])
    explorer.control["share"].value = 50
    assert not asked, "the slider only draws"
    tested = [Judged(batch.images, maps["gae"], batch.labels)]
    rows = perturbation_rows(network, spec.normalise, tested, (2, 2), Erasing(unit="token"))
    one = rows[(rows["index"] == 0) & (rows["direction"] == "positive")].set_index("share_pct")
    text = shown(explorer)[1]
    assert f"has {one.loc[50, 'probability_pct']:.0f} %" in text
    assert f"(whole image: {one.loc[0, 'probability_pct']:.0f} %)" in text
    explorer.control["share"].value = 0
    assert shown(explorer)[1].endswith("the answer stays.")


@pytest.mark.parametrize(("fill", "value"), [("black", 0), ("mean", 128)])
def test_half_of_the_picture_has_the_colour_of_what_is_erased(
    network, spec, batch, maps, bench, fill, value
):
    explorer = erasing_explorer(network, spec, batch, maps, bench.classes, fill=fill)
    explorer.control["share"].value = 50
    erased = explorer.look()[0].axes[2].images[0].get_array()
    assert float((erased == value).all(axis=2).mean()) == pytest.approx(0.5, abs=0.02)


def test_a_step_is_that_by_hand(network, spec):
    batch = pictures("finetune", 3)
    explorer = step_explorer(network, spec, batch, QUIET)
    text = shown(explorer)[1]
    for term in ("background", "foreground", "classification"):
        explorer.control[term].value = 0.0
    still = shown(explorer)[1]  # weight decay alone moves next to nothing
    assert still.count("(+0 %)") + still.count("(-0 %)") == 3
    pixels, masks = spec.normalise(batch.images), batch.masks.float()
    before = step_losses(network, pixels, masks, batch.labels, QUIET)
    before.total.backward()
    make_optimizer(network, QUIET).step()
    after = step_losses(network, pixels, masks, batch.labels, QUIET, train=False)
    pair = [losses.terms["background"] for losses in (before, after)]
    assert f"background {pair[0]:.4f} → {pair[1]:.4f} (" in text
    assert f"class term {before.classification:.4f} → {after.classification:.4f} (" in text
