"""Text encoders: the answers of transformers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from relevit.attention.recording import record_attention
from relevit.attribution.beyond_intuition import token_wise_matrices
from relevit.attribution.seen import observe
from relevit.text.encoder import build_tiny

transformers = pytest.importorskip("transformers", reason="needs the extra 'text'")
from relevit.text.convert import from_bert, from_clip_text  # noqa: E402

WORDS = 40


def bert(kind="bert", labels=3, depth=3, **options):
    torch.manual_seed(1)
    shape = dict(
        hidden_size=16,
        num_hidden_layers=depth,
        num_attention_heads=4,
        intermediate_size=24,
        vocab_size=WORDS,
        max_position_embeddings=32,
        num_labels=labels,
        initializer_range=0.3,
        pad_token_id=0,
    )
    names = {
        "bert": ("BertConfig", "BertForSequenceClassification"),
        "roberta": ("RobertaConfig", "RobertaForSequenceClassification"),
    }[kind]
    config = getattr(transformers, names[0])(**shape | options)
    return getattr(transformers, names[1])(config).eval().double()


def clip():
    torch.manual_seed(2)
    text = dict(
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=24,
        vocab_size=WORDS,
        max_position_embeddings=12,
        eos_token_id=WORDS - 1,
        bos_token_id=1,
        pad_token_id=0,
        projection_dim=8,
    )
    config = transformers.CLIPTextConfig(**text)
    model = transformers.CLIPTextModelWithProjection(config).eval().double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


@pytest.fixture(scope="module")
def model():
    return from_bert(bert())


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_answers_and_maps_are_those_of_transformers(kind):
    theirs = bert(kind)
    theirs.set_attn_implementation("eager")
    ours = from_bert(theirs)
    ids = torch.tensor([[1, 5, 6, 7, 2], [1, 9, 8, 3, 2]])
    told = theirs(input_ids=ids, output_attentions=True)
    with torch.no_grad(), record_attention(ours) as tape:
        logits = ours(ours.embed(ids))
    torch.testing.assert_close(logits, told.logits.detach(), rtol=1e-9, atol=1e-9)
    for mine, other in zip(tape.maps, told.attentions, strict=True):
        torch.testing.assert_close(mine, other.detach(), rtol=1e-9, atol=1e-9)


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


def test_the_mean_over_tokens_leaves_padding_out():
    model = build_tiny(WORDS, 3, reads="mean").double()
    ids = torch.tensor([[1, 5, 6, 2, 0, 0]])
    with torch.no_grad():
        alone = model(model.embed(ids[:, :4]))
        padded = model(model.embed(ids), ids > 0)
    torch.testing.assert_close(alone, padded)


def test_clip_reads_the_end_of_each_text_and_looks_back_only():
    theirs, end = clip(), WORDS - 1
    ours = from_clip_text(theirs)
    ids = torch.tensor([[1, 5, 6, end, 0, 0], [1, 9, 8, 3, 4, end]])
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]]).bool()
    with torch.no_grad():
        told = theirs(input_ids=ids, attention_mask=mask.long()).text_embeds
        torch.testing.assert_close(ours(ours.embed(ids, mask), mask), told)
        torch.testing.assert_close(ours(ours.embed(ids[:1, :4])), told[:1])
        # In our order the end comes first: nothing but itself may look at it.
        with record_attention(ours) as tape:
            ours(ours.embed(ids[:1, :4]))
    for attention in tape.maps:
        assert attention[:, :, 1:, 0].eq(0).all()
        assert attention[:, :, 1, 2:].eq(0).all() and attention[:, :, 0].gt(0).all()


def test_what_is_no_bert_is_refused():
    with pytest.raises(ValueError, match=r"ConvNext.*is not of BERT's or CLIP's kind"):
        from_bert(transformers.ConvNextModel(transformers.ConvNextConfig(depths=[1, 1, 1, 1])))
    other = bert()
    # The same parts, put together in another way.
    other.bert.encoder.layer[0].register_forward_hook(lambda m, a, o: 2 * o)
    with pytest.raises(ValueError, match="it answers differently"):
        from_bert(other)


def test_clip_takes_its_values_after_attention_as_published():
    tower = from_clip_text(clip())
    embedded = tower.embed(torch.tensor([[1, 5, 6, WORDS - 1]])).detach()
    seen = observe(tower, embedded)
    block, tokens = tower.blocks[1], seen.inputs[1]
    _, _, value = block.attn.qkv.weight.chunk(3)
    bias = block.attn.qkv.bias.chunk(3)[2]
    mixed = (
        (seen.maps[1] @ (block.norm1(tokens) @ value.T + bias).unflatten(2, (2, 8)).transpose(1, 2))
        .transpose(1, 2)
        .flatten(2)
    )
    middle = tokens + block.attn.proj(mixed)
    moved = (block.norm1(middle) @ value.T + bias) @ block.attn.proj.weight.T
    gain = (moved.norm(dim=-1) / tokens.norm(dim=-1)).detach()
    found = token_wise_matrices(tower, seen, "published")[1]
    expected = seen.maps[1].mean(1) * gain[:, None]
    torch.testing.assert_close(found.detach(), expected)
    described = token_wise_matrices(tower, seen, "described")[1]
    assert not torch.allclose(described, expected)


@pytest.mark.parametrize(
    ("ids", "message"),
    [([[1] * 40], "1 to 32 tokens"), ([[1, WORDS, 2]], r"knows 0\.\.39"), ([[]], "1 to 32 tokens")],
)
def test_ids_that_the_model_cannot_take(model, ids, message):
    with pytest.raises(ValueError, match=message):
        model.embed(torch.tensor(ids, dtype=torch.long))
