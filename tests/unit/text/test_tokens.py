"""Texts as token ids: cutting, padding, special tokens, texts that a model cannot read."""

from __future__ import annotations

import pytest

pytest.importorskip("tokenizers", reason="needs the extra text: pip install relevit[text]")

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from relevit.text.tokens import encode, load_tokenizer

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


def test_long_text_loses_its_end_and_keeps_the_separator(tokenizer):
    found = encode(tokenizer, "a film a good play zzz", 5)
    assert found.ids == (CLS, 4, 5, 4, SEP) and found.left_out == 3
    assert found.words == ["", "a", "film", "a", ""]
    assert found.unknown_share == 0  # of what is left
    exact = encode(tokenizer, "a film a good play .", 8)
    assert exact.left_out == 0 and len(exact) == 8


def test_a_missing_or_damaged_file_is_named(folder):
    path = folder / "tokenizer.json"
    content = path.read_bytes()
    for kept in (content[:-9], b"", None):
        path.unlink() if kept is None else path.write_bytes(kept)
        with pytest.raises(ValueError, match=r"tokenizer\.json is missing or damaged .*copy"):
            load_tokenizer(folder)
