"""Is this machine ready for the notebooks, and has a data root what the paper preset needs?

Of a machine it is what a teacher asks before the day; of a data root each set is held against the
official numbers.
"""

from __future__ import annotations

import platform
import shutil
import sys
import time
import timeit
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from habitats.real.catalogue import CATALOGUE, Entry, number
from relevit.base.device import choose_device, choose_precision, cores
from relevit.base.errors import one_line
from relevit.base.files import project_root

if TYPE_CHECKING:
    from relevit.data.image_set import ImageSet
    from relevit.text.documents import Corpus

    Part = ImageSet | Corpus

PYTHONS = ((3, 11), (3, 13))
PACKAGES = ("torch", "timm", "jupyterlab", "ipywidgets", "papermill")
FREE_MB = 1000  # what the quick preset writes, and room to work in
FREE_GIB = 2.2  # of memory: what a notebook of the lesson takes (docs/results/notes/class.csv)
SLOW_S = 10.0  # for one map of the small model: a cell of it takes a second elsewhere
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


# The machine


class Looked(NamedTuple):
    """One thing that was looked at: whether it will do, and what is there or what to do."""

    what: str
    good: bool
    said: str


def ready() -> Iterator[Looked]:
    """What a class needs of a machine, from Python to a map; each as soon as it is known."""
    for what, look in LOOKS.items():
        try:
            yield Looked(what, *look())
        except Exception as error:  # whatever is wrong with an installation
            yield Looked(what, False, f"{one_line(error)}; make setup installs all anew")


def _python() -> tuple[bool, str]:
    here = sys.version_info[:2]
    said = f"{platform.python_version()} on {platform.system()} ({platform.machine()})"
    (low, high) = PYTHONS
    if low <= here <= high:
        return True, said
    return False, f"{said}; 3.11 to 3.13 is needed: make setup PYTHON=python3.12"


def _packages() -> tuple[bool, str]:
    found, lost = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            lost.append(name)
    if lost:
        return False, f"{', '.join(lost)} not installed: make setup installs all"
    return True, ", ".join(found)


def _room() -> tuple[bool, str]:
    root = project_root()
    free = shutil.disk_usage(root).free // 2**20
    said = f"{free / 1000:.0f} GB free at {root}" if free >= 10_000 else f"{free} MB free at {root}"
    return free >= FREE_MB, said if free >= FREE_MB else f"{said}; {FREE_MB} MB are needed"


def _memory() -> tuple[bool, str]:
    import psutil

    free = psutil.virtual_memory().available / 2**30
    said = f"{free:.1f} GiB free"
    need = f"{said}; a notebook takes up to {FREE_GIB}: close what else runs"
    return free >= FREE_GIB, said if free >= FREE_GIB else need


def _cores() -> tuple[bool, str]:
    count = cores()
    said = f"{count}" if count > 1 else "1: notebooks take twice the time that they tell"
    return True, said


def _map() -> tuple[bool, str]:
    import torch

    from relevit import explain, load_model

    start = time.perf_counter()
    model = load_model("tiny")
    heat = explain(model, torch.zeros(1, 3, 112, 112), method="gae")
    seconds = time.perf_counter() - start
    said = f"drawn in {seconds:.1f} s, {tuple(heat.shape[-2:])}"
    slow = f"{said}: this machine is slow or busy; close what else runs"
    return seconds < SLOW_S, said if seconds < SLOW_S else slow


def _training() -> tuple[bool, str]:
    """The number format of training, and whether that saves time, by a layer of a ViT-S."""
    import torch

    if (chosen := choose_precision("auto", choose_device("auto"))) != "bfloat16":
        return True, f"in {chosen}"

    def seconds(kind: torch.dtype) -> float:
        x, weight = torch.ones(1040, 384, dtype=kind), torch.ones(1536, 384, dtype=kind)
        times = timeit.repeat(lambda: torch.nn.functional.linear(x, weight), number=1, repeat=20)
        return min(times)

    gain = seconds(torch.float32) / seconds(torch.bfloat16)
    said = f"in bfloat16, {gain:.1f} times as fast as float32 here"
    return True, said if gain >= 1 else f"{said}: precision: float32 in a preset saves time"


def _kernel() -> tuple[bool, str]:
    from jupyter_client.kernelspec import KernelSpecManager

    python = KernelSpecManager().get_kernel_spec("python3").argv[0]
    if Path(python).name == python or python == sys.executable:  # a bare name means Jupyter's own
        return True, "notebooks run in this environment"
    add = f"{sys.executable} -m ipykernel install --sys-prefix"
    return False, f"notebooks run in {python}, another environment: {add}"


def _results() -> tuple[bool, str]:
    from reproduction.pipeline.notebooks import finished_notebooks

    try:
        finished_notebooks("quick")
    except FileNotFoundError:
        return True, "not made: make quick makes them before the day, else each notebook its own"
    return True, "make quick has made what the notebooks read of each other"


LOOKS: dict[str, Callable[[], tuple[bool, str]]] = {
    "Python": _python,
    "packages": _packages,
    "disk": _room,
    "memory": _memory,
    "cores": _cores,
    "training": _training,
    "kernel": _kernel,
    "a map": _map,
    "results": _results,
}
