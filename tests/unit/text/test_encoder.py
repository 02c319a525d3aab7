"""Text encoders: the answers of transformers."""

from __future__ import annotations

import pytest
import torch

from relevit.attribution.beyond_intuition import weigh_tokens
from relevit.maps import observe, record_attention

transformers = pytest.importorskip("transformers", reason="needs the extra 'text'")
from relevit.text.encoder import from_bert, from_clip_text  # noqa: E402

from .clip.replica import END, FIRST, hf_clip  # noqa: E402


def bert(**options):
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 24, "vocab_size": 40, "max_position_embeddings": 32}
    more = {"num_labels": 3, "initializer_range": 0.3, "pad_token_id": 0}
    config = transformers.BertConfig(**sizes, **more, **options)
    return transformers.BertForSequenceClassification(config).eval().double()


def test_answers_and_maps_are_those_of_transformers():
    theirs = bert()
    theirs.set_attn_implementation("eager")
    ours = from_bert(theirs)
    ids = torch.tensor([[1, 5, 6, 7, 2], [1, 9, 8, 3, 2]])
    told = theirs(input_ids=ids, output_attentions=True)
    with torch.no_grad(), record_attention(ours) as tape:
        logits = ours(ours.embed(ids))
    torch.testing.assert_close(logits, told.logits.detach(), rtol=1e-9, atol=1e-9)
    maps = [attention.detach() for attention in told.attentions]
    torch.testing.assert_close(tape.maps, maps, rtol=1e-9, atol=1e-9)


def test_masked_tokens_count_for_nothing():
    theirs = bert()
    ours = from_bert(theirs)
    ids = torch.tensor([[1, 5, 6, 2, 0, 0], [1, 9, 8, 3, 4, 2]])
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 0, 1, 1, 1]]).bool()
    with torch.no_grad():
        told = theirs(input_ids=ids, attention_mask=mask.long()).logits
        torch.testing.assert_close(ours(ours.embed(ids), mask), told)
        alone = ours(ours.embed(ids[:1, :4]))
    torch.testing.assert_close(alone, told[:1])


def test_padding_changes_no_answer():
    """Of a mean over tokens, and of CLIP's last one."""
    kinds = {from_bert(bert(), reads="mean"): (1, 2), from_clip_text(hf_clip()): (FIRST, END)}
    for ours, (first, end) in kinds.items():
        ids = torch.tensor([[first, 5, 6, end, 0, 0]])
        mask = torch.tensor([[1, 1, 1, 1, 0, 0]]).bool()
        with torch.no_grad():
            told = ours(ours.embed(ids, mask), mask)
            torch.testing.assert_close(told, ours(ours.embed(ids[:, :4])))


def test_of_clip_the_end_comes_first_and_others_look_back_only():
    tower = from_clip_text(hf_clip())
    with torch.no_grad(), record_attention(tower) as tape:
        tower(tower.embed(torch.tensor([[FIRST, 5, 6, END]])))
    for attention in tape.maps:
        assert attention[:, :, 1:, 0].eq(0).all()
        assert attention[:, :, 1, 2:].eq(0).all() and attention[:, :, 0].gt(0).all()


@pytest.mark.parametrize(
    "other",
    [
        lambda: transformers.ConvNextModel(transformers.ConvNextConfig(depths=[1, 1, 1, 1])),
        lambda: bert(is_decoder=True),
    ],
)
def test_what_is_no_bert_is_refused(other):
    with pytest.raises(ValueError, match=r"needed is an encoder of BERT's.*use transformers"):
        from_bert(other())


def test_clip_takes_its_values_after_attention_as_published():
    tower = from_clip_text(hf_clip())
    embedded = tower.embed(torch.tensor([[FIRST, 5, 6, END]])).detach()
    seen = observe(tower, embedded)
    block, tokens = tower.blocks[1], seen.inputs[1]
    layer = block.self_attn
    value = layer.v_proj(block.layer_norm1(tokens)).unflatten(2, (2, 8)).transpose(1, 2)
    middle = tokens + layer.out_proj((seen.maps[1] @ value).transpose(1, 2).flatten(2))
    moved = layer.v_proj(block.layer_norm1(middle)) @ layer.out_proj.weight.T
    gain = (moved.norm(dim=-1) / tokens.norm(dim=-1)).detach()
    found = weigh_tokens(tower, seen, after_norm=True, after_attention=True)[1]
    expected = seen.maps[1].mean(1) * gain[:, None]
    torch.testing.assert_close(found.detach(), expected)
    described = weigh_tokens(tower, seen)[1]
    assert not torch.allclose(described, expected)
