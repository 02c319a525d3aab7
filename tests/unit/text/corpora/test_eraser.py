"""The reader of ERASER's movie reviews, on a small replica of its archive, good and bad."""

import json
import re

import pytest

from habitats.corpora.eraser import DOCS, FILES, read_eraser_movies, read_review
from habitats.corpora.generated import generated_corpus
from replicas.text import ODD_WORD, write_eraser_movies


@pytest.fixture
def folder(tmp_path):
    return write_eraser_movies(tmp_path)


def change(folder, line=1, **entries):
    """Change one annotation of val.jsonl; gives the annotation."""
    path = folder / "val.jsonl"
    lines = path.read_text().splitlines()
    entry = json.loads(lines[line - 1]) | entries
    lines[line - 1] = json.dumps(entry)
    path.write_text("\n".join(lines) + "\n")
    return entry


def with_passage(folder, **entries):
    """Change the first annotation's first passage, which is all it then has."""
    entry = change(folder)
    change(folder, evidences=[[entry["evidences"][0][0] | entries]])
    return entry["annotation_id"]


def test_what_was_written_is_read(folder):
    """Texts, labels, and passages, which are counted in words and may overlap."""
    corpus, made = read_eraser_movies(folder.parent), generated_corpus(8, 4, 4)
    assert corpus.classes == ("negative", "positive")
    for split in FILES:
        pairs = zip(getattr(corpus, split), getattr(made, split), strict=True)
        for place, (document, source) in enumerate(pairs):
            words = [word for word in re.split("[ \n]", document.text) if word]
            assert words == [ODD_WORD, *source.text.split()]
            assert document.label == source.label
            inside = [document.text[start:stop].split() for start, stop in document.rationale]
            expected = [source.text[start:stop].split() for start, stop in source.rationale]
            if place == 2:
                assert inside == []  # a review that nobody marked
                continue
            first = source.rationale[0][0]
            longer = [source.text[:first].split()[-1], *expected[0]]
            assert inside == [expected[0], longer, *expected[1:]]


def test_words_are_parted_at_blanks_and_line_breaks_alone(tmp_path):
    path = tmp_path / "posR_000.txt"
    path.write_bytes("  one\x0ctwo  th\u2028ree \r\n\n \nfour\x85five\n".encode())
    text, words = read_review(path)
    parts = ["one\x0ctwo", "th\u2028ree", "four\x85five"]
    assert [text[start:stop] for start, stop in words] == parts
    assert text == "one\x0ctwo th\u2028ree\nfour\x85five"


def test_last_word_of_a_passage_is_before_its_end(folder):
    name = with_passage(folder, start_token=1, end_token=2)
    document = read_eraser_movies(folder.parent).validation[0]
    assert [document.text[a:b] for a, b in document.rationale] == [document.text.split(" ")[1]]
    count = len(read_review(folder / DOCS / name)[1])
    with_passage(folder, start_token=count - 1, end_token=count)
    document = read_eraser_movies(folder.parent).validation[0]
    assert document.rationale[0][1] == len(document.text)


def line(text):
    def spoil(folder):
        path = folder / "val.jsonl"
        path.write_text("\n".join([text, *path.read_text().splitlines()[1:]]))

    return spoil


def blank(folder):
    (folder / DOCS / "posR_777.txt").write_text(" \n\n")
    change(folder, annotation_id="posR_777.txt", evidences=[])


def latin(folder):
    next((folder / DOCS).glob("*_000_validation.txt")).write_bytes(b"caf\xe9")


SPOILT = {
    "cut short": (line('{"annotation_id": "negR_0'), "JSONDecodeError"),
    "no entry": (line("3"), "TypeError"),
    "no evidences": (line('{"annotation_id": "a", "classification": "POS"}'), "missing|Error"),
    "another label": (lambda folder: change(folder, classification="NEUTRAL"), "NEUTRAL"),
    "blank": (blank, "posR_777.txt is blank"),
    "not UTF-8": (latin, "0xe9"),
    "no review": (
        lambda folder: change(folder, annotation_id="posR_9.txt"),
        "posR_9.txt is missing",
    ),
    "beyond the end": (lambda folder: with_passage(folder, end_token=10_000), "words .* to 10000"),
    "before the start": (lambda folder: with_passage(folder, start_token=-1), "words -1"),
    "of no kind": (lambda folder: with_passage(folder, start_token="5"), "TypeError"),
    "of another": (lambda folder: with_passage(folder, docid="negR_9.txt"), "of negR_9.txt"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_wrong_line_is_named(folder, name):
    spoil, text = SPOILT[name]
    spoil(folder)
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        read_eraser_movies(folder.parent)
    assert "val.jsonl:1: " in str(caught.value) and "unpack movies.tar.gz" in str(caught.value)
    assert re.search(text, str(caught.value))
