"""Labelled texts, with the characters that show why a label holds where someone marked them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Span = tuple[int, int]  # characters of a text: the first, and the one after the last


@dataclass(frozen=True)
class Document:
    """One text and its label; `rationale` are the spans that show the label, in their order.

    Raises: ValueError for a blank text, a label below 0, or spans that are empty, leave the text,
    overlap or are out of order.
    """

    text: str
    label: int
    rationale: tuple[Span, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        shown = self.name or repr(self.text[:30])
        if not self.text.strip():
            raise ValueError(f"document {shown}: its text is blank; leave it out")
        if self.label < 0:
            raise ValueError(f"document {shown}: label {self.label}; labels begin with 0")
        end = 0
        for start, stop in self.rationale:
            if not end <= start < stop <= len(self.text):
                raise ValueError(
                    f"document {shown}: rationale {self.rationale} in a text of {len(self.text)} "
                    "characters; spans must be in order, apart, not empty and inside it: see "
                    "merged_spans"
                )
            end = stop


@dataclass(frozen=True)
class Corpus:
    """Documents in three splits; `classes[label]` is a label's name.

    `source` says where the texts come from and `licence` under which terms, in a sentence each.
    Raises: ValueError for a label without a class.
    """

    classes: tuple[str, ...]
    train: tuple[Document, ...]
    validation: tuple[Document, ...]
    test: tuple[Document, ...]
    source: str
    licence: str

    def __post_init__(self) -> None:
        for split in ("train", "validation", "test"):
            for document in getattr(self, split):
                if document.label >= len(self.classes):
                    raise ValueError(
                        f"corpus: document {document.name!r} of {split} has label "
                        f"{document.label}; there are {len(self.classes)} classes: name them all"
                    )

    @property
    def documents(self) -> tuple[Document, ...]:
        """All documents, split after split."""
        return (*self.train, *self.validation, *self.test)

    def __len__(self) -> int:
        return len(self.documents)


def merged_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same characters as spans in order; those that overlap or touch become one."""
    merged: list[Span] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple(merged)
