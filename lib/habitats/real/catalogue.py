"""The one registry of real data sets: what each is, where it comes from, how it is read.

Facts alone, in `assets/data/catalogue.yaml`, which `relevit doctor` checks a folder against and
docs/paper_preset.md lists. Nothing is loaded before a set is read. Counts are those of the sets'
authors; None is what they do not say or what is not known for sure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

if TYPE_CHECKING:
    from relevit.models.spec import View

NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Entry:
    """One set. `folders` are below the data root, other names of one included.

    `images` counts texts where `holds` says so. `size_gb` (10^9 bytes) is unpacked.

    `reader` is the dotted name of a function of (entry, data_root, view, **options) that gives an
    `ImageSet`, or for texts of data_root alone; `calls` are its options, once for each part of the
    set. `readable` and `readable_classes` are what the readers give of a whole set, where that is
    another number than the authors' (or one of several); an empty `readable_classes` is not
    compared.
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
    readable: tuple[int, ...] | None = None
    readable_classes: tuple[int, ...] | None = None
    holds: Literal["images", "texts"] = "images"

    @property
    def remedy(self) -> str:
        """What errors say to do."""
        return f"unpack {' and '.join(self.archives)}"

    def read(self, data_root: Path, *view: View, call: int = 0, **options: Any) -> Any:
        """One part of the set; `options` go before those of the call."""
        module, _, name = self.reader.rpartition(".")
        reader, options = getattr(import_module(module), name), {**self.calls[call], **options}
        if self.holds == "texts":
            return reader(data_root, **options)
        return reader(self, data_root, *view, **options)

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
    text = (files("habitats") / "assets" / "data" / "catalogue.yaml").read_text("utf-8")
    return {key: Entry(key, **_with_tuples(facts)) for key, facts in yaml.safe_load(text).items()}


def _with_tuples(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()}


CATALOGUE = _stored_entries()


def number(value: float | None) -> str:
    """A number as people read it; what is not known says so."""
    return NOT_KNOWN if value is None else f"{value:,}"
