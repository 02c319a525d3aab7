"""Parts of scenes: what is left out, what they are worth, and the scores of known maps."""

import math

import pytest
import torch

from habitats.composing import PARTS
from habitats.cutouts import CUTOUTS
from habitats.homes import habitats
from relevit.models.spec import ModelSpec
from reproduction.measures import causal
from reproduction.measures.causal import draw_scenes, part_masses, part_worths

CLEAR = habitats(0.9, 1.0)  # no animal is see-through
SPEC = ModelSpec("micro", "none", 28, mean=(0.0,) * 3, std=(1.0,) * 3)


@pytest.fixture(scope="module")
def scenes():
    return draw_scenes(CLEAR, "a", range(40), size=64, together=4)


class Brightness(torch.nn.Module):
    """Its logits are sums of pixels: the first class's of all, so that worths add up."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))

    def forward(self, images):
        total = images.double().sum(dim=(1, 2, 3))
        return self.weight * torch.stack([total, total - 1], dim=1)


def test_only_what_a_part_covers_changes_without_it(scenes):
    whole, same = scenes.whole, CLEAR.draw("a", range(40), size=64, without=())
    assert torch.equal(whole.images, same.images)
    for i, part in enumerate(PARTS):
        changed = (scenes.without[part,] != whole.images).any(dim=1)
        own = scenes.owners == i
        assert changed[own].float().mean() > 0.9
        # Beyond the soft edge, which pixels of the part touch, nothing does.
        near = torch.nn.functional.max_pool2d(own.float()[:, None], 7, 1, 3)[:, 0] > 0
        assert (changed & ~near).float().mean() < 1e-4
    assert torch.equal(scenes.owners == 0, whole.masks[:, 0])
    assert torch.equal((scenes.owners == 1) | (scenes.owners == 2), whole.props[:, 0])
    assert causal.outside_pct(scenes).nanmean() < 15
    bare = CLEAR.draw("a", [0], size=64, without=PARTS)
    assert bare.images.unique().tolist() == [128] and not bare.masks.any() and not bare.props.any()


def test_worths_are_falls_of_the_answered_logit_and_of_nothing_for_hidden_parts(scenes):
    worths = part_worths(Brightness(), SPEC, scenes)
    fall = (scenes.whole.images.double() - scenes.without["animal",]) / 255
    torch.testing.assert_close(worths[:, 0], fall.sum(dim=(1, 2, 3)), rtol=1e-4, atol=1e-2)
    covered = scenes.owners.where(scenes.owners != 1, 0)  # the animal over all of the first thing
    hidden = part_worths(Brightness(), SPEC, scenes._replace(owners=covered))
    assert hidden[:, 1].isnan().all() and not hidden[:, [0, 3]].isnan().any()
    # Of a model that adds up pixels, things that do not meet add up; animal and ground do not.
    gaps = causal.pair_gaps(Brightness(), SPEC, scenes).abs()
    things, ground = (causal.PAIRS.index(pair) for pair in (PARTS[1:3], (PARTS[0], PARTS[3])))
    assert gaps[:, things].nanmedian() < 0.1 < gaps[:, ground].nanmedian()
    assert 0 < causal.gap_pct(Brightness(), SPEC, scenes) < 100
    # Shapley's values share out what is left, so that all parts add up to what is lost without any.
    values = causal.shapley_worths(Brightness(), SPEC, scenes)
    bare = (scenes.whole.images.double() - scenes.without[PARTS]).sum(dim=(1, 2, 3)) / 255
    seen = ~values.isnan().any(dim=1)
    torch.testing.assert_close(values[seen].sum(dim=1), bare[seen], rtol=1e-4, atol=1e-2)
    assert (values - worths).abs().nanmean() > 0.1


def test_what_speaks_against_the_class_has_no_share():
    worths = torch.tensor([[3.0, math.nan, 1.0, 0.0], [3.0, -1.0, math.nan, 2.0]])
    assert causal.shares_pct(worths).tolist() == [[75, 0, 25, 0], [60, 0, 0, 40]]
    table = causal.worths_table({"original": worths, "with": worths}, "a")
    assert table["model_run"].tolist() == ["original"] * 2 + ["with"] * 2
    assert table[[*PARTS]].iloc[2].to_list()[2] == 1 and table["dataset"].eq("a").all()


def test_maps_stand_beside_those_that_explain_nothing(scenes):
    worths = part_worths(Brightness(), SPEC, scenes)
    table = causal.causal_of_maps({"flat": torch.ones(40, 64)}, worths, scenes, (8, 8))
    assert (table.groupby("zero").size() == len(table) / 2).all()
    rows = table[table["score"] == "rank_correlation"].query("zero == 'own'")
    rows = rows.set_index("method")["value"]
    assert list(rows.index) == ["flat", "(truth by patch)", "(flat)", "(animal)"]
    assert rows["flat"] == rows["(flat)"] < rows["(truth by patch)"]


def test_a_map_of_the_true_worths_scores_1_and_a_shuffled_one_0(scenes):
    worths = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)).double()
    hidden = scenes.shown() == 0
    worths[hidden] = math.nan
    masses = {"true": part_masses(causal.worth_maps(worths, scenes), scenes, (4, 4))}
    torch.testing.assert_close(masses["true"].nan_to_num(), worths.nan_to_num())
    orders = torch.rand(40, 4, generator=torch.Generator().manual_seed(1)).argsort(dim=1)
    masses["shuffled"] = masses["true"].gather(1, orders)
    masses |= {"turned": -masses["true"], "same": torch.ones(40, 4), "nan": worths * math.nan}
    table = causal.causal_table(masses, worths).set_index(["method", "score"])
    correlation = table.xs("rank_correlation", level="score")
    assert correlation.loc[["true", "turned"], "value"].tolist() == pytest.approx([1, -1])
    assert correlation.loc["shuffled", "low"] < 0 < correlation.loc["shuffled", "high"]
    assert table.loc[["same", "nan"], "value"].eq(0).all()
    assert table.loc[("true", "same_first_pct"), "value"] == 100


def test_worlds_without_things_have_two_parts_and_photographs_none():
    scenes = draw_scenes(CUTOUTS, "a", range(4), size=32)
    assert set(scenes.owners.unique().tolist()) == {0, 3}
    with pytest.raises(ValueError, match="part 'cactus' is unknown; use some of"):
        CUTOUTS.draw("a", [0], without=["cactus"])
