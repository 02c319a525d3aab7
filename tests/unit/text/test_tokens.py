"""Texts as token ids: cutting, padding, special tokens, texts that a model cannot read."""

from __future__ import annotations

import pytest

pytest.importorskip("tokenizers", reason="needs the extra text: pip install relevit[text]")

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from relevit.text.corpora.generated import generated_tokenizer
from relevit.text.documents import Document
from relevit.text.tokens import (
    Texts,
    Tokens,
    cut_counts,
    encode,
    load_tokenizer,
    padded,
    read_texts,
    word_tokenizer,
    words_of,
)

from .builders import tokens

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "film", "play", "##ing", "##s", "good", ".", "，")
PAD, UNK, CLS, SEP = range(4)


def make():
    """A tokenizer of BERT's kind, with the cutting and padding of published files."""
    ids = {word: place for place, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [("[CLS]", CLS), ("[SEP]", SEP)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=special
    )
    tokenizer.add_special_tokens(list(WORDS[:4]))
    tokenizer.enable_truncation(6)
    tokenizer.enable_padding(length=6)
    return tokenizer


@pytest.fixture
def folder(tmp_path):
    make().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


@pytest.fixture
def tokenizer(folder):
    return load_tokenizer(str(folder))  # a path may be text


def test_tokens_are_characters_of_the_text(tokenizer):
    found = encode(tokenizer, "A  Good\nfilm, playings.", 20)
    assert found.words == ["", "A", "Good", "film", ",", "play", "ing", "s", ".", ""]
    assert found.ids == (CLS, 4, 9, 5, UNK, 6, 7, 8, 10, SEP)
    assert found.special == (True, *[False] * 8, True)
    assert found.offsets[2] == (3, 7) and found.left_out == 0
    assert found.unknown_share == 1 / 8  # special tokens do not count
    assert len(found) == 10


def test_offsets_are_characters_not_bytes(tokenizer):
    found = encode(tokenizer, "é😀 film", 20)
    assert found.words[-2] == "film" and found.offsets[-2] == (3, 7)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_nothing_is_padded_nor_cut_at_the_files_own_length(tokenizer, count):
    found = encode(tokenizer, "good " * count, 100)
    assert found.ids == (CLS, *[9] * count, SEP) and found.left_out == 0


def test_long_text_loses_its_end_and_keeps_the_separator(tokenizer):
    found = encode(tokenizer, "a film a good play zzz", 5)
    assert found.ids == (CLS, 4, 5, 4, SEP) and found.left_out == 3
    assert found.words == ["", "a", "film", "a", ""]
    assert found.unknown_share == 0  # of what is left
    exact = encode(tokenizer, "a film a good play .", 8)
    assert exact.left_out == 0 and len(exact) == 8


def test_special_tokens_in_a_text_are_letters(tokenizer):
    found = encode(tokenizer, "film [SEP] film [CLS]", 20)
    assert found.ids.count(SEP) == found.ids.count(CLS) == 1
    assert found.ids[-1] == SEP and sum(found.special) == 2


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b\x01"])
def test_text_without_tokens_has_its_ends_alone(tokenizer, text):
    found = encode(tokenizer, text, 10)
    assert found.ids == (CLS, SEP) and found.unknown_share == 0


def test_a_missing_or_damaged_file_is_named(folder):
    path = folder / "tokenizer.json"
    content = path.read_bytes()
    for kept in (content[:-9], b"", None):
        path.unlink() if kept is None else path.write_bytes(kept)
        with pytest.raises(ValueError, match=r"tokenizer\.json is missing or damaged .*copy"):
            load_tokenizer(folder)


def test_a_tokenizer_of_other_words_knows_these_alone():
    tokenizer = word_tokenizer(words_of(["A photo of a T-shirt"]))
    assert "[UNK]" not in tokenizer.encode("photo of t shirt").tokens
    assert tokenizer.encode("a parrot").tokens == ["[CLS]", "a", "[UNK]", "[SEP]"]


# Many texts

OPINION = "the film was very good ."


def test_texts_without_tokens_are_left_out_and_counted():
    documents = [Document("", 0), Document(OPINION, 1), Document("the plot was dull .", 0)]
    texts = read_texts(generated_tokenizer(), documents, 16)
    assert (len(texts), texts.unreadable) == (2, 1)
    assert texts.labels.tolist() == [1, 0]
    assert [one.text for one in texts.tokens] == [one.text for one in documents[1:]]
    assert texts.select([1]).labels.tolist() == [0]


def test_what_is_cut_is_counted():
    def one(own, left_out, unknown):
        marks = (True, *own * [False], True)
        return Tokens("x", (0,) * len(marks), ((0, 0),) * len(marks), marks, left_out, unknown)

    texts = Texts((Document("x", 0),) * 2, (one(6, 0, 0.5), one(2, 12, 0.0)), 3)
    assert cut_counts(texts) == {
        "texts": 2,
        "unreadable": 3,
        "mean_tokens": 10,
        "cut": 1,
        "left_out_pct": 60,
        "unknown_pct": 37.5,
    }


@pytest.mark.parametrize("ends", ["$A [SEP]", "[CLS] $A", "[CLS] [CLS] $A [SEP]", "$A"])
def test_a_tokenizer_with_other_ends_is_refused(ends):
    tokenizer = make()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=ends, special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
    )
    with pytest.raises(ValueError, match=r"encode: .*one special token before and one after"):
        encode(tokenizer, "a film", 10)


def test_padding_stands_behind_the_tokens():
    ids, mask = padded([tokens(5), tokens(6, 7, 8)], pad_id=3)
    assert ids.tolist() == [[1, 5, 2, 3, 3], [1, 6, 7, 8, 2]]
    assert mask.sum(dim=1).tolist() == [3, 5]
