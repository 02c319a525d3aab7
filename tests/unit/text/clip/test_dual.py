"""A dual encoder: the answers of transformers, and either side under every method."""

from __future__ import annotations

import pytest
import torch

from relevit.attribution import METHODS
from relevit.maps import observe
from relevit.text.clip.dual import CLIP_METHODS, SimilarityHead, with_head
from relevit.text.clip.from_transformers import from_clip
from relevit.text.token_maps import attribute
from relevit.text.tokens import padded

from .replica import TEXTS, hf_clip, images, theirs

PROTOCOLS = ["published", "described"]


@pytest.fixture(scope="module")
def text_side(dual):
    return dual.text_classifier(dual.embed_images(images()))


# 2 is the wrong id of the last token, as in the configuration of older files.
@pytest.mark.parametrize(("act", "end"), [("quick_gelu", 49), ("gelu", 2)])
def test_both_classifiers_give_the_similarities_of_transformers(act, end):
    model = hf_clip(act=act, end=end, intermediate_size=47)
    dual = from_clip(model)
    expected = theirs(model, images(), TEXTS).logits_per_image
    assert expected.std() > 0.1
    with torch.no_grad():
        for weights in model.parameters():  # of which ours are copies
            weights.zero_()
    image_side = dual.image_classifier(dual.embed_texts(TEXTS))
    torch.testing.assert_close(image_side(images()), expected, rtol=0, atol=1e-9)
    text_side = dual.text_classifier(dual.embed_images(images()))
    for i, text in enumerate(TEXTS):
        found = text_side(text_side.embed(torch.tensor([text.ids])))
        torch.testing.assert_close(found[0], expected[:, i], rtol=0, atol=1e-9)


def test_features_have_length_one_and_depend_on_no_other(dual):
    pictures, texts = dual.embed_images(images()), dual.embed_texts(TEXTS)
    for features in (pictures, texts):
        assert not features.requires_grad
        torch.testing.assert_close(features.norm(dim=1), torch.ones(3).double())
    torch.testing.assert_close(dual.embed_images(images()[1:2])[0], pictures[1])
    torch.testing.assert_close(dual.embed_texts([TEXTS[1]])[0], texts[1])
    tower = dual.text_tower
    ids, mask = padded(TEXTS, tower.pad_id)
    together = torch.nn.functional.normalize(tower(tower.embed(ids, mask), mask), dim=1)
    torch.testing.assert_close(texts, together)


def test_gradients_are_those_of_both_sides_at_once(image_side, text_side):
    """The published Interpretor differentiates logits_per_image[i, i] with both sides alive."""
    both = theirs(hf_clip(attention="eager"), images(), TEXTS, output_attentions=True)
    read = text_side.embed(torch.tensor([TEXTS[2].ids]))
    kinds = (
        (image_side, images(), both.vision_model_output.attentions),
        (text_side, read, both.text_model_output.attentions),
    )
    for side, (classifier, inputs, attentions) in enumerate(kinds):
        slopes = torch.autograd.grad(both.logits_per_image[2, 2], attentions, retain_graph=True)
        target = torch.full((len(inputs),), 2)
        seen = observe(classifier, inputs.detach(), target, gradients="all")
        place = 2 if side == 0 else 0
        # The text's last token stands first here.
        tokens = seen.maps[0].shape[-1]
        order = list(range(tokens)) if side == 0 else [tokens - 1, *range(tokens - 1)]
        for block in range(len(attentions)):
            for ours, other in ((seen.maps, attentions), (seen.gradients, slopes)):
                expected = other[block][2][:, order][:, :, order]
                assert expected.abs().max() > 1e-3
                torch.testing.assert_close(ours[block][place], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", CLIP_METHODS)
def test_every_method_explains_both_sides(image_side, text_side, name, protocol):
    target = torch.tensor([0, 2, 1])
    maps = METHODS[name](image_side, images(), target, protocol=protocol)
    assert maps.shape == (3, 16)
    if (name, protocol) != ("gradcam", "published"):  # NaN where all is clamped (C19)
        assert maps.isfinite().all()
    one = METHODS[name](image_side, images()[1:2], target[1:2], protocol=protocol)
    torch.testing.assert_close(one[0], maps[1], rtol=1e-6, atol=1e-12, equal_nan=True)
    found = attribute(text_side, TEXTS, name, target, protocol=protocol)
    for tokens, values in zip(TEXTS, found, strict=True):
        assert values.shape == (len(tokens),) and values.isfinite().all()
        assert not values[[0, -1]].any()  # the special ones
    alone = attribute(text_side, TEXTS[:1], name, target[:1], protocol=protocol)[0]
    torch.testing.assert_close(alone, found[0], rtol=1e-6, atol=1e-12)


def test_a_head_is_laid_over_the_tower_and_leaves_it_alone(dual, image_side, text_side):
    assert image_side.blocks is dual.image_tower.blocks
    assert text_side.embedding is dual.text_tower.embedding
    assert (image_side.num_classes, text_side.head.out_features) == (3, 3)
    made = with_head(dual.image_tower, torch.nn.Identity())
    made.register_forward_hook(lambda *parts: None)
    assert not dual.image_tower._forward_hooks and dual.image_tower.head is not made.head
    assert getattr(dual.image_tower, "family", "vit") == "vit"


def test_scale_weighs_the_gradient_against_the_identity_in_gae_alone(dual, image_side):
    """R + A_bar R is not linear in the gradient: the temperature is a part of GAE's map."""
    head = SimilarityHead(dual.image_tower.head, dual.embed_texts(TEXTS), 3 * dual.scale)
    louder = with_head(image_side, head)
    target = torch.tensor([0, 1, 2])
    for name in ("token_wise", "head_wise", "gae"):
        soft, loud = (METHODS[name](m, images(), target) for m in (image_side, louder))
        proportional = torch.allclose(loud, 3 * soft)
        assert proportional == (name != "gae")
    assert (loud > 3.001 * soft)[soft > 0].any()
