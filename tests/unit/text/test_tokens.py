"""Texts as token ids: cutting, padding, special tokens, texts that a model cannot read."""

from __future__ import annotations

import pytest

pytest.importorskip("tokenizers", reason="needs the extra text: pip install relevit[text]")

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from relevit.text import minilm
from relevit.text.tokens import encode, load_tokenizer

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "film", "play", "##ing", "##s", "good", ".", "，")
PAD, UNK, CLS, SEP = range(4)


def make(ends="[CLS] $A [SEP]"):
    """A tokenizer of BERT's kind, with the cutting and padding of published files."""
    ids = {word: place for place, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [("[CLS]", CLS), ("[SEP]", SEP)]
    tokenizer.post_processor = processors.TemplateProcessing(single=ends, special_tokens=special)
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
    return load_tokenizer(folder)


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
    assert found.ids == (CLS, *[9] * count, SEP)


def test_long_text_loses_its_end_and_keeps_the_separator(tokenizer):
    found = encode(tokenizer, "a film a good play .", 5)
    assert found.ids == (CLS, 4, 5, 4, SEP) and found.left_out == 3
    assert found.words == ["", "a", "film", "a", ""]
    exact = encode(tokenizer, "a film a good play .", 8)
    assert exact.left_out == 0 and len(exact) == 8


def test_one_token(tokenizer):
    assert encode(tokenizer, "film", 3).ids == (CLS, 5, SEP)


def test_unknown_share_is_that_of_what_is_left(tokenizer):
    assert encode(tokenizer, "good good zzz zzz", 4).unknown_share == 0


def test_special_tokens_in_a_text_are_letters(tokenizer):
    found = encode(tokenizer, "film [SEP] film [CLS]", 20)
    assert found.ids.count(SEP) == found.ids.count(CLS) == 1
    assert found.ids[-1] == SEP and sum(found.special) == 2


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b\x01"])
def test_text_without_tokens(tokenizer, text):
    with pytest.raises(ValueError, match=r"tokens: text .* has no token; leave out empty texts"):
        encode(tokenizer, text, 10)


@pytest.mark.parametrize("text", ["ภาพยนตร์ดี", "ภาพยนตร์ดี.", "这部，很好", "😀", "zzz film"])
def test_text_of_which_the_model_knows_no_word(tokenizer, text):
    limit = 3 if text == "zzz film" else 10  # the known word is cut off
    with pytest.raises(ValueError, match=r"knows no word of text .*another language or script"):
        encode(tokenizer, text, limit)


def test_punctuation_alone_is_known(tokenizer):
    assert encode(tokenizer, ". .", 10).ids == (CLS, 10, 10, SEP)


def test_limit_without_room(tokenizer):
    with pytest.raises(ValueError, match="tokens: limit 2; give at least 3"):
        encode(tokenizer, "film", 2)


@pytest.mark.parametrize("keep", ["truncation", "padding"])
def test_tokenizer_that_cuts_or_pads_is_refused(keep):
    tokenizer = make()
    if keep == "truncation":
        tokenizer.no_padding()
    else:
        tokenizer.no_truncation()
    with pytest.raises(ValueError, match=r"cuts or pads by itself.*load_tokenizer"):
        encode(tokenizer, "film", 10)


@pytest.mark.parametrize("ends", ["$A [SEP]", "[CLS] $A", "[CLS] [CLS] $A [SEP]", "$A"])
def test_tokenizer_with_other_special_tokens_is_refused(ends):
    tokenizer = make(ends)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    with pytest.raises(ValueError, match="one before the text and one after it are needed"):
        encode(tokenizer, "a film", 10)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json is missing; .* copy"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_damaged_file(folder, share):
    path = folder / "tokenizer.json"
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(ValueError, match=r"tokenizer\.json is cut short or damaged .*copy"):
        load_tokenizer(folder)


def test_without_the_extra(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"pip install relevit\[text\]"):
        load_tokenizer(folder)


@pytest.fixture(scope="module")
def real():
    """Its file cuts at 128 tokens and pads to 128; its vocabulary has letters of many scripts."""
    return load_tokenizer(minilm.minilm_folder())


@pytest.mark.parametrize(
    "text",
    [
        "Это был ужасный фильм",
        "Хороший фильм",
        "Великолепно",
        "Це був жахливий фільм",
        "كان فيلما سيئا للغاية",
        "Αυτή ήταν μια φρικτή ταινία",
        "Μου άρεσε πολύ",
        "这是一部糟糕的电影",
        "不好",
        "我",
        "これはひどい映画でした",
        "끔찍한 영화였습니다",
        "यह एक भयानक फिल्म थी",
        "זה היה סרט נורא",
        "ছবি টি খুব ভালো ছিল",
        "ภาพยนตร์ดีมาก",
    ],
)
def test_other_scripts_are_refused_though_their_letters_are_known(real, text):
    what = r"no word of text .*, or few: \d+ of \d+ .* at most 50% may.*script: leave it out or use"
    with pytest.raises(ValueError, match=what):
        encode(real, text, 64)


@pytest.mark.parametrize(
    "text",
    [
        "Brilliant",
        "Meh",
        "Bleh",
        "I",
        "F",
        "10/10",
        "B-",
        "?",
        "xqzt",
        "Été",
        "Amélie ★★★★☆",
        "LOL wtf, kr3w got pwnd :) 😀😀",
        "Apichatpong Weerasethakul",
        "sooooo gooood!!!!",
        "Ностальгия is great",
        "Good! 好",
        "C'était un film épouvantable",
        "Phim này rất hay",
    ],
)
def test_odd_names_slang_and_other_languages_in_latin_letters_are_read(real, text):
    assert len(encode(real, text, 64)) > 2


def test_no_real_review_is_refused(real):
    from relevit.text import movie_reviews

    corpus = movie_reviews.movie_reviews(800, 0, 0)
    for document in corpus.train:
        encode(real, document.text, 64)


def test_the_real_tokenizer(real):
    text = "Unwatchable! " + "It's not good. " * 60
    tokenizer = real
    found = encode(tokenizer, text, 512)
    assert found.ids[0] == 101 and found.ids[-1] == 102 and 0 not in found.ids
    assert len(found) > 300 and found.left_out == 0 and found.unknown_share == 0
    assert "".join(found.words) == text.replace(" ", "")
    short = encode(tokenizer, text, 100)
    assert short.left_out == len(found) - 100 and short.ids[:-1] == found.ids[:99]
