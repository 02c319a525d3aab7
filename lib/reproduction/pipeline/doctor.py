"""Whether a data root has what the paper preset needs: set by set, against the official numbers."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from habitats.real.catalogue import CATALOGUE, Entry, number
from relevit.base.errors import one_line

if TYPE_CHECKING:
    from relevit.data.image_set import ImageSet
    from relevit.text.documents import Corpus

    Part = ImageSet | Corpus

State = Literal["whole", "missing", "incomplete", "wrong", "unreadable"]
AT_ONCE = 2000  # images that wait to be decoded
SHOWN = 20  # unreadable images that are named on the screen


@dataclass(frozen=True)
class Finding:
    """What is known of one set in a data root.

    `incomplete` has other numbers than a whole set, `wrong` cannot be read as the set, and
    `unreadable` has the right numbers, but images that cannot be decoded.
    """

    key: str
    state: State
    folder: str = ""  # the first that is there
    images: int | None = None
    classes: int | None = None
    problems: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """All that is known, the facts of the catalogue included."""
        entry = CATALOGUE[self.key]
        official = {name: getattr(entry, name) for name in ("images", "classes", "size_gb")}
        about = ("title", "holds", "folders", "archives", "page", "terms", "used_by")
        facts = {name: getattr(entry, name) for name in about}
        return asdict(self) | {"official": official} | facts


def examine(data_root: Path, key: str, *, deep: bool = False) -> Finding:
    """Look at one set; `deep` decodes every image and mask.

    Raises: FileNotFoundError when `data_root` is no folder, ValueError for an unknown key.
    """
    if key not in CATALOGUE:
        raise ValueError(f"doctor: set {key!r} is unknown; use some of {list(CATALOGUE)}")
    if not data_root.is_dir():
        raise FileNotFoundError(
            f"doctor: data root {data_root} is no folder; give the one that the archives were "
            "unpacked to"
        )
    entry, parts, problems = CATALOGUE[key], [], []
    for call in range(len(entry.calls)):
        try:
            parts.append(entry.read(data_root, call=call))
        except (ValueError, OSError) as error:
            problems.append(" ".join(str(error).split()))
    places = [folder for folder in entry.folders if (data_root / folder).exists()]
    if problems:
        return Finding(key, "wrong" if places else "missing", problems=tuple(problems))
    images = sum(len(part) for part in parts)
    classes = len({label for part in parts for label in _labels(part)})
    problems = [
        f"{number(found)} {what}; a whole set has {' or '.join(map(number, expected))}: unpack "
        f"{' and '.join(entry.archives)} again"
        for what, found, expected in (
            (entry.holds, images, entry.expected_images),
            ("classes", classes, entry.expected_classes),
        )
        if expected and found not in expected
    ]
    broken = tuple(text for part in parts for text in unreadable(part)) if deep else ()
    state: State = "incomplete" if problems else "unreadable" if broken else "whole"
    return Finding(key, state, (*places, "")[0], images, classes, tuple(problems), broken)


def _labels(part: Part) -> Iterable[int]:
    if hasattr(part, "documents"):
        return (document.label for document in part.documents)
    return part.labels.tolist()


def unreadable(part: Part) -> list[str]:
    """Decode all pictures and masks; what is wrong with those that cannot be. Texts were read."""

    def problem(place: int) -> str:
        try:
            part.read([place])
        except (ValueError, OSError, SyntaxError) as error:
            text = one_line(error)
            return text if text.startswith(f"{part.name}: ") else f"{part.name}: {place}: {text}"
        return ""

    if hasattr(part, "documents"):
        return []
    with ThreadPoolExecutor() as pool:  # decoding lets go of the interpreter
        starts = range(0, len(part), AT_ONCE)
        shares = (range(start, min(start + AT_ONCE, len(part))) for start in starts)
        return [text for share in shares for text in pool.map(problem, share) if text]


def lines(finding: Finding) -> list[str]:
    """A finding as text: the verdict, then what was found and what to do."""
    entry = CATALOGUE[finding.key]
    rows = []
    if finding.images is not None:
        found = _count(entry, finding.images, finding.classes)
        rows.append(("found", f"{found} in {finding.folder}"))
    rows.append(("official", _count(entry, entry.images, entry.classes)))
    if entry.readable is not None:
        some = [(entry.holds, entry.expected_images), ("classes", entry.expected_classes)]
        read = [f"{' or '.join(map(number, wanted))} {what}" for what, wanted in some if wanted]
        rows.append(("of these", f"{', '.join(read)} are read"))
    unit = "" if entry.size_gb is None else " GB"
    rows.append(("unpacked", number(entry.size_gb) + unit))
    rows += [("problem", text) for text in finding.problems]
    rows += [("unreadable", text) for text in finding.unreadable[:SHOWN]]
    if len(finding.unreadable) > SHOWN:
        rows.append(("", f"and {len(finding.unreadable) - SHOWN} more; --json names all"))
    if finding.state != "whole":
        rows.append(("get", f"{', '.join(entry.archives)} from {entry.page}"))
    rows += [("terms", entry.terms), ("used by", ", ".join(entry.used_by))]
    head = f"{entry.key} ({entry.title}): {finding.state}"
    return [head, *(f"  {name:<11}{text}" for name, text in rows)]


def _count(entry: Entry, images: int | None, classes: int | None) -> str:
    return f"{number(images)} {entry.holds}, {number(classes)} classes"
