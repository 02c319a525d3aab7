"""Text encoders: the answers of transformers, and every method on them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from relevit.attention.recording import record_attention
from relevit.attention.rows import carry_rows
from relevit.attribution import METHODS
from relevit.attribution.observe import first_block
from relevit.text.encoder import build_tiny
from relevit.text.token_maps import TEXT_METHODS, attribute
from relevit.text.tokens import Tokens

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


def one(*ids):
    special = tuple(i in (0, len(ids) - 1) for i in range(len(ids)))
    return Tokens("", tuple(ids), ((0, 0),) * len(ids), special, 0)


TEXTS = [one(1, 5, 6, 7, 2), one(1, 9, 8, 2), one(1, 7, 2), one(1, 30, 31, 32, 2)]


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


@pytest.mark.parametrize("protocol", ["published", "described"])
@pytest.mark.parametrize("method", TEXT_METHODS)
def test_a_batch_equals_singles_and_specials_get_nothing(model, method, protocol):
    together = attribute(model, TEXTS, method, protocol=protocol)
    for text, found in zip(TEXTS, together, strict=True):
        assert found.shape == (len(text.ids),)
        assert found[torch.tensor(text.special)].eq(0).all()
        assert found.isfinite().all()
        (alone,) = attribute(model, [text], method, protocol=protocol)
        torch.testing.assert_close(found, alone)


@pytest.mark.parametrize("reads", ["first", "mean"])
@pytest.mark.parametrize("method", TEXT_METHODS)
def test_methods_leave_the_model_as_it_was(method, reads):
    model = build_tiny(WORDS, 3, reads=reads).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    attribute(model, TEXTS[:2], method, torch.tensor([0, 2]))
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("target", [0, 2])
def test_rollout_and_gae_are_those_of_the_image_code_on_the_same_maps(model, target):
    """One implementation: the closed forms, from the maps alone."""
    ids = torch.tensor([TEXTS[0].ids, TEXTS[3].ids])
    classes = torch.full((2,), target)
    with record_attention(model) as tape:
        score = model(model.embed(ids).detach()).gather(1, classes[:, None]).sum()
    slopes = torch.autograd.grad(score, tape.maps)
    relevance = [(g * a).clamp(min=0).mean(1) for g, a in zip(slopes, tape.maps, strict=True)]
    rows = carry_rows(relevance, "class_token", 1)[:, 0, 1:].detach()
    embedded = model.embed(ids).detach()
    torch.testing.assert_close(METHODS["gae"](model, embedded, classes), rows)
    rolled = torch.eye(5).double().expand(2, 5, 5)
    for attention in tape.maps:
        added = attention.mean(1).detach() + torch.eye(5)
        rolled = (added / added.sum(-1, keepdim=True)) @ rolled
    torch.testing.assert_close(METHODS["rollout"](model, embedded), rolled[:, 0, 1:])


def test_one_block_in_closed_form():
    """One block, one head: GradCAM and GAE are attention times its gradient, by hand."""
    model = build_tiny(WORDS, 2, width=8, depth=1, heads=1, seed=3).double()
    embedded = model.embed(torch.tensor([[1, 5, 6, 2]])).detach()
    block = model.blocks[0]
    with torch.no_grad():
        q, k, v = block.attn.qkv(embedded).chunk(3, dim=-1)
        attention = (q @ k.transpose(1, 2) / 8**0.5).softmax(-1)
    attention.requires_grad_()
    mixed = block.post_norm1(embedded + block.attn.proj(attention @ v))
    after = block.post_norm2(mixed + block.mlp(mixed))
    score = model.head(torch.tanh(model.fc_norm.dense(after[:, 0])))[0, 1]
    (slope,) = torch.autograd.grad(score, attention)
    row = (slope * attention)[0, 0, 1:].detach()
    target = torch.tensor([1])
    torch.testing.assert_close(METHODS["gae"](model, embedded, target)[0], row.clamp(min=0))
    cam = (attention[0, 0, 1:] * slope[0, 0, 1:].mean()).clamp(min=0).detach()
    found = METHODS["gradcam"](model, embedded, target, protocol="described")[0]
    torch.testing.assert_close(found, cam)


def test_relevance_is_conserved_down_to_the_embedded_tokens(model):
    """LRP with the norms behind the sums and the pooler: what goes in comes out."""
    from relevit.attribution.lrp_model import from_head, through_blocks
    from relevit.attribution.observe import observe

    with torch.no_grad():
        seen = observe(model, model.embed(torch.tensor([TEXTS[0].ids])), whole=True)
        relevance = from_head(model, seen)
        torch.testing.assert_close(relevance.sum(), torch.tensor(1.0).double())
        for found in through_blocks(model, seen, relevance):
            torch.testing.assert_close(found.tokens.sum(), torch.tensor(1.0).double())


def test_the_path_starts_at_nothing_or_at_padding(model):
    """Published: the zero vector. Described: as many padding tokens (differences D9)."""
    ids = torch.tensor([TEXTS[0].ids])
    embedded = model.embed(ids).detach()
    padding = model.embed(torch.zeros_like(ids)).detach()
    for protocol, start in (("published", torch.zeros(1).double()), ("described", padding)):
        default = METHODS["token_wise"](model, embedded, protocol=protocol)
        given = METHODS["token_wise"](model, embedded, protocol=protocol, baseline=start)
        torch.testing.assert_close(default, given)
    other = METHODS["token_wise"](model, embedded, baseline=padding)
    assert not torch.allclose(other, METHODS["token_wise"](model, embedded))


def test_blocks_at_which_the_published_scripts_start():
    deep = build_tiny(WORDS, 2, depth=12)
    starts = {"rollout": 1, "ga": 12, "transformer_attribution": 12, "head_wise": 12}
    for method, block in (starts | {"token_wise": 9}).items():
        assert first_block(deep, None, "published", method) == block
        assert first_block(deep, None, "described", method) == 1
    six = build_tiny(WORDS, 2, depth=6)  # the same share of the depth
    assert first_block(six, None, "published", "head_wise") == 6
    assert first_block(six, None, "published", "token_wise") == 5


def test_clip_takes_its_values_after_attention_as_published():
    tower = from_clip_text(clip())
    embedded = tower.embed(torch.tensor([[1, 5, 6, WORDS - 1]])).detach()
    from relevit.attribution.observe import observe
    from relevit.attribution.perception import token_wise_matrices

    seen = observe(tower, embedded, whole=True)
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


def test_wrong_questions_are_refused(model):
    with pytest.raises(ValueError, match="'smoothgrad' explains no text; use one of"):
        attribute(model, TEXTS, "smoothgrad")
    with pytest.raises(ValueError, match="no texts to explain"):
        attribute(model, [], "gae")
    with pytest.raises(ValueError, match=r"one class in 0\.\.2"):
        attribute(model, TEXTS[:1], "gae", torch.tensor([3]))
