"""Training a text classifier: it learns, it resumes, and batches are of similar length."""

import json
from dataclasses import replace

import pytest
import torch

from habitats.corpora.generated import generated_corpus, generated_tokenizer
from relevit.finetune import epochs
from relevit.text.documents import Corpus, Document
from relevit.text.encoder import build_tiny, text_logits
from relevit.text.tokens import padded
from reproduction.language import train as training
from reproduction.language.train import by_length
from reproduction.params.cells import params_of
from reproduction.training.classifier import TrainSettings

from .builders import tokens as text

WORDS = 20


@pytest.fixture(scope="module")
def texts():
    """96 texts of 1 to 11 random words."""
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 12, (96,), generator=random).tolist()
    made = [torch.randint(8, WORDS, (n,), generator=random).tolist() for n in lengths]
    return tuple(text(*ids) for ids in made)


def test_every_text_is_seen_once_an_epoch_among_texts_of_its_length(texts):
    lengths = torch.tensor([len(one) for one in texts])
    settings = TrainSettings(lr=0, head_lr=0, images=96, batch_size=8)
    batches, again, other = (
        [rows for rows, _ in by_length(settings, lengths, n)] for n in (1, 1, 2)
    )
    assert torch.cat(batches).sort().values.equal(torch.arange(96))
    waste = sum(int((lengths[rows].max() - lengths[rows]).sum()) for rows in batches)
    shuffled = torch.cat(batches).view(-1, 8)[torch.randperm(12)].T.reshape(-1, 8)
    naive = sum(int((lengths[rows].max() - lengths[rows]).sum()) for rows in shuffled)
    assert waste < naive / 2
    assert all(map(torch.equal, batches, again)) and not all(map(torch.equal, batches, other))


@pytest.mark.parametrize("reads", ["first", "mean", "last"])
def test_answers_do_not_depend_on_the_batch_nor_on_padding(texts, reads):
    model = build_tiny(WORDS, 3, width=16, heads=2, reads=reads).double()
    tokens = texts[:10]
    together = text_logits(model, tokens)
    alone = torch.cat([text_logits(model, [one]) for one in tokens])
    torch.testing.assert_close(together, alone)
    ids, mask = padded(tokens, model.pad_id)
    torch.testing.assert_close(model(model.embed(ids, mask), mask), alone)


# As the parameters of 09_text ask for it

pytest.importorskip("tokenizers", reason="needs the extra 'text'")
OPINION = "the film was very good ."


@pytest.fixture(scope="module")
def tokenizer():
    return generated_tokenizer()


def trained(folder, tokenizer, corpus=None, on_step=None, **others):
    """The model, its log, and how many steps were made."""
    few = dict(training_texts=32, validation_texts=10, held_out_texts=10, explained_texts=4)
    cfg = params_of("09_text")(**few | dict(epochs=1, batch_size=16) | others)
    corpus, steps = corpus or generated_corpus(cfg.training_texts, 10, 0), []

    def step(*made):
        steps.append(made)
        if on_step:
            on_step(*made)

    model, log = training.train_on_corpus(cfg, "generated", corpus, tokenizer, folder, step)
    assert len(log) == cfg.epochs + 1 and not model.training
    return model.state_dict(), log, len(steps)


def test_a_run_that_was_stopped_ends_with_the_same_bytes(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(epochs, "CHECKPOINT_S", 0.0)

    def stop(step, steps):
        if (tmp_path / "stopped" / "generated" / "checkpoint.pt").exists() and step == 2:
            raise KeyboardInterrupt

    how = {"epochs": 3, "dropout": 0.1}
    trained(tmp_path / "whole", tokenizer, **how)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "stopped", tokenizer, on_step=stop, **how)
    torch.manual_seed(99)  # a new process has drawn other numbers
    _, _, steps = trained(tmp_path / "stopped", tokenizer, **how)
    assert 0 < steps < 6
    whole, stopped = (
        (tmp_path / name / "generated" / "weights.safetensors").read_bytes()
        for name in ("whole", "stopped")
    )
    assert whole == stopped


def flipped(corpus, split):
    changed = tuple(Document(one.text, 1 - one.label) for one in getattr(corpus, split))
    return replace(corpus, **{split: changed})


def test_training_is_kept_and_made_again_only_for_other_inputs(tmp_path, tokenizer):
    """Files of the same name may hold other texts, labels or settings than last time."""
    corpus = generated_corpus(32, 10, 0)
    first, _, steps = trained(tmp_path, tokenizer, corpus)
    again, _, more = trained(tmp_path, tokenizer, corpus)
    assert (steps, more) == (2, 0)
    torch.testing.assert_close(again, first, rtol=0, atol=0)
    other = Document(OPINION, corpus.train[0].label)
    for changed in (
        {"corpus": flipped(corpus, "train")},
        {"corpus": flipped(corpus, "validation")},
        {"corpus": replace(corpus, train=(other, *corpus.train[1:]))},
        {"seed": 1},
        {"train_limit": 16},
        {"dropout": 0.5},
    ):
        assert trained(tmp_path, tokenizer, **{"corpus": corpus} | changed)[2] == 2


def test_it_learns_what_the_texts_show(tmp_path, tokenizer):
    things, words = ("film", "story", "plot", "music"), ("bad", "dull", "good", "funny")
    texts = [
        Document(f"the {thing} was {very} {word} .", int(place > 1))
        for very in ("really", "very", "quite", "truly")
        for thing in things
        for place, word in enumerate(words)
    ]
    corpus = Corpus(("negative", "positive"), tuple(texts[16:]), tuple(texts[:16]), (), "", "")
    _, log, _ = trained(tmp_path, tokenizer, corpus, epochs=4, batch_size=4)
    assert log[0]["validation_top1_pct"] < 80 and log[-1]["validation_top1_pct"] > 95
    assert log[-1]["train_loss"] < 0.5 * log[1]["train_loss"]
    rows = [json.loads(line) for line in (tmp_path / "generated" / "log.jsonl").open()]
    assert [row["epoch"] for row in rows] == list(range(5))
