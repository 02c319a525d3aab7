"""Files and folders: where things lie, and files written whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CACHE_VARIABLE = "RELEVIT_CACHE"
os.umask(UMASK := os.umask(0))  # which nobody tells without changing it
FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))  # no quotas on Windows
# What those say of a full disk who raise no OSError with its number: safetensors, pyarrow, torch.
FULL_WORDS = ("o space left", "uota exceeded", "ile too large", "unexpected pos", "write failed")


def project_root() -> Path:
    """The project's folder: the nearest one above the working folder with notebooks and params.

    Falls back on the checkout that the package was installed from (`pip install -e .`).
    Raises: FileNotFoundError when neither has `notebooks/` and `params/`.
    """
    here = Path.cwd().resolve()
    checkout = Path(__file__).resolve().parents[3]
    for folder in (here, *here.parents, checkout):
        if (folder / "notebooks").is_dir() and (folder / "params").is_dir():
            return folder
    raise FileNotFoundError(
        f"project_root: no folder with notebooks/ and params/ at or above {here}; "
        "start from the project's folder"
    )


def run_folder(preset: str, stage: str, run: str = "", output_root: str = "outputs") -> Path:
    """`outputs/<preset>/<stage>[/<run>]` below the project, made if it is missing."""
    folder = project_root() / output_root / preset / stage / run
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def from_project(path: str) -> Path:
    """A folder that a parameter names: absolute, in the home folder (`~/`), or below the project.

    Notebooks run in `notebooks/` and the pipeline in the project's folder: both find the same one.
    """
    return project_root() / Path(path).expanduser()


def cache_folder() -> Path:
    """Folder for downloads: $RELEVIT_CACHE, or `relevit` below the user's cache folder."""
    default = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "relevit"
    folder = Path(os.environ.get(CACHE_VARIABLE, default)).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def need_disk_space(folder: Path, megabytes: int) -> None:
    """Raise OSError, before any work, when less than `megabytes` is free where `folder` lies.

    A folder that is still to be made lies where the nearest one above it does.
    """
    there = _nearest(folder)
    free = shutil.disk_usage(there).free // 2**20
    if free < megabytes:
        raise OSError(
            f"disk: {free} MB are free at {there}; this step writes up to {megabytes} MB: "
            "free some space, or choose another folder (output_root, --out)"
        )


def _nearest(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())


def write_atomically(path: Path, content: str | Callable[[Path], Any]) -> None:
    """Write a text, or let `content(temporary_path)` make the file; then move it to `path` at once.

    Raises: what `content` raises; OSError that says so when the disk is full.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with full_disk_said(path):
            if isinstance(content, str):
                temporary.write_text(content, encoding="utf-8")
            else:
                content(temporary)
            temporary.chmod(0o666 & ~UMASK)  # safetensors lets nobody else read its files
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def full_disk_said(path: Path) -> Iterator[None]:
    """Raise OSError that names `path` where the block ends because the disk is full."""
    try:
        yield
    except Exception as error:  # of safetensors', torch's and pyarrow's own, of many kinds
        if getattr(error, "errno", None) not in FULL and not any(
            words in str(error) for words in FULL_WORDS
        ):
            raise
        there = _nearest(path.parent)
        free = shutil.disk_usage(there).free / 2**20
        raise OSError(
            f"disk: {path} could not be written, for the disk is full, or your share of it "
            f"({free:.0f} MB are free at {there}); free some space and run again"
        ) from error


def sha256(path: Path) -> str:
    """A file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(values: Mapping[str, Any]) -> str:
    """A few letters that other values would not have."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:6]


def file_fingerprint(path: Path) -> str:
    """First 16 digits of a file's SHA-256, to tell one set of weights from another."""
    return sha256(path)[:16]
