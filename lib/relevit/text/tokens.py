"""Texts as a model reads them: token ids, the characters that each stands for, what is cut off.

Tokenizers are those of the package `tokenizers`: loaded from a model's folder, or made here for
words that are all known. It is imported by the functions that need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from relevit.base.errors import PACKAGES, need_packages
from relevit.text.documents import Document

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FILE = "tokenizer.json"
SPECIAL = 2  # tokens around every text
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # of those made here, ids 0 to 4
CHUNK_TOKENS = 2048  # of all texts in one call of a model or method; bounds the memory
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
    """The fast tokenizer in `folder` (`tokenizer.json`), of a BERT-type or CLIP model."""
    need_packages("tokens", "text", *PACKAGES)
    from tokenizers import Tokenizer

    path = Path(folder) / FILE
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(
            f"tokens: {path} is missing or damaged ({error}); copy {FILE} from where the model "
            "came from"
        ) from error


def word_tokenizer(words: Sequence[str]) -> Tokenizer:
    """A tokenizer of whole words in lower case, as BERT's puts its special tokens around a text.

    [PAD] is 0, then the others of SPECIAL_TOKENS, then `words` in their order.
    """
    need_packages("tokens", "text", *PACKAGES)
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {word: place for place, word in enumerate((*SPECIAL_TOKENS, *words))}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(end, ids[end]) for end in ("[CLS]", "[SEP]")]
    )
    return tokenizer


def words_of(texts: Iterable[str]) -> list[str]:
    """The words of texts in lower case, each once and in alphabetical order."""
    return sorted({word for text in texts for word in re.findall(r"\w+", text.lower())})


def encode(tokenizer: Tokenizer, text: str, limit: int) -> Tokens:
    """The tokens of `text`, at most `limit` with the special ones; longer texts lose their end.

    Cut at the end as in the papers' code; the special tokens always stay. Files of published models
    cut at a length of their own and fill up with padding, which must never be explained:
    `tokenizer` is set to do neither. "[SEP]" written in a text is read as these letters, not as the
    special token.
    Raises: ValueError for a tokenizer that puts other special tokens around a text than one before
    and one after it, as BERT's and CLIP's do: methods would read a word in their place.
    """
    tokenizer.enable_truncation(limit)
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    encoding = tokenizer.encode(text)
    ids, special = tuple(encoding.ids), tuple(map(bool, encoding.special_tokens_mask))
    if special != (True, *[False] * (len(ids) - SPECIAL), True):
        raise ValueError(
            f"encode: the tokenizer makes {encoding.tokens[:3]} ... {encoding.tokens[-1:]} of a "
            "text; one special token before and one after it are needed: load_tokenizer(folder of "
            "the model)"
        )
    left_out = sum(len(part) - SPECIAL for part in encoding.overflowing)
    unknown = encoding.tokens[1:-1].count(getattr(tokenizer.model, "unk_token", None))
    share = unknown / max(1, len(ids) - SPECIAL)
    return Tokens(text, ids, tuple(encoding.offsets), special, left_out, share)


@dataclass(frozen=True)
class Texts:
    """Documents as a model reads them."""

    documents: tuple[Document, ...]
    tokens: tuple[Tokens, ...]

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


def read_texts(tokenizer: Tokenizer, documents: Sequence[Document], limit: int) -> Texts:
    """`documents` cut to `limit` tokens, without those that have no token of their own."""
    read = [(document, encode(tokenizer, document.text, limit)) for document in documents]
    kept = [(document, one) for document, one in read if len(one) > SPECIAL]
    readable, tokens = zip(*kept, strict=True) if kept else ((), ())
    return Texts(readable, tokens)


def same_length(tokens: Sequence[Tokens]) -> list[list[int]]:
    """Places of texts with equal numbers of tokens, short ones first, CHUNK_TOKENS at a time."""
    by_length: dict[int, list[int]] = {}
    for place, one in enumerate(tokens):
        by_length.setdefault(len(one), []).append(place)
    chunks = []
    for length, places in sorted(by_length.items()):
        size = max(1, CHUNK_TOKENS // length)
        chunks += [places[i : i + size] for i in range(0, len(places), size)]
    return chunks


def padded(
    tokens: Sequence[Tokens], pad_id: int
) -> tuple[Int[Tensor, "batch tokens"], Bool[Tensor, "batch tokens"]]:
    """Ids of texts of any length with padding behind them, and where they are not padding."""
    ids = [torch.tensor(one.ids) for one in tokens]
    kept = [torch.ones(len(one), dtype=torch.bool) for one in tokens]
    return pad_sequence(ids, True, pad_id), pad_sequence(kept, True)
