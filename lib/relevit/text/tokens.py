"""One text as a model reads it: token ids, and the characters that each token stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from relevit.extras import text_extra

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

FILE = "tokenizer.json"
SPECIAL = 2  # tokens around every text
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # of `word_tokenizer`, ids 0 to 4


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

    def __len__(self) -> int:
        return len(self.ids)


def load_tokenizer(folder: Path) -> Tokenizer:
    """The fast tokenizer in `folder` (`tokenizer.json`), set to give a text's own tokens alone.

    Files of published models cut at a length of their own and fill up with padding: both are
    switched off, as `encode` cuts, and padding must never be explained. "[SEP]" written in a text
    is read as these letters, not as the special token.
    Raises: FileNotFoundError without the file, ValueError when it is damaged, ImportError without
    the extra `text`.
    """
    with text_extra("tokens"):
        from tokenizers import Tokenizer
    path = folder / FILE
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
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    ids = {word: place for place, word in enumerate((*SPECIAL_TOKENS, *words))}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    put_special_ends(tokenizer)
    return tokenizer


def words_of(texts: Iterable[str]) -> list[str]:
    """The words of texts in lower case, each once and in alphabetical order."""
    return sorted({word for text in texts for word in re.findall(r"\w+", text.lower())})


def put_special_ends(tokenizer: Tokenizer) -> None:
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
    Raises: ValueError for a text without tokens, a text of which the vocabulary knows no word, a
    limit without room for a word, or a tokenizer that pads or adds other special tokens.
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
    unknown = _unknown_share(tokenizer, text, ids[1:-1], offsets[1:-1])
    return Tokens(text, ids, offsets, special, left_out, unknown)


def _need_special_ends(encoding: Encoding) -> None:
    marks = encoding.special_tokens_mask
    if marks[:1] != [1] or marks[-1:] != [1] or sum(marks) != SPECIAL or len(marks) < SPECIAL:
        raise ValueError(
            f"tokens: the tokenizer adds {sum(marks)} special tokens, as in {encoding.tokens[:5]}; "
            "one before the text and one after it are needed: use the tokenizer of a BERT-type "
            "or CLIP model"
        )


def _unknown_share(
    tokenizer: Tokenizer, text: str, ids: tuple[int, ...], offsets: tuple[tuple[int, int], ...]
) -> float:
    """Share of `ids` that are unknown. Raises: ValueError when no word is known."""
    name = getattr(tokenizer.model, "unk_token", None)
    unknown_id = None if name is None else tokenizer.token_to_id(name)
    unknown = [token == unknown_id for token in ids]
    # A full stop is known in every script; it does not make a text known.
    word = [any(map(str.isalnum, text[start:stop])) for start, stop in offsets]
    judged = [odd for odd, is_word in zip(unknown, word, strict=True) if is_word] or unknown
    if all(judged):
        raise ValueError(
            f"tokens: the model knows no word of text {text[:30]!r} ({len(ids)} tokens); it is of "
            "another language or script: leave it out or use a model of that language"
        )
    return sum(unknown) / len(unknown)
