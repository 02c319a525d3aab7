"""The glue of 11_text: from parameters to corpora, tokenizer, encoder, classifier, accuracy."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from relevit.config import TextParams
from relevit.text import experiment, pretrained
from relevit.text.documents import Corpus, Document
from relevit.text.corpora.generated import generated_corpus
from relevit.text.tokens import Tokens
from replicas.text import GROUPS, write_eraser_movies, write_newsgroups

pytest.importorskip("tokenizers", reason="needs the extra 'text'")

OPINION = "the film was very good ."
CYRILLIC = "Это хорошо"


def params(**others) -> TextParams:
    small = dict(
        training_texts=32,
        validation_texts=10,
        held_out_texts=10,
        epochs=1,
        batch_size=16,
        explained_texts=4,
        planted_texts=4,
    )
    return TextParams(**small | others)


def on_disk(tmp_path, *corpora, **others) -> TextParams:
    return params(
        text_model="bert-base",
        source="random",
        corpora=list(corpora),
        corpus_root=str(tmp_path),
        **others,
    )


@pytest.fixture(scope="module")
def tokenizer():
    return pretrained.load_reader(params(), {})


# Corpora


def test_each_split_has_as_many_texts_as_asked_for():
    corpus = experiment.read_corpora(params())["generated"]
    assert [len(getattr(corpus, split)) for split in experiment.COUNTS] == [32, 10, 10]


def test_tiny_model_refuses_other_corpora_before_they_are_read():
    with pytest.raises(ValueError, match=r"text_model = tiny-bert .*'movie_reviews'.*choose"):
        experiment.read_corpora(params(corpora=["generated", "movie_reviews"]))


def test_too_many_texts_are_refused_with_the_name_of_the_parameter(monkeypatch):
    def few(train, validation, test, *, seed, source=None):
        raise ValueError("movie_reviews: 90000 texts for train; there are 23000")

    monkeypatch.setattr(experiment, "movie_reviews", few)
    cfg = params(text_model="minilm-l6", corpora=["movie_reviews"], training_texts=90000)
    with pytest.raises(ValueError, match=r"training_texts = 90000.*held_out_texts = 10.*23000"):
        experiment.read_corpora(cfg)


def test_whole_reviews_are_held_out_and_all_are_trained_on(monkeypatch):
    def made(train, validation, test, *, seed, source=None):
        counts = (train, validation, test)
        splits = [tuple(Document(f"{source} {i}", 0) for i in range(n)) for n in counts]
        return Corpus(("negative", "positive"), *splits, source=f"{source}", licence="MIT")

    monkeypatch.setattr(experiment, "movie_reviews", made)
    cfg = params(text_model="minilm-l6", corpora=["movie_reviews"], reviews="imdb")
    corpus = experiment.read_corpora(cfg)["movie_reviews"]
    for split, source, count in (
        ("train", None, 32),
        ("validation", "imdb", 10),
        ("test", "imdb", 10),
    ):
        assert {document.text.split()[0] for document in getattr(corpus, split)} == {str(source)}
        assert len(getattr(corpus, split)) == count
    assert "imdb" in corpus.source and "None" in corpus.source  # decides on a resumed run


def short(monkeypatch, **others):
    def made(train, validation, test, *, seed, source=None):
        """Every third text is long; the first class has twice as many as the second."""
        size = {0: 200, 1: 20, 2: 20}
        texts = [Document(f"{i:04} ".ljust(size[i % 3], "x"), int(i % 9 < 3)) for i in range(180)]
        splits = (tuple(texts[: 180 * bool(train)]), tuple(texts[:validation]), tuple(texts[:test]))
        return Corpus(("negative", "positive"), *splits, source="made", licence="MIT")

    monkeypatch.setattr(experiment, "movie_reviews", made)
    cfg = params(
        text_model="minilm-l6", corpora=["movie_reviews"], train_limit=8, short_texts=True, **others
    )
    return experiment.read_corpora(cfg)["movie_reviews"].train


def test_short_texts_are_trained_on_with_classes_in_turn(monkeypatch):
    train = short(monkeypatch)
    assert {len(document.text) for document in train} == {20}
    assert [document.label for document in train] == [0, 1] * 16
    assert len({document.text for document in train}) == 32


def test_too_few_short_texts(monkeypatch):
    with pytest.raises(ValueError, match=r"training_texts = 100.*there are 80 .* 36 characters"):
        short(monkeypatch, training_texts=100)


def test_corpus_on_disk_gives_what_it_has(tmp_path):
    write_eraser_movies(tmp_path, train=8, validation=4, test=4)
    corpus = experiment.read_corpora(on_disk(tmp_path, "eraser_movies"))["eraser_movies"]
    assert [len(getattr(corpus, split)) for split in experiment.COUNTS] == [8, 4, 4]


def test_part_of_a_corpus_on_disk_is_not_of_its_first_classes_alone(tmp_path):
    """Messages lie group by group, so that the first ten would be of two groups."""
    write_newsgroups(tmp_path, per_group=6)
    cfg = on_disk(tmp_path, "newsgroups", training_texts=10)
    corpus = experiment.read_corpora(cfg)["newsgroups"]
    assert len(corpus.train) == len(corpus.test) == 10
    for split in (corpus.train, corpus.test):
        assert len({document.label for document in split}) == len(GROUPS)
    assert experiment.read_corpora(cfg)["newsgroups"] == corpus


def test_messages_are_read_as_the_protocol_says(tmp_path):
    write_newsgroups(tmp_path, per_group=6)
    for protocol, whole in (("published", False), ("described", True)):
        cfg = on_disk(tmp_path, "newsgroups", protocol=protocol)
        corpus = experiment.read_corpora(cfg)["newsgroups"]
        assert {"Subject:" in document.text for document in corpus.documents} == {whole}


def test_too_few_messages_are_refused_with_the_name_of_the_parameter(tmp_path):
    write_newsgroups(tmp_path, per_group=2)
    text = r"^11_text: validation_texts = 10: newsgroups: 10 .* of 7 in .*bydate-train; give 0 to 6"
    with pytest.raises(ValueError, match=text):
        experiment.read_corpora(on_disk(tmp_path, "newsgroups"))


def test_own_rationales_are_taken_where_there_are_any(tmp_path):
    write_eraser_movies(tmp_path, train=8, validation=4, test=6)
    write_newsgroups(tmp_path, per_group=5)
    cfg = on_disk(tmp_path, "eraser_movies", "newsgroups")
    corpora = experiment.read_corpora(cfg)
    found = {name: experiment.reasoning_documents(cfg, name, of) for name, of in corpora.items()}
    assert found["newsgroups"] == ()
    assert len(found["eraser_movies"]) == 4  # one review of six has no passage
    assert all(document.rationale for document in found["eraser_movies"])


def planting(monkeypatch, **others):
    def sentences(train, validation, test, *, seed, source):
        assert (train, validation, source) == (0, 0, "rotten_tomatoes")
        texts = [("a brilliant film about number %d", 1), ("a dull film about number %d", 0)]
        made = [Document(text % i, label) for i in range(8) for text, label in texts]
        return Corpus(("negative", "positive"), (), (), tuple(made), "made", "MIT")

    monkeypatch.setattr(experiment, "movie_reviews", sentences)
    cfg = params(text_model="minilm-l6", corpora=["movie_reviews"], **others)
    return experiment.reasoning_documents(
        cfg, "movie_reviews", sentences(0, 0, 0, seed=0, source="rotten_tomatoes")
    )


def test_movie_reviews_get_planted_rationales(monkeypatch):
    documents = planting(monkeypatch, neutral_sentences=2)
    assert len(documents) == 4
    for document in documents:
        ((start, stop),) = document.rationale
        assert document.text[start:stop].startswith(("a dull film", "a brilliant film"))
        assert len(document.text) > stop - start + 20


def test_too_few_sentences_to_plant(monkeypatch):
    with pytest.raises(ValueError, match=r"planted_texts = 40, neutral_sentences = 4: plant: 8"):
        planting(monkeypatch, planted_texts=40)


# Texts


def test_texts_of_unknown_words_are_left_out_and_counted(tokenizer):
    documents = [Document(CYRILLIC, 0), Document(OPINION, 1), Document("the plot was dull .", 0)]
    texts = experiment.read_texts(tokenizer, documents, 16)
    assert (len(texts), texts.unreadable) == (2, 1)
    assert texts.labels.tolist() == [1, 0]
    assert [one.text for one in texts.tokens] == [one.text for one in documents[1:]]
    assert texts.select([1]).labels.tolist() == [0]


@pytest.mark.parametrize(
    ("documents", "words"),
    [([Document(CYRILLIC, 0)], "none of 1 texts can be read .*script"), ([], "none of 0 texts")],
)
def test_no_text_that_can_be_read(tokenizer, documents, words):
    with pytest.raises(ValueError, match=words):
        experiment.read_texts(tokenizer, documents, 16)


def test_one_text_is_too_few_to_score(tokenizer):
    """A bootstrap over one text would fail, after all texts are erased."""
    documents = [Document(CYRILLIC, 0), Document(OPINION, 1)]
    assert len(experiment.read_texts(tokenizer, documents, 16)) == 1
    text = r"11_text: explained_texts: 1 of 2 texts can be read .* least 2 .*raise explained_texts"
    with pytest.raises(ValueError, match=text):
        experiment.read_texts(tokenizer, documents, 16, "explained_texts")
    assert len(experiment.read_texts(tokenizer, documents[1:] * 2, 16, "explained_texts")) == 2


def test_what_is_cut_is_counted():
    def one(own, left_out, unknown):
        marks = (True, *own * [False], True)
        return Tokens("x", (0,) * len(marks), ((0, 0),) * len(marks), marks, left_out, unknown)

    texts = experiment.Texts((Document("x", 0),) * 2, (one(6, 0, 0.5), one(2, 12, 0.0)), 3)
    assert experiment.cut_counts(texts) == {
        "texts": 2,
        "unreadable": 3,
        "mean_tokens": 10,
        "cut": 1,
        "left_out_pct": 60,
        "unknown_pct": 37.5,
    }


def test_accuracy_has_wilsons_interval(tokenizer, monkeypatch):
    documents = [Document(OPINION, 1)] * 8 + [Document(OPINION, 0)] * 2
    texts = experiment.read_texts(tokenizer, documents, 16)
    monkeypatch.setattr(experiment, "text_logits", lambda model, tokens: torch.eye(2)[[1] * 10])
    found = experiment.accuracy(nn.Identity(), texts)
    assert (found["texts"], found["accuracy_pct"]) == (10, 80)
    assert (found["low_pct"], found["high_pct"]) == pytest.approx((49.0162, 94.3318), abs=1e-3)


# The classifier


def trained(folder, tokenizer, **others):
    cfg = params(**others)
    corpus = generated_corpus(32, 10, 0)
    steps = []
    model, log = experiment.train(
        cfg, "generated", corpus, tokenizer, folder, on_step=lambda *step: steps.append(step)
    )
    return model, log, len(steps)


def test_training_is_kept_and_made_again_only_for_other_settings(tmp_path, tokenizer):
    model, log, steps = trained(tmp_path, tokenizer)
    assert (len(log), steps, model.training) == (2, 2, False)
    again, _, steps = trained(tmp_path, tokenizer)
    assert steps == 0
    torch.testing.assert_close(again.state_dict(), model.state_dict(), rtol=0, atol=0)
    assert trained(tmp_path, tokenizer, train_limit=16)[2] == 2
    assert trained(tmp_path, tokenizer, dropout=0.5)[2] == 2


@pytest.mark.parametrize("changed", ["labels", "words", "validation labels", "weights"])
def test_training_is_made_again_for_other_inputs(tmp_path, tokenizer, monkeypatch, changed):
    """Files of the same name may hold other texts, labels or weights than last time."""

    def train(corpus):
        steps = []
        model, _ = experiment.train(
            params(),
            "generated",
            corpus,
            tokenizer,
            tmp_path,
            on_step=lambda *step: steps.append(step),
        )
        return model.state_dict(), len(steps)

    corpus = generated_corpus(32, 10, 0)
    before, steps = train(corpus)
    assert steps == 2 and train(corpus)[1] == 0
    split = "validation" if changed.startswith("validation") else "train"
    found = getattr(corpus, split)
    if changed.endswith("labels"):
        found = tuple(Document(one.text, 1 - one.label) for one in found)
    elif changed == "words":
        found = (Document(OPINION, found[0].label), *found[1:])
    else:
        build = pretrained.build_encoder

        def other(*args):
            model = build(*args)
            model.head.weight.data *= 2
            return model

        monkeypatch.setattr(experiment, "build_encoder", other)
    after, steps = train(replace(corpus, **{split: found}))
    assert steps == 2
    same = torch.equal(before["head.weight"], after["head.weight"])
    assert same is (split == "validation")


@pytest.mark.parametrize("frozen", [False, True])
def test_frozen_words_stay_as_they_came(tmp_path, tokenizer, frozen):
    cfg = params(frozen_words=frozen)
    before = pretrained.build_encoder(cfg, tokenizer, 2).state_dict()
    after = trained(tmp_path, tokenizer, frozen_words=frozen)[0].state_dict()
    same = {name: torch.equal(before[name], after[name]) for name in before}
    assert same["embedding.words.weight"] is frozen
    assert not same["head.weight"]


def test_explained_texts_are_among_those_held_out():
    with pytest.raises(ValueError, match=r"explained_texts.*held_out_texts, which are 10"):
        TextParams.checked({"held_out_texts": 10, "explained_texts": 11}, "11_text.yaml")
