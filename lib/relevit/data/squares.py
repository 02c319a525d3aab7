"""Squares of photographs in one file: decoded once, and read by every run that asks for them.

A square is 150 kB at 224 pixels, and takes 3 ms to decode. It is kept at its place in the set, with
a stamp of its picture's file and a sum, so that it is made anew where either differs.
"""

from __future__ import annotations

import os
import shutil
import struct
import warnings
import zlib
from pathlib import Path
from threading import Lock

import torch
from jaxtyping import UInt8
from torch import Tensor

FREE_MB = 1000  # that stay free on the disk
STAMP = struct.Struct("<qqI")  # bytes of the picture's file, time of its last change, and the sum

Square = UInt8[Tensor, "3 side side"]


class Squares:
    """The file `path`, of squares of `side` pixels; any number of processes may share it."""

    def __init__(self, path: Path, side: int) -> None:
        self.side, self._told = side, not hasattr(os, "pread")  # Windows: nothing is kept
        self._bytes, self._telling = 3 * side * side, Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        self._folder = path.parent

    def get(self, place: int, picture: Path) -> Square | None:
        """The square of the picture at this place, None where it is not kept or has changed."""
        if not hasattr(os, "pread"):
            return None
        whole = self._bytes + STAMP.size
        found = bytearray(os.pread(self._file.fileno(), whole, place * whole))
        if len(found) < whole or found[self._bytes :] != self._stamp(found, picture):
            return None
        square = torch.frombuffer(found, dtype=torch.uint8, count=self._bytes)
        return square.view(3, self.side, self.side)

    def keep(self, place: int, picture: Path, square: Square) -> None:
        """Keep a square for those who come; a full disk is told once, and costs time alone."""
        if self._told:
            return
        pixels = square.contiguous().numpy().tobytes()
        record = pixels + self._stamp(pixels, picture)
        try:
            if shutil.disk_usage(self._folder).free < FREE_MB * 2**20 + len(record):
                raise OSError(f"less than {FREE_MB} MB are free")
            os.pwrite(self._file.fileno(), record, place * len(record))
        except OSError as error:
            with self._telling:
                told, self._told = self._told, True
            if told:
                return
            said = f"{self._folder}: pictures are decoded each time, for no more squares are kept"
            warnings.warn(f"{said}: {error}", stacklevel=2)

    def _stamp(self, pixels: bytes | bytearray, picture: Path) -> bytes:
        about = picture.stat()
        return STAMP.pack(
            about.st_size, about.st_mtime_ns, zlib.crc32(memoryview(pixels)[: self._bytes])
        )
