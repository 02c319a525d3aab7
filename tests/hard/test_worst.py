"""The worst known inputs, each in a process of its own that may not take much memory or time.

Seconds are the processor's, which a busy machine does not lengthen.
"""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("resource", reason="memory is limited as POSIX systems do it")

SOON_S, LARGEST_MB = 5.0, 1000.0
ADDRESSES_GB = 12  # a limit for what goes wrong; the libraries map gigabytes that they never use
PATIENCE_S = 120
# Says of an input how it ended and what it took, besides what loading the library takes.
ALONE = f"""
import gc, json, resource, sys, time, warnings
from pathlib import Path

limit = {ADDRESSES_GB} * 2**30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
warnings.simplefilter("ignore")
path = Path(sys.argv[1])
if sys.argv[2] == "yaml":
    from relevit.config import FinetuneParams
    use = lambda: FinetuneParams.from_file(path)
elif sys.argv[2] == "weights":
    from relevit.models.loading import load_model
    from relevit.models.checkpoints import load_weights
    model = load_model("tiny", "random")
    use = lambda: load_weights(path, model, "tiny")
elif sys.argv[2] == "table":
    import pandas, pyarrow.parquet
    from relevit.base.results import read_table
    use = lambda: read_table(path)
elif sys.argv[2] == "summary":
    from relevit.base.stages import read_summary
    use = lambda: read_summary(path.parent)
elif sys.argv[2] == "mask":
    from relevit.data.own.outlines import open_mask
    use = lambda: open_mask(path)
else:
    from relevit.models.spec import View
    from relevit.data.own.loose import open_image
    use = lambda: View().picture(open_image(path))

gc.collect()
def taken(what):  # not ru_maxrss, which begins with what the parent has taken
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what)) / 1024
before = taken("VmRSS")
start, said = time.process_time(), ""
try:
    use()
except (ValueError, OSError) as error:
    said = str(error)
print(json.dumps([said, time.process_time() - start, max(0, taken("VmHWM") - before)]))
"""
LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(9)
)


def png(width, height, rows):
    """A PNG of zeros that claims a size, and has so many rows of it."""

    def chunk(kind, content):
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    squeezed = zlib.compressobj(1)
    content = b"".join(squeezed.compress(bytes(1 + 3 * width)) for _ in range(rows))
    parts = ((b"IHDR", header), (b"IDAT", content + squeezed.flush()), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def weights(entries):
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(100)


def huge(shape):
    end = 4 * shape[0] * shape[1]
    return weights({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}})


def empty_table():
    """1,100 columns of a million empty cells in a few kilobytes."""
    content = io.BytesIO()
    pq.write_table(pa.table({f"x{n}": pa.nulls(10**6) for n in range(1100)}), content)
    return content.getvalue()


INPUTS = {
    "billion laughs": ("yaml", lambda: LAUGHS.encode(), "an alias"),
    "brackets": ("yaml", lambda: b"a: " + b"[" * 5000 + b"]" * 5000, "too many brackets"),
    "long file": ("yaml", lambda: b"- " * 10**7, "too many for parameters"),
    "long value": ("yaml", lambda: b"rate: " + b"x" * 90_000, "is no parameter"),
    "many names": ("yaml", lambda: b"".join(b"a%d: 1\n" % n for n in range(10_000)), "no param"),
    "header of 100 GB": ("weights", lambda: struct.pack("<Q", 10**11) + b"{", "damaged"),
    "tensor of 100 GB": ("weights", lambda: huge([10**5, 250_000]), "damaged"),
    "deep facts": (
        "weights",
        lambda: weights({"__metadata__": {"relevit": "[" * 10**6}}),
        "damaged",
    ),
    "deep summary": ("summary", lambda: b"[" * 10**7, "no JSON"),
    "long summary": ("summary", lambda: b"[" + b"1," * 10**7 + b"1]", "no values by name"),
    "no table": ("table", lambda: b"PAR1" + bytes(10**6) + b"\xff\xff\xff\x7fPAR1", "no whole"),
    "absurd table": ("table", empty_table, "it claims 1,000,000 rows of 1,100 columns"),
    "pixel bomb": ("picture", lambda: png(30_000, 30_000, 1), "pixels that are opened"),
    "small bomb": ("picture", lambda: png(12_000, 12_000, 1), "pixels that are opened"),
    "mask bomb": ("mask", lambda: png(12_000, 12_000, 1), "pixels that are opened"),
    "cut picture": ("picture", lambda: png(9_400, 9_400, 9_400)[:-2000], "truncated"),
    "line": ("picture", lambda: png(1, 60_000, 60_000), ""),
    "large picture": ("picture", lambda: png(9_400, 9_400, 9_400), ""),
}


@pytest.mark.parametrize("name", INPUTS)
def test_it_is_refused_soon_and_in_little_memory(figures, tmp_path, name):
    if not os.path.exists("/proc/self/status"):
        pytest.skip("what a process takes is read from Linux's /proc")
    kind, make, text = INPUTS[name]
    path = tmp_path / {"summary": "summary.json"}.get(kind, "input")
    path.write_bytes(make())
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(path), kind],
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said, seconds, megabytes = json.loads(done.stdout.splitlines()[-1])
    figures.add("bad inputs tried")
    assert bool(said) == bool(text) and text in said
    assert (path.name in said) == bool(text)
    if said:
        figures.add("bad inputs refused")
        figures.most("worst time of a refused input, s", seconds)
        figures.most("worst memory of a refused input, MB", megabytes)
    assert seconds < SOON_S and megabytes < LARGEST_MB
