"""Room on the disk: asked for where the files will lie, and said in plain words when it is gone."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from relevit.base.files import need_disk_space, write_atomically

FULL = Path("/dev/full")  # has no room for anything
TENSORS = {"weights": torch.zeros(100_000)}
WRITERS = {
    "text": lambda target: target.write_text("x" * 100_000, encoding="utf-8"),
    "torch": lambda target: torch.save(TENSORS, target),
    "parquet": pd.DataFrame({"x": range(100_000)}).to_parquet,
}


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EFBIG, "File too large"),
        RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0"),
        RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed"),
        ValueError("I/O error: No space left on device (os error 28)"),
        ValueError("Error while serializing: I/O error: Disk quota exceeded (os error 122)"),
    ],
)
def test_a_full_disk_is_said_whoever_writes_and_nothing_is_left(tmp_path, error):
    def write(target):
        target.write_bytes(b"half")
        raise error

    path = tmp_path / "weights.safetensors"
    told = rf"^disk: {path} could not be written, for the disk is full.*free some space and run ag"
    with pytest.raises(OSError, match=told):
        write_atomically(path, write)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("writer", WRITERS)
def test_that_is_what_the_libraries_raise(tmp_path, writer):
    path = tmp_path / "file"
    with pytest.raises(OSError, match=rf"^disk: {path} could not be written, for the disk is full"):
        write_atomically(path, lambda target: WRITERS[writer](FULL))


def test_files_have_the_rights_that_any_new_file_has(tmp_path):
    """Those of safetensors are its writer's alone else, and a group shares results."""
    write_atomically(tmp_path / "weights", lambda target: save_file(TENSORS, target))
    (tmp_path / "plain").touch()
    assert (tmp_path / "weights").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_room_is_asked_for_on_the_disk_where_the_folder_will_lie(tmp_path, monkeypatch):
    """It may be a link to another disk, and its last folders are still to be made."""
    (tmp_path / "large").mkdir()
    outputs = tmp_path / "outputs"
    outputs.symlink_to(tmp_path / "large")
    free = {outputs: 50 * 2**20, tmp_path: 500 * 2**20}
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free[folder]))
    with pytest.raises(OSError, match=rf"^disk: 50 MB are free at {outputs}; this step writes up"):
        need_disk_space(outputs / "quick" / "00_start", 100)
    need_disk_space(outputs / "quick", 50)
    need_disk_space(tmp_path / "nothing" / "there", 500)
