"""A dual encoder: the answers of transformers, and either side under every method."""

from __future__ import annotations

import pytest
import torch

from relevit.attribution import METHODS
from relevit.attribution.observe import observe
from relevit.text.clip.dual import CLIP_METHODS, SimilarityHead, with_head
from relevit.text.token_maps import attribute
from relevit.text.tokens import padded

pytest.importorskip("transformers", reason="needs the extra 'text'")
from relevit.text.clip.from_transformers import from_clip

from .replica import TEXTS, hf_clip, images, text, theirs

LRP = ("partial_lrp", "lrp", "transformer_attribution")


@pytest.fixture(scope="module")
def model():
    return hf_clip()


@pytest.fixture(scope="module")
def dual(model):
    return from_clip(model)


@pytest.fixture(scope="module")
def image_side(dual):
    return dual.image_classifier(dual.embed_texts(TEXTS))


@pytest.fixture(scope="module")
def text_side(dual):
    return dual.text_classifier(dual.embed_images(images()))


def test_similarities_are_those_of_transformers(model, dual):
    expected = theirs(model, images(), TEXTS).logits_per_image
    assert expected.std() > 0.1
    torch.testing.assert_close(dual.similarities(images(), TEXTS), expected, rtol=0, atol=1e-9)


def test_both_classifiers_give_the_same_similarities(model, dual, image_side, text_side):
    expected = theirs(model, images(), TEXTS).logits_per_image
    torch.testing.assert_close(image_side(images()), expected, rtol=0, atol=1e-9)
    one_text = text_side(text_side.embed(torch.tensor([TEXTS[2].ids])))
    torch.testing.assert_close(one_text[0], expected[:, 2], rtol=0, atol=1e-9)


def test_a_text_alone_is_the_text_padded_among_longer_ones(dual):
    tower = with_head(dual.text_tower, dual.text_projection)
    ids, mask = padded(TEXTS, tower.pad_id)
    together = torch.nn.functional.normalize(tower(tower.embed(ids, mask), mask), dim=1)
    torch.testing.assert_close(dual.embed_texts(TEXTS), together)
    torch.testing.assert_close(dual.embed_texts([TEXTS[1]])[0], together[1])


def test_features_have_length_one_and_no_graph(dual):
    for features in (dual.embed_images(images()), dual.embed_texts(TEXTS)):
        assert not features.requires_grad
        torch.testing.assert_close(features.norm(dim=1), torch.ones(3).double())


def test_chunks_change_nothing(dual):
    torch.testing.assert_close(dual.embed_images(images(), chunk=2), dual.embed_images(images()))
    one_by_one = dual.embed_texts(TEXTS, chunk_tokens=1)
    torch.testing.assert_close(one_by_one, dual.embed_texts(TEXTS))


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
        seen = observe(classifier, inputs.detach(), target, gradients="all", whole=True)
        place = 2 if side == 0 else 0
        # The text's last token stands first here.
        tokens = seen.maps[0].shape[-1]
        order = list(range(tokens)) if side == 0 else [tokens - 1, *range(tokens - 1)]
        for block in range(len(attentions)):
            for ours, other in ((seen.maps, attentions), (seen.gradients, slopes)):
                expected = other[block][2][:, order][:, :, order]
                assert expected.abs().max() > 1e-3
                torch.testing.assert_close(ours[block][place], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("protocol", ["published", "described"])
@pytest.mark.parametrize("name", CLIP_METHODS)
def test_every_method_explains_an_image(image_side, name, protocol):
    target = torch.tensor([0, 2, 1])
    maps = METHODS[name](image_side, images(), target, protocol=protocol)
    assert maps.shape == (3, 16)
    if (name, protocol) != ("gradcam", "published"):  # NaN where all is clamped (C19)
        assert maps.isfinite().all()
    for i in range(3):
        single = METHODS[name](
            image_side, images()[i : i + 1], target[i : i + 1], protocol=protocol
        )
        torch.testing.assert_close(single[0], maps[i], rtol=1e-6, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("protocol", ["published", "described"])
@pytest.mark.parametrize("name", CLIP_METHODS)
def test_every_method_explains_texts(text_side, name, protocol):
    maps = attribute(text_side, TEXTS, name, torch.tensor([0, 1, 1]), protocol=protocol)
    for tokens, values in zip(TEXTS, maps, strict=True):
        assert values.shape == (len(tokens),) and values.isfinite().all()
        assert not values[[0, -1]].any()  # the special ones
    alone = attribute(text_side, TEXTS[:1], name, torch.tensor([0]), protocol=protocol)[0]
    torch.testing.assert_close(alone, maps[0], rtol=1e-6, atol=1e-12)


def test_the_phrase_changes_the_map_and_attention_does_not(image_side):
    phrases = [torch.full((3,), i) for i in range(2)]
    for name in ("gae", "ga", "head_wise", "token_wise"):
        first, second = (METHODS[name](image_side, images(), target) for target in phrases)
        assert (first - second).abs().amax(dim=1).min() > 1e-8, name
    for name in ("raw_attention", "rollout"):
        first, second = (METHODS[name](image_side, images(), target) for target in phrases)
        assert torch.equal(first, second)


def test_scale_weighs_the_gradient_against_the_identity_in_gae_alone(dual, image_side):
    """R + A_bar R is not linear in the gradient: the temperature is a part of GAE's map."""
    louder = with_head(dual.image_tower, torch.nn.Identity())
    louder.head = SimilarityHead(dual.image_projection, dual.embed_texts(TEXTS), 3 * dual.scale)
    louder.family = "clip"
    target = torch.tensor([0, 1, 2])
    for name, ratio in (("token_wise", 3), ("head_wise", 3)):
        soft, loud = (METHODS[name](m, images(), target) for m in (image_side, louder))
        torch.testing.assert_close(loud, ratio * soft)
    soft, loud = (METHODS["gae"](m, images(), target) for m in (image_side, louder))
    assert (loud > 3.001 * soft)[soft > 0].any()


@pytest.mark.wrong_types  # `lrp` is for images
@pytest.mark.parametrize("name", LRP)
def test_rules_of_lrp_are_refused(image_side, text_side, name):
    pattern = r"a similarity is a cosine and has no weights.*use one of.*'token_wise'"
    with pytest.raises(ValueError, match=pattern):
        METHODS[name](image_side, images(), torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match=pattern):
        METHODS[name](text_side, text_side.embed(torch.tensor([TEXTS[0].ids])))


def test_classifiers_share_weights_and_leave_the_towers_alone(dual, image_side, text_side):
    assert image_side.blocks is dual.image_tower.blocks
    assert text_side.embedding is dual.text_tower.embedding
    assert type(image_side) is type(dual.image_tower)
    before = dual.image_tower.head, dual.text_tower.head
    assert not isinstance(before[0], SimilarityHead) and not isinstance(before[1], SimilarityHead)
    handle = image_side.register_forward_hook(lambda *_: None)
    assert not dual.image_tower._forward_hooks
    handle.remove()
    assert (image_side.num_classes, text_side.classes) == (3, 3)
    assert (image_side.family, text_side.family) == ("clip", "clip")
    assert getattr(dual.image_tower, "family", "vit") == "vit"
    METHODS["token_wise"](image_side, images(1), torch.tensor([1]))
    assert all(p.requires_grad for p in dual.image_tower.parameters())


@pytest.mark.wrong_types
def test_errors_name_what_is_needed(dual):
    with pytest.raises(ValueError, match="no images to embed; give at least one"):
        dual.embed_images(images()[:0])
    with pytest.raises(ValueError, match="no texts to embed; give at least one"):
        dual.embed_texts([])
    with pytest.raises(ValueError, match="1 to 9 tokens"):
        dual.embed_texts([text(*range(2, 10))])
    with pytest.raises(ValueError, match=r"features \(3,\); needed is one finite vector"):
        dual.image_classifier(torch.zeros(3))
    with pytest.raises(ValueError, match="one finite vector"):
        dual.text_classifier(torch.full((2, 10), torch.nan))
