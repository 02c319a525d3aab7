"""Corpora as the parameters of 09_text ask for them."""

import math

import pytest

from relevit.text.documents import Corpus, Document
from replicas.text import GROUPS, write_eraser_movies, write_newsgroups
from reproduction.language import reading
from reproduction.params.cells import Params, params_of

SMALL = dict(training_texts=32, validation_texts=10, held_out_texts=10, explained_texts=4)


def on_disk(tmp_path, *corpora, **others) -> Params:
    models = dict(text_model="bert-base", source="random")
    return params_of("09_text")(
        **SMALL | models | others, corpora=[*corpora], corpus_root=str(tmp_path)
    )


@pytest.mark.parametrize(("short", "longest"), [(False, math.inf), (True, 4.5 * 8)])
def test_whole_reviews_are_held_out_and_all_or_short_ones_are_trained_on(
    monkeypatch, short, longest
):
    def made(train, validation, test, *, seed, source=None, longest=math.inf):
        name = f"{source} {longest}"
        splits = [(Document(name, 0),) * count for count in (train, validation, test)]
        return Corpus(("negative", "positive"), *splits, source=f"{source}", licence="MIT")

    monkeypatch.setattr(reading, "movie_reviews", made)
    reviews = {"corpora": ["movie_reviews"], "reviews": "imdb", "short_texts": short}
    cfg = params_of("09_text")(text_model="minilm-l6", train_limit=8, **reviews | SMALL)
    corpus = reading.read_corpora(cfg)["movie_reviews"]
    assert corpus.train == (Document(f"None {longest}", 0),) * 32
    assert corpus.validation == corpus.test == (Document("imdb inf", 0),) * 10
    fewer = cfg.model_copy(update={"training_reviews": 20})
    assert len(reading.read_corpora(fewer)["movie_reviews"].train) == 20
    # It decides on a resumed run.
    kind = "short ones of " if short else ""
    assert corpus.source == f"{kind}None; validation and test: imdb"


def test_part_of_a_corpus_on_disk_is_not_of_its_first_classes_alone(tmp_path):
    """Messages lie group by group, so that the first ten would be of two groups."""
    write_newsgroups(tmp_path, per_group=6)
    cfg = on_disk(tmp_path, "newsgroups", training_texts=10)
    corpus = reading.read_corpora(cfg)["newsgroups"]
    assert len(corpus.train) == len(corpus.test) == 10
    for split in (corpus.train, corpus.test):
        assert len({document.label for document in split}) == len(GROUPS)
    assert reading.read_corpora(cfg)["newsgroups"] == corpus


def test_a_corpus_on_disk_gives_what_it_has_and_own_rationales_where_there_are_any(tmp_path):
    write_eraser_movies(tmp_path, train=8, validation=4, test=6)
    write_newsgroups(tmp_path, per_group=5)
    cfg = on_disk(tmp_path, "eraser_movies", "newsgroups")
    corpora = reading.read_corpora(cfg)
    movies = corpora["eraser_movies"]
    assert [len(getattr(movies, split)) for split in reading.COUNTS] == [8, 4, 6]
    found = {name: reading.reasoning_documents(of, 4) for name, of in corpora.items()}
    assert found["newsgroups"] == ()
    assert len(found["eraser_movies"]) == 4  # one review of six has no passage
    assert all(document.rationale for document in found["eraser_movies"])
