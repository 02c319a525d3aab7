"""Labelled texts, with the characters that show why a label holds where someone marked them."""

from __future__ import annotations

from dataclasses import dataclass

Span = tuple[int, int]  # characters of a text: the first, and the one after the last


@dataclass(frozen=True)
class Document:
    """One text and its label; `rationale` are the spans that show the label, and may overlap."""

    text: str
    label: int
    rationale: tuple[Span, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """Documents in three splits; `classes[label]` is a label's name.

    `source` says where the texts come from and `licence` under which terms, in a sentence each.
    """

    classes: tuple[str, ...]
    train: tuple[Document, ...]
    validation: tuple[Document, ...]
    test: tuple[Document, ...]
    source: str
    licence: str

    @property
    def documents(self) -> tuple[Document, ...]:
        """All documents, split after split."""
        return (*self.train, *self.validation, *self.test)

    def __len__(self) -> int:
        return len(self.documents)
