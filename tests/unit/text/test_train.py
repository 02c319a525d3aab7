"""Training a text classifier: it learns, it resumes, and batches are of similar length."""

from __future__ import annotations

import json

import pytest
import torch

from relevit.text.encoder import build_tiny
from relevit.text.tokens import Tokens
from relevit.text.train import by_length, padded, text_logits, train_text_classifier
from relevit.training.classifier import TrainSettings

WORDS = 20


def text(*ids):
    special = tuple(i in (0, len(ids) + 1) for i in range(len(ids) + 2))
    return Tokens("", (1, *ids, 2), ((0, 0),) * len(special), special)


@pytest.fixture(scope="module")
def texts():
    """The label is whether word 7 occurs."""
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 12, (96,), generator=random).tolist()
    made = [torch.randint(8, WORDS, (n,), generator=random).tolist() for n in lengths]
    labels = torch.arange(96) % 2
    for ids, label in zip(made, labels.tolist(), strict=True):
        ids[len(ids) // 2] = 7 if label else 8
    return [text(*ids) for ids in made], labels


def settings(**changes):
    options = dict(lr=3e-3, head_lr=3e-3, images=64, epochs=4, batch_size=8, weight_decay=0.0)
    return TrainSettings(**options | changes)


def train(texts, folder, *, model=None, on_epoch=lambda row: None, **changes):
    tokens, labels = texts
    model = model or build_tiny(WORDS, 2, width=16, heads=2, drop=0.1)
    history = train_text_classifier(
        model,
        settings(**changes),
        folder,
        name="t",
        train=tokens[:64],
        labels=labels[:64],
        on_epoch=on_epoch,
        validation=tokens[64:],
        validation_labels=labels[64:],
        identity={"corpus": "c"},
    )
    return model, history


def test_it_learns_what_the_texts_show(texts, tmp_path):
    _, history = train(texts, tmp_path, epochs=16)
    assert history[0]["validation_top1_pct"] < 80 and history[-1]["validation_top1_pct"] > 95
    assert history[-1]["train_loss"] < 0.5 * history[1]["train_loss"]
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").open()]
    assert [row["epoch"] for row in rows] == list(range(17))


def test_a_run_that_was_stopped_ends_with_the_same_bytes(texts, tmp_path):
    train(texts, tmp_path / "whole")

    def stop(row):
        if row["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(texts, tmp_path / "stopped", on_epoch=stop)
    torch.manual_seed(99)  # a new process has drawn other numbers
    train(texts, tmp_path / "stopped")
    name = "weights.safetensors"
    assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_training_leaves_the_generators_of_others_alone(texts, tmp_path, monkeypatch, device):
    """Dropout is drawn from a seed; what others drew from stays, on each CUDA device too."""
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    before = torch.get_rng_state(), torch.cuda.get_rng_state_all()
    model = build_tiny(WORDS, 2, width=16, heads=2, drop=0.1).to(device)
    train(texts, tmp_path, model=model, epochs=1)
    after = torch.get_rng_state(), torch.cuda.get_rng_state_all()
    assert seeds == [] and torch.equal(before[0], after[0])
    assert all(map(torch.equal, before[1], after[1]))


def test_every_text_is_seen_once_an_epoch_among_texts_of_its_length(texts):
    lengths = torch.tensor([len(one) for one in texts[0]])
    batches = [rows for rows, _ in by_length(settings(images=96), lengths, 1)]
    assert torch.cat(batches).sort().values.equal(torch.arange(96))
    waste = sum(int((lengths[rows].max() - lengths[rows]).sum()) for rows in batches)
    shuffled = torch.cat(batches).view(-1, 8)[torch.randperm(12)].T.reshape(-1, 8)
    naive = sum(int((lengths[rows].max() - lengths[rows]).sum()) for rows in shuffled)
    assert waste < naive / 2
    again = [rows for rows, _ in by_length(settings(images=96), lengths, 1)]
    other = [rows for rows, _ in by_length(settings(images=96), lengths, 2)]
    assert all(map(torch.equal, batches, again)) and not all(map(torch.equal, batches, other))


@pytest.mark.parametrize("reads", ["first", "mean", "last"])
def test_answers_do_not_depend_on_the_batch(texts, reads):
    model = build_tiny(WORDS, 3, width=16, heads=2, reads=reads).double()
    tokens = texts[0][:10]
    together = text_logits(model, tokens)
    alone = torch.cat([text_logits(model, [one]) for one in tokens])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(together, text_logits(model, tokens, batch=3))


def test_padding_stands_behind_the_text():
    ids, mask = padded([text(5), text(6, 7, 8)], pad_id=3)
    assert ids.tolist() == [[1, 5, 2, 3, 3], [1, 6, 7, 8, 2]]
    assert mask.sum(dim=1).tolist() == [3, 5]


def test_more_texts_than_there_are(texts, tmp_path):
    with pytest.raises(ValueError, match="65 texts asked for, and there are 64; ask for fewer"):
        train(texts, tmp_path, images=65)
