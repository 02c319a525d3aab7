"""The real data sets of the paper preset: what each is, where it comes from, how it is read.

Facts alone, in `assets/data/catalogue.yaml`, which `relevit doctor` checks a folder against and
docs/paper_preset.md lists. Counts are those of the sets' authors; None is what they do not say or
what is not known for sure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

import yaml

NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Entry:
    """One set. `folders` are below the data root, other names of one included.

    `images` counts texts where `holds` says so. `size_gb` (10^9 bytes) is unpacked.

    `reader` is a dotted name and `calls` the options it is called with, once for each part of the
    set. `side` is given to readers that want the size of the pictures. `readable` and
    `readable_classes` are what the readers give of a whole set, where that is another number than
    the authors' (or one of several); an empty `readable_classes` is not compared.
    """

    key: str
    title: str
    folders: tuple[str, ...]
    images: int | None
    classes: int | None
    size_gb: float | None
    archives: tuple[str, ...]
    page: str
    terms: str
    used_by: tuple[str, ...]
    reader: str
    calls: tuple[Mapping[str, Any], ...] = ({},)
    side: int | None = None
    readable: tuple[int, ...] | None = None
    readable_classes: tuple[int, ...] | None = None
    holds: Literal["images", "texts"] = "images"

    @property
    def expected_images(self) -> tuple[int, ...]:
        """Numbers of images that a whole set may have; none when that is not known."""
        return _either(self.readable, self.images)

    @property
    def expected_classes(self) -> tuple[int, ...]:
        """The same of classes."""
        return _either(self.readable_classes, self.classes)


def _either(readable: tuple[int, ...] | None, official: int | None) -> tuple[int, ...]:
    if readable is not None:
        return readable
    return () if official is None else (official,)


def _stored_entries() -> dict[str, Entry]:
    text = (files("relevit") / "assets" / "data" / "catalogue.yaml").read_text("utf-8")
    return {key: Entry(key, **_with_tuples(facts)) for key, facts in yaml.safe_load(text).items()}


def _with_tuples(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()}


CATALOGUE = _stored_entries()


def number(value: float | None) -> str:
    """A number as people read it; what is not known says so."""
    return NOT_KNOWN if value is None else f"{value:,}"


def markdown() -> str:
    """The catalogue as the table of docs/paper_preset.md."""
    lines = [
        "| set | what | images or texts | classes | unpacked, GB | archives | folder | terms "
        "| used by |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for entry in CATALOGUE.values():
        cells = (
            f"`{entry.key}`",
            f"[{entry.title}]({entry.page})",
            number(entry.images),
            number(entry.classes),
            number(entry.size_gb),
            ", ".join(f"`{name}`" for name in entry.archives),
            ", ".join(f"`{name}`" for name in entry.folders),
            entry.terms,
            ", ".join(entry.used_by),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
