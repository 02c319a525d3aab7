"""Texts as a model reads them: token ids, the characters that each stands for, what is cut off.

Tokenizers are loaded from a model's folder, or made here for words that are all known.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from relevit.base.errors import text_extra
from relevit.text.documents import Document

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer, models, normalizers

FILE = "tokenizer.json"
SPECIAL = 2  # tokens around every text
UNKNOWN_WORDS = 0.5  # of a text's words, at most; of 33,429 real reviews none has as many
LETTERS = 1.5  # a token, on average; a word with fewer is read letter by letter
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # of those made here, ids 0 to 4
VOCABULARY = 2000  # word pieces, most of them, of a tokenizer that is learnt here
SCORED = 2  # texts, at least: an interval over them needs as many
TokenMap = Float[Tensor, " _"]  # one value a token, special ones included; texts differ in length


@dataclass(frozen=True)
class Tokens:
    """The tokens of one text, the special ones before and after it included.

    `offsets` are characters of `text` (first, one after the last); (0, 0) for special tokens.
    `left_out` counts tokens beyond the model's limit, and `unknown_share` (0 to 1) is the part of
    the text's tokens here that the vocabulary lacks.
    """

    text: str
    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    special: tuple[bool, ...]
    left_out: int = 0
    unknown_share: float = 0.0

    @property
    def words(self) -> list[str]:
        """What each token reads in the text; an empty string for special tokens."""
        return [self.text[start:stop] for start, stop in self.offsets]

    @property
    def own(self) -> Bool[Tensor, " tokens"]:
        """Which tokens are the text's own, and not special."""
        return ~torch.tensor(self.special)

    def __len__(self) -> int:
        return len(self.ids)


def load_tokenizer(folder: Path | str) -> Tokenizer:
    """The fast tokenizer in `folder` (`tokenizer.json`), set to give a text's own tokens alone.

    Files of published models cut at a length of their own and fill up with padding: both are
    switched off, as `encode` cuts, and padding must never be explained. "[SEP]" written in a text
    is read as these letters, not as the special token.
    Raises: FileNotFoundError without the file, ValueError when it is damaged, ImportError without
    the extra `text`.
    """
    with text_extra("tokens"):
        from tokenizers import Tokenizer
    path = Path(folder) / FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"tokens: {path} is missing; a model's folder needs the file of its fast tokenizer: "
            f"copy {FILE} from where the model came from"
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(
            f"tokens: {path} is cut short or damaged ({error}); copy the file again"
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def word_tokenizer(words: Sequence[str]) -> Tokenizer:
    """A tokenizer of whole words in lower case, as BERT's puts its special tokens around a text.

    [PAD] is 0, then the others of SPECIAL_TOKENS, then `words` in their order. Raises: ImportError
    without the extra `text`.
    """
    with text_extra("tokens"):
        from tokenizers import models, normalizers
    ids = {word: place for place, word in enumerate((*SPECIAL_TOKENS, *words))}
    tokenizer = _of_berts_kind(models.WordLevel(ids, unk_token="[UNK]"), normalizers.Lowercase())
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    _put_special_ends(tokenizer)
    return tokenizer


def words_of(texts: Iterable[str]) -> list[str]:
    """The words of texts in lower case, each once and in alphabetical order."""
    return sorted({word for text in texts for word in re.findall(r"\w+", text.lower())})


def learn_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Lower-case word pieces as BERT's; letters of `texts` are known in other words too.

    Raises: ImportError without the extra `text`.
    """
    with text_extra("tokens"):
        from tokenizers import models, normalizers, trainers
    tokenizer = _of_berts_kind(models.WordPiece(unk_token="[UNK]"), normalizers.BertNormalizer())
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    _put_special_ends(tokenizer)
    return tokenizer


def _of_berts_kind(model: models.Model, normalizer: normalizers.Normalizer) -> Tokenizer:
    from tokenizers import Tokenizer, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _put_special_ends(tokenizer: Tokenizer) -> None:
    """From now on the tokenizer puts [CLS] before a text and [SEP] after it, as BERT's does."""
    from tokenizers import processors

    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.encode_special_tokens = True


def encode(tokenizer: Tokenizer, text: str, limit: int) -> Tokens:
    """The tokens of `text`, at most `limit` with the special ones; longer texts lose their end.

    Cut at the end as in the papers' code. The special tokens always stay.
    Of a foreign script a vocabulary often holds the letters, and hardly more. So a word counts as
    unknown when it has an unknown token, or is of another script than English and its tokens have
    fewer than LETTERS on average; a lone letter of an alphabet is not judged. French, say, in Latin
    letters, cannot be told from odd names and slang: it is read.
    Raises: ValueError for a text without tokens, a text with more than UNKNOWN_WORDS of its words
    unknown, a limit without room for a word, or a tokenizer that pads or adds other special tokens.
    """
    if limit <= SPECIAL:
        raise ValueError(f"tokens: limit {limit}; give at least 3, for one token between special")
    if tokenizer.truncation is not None or tokenizer.padding is not None:
        raise ValueError(
            "tokens: the tokenizer cuts or pads by itself; this function cuts, and padding must "
            "not be explained: use load_tokenizer, or no_truncation() and no_padding()"
        )
    encoding = tokenizer.encode(text)
    _need_special_ends(encoding)
    all_ids, all_offsets = encoding.ids, encoding.offsets  # each access makes a new list
    if len(all_ids) == SPECIAL:
        raise ValueError(f"tokens: text {text[:30]!r} has no token; leave out empty texts")
    left_out = max(0, len(all_ids) - limit)
    end = len(all_ids) - 1 - left_out
    ids = (*all_ids[:end], all_ids[-1])
    offsets = (*all_offsets[:end], all_offsets[-1])
    special = (True, *[False] * (len(ids) - SPECIAL), True)
    unknown = _unknown(tokenizer, ids[1:-1])
    _need_known_words(text, unknown, offsets[1:-1], encoding.word_ids[1:end])
    return Tokens(text, ids, offsets, special, left_out, sum(unknown) / len(unknown))


@dataclass(frozen=True)
class Texts:
    """Documents as a model reads them; of `unreadable` others it knew no word."""

    documents: tuple[Document, ...]
    tokens: tuple[Tokens, ...]
    unreadable: int = 0

    @property
    def labels(self) -> Int[Tensor, " texts"]:
        """The label of each."""
        return torch.tensor([document.label for document in self.documents])

    def __len__(self) -> int:
        return len(self.documents)

    def select(self, places: Sequence[int]) -> Texts:
        """The texts at these places, in their order."""
        documents, tokens = ([kept[i] for i in places] for kept in (self.documents, self.tokens))
        return Texts(tuple(documents), tuple(tokens))


def read_texts(
    tokenizer: Tokenizer, documents: Sequence[Document], limit: int, counted_by: str = ""
) -> Texts:
    """`documents` cut to `limit` tokens, without those that cannot be read (`tokens.encode`).

    `counted_by` names the parameter that says how many texts are scored; SCORED are then needed.
    Raises: ValueError when fewer are left, else when none is, with the reason of the last.
    """
    needed = SCORED if counted_by else 1
    kept: list[tuple[Document, Tokens]] = []
    reason = "there is none"
    for document in documents:
        try:
            kept.append((document, encode(tokenizer, document.text, limit)))
        except ValueError as error:
            reason = str(error)
    if len(kept) < needed:
        found = f"{len(kept) or 'none'} of {len(documents)} texts can be read ({reason})"
        more = f"raise {counted_by}, or " if counted_by else ""
        raise ValueError(
            f"11_text: {counted_by and counted_by + ': '}{found}; at least {needed} must be: "
            f"{more}choose another corpus or model"
        )
    readable, tokens = zip(*kept, strict=True)
    return Texts(readable, tokens, len(documents) - len(kept))


def cut_counts(texts: Texts) -> dict[str, float]:
    """What of `texts` the model does not read.

    texts; unreadable; mean_tokens (of the whole texts, without special ones); cut (texts that
    are longer than the limit); left_out_pct (share of all tokens that these lose); unknown_pct
    (share of the tokens read that the vocabulary lacks).
    """
    own = np.array([len(one) - sum(one.special) for one in texts.tokens])
    left_out = np.array([one.left_out for one in texts.tokens])
    unknown = np.array([one.unknown_share for one in texts.tokens])
    return {
        "texts": len(texts),
        "unreadable": texts.unreadable,
        "mean_tokens": float((own + left_out).mean()),
        "cut": int((left_out > 0).sum()),
        "left_out_pct": float(100 * left_out.sum() / (own + left_out).sum()),
        "unknown_pct": float(100 * (unknown * own).sum() / own.sum()),
    }


def same_length(tokens: Sequence[Tokens], chunk_tokens: int) -> list[list[int]]:
    """Places of texts with equal numbers of tokens, short ones first, a chunk at a time."""
    by_length: dict[int, list[int]] = {}
    for place, one in enumerate(tokens):
        by_length.setdefault(len(one.ids), []).append(place)
    chunks = []
    for length in sorted(by_length):
        size, places = max(1, chunk_tokens // length), by_length[length]
        chunks += [places[i : i + size] for i in range(0, len(places), size)]
    return chunks


def padded(
    tokens: Sequence[Tokens], pad_id: int
) -> tuple[Int[Tensor, "batch tokens"], Bool[Tensor, "batch tokens"]]:
    """Ids of texts of any length with padding behind them, and where they are not padding."""
    most = max(len(one) for one in tokens)
    ids = torch.full((len(tokens), most), pad_id)
    mask = torch.zeros(len(tokens), most, dtype=torch.bool)
    for row, one in enumerate(tokens):
        ids[row, : len(one)] = torch.tensor(one.ids)
        mask[row, : len(one)] = True
    return ids, mask


def _need_special_ends(encoding: Encoding) -> None:
    marks = encoding.special_tokens_mask
    if marks[:1] != [1] or marks[-1:] != [1] or sum(marks) != SPECIAL or len(marks) < SPECIAL:
        raise ValueError(
            f"tokens: the tokenizer adds {sum(marks)} special tokens, as in {encoding.tokens[:5]}; "
            "one before the text and one after it are needed: use the tokenizer of a BERT-type "
            "or CLIP model"
        )


def _unknown(tokenizer: Tokenizer, ids: Sequence[int]) -> list[bool]:
    name = getattr(tokenizer.model, "unk_token", None)
    unknown_id = None if name is None else tokenizer.token_to_id(name)
    return [token == unknown_id for token in ids]


def _need_known_words(
    text: str,
    unknown: Sequence[bool],
    offsets: Sequence[tuple[int, int]],
    word_ids: Sequence[int | None],
) -> None:
    """`word_ids` say which word each token is of. Raises: ValueError for too few known words."""
    words: dict[int | None, list[int]] = {}
    for place, (start, stop) in enumerate(offsets):
        # A full stop is known in every script; it does not make a text known.
        if any(map(str.isalpha, text[start:stop])):
            words.setdefault(word_ids[place], []).append(place)
    found = [
        any(unknown[i] for i in places) or _falls_apart([text[slice(*offsets[i])] for i in places])
        for places in words.values()
    ]
    judged = [odd for odd in found if odd is not None]
    if sum(judged) > UNKNOWN_WORDS * len(judged) or (not words and all(unknown)):
        raise ValueError(
            f"tokens: the model knows no word of text {text[:30]!r}, or few: {sum(judged)} of "
            f"{len(judged)} are unknown or fall apart into letters, and at most "
            f"{UNKNOWN_WORDS:.0%} may; it is of another language or script: leave it out or use a "
            "model of that language"
        )


def _falls_apart(pieces: Sequence[str]) -> bool | None:
    """Whether a word is read letter by letter; None for a lone letter, which tells nothing."""
    word = "".join(pieces)
    if word.isascii():  # as odd names and slang are
        return False
    if len(word) == 1 and unicodedata.category(word) != "Lo":  # Lo: no capitals, as Chinese
        return None
    return len(word) < LETTERS * len(pieces)
