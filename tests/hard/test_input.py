"""Bad input: parameters of every kind, and the worst known files, are refused soon and by name."""

import datetime
import io
import json
import math
import re
import struct
import subprocess
import sys
import time
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reproduction.params.cells import params_of
from reproduction.params.order import NOTEBOOKS

DEEP = [0]
for _ in range(60):
    DEEP = [DEEP]
VALUES = [
    None, True, -1, 0, 1, 10**12, 10**400, 0.5, -0.0, 1e300, math.inf, -math.inf, math.nan, "",
    "auto", "x" * 5000, "1e-6", "..", "a/b", "\x1b[2J\n", b"\xff", datetime.date(2026, 1, 1), [],
    [0], ["tiny", "tiny"], {}, {"a": 1}, {1: [None]}, DEEP, list(range(5000)),
]  # fmt: skip
LONGEST, SOON_S, LARGEST_MB = 2500, 5.0, 1000.0  # of a line, of the processor, of memory
RAW = re.compile(
    r"Traceback|'NoneType' object|has no attribute|unhashable|index out of"
    r"|not subscriptable|not iterable|positional argument|codec can't|Expecting value|\[Errno"
)


def tried(cls, key, value):
    """What a parameter becomes, or how it is refused."""
    try:
        return getattr(cls.checked({key: value}, "params/a.yaml"), key), ""
    except ValueError as error:
        return None, str(error)


@pytest.mark.parametrize("cls", [*map(params_of, NOTEBOOKS)], ids=NOTEBOOKS)
def test_a_parameter_is_taken_as_it_is_or_refused_in_lines_that_name_it(cls):
    start = time.process_time()
    for key in [*cls.model_fields, "no_such_name"]:
        for value in VALUES:
            found, refusal = tried(cls, key, value)
            for line in refusal.splitlines():
                assert "params/a.yaml" in line and line.isprintable(), line
                assert len(line) < LONGEST and not RAW.search(line), line
            if refusal:
                assert key in refusal or "needed" in refusal
                continue
            for kind in (bool, str, list):
                assert isinstance(found, kind) == isinstance(value, kind), "no kind becomes another"
            assert not isinstance(value, float) or math.isfinite(value)
    assert time.process_time() - start < SOON_S


# The worst known files, each kind in a process of its own that may not take much memory or time.

ALONE = """
import json, resource, sys, time, warnings
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
warnings.simplefilter("ignore")
folder = Path(sys.argv[2])
if sys.argv[1] == "yaml":
    from reproduction.params.cells import preset_sections as use
elif sys.argv[1] == "weights":
    from relevit.models.loading import load_model
    from relevit.models.checkpoints import load_weights
    model = load_model("tiny", "random")
    use = lambda path: load_weights(path, model, "tiny")
elif sys.argv[1] == "table":
    import pandas, pyarrow.parquet
    from relevit.base.results import read_table as use
else:
    from relevit.models.spec import View
    from relevit.data.pictures import open_image
    use = lambda path: View().picture(open_image(path))
def taken(what):  # not ru_maxrss, which begins with what the parent has taken
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what)) / 1024
before, found = taken("VmRSS"), {}
for path in sorted(folder.iterdir()):
    start, said = time.process_time(), ""
    try:
        use(path)
    except (ValueError, OSError) as error:
        said = str(error)
    found[path.name] = [said, time.process_time() - start]
print(json.dumps([found, taken("VmHWM") - before]))
"""
LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(9)
)


def png(width, height, rows):
    """A PNG of zeros that claims a size, and has so many rows of it."""

    def chunk(kind, content):
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    squeezed = zlib.compressobj(1)
    content = b"".join(squeezed.compress(bytes(1 + 3 * width)) for _ in range(rows))
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", content + squeezed.flush()),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def weights(**entries):
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(100)


def huge_table():
    """1,100 columns of a million empty cells in a few kilobytes."""
    content = io.BytesIO()
    pq.write_table(pa.table({f"x{n}": pa.nulls(10**6) for n in range(1100)}), content)
    return content.getvalue()


TENSOR = {"dtype": "F32", "shape": [10**5, 250_000], "data_offsets": [0, 10**11]}
INPUTS = {
    "yaml": {
        "laughs": (lambda: LAUGHS.encode(), "an alias"),
        "brackets": (lambda: b"a: " + b"[" * 5000 + b"]" * 5000, "too many brackets"),
        "long": (lambda: b"- " * 10**7, "too many for parameters"),
    },
    "weights": {
        "header of 100 GB": (lambda: struct.pack("<Q", 10**11) + b"{", "damaged"),
        "tensor of 100 GB": (lambda: weights(w=TENSOR), "damaged"),
        "deep": (lambda: weights(__metadata__={"relevit": "[" * 10**6}), "damaged"),
    },
    "table": {
        "none": (lambda: b"PAR1" + bytes(10**6) + b"\xff\xff\xff\x7fPAR1", "no whole"),
        "huge": (huge_table, "it claims 1,000,000 rows of 1,100 columns"),
    },
    "picture": {
        "bomb": (lambda: png(30_000, 30_000, 1), "pixels that are opened"),
        "cut": (lambda: png(5_000, 5_000, 5_000)[:-2000], "truncated"),
        "line": (lambda: png(1, 60_000, 60_000), ""),
    },
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize("kind", INPUTS)
def test_the_worst_files_are_refused_soon_and_in_little_memory(tmp_path, kind):
    for name, (make, _) in INPUTS[kind].items():
        (tmp_path / name).write_bytes(make())
    command = [sys.executable, "-c", ALONE, kind, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, megabytes = json.loads(done.stdout.splitlines()[-1])
    for name, (_, text) in INPUTS[kind].items():
        said, seconds = found[name]
        assert bool(said) == bool(text) and text in said, said
        assert (name in said) == bool(text) and seconds < SOON_S
    assert megabytes < LARGEST_MB
