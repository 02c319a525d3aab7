"""Dual encoders as the parameters of 12_clip ask for them."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("tokenizers", reason="needs the extra 'text'")
from relevit.config import ClipParams
from relevit.data.foregrounds import class_split
from relevit.data.pairs import draw_pairs
from relevit.text.clip import encoders
from relevit.text.clip.encoders import begin_towers, draw_examples, join_encoder, ready_encoder
from relevit.text.clip.joining import SEED

from .conftest import CFG


def test_each_seed_has_its_own_half_and_the_towers_stay_untrained(towers, encoder):
    assert tuple(encoder.groups.values()) == class_split(1)
    assert encoder.seed == 1 and len(encoder.history) == 1
    assert encoder.dual.text_tower is not towers.text  # the next seed begins anew


def test_images_of_two_animals_are_among_the_examples_where_asked_for(towers):
    few = CFG.model_copy(update={"captioned_pairs": 12})
    alone = CFG.model_copy(update={"captioned_pairs": 0})
    (both, _), (singles, _) = (draw_examples(cfg, towers) for cfg in (few, alone))
    assert 80 == len(singles.captions) < len(both.captions) < 92
    assert torch.equal(both.features[:80], singles.features)
    seen = set(class_split(1)[0])  # of the only one of cfg's head seeds
    assert all(set(pair) <= seen and len(set(pair)) == 2 for pair in both.labels[80:].tolist())


def test_no_seed_loses_an_image_of_two_animals(towers):
    cfg = CFG.model_copy(update={"captioned_pairs": 24, "head_seeds": [0, 1]})
    made, _ = draw_examples(cfg, towers)
    drawn = draw_pairs(24, seed=SEED + cfg.seed, size=towers.spec.image_size).labels
    for seed in cfg.head_seeds:
        seen = class_split(seed)[0]
        mine = torch.isin(drawn, torch.tensor(list(seen))).all(dim=1)
        assert 0 < int(mine.sum()) == len(made.of_classes(seen).labels[40:])


def test_width_and_temperature_reach_the_joining(towers):
    cfg = CFG.model_copy(update={"joint_width": 24, "temperature": 0.5})
    dual = join_encoder(cfg, towers, draw_examples(cfg, towers), 1).dual
    assert dual.image_projection.out_features == dual.text_projection.out_features == 24
    assert dual.scale.item() == pytest.approx(2, rel=0.1)  # one epoch changes it little


def test_words_of_things_are_known_where_their_captions_are_trained_on(cfg):
    more = begin_towers(CFG.model_copy(update={"captioned_things": 100}), 1)
    assert "[UNK]" not in more.tokenizer.encode("a blue bus").tokens
    assert "[UNK]" in begin_towers(cfg, 1).tokenizer.encode("a blue bus").tokens


@pytest.mark.wrong_types
def test_prompts_of_clip_are_the_published_ones(monkeypatch):
    monkeypatch.setattr(encoders, "random_clip", lambda prompts, seed: (torch.nn.Flatten(), None))
    classes = ("American chameleon", "black-footed ferret")
    made = {}
    for protocol in ("published", "described"):
        cfg = ClipParams(dual_model="clip-b32", source="random", protocol=protocol)
        made[protocol] = ready_encoder(cfg, classes).prompts
    assert made["published"] == tuple(f"a photo of a {name}" for name in classes)
    assert made["described"][0] == "a photo of an American chameleon"
