"""Which words of a caption make it similar to its image."""

from __future__ import annotations

import pytest
import torch

from relevit.text.clip.joining import examples
from relevit.text.clip.words import word_attributions, word_shares, word_table
from relevit.text.clip.zero_shot import projected

from ..builders import spelled
from .replica import TEXTS, images


def test_each_text_is_held_against_its_own_image(random_dual):
    features = random_dual.embed_images(images().float())
    maps = word_attributions(random_dual, TEXTS, features, "token_wise")
    for i, text in enumerate(TEXTS):
        alone = word_attributions(random_dual, [text], features[i : i + 1], "token_wise")[0]
        torch.testing.assert_close(alone, maps[i])
    others = word_attributions(random_dual, TEXTS, features.roll(1, 0), "token_wise")
    assert any(not torch.allclose(a, b) for a, b in zip(maps, others, strict=True))
    with pytest.raises(ValueError, match="3 texts and 2 images"):
        word_attributions(random_dual, TEXTS, features[:2], "token_wise")
    with pytest.raises(ValueError, match=r"method.* \['lrp'\] are not for CLIP"):
        word_attributions(random_dual, TEXTS, features, "lrp")


def test_words_of_a_caption_by_kind():
    first = spelled("a red lobster on sand", "a", "red", "lob", "ster", "on", "sand")
    second = spelled("a red cat", "a", "red", "cat")
    maps = [
        torch.tensor([0, 0, 1, 3, 4, 0, 2, 0.0]),
        torch.tensor([0, 1, 3, -5, 0.0]),
        torch.zeros(5),  # nothing positive: left out
    ]
    kinds = {"class": ["lobster", "cat"], "colour": ["red"]}
    table = word_table([first, second, second], maps, kinds).set_index("kind")
    assert table["tokens"].to_dict() == {"class": 3, "colour": 2, "other": 4}
    assert table["share_pct"].to_dict() == pytest.approx(
        {"class": 35, "colour": 42.5, "other": 22.5}
    )
    assert table["highest_pct"].to_dict() == {"class": 50, "colour": 50, "other": 0}


def test_words_have_shares_for_each_method(towers, encoder, shown):
    texts = towers.encode([shown.captions[0][0], shown.captions[1][0]])
    features = projected(encoder, examples(towers, shown))[:2]
    table = word_shares(encoder.dual, texts, features, ["rollout", "token_wise"])
    assert table["kind"].unique().tolist() == ["class", "colour", "background", "other"]
    sums = table.groupby("method")["share_pct"].sum()
    assert sums.round(3).tolist() == [100, 100]
