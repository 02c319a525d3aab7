"""The reader of ERASER's movie reviews, on a small replica of its archive, good and bad."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from relevit.text.corpora.eraser import DOCS, FILES, read_eraser_movies, read_review
from relevit.text.corpora.generated import generated_corpus
from replicas.text import ODD_WORD, write_eraser_movies

SPLITS = tuple(FILES)


@pytest.fixture
def folder(tmp_path):
    return write_eraser_movies(tmp_path)


def change(folder, line=1, **entries):
    """Change one annotation of val.jsonl; gives file and line as errors show them."""
    path = folder / "val.jsonl"
    lines = path.read_text().splitlines()
    lines[line - 1] = json.dumps(json.loads(lines[line - 1]) | entries)
    path.write_text("\n".join(lines) + "\n")
    return rf"eraser: {re.escape(str(path))}:{line}"


def passages(folder):
    """The first annotation of val.jsonl and its first passage, to be changed."""
    entry = json.loads((folder / "val.jsonl").read_text().splitlines()[0])
    return entry, entry["evidences"][0][0]


def test_splits_labels_and_texts(folder):
    corpus = read_eraser_movies(folder.parent)
    made = generated_corpus(8, 4, 4)
    for split in SPLITS:
        found, expected = getattr(corpus, split), getattr(made, split)
        assert [document.label for document in found] == [document.label for document in expected]
        for document, source in zip(found, expected, strict=True):
            words = [word for word in re.split("[ \n]", document.text) if word]
            assert words == [ODD_WORD, *source.text.split()]
            assert document.name.startswith(("negR_", "posR_")) and document.name.endswith(".txt")
    assert corpus.classes == ("negative", "positive")


def test_passages_are_counted_in_words_and_joined_where_they_overlap(folder):
    corpus = read_eraser_movies(folder.parent)
    made = generated_corpus(8, 4, 4)
    for split in SPLITS:
        pairs = zip(getattr(corpus, split), getattr(made, split), strict=True)
        for place, (document, source) in enumerate(pairs):
            inside = [document.text[start:stop].split() for start, stop in document.rationale]
            expected = [source.text[start:stop].split() for start, stop in source.rationale]
            if place == 2:
                assert inside == []  # a review that nobody marked
                continue
            first = source.rationale[0][0]
            expected[0].insert(0, source.text[:first].split()[-1])  # the longer of the two
            assert inside == expected


def test_words_are_parted_at_blanks_and_line_breaks_alone(tmp_path):
    path = tmp_path / "posR_000.txt"
    path.write_bytes("  one\x0ctwo  th\u2028ree \r\n\n \nfour\x85five\n".encode())
    review = read_review(path)
    words = [review.text[start:stop] for start, stop in review.words]
    assert words == ["one\x0ctwo", "th\u2028ree", "four\x85five"]
    assert review.text == "one\x0ctwo th\u2028ree\nfour\x85five"


def test_last_word_of_a_passage_is_before_its_end(folder):
    _, passage = passages(folder)
    passage |= {"start_token": 1, "end_token": 2}
    change(folder, evidences=[[passage]])
    document = read_eraser_movies(folder.parent).validation[0]
    assert [document.text[a:b] for a, b in document.rationale] == [document.text.split(" ")[1]]


# What is refused


@pytest.mark.parametrize("lost", ["", DOCS, *FILES.values()])
def test_missing_files(folder, lost):
    path = folder / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    text = rf"eraser: {re.escape(str(path))} is missing; unpack movies\.tar\.gz"
    with pytest.raises(FileNotFoundError, match=text):
        read_eraser_movies(folder.parent)


@pytest.mark.parametrize(
    "line",
    [
        '{"annotation_id": "negR_0',
        "",
        "[]",
        "3",
        '{"annotation_id": "a", "classification": "POS"}',
        '{"annotation_id": "a", "classification": "POS", "evidences": null}',
        '{"annotation_id": "a", "classification": "POS", "evidences": [["a"]]}',
        '{"annotation_id": "a", "classification": "POS", "evidences": [[1]]}',
    ],
)
def test_line_that_is_no_annotation(folder, line):
    path = folder / "train.jsonl"
    first, _, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first, line, *rest]) + "\n")
    text = rf"eraser: {re.escape(str(path))}:2: .* is no annotation .*unpack movies\.tar\.gz"
    with pytest.raises(ValueError, match=text):
        read_eraser_movies(folder.parent)


def test_unknown_label(folder):
    where = change(folder, 3, classification="NEUTRAL")
    with pytest.raises(ValueError, match=rf"{where}: classification 'NEUTRAL'; .*'NEG', 'POS'"):
        read_eraser_movies(folder.parent)


@pytest.mark.parametrize("place", ["train.jsonl", "review"])
def test_file_that_is_not_utf_8(folder, place):
    path = folder / place if place != "review" else next((folder / DOCS).glob("*_000_test.txt"))
    path.write_bytes(path.read_bytes() + b"caf\xe9\n")
    text = rf"eraser: {re.escape(str(path))} is not UTF-8 \(.*0xe9.*\); unpack movies\.tar\.gz"
    with pytest.raises(ValueError, match=text):
        read_eraser_movies(folder.parent)


@pytest.mark.parametrize("content", ["", " \n\n  \n"])
def test_blank_review_is_told_with_its_line_and_file(folder, content):
    (folder / DOCS / "posR_777.txt").write_text(content)
    where = change(folder, 2, annotation_id="posR_777.txt", evidences=[])
    with pytest.raises(ValueError, match=rf"{where}: its review .*posR_777\.txt is blank; unpack"):
        read_eraser_movies(folder.parent)


def test_missing_review(folder):
    where = change(folder, 2, annotation_id="posR_999.txt")
    with pytest.raises(FileNotFoundError, match=rf"{where}: its review .*posR_999\.txt is missing"):
        read_eraser_movies(folder.parent)


@pytest.mark.parametrize(
    "wrong",
    [
        {"end_token": 10_000},
        {"start_token": -1},
        {"start_token": 5, "end_token": 5},
        {"start_token": "5"},
        {"docid": "negR_999.txt"},
    ],
)
def test_passage_that_the_review_does_not_have(folder, wrong):
    entry, passage = passages(folder)
    where = change(folder, evidences=[[passage | wrong]])
    text = rf"{where}: a passage has words .*'{entry['annotation_id']}' has \d+ words"
    with pytest.raises(ValueError, match=text):
        read_eraser_movies(folder.parent)


def test_passage_to_the_very_end(folder):
    entry, passage = passages(folder)
    count = len(read_review(folder / DOCS / entry["annotation_id"]).words)
    change(folder, evidences=[[passage | {"start_token": count - 1, "end_token": count}]])
    document = read_eraser_movies(folder.parent).validation[0]
    assert document.rationale[0][1] == len(document.text)
