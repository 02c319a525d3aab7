"""The reader of 20 Newsgroups, on a small replica of its folders, good and bad."""

import shutil
from collections import Counter

import pytest

from habitats.corpora.newsgroups import TEST, TRAIN, read_newsgroups
from replicas.text import GROUPS, write_newsgroups

MESSAGES = 16  # of each folder


@pytest.fixture
def root(tmp_path):
    return write_newsgroups(tmp_path)


def test_groups_messages_and_names(root):
    corpus = read_newsgroups(root, validation=5)
    assert corpus.classes == GROUPS
    splits = (corpus.train, corpus.validation, corpus.test)
    assert [len(split) for split in splits] == [MESSAGES - 5, 5, MESSAGES]
    for document in corpus.test:
        group = GROUPS[document.label]
        assert f"Subject: about {group}" in document.text
    assert Counter(document.label for document in corpus.test) == dict.fromkeys(range(4), 4)
    assert any("André" in document.text for document in corpus.test)  # a byte that is no UTF-8
    learnt = {document.text for document in (*corpus.train, *corpus.validation)}
    assert len(learnt) == MESSAGES and "no message\n" not in learnt


MESSAGE = """From: me@example.org
Subject: orbits

In article <1@example.org> you@example.org writes:
> Is it round?
| Yes.
Somebody wrote: no.

It is an ellipse. He said "maybe".
He writes in ink.

A>B
 > kept

--
me, at work
 ---
555-1234

"""


# Without what stands above the first blank line, below the last one (or hyphens), and quotes.
BARE = '\nIt is an ellipse. He said "maybe".\n\nA>B\n > kept\n\n--\nme, at work'


@pytest.mark.parametrize(("bare", "text"), [(False, MESSAGE), (True, BARE)])
def test_header_signature_and_quotes_are_taken_away_as_published(root, bare, text):
    (root / TEST / "sci.space" / "50000").write_text(MESSAGE)
    corpus = read_newsgroups(root, validation=0, bare=bare)
    assert text in [document.text for document in corpus.test]
    assert bare == corpus.source.endswith("without headers, signatures and quotes")
    # One says nothing below its header.
    assert len(corpus.test) == MESSAGES - bare


def no_test_group(root):
    shutil.rmtree(root / TEST / "rec.autos")


def no_messages(root):
    for path in (root / TEST).glob("*/*"):
        path.rename(path.with_suffix(".txt"))


@pytest.mark.parametrize(
    ("spoil", "validation", "error", "text"),
    [
        (lambda root: shutil.rmtree(root / TRAIN), 0, FileNotFoundError, "folder .*train is miss"),
        (lambda root: shutil.rmtree(root / TEST), 0, FileNotFoundError, "folder .*test is missing"),
        (
            lambda root: shutil.rmtree(root / TEST / "rec.autos"),
            0,
            ValueError,
            "16 messages of 4 groups, .* 12 of 3; .* the same groups",
        ),
        (no_messages, 0, ValueError, "20news-bydate-test 0 of 4; they need messages"),
        (lambda root: None, 16, ValueError, "validation_texts = 16 of 16 .*give at most 15"),
    ],
)
def test_wrong_folders_are_named(root, spoil, validation, error, text):
    spoil(root)
    with pytest.raises(error, match=text):
        read_newsgroups(root, validation=validation)
