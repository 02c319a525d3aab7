"""An animal and a habitat: what is chosen is drawn, answered and said."""

from __future__ import annotations

import pytest
import torch

from relevit.data.cutouts import CUTOUTS, home_family
from relevit.data.habitats import HOMES
from relevit.plots.widgets.habitats import habitat_explorer


class ByGround(torch.nn.Module):
    """Answers by the texture alone: the animal that the brightness of a corner stands for."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.blocks, self.patch_embed = network.blocks, network.patch_embed

    def forward(self, pixels):
        logits = self.network(pixels)
        corner = pixels[:, :, :4, :4].mean(dim=(1, 2, 3))
        wanted = ((corner + 1) * 20).long().clamp(0, 39)
        return logits + 50 * torch.nn.functional.one_hot(wanted, 40)


@pytest.fixture
def explorer(network, spec, bench):
    return habitat_explorer(network, spec, bench)


@pytest.mark.parametrize(
    ("control", "value", "words"),
    [("animal", "parrot", "parrot: at home ("), ("habitat", "kitchen", "in kitchen it is")],
)
def test_a_control_changes_picture_and_text(explorer, shown, control, value, words):
    before = shown(explorer)
    getattr(explorer, control).value = value
    after = shown(explorer)
    assert after[0] != before[0] and after[1] != before[1]
    assert words in after[1]


def test_another_pose_is_another_picture_of_the_same(explorer, shown):
    before = shown(explorer)
    explorer.pose.value = 2
    assert shown(explorer)[0] != before[0]
    explorer.pose.value = 1
    assert shown(explorer) == before


def test_it_begins_where_the_answer_flips(network, spec, bench, shown):
    model = ByGround(network)
    explorer = habitat_explorer(model, spec, bench, animal=bench.classes[3])
    home = HOMES[home_family(3)].name
    text = shown(explorer)[1]
    assert text.startswith(f"{bench.classes[3]}: at home ({home}) the answer is ")
    assert f"in {explorer.habitat.value} it is" in text and explorer.habitat.value != home
    assert "the answer changes with the background alone" in text
    explorer.habitat.value = home
    assert shown(explorer)[1].endswith("this is its home.")


def test_the_answer_that_stays_is_said(network, spec, bench, shown):
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.zero_()[5] = 9.0
    explorer = habitat_explorer(network, spec, bench)
    assert shown(explorer)[1].endswith("the answer stays.")


def test_without_homes_the_textures_have_their_own_names(network, spec, shown):
    explorer = habitat_explorer(network, spec, CUTOUTS)
    assert explorer.habitat.options[:2] == ("moss", "sand") and len(explorer.habitat.options) == 12


def test_the_model_stays_as_it_was(network, spec, bench):
    before = {name: value.clone() for name, value in network.state_dict().items()}
    habitat_explorer(network, spec, bench).habitat.value = "sea"
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in network.parameters())


def test_errors(network, spec, bench):
    with pytest.raises(ValueError, match="no animal 'unicorn'; use one of"):
        habitat_explorer(network, spec, bench, animal="unicorn")

    class Photographs(type(bench)):
        composable = False

    with pytest.raises(ValueError, match="background of a photograph of habitats cannot be chosen"):
        habitat_explorer(network, spec, Photographs("habitats"))
