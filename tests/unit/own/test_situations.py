"""Where the command works: pipes, full disks, no home folder, no network. Nothing is lost, and
what is wrong is one sentence and an exit code."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from relevit.models.loading import open_model
from relevit_own.cli import main
from relevit_own.door import need_model

RELEVIT = Path(sys.executable).parent / "relevit"


class Broken:
    """A stream that nobody can be told anything through."""

    def __init__(self, number: int) -> None:
        self.number = number

    def write(self, text: str) -> None:
        raise OSError(self.number, os.strerror(self.number))


@pytest.fixture
def pictures(tmp_path) -> Path:
    Image.new("RGB", (64, 64), "red").save(tmp_path / "a.png")
    return tmp_path


@pytest.mark.parametrize(
    ("stream", "code", "said"),
    [
        (Broken(errno.EPIPE), 0, ""),  # | head
        (Broken(errno.EIO), 0, ""),  # a terminal that is gone
        (None, 0, ""),  # >&-
        (Broken(errno.ENOSPC), 2, "could not be written (No space left on device); files are"),
    ],
)
def test_where_only_telling_fails_the_work_goes_on(
    pictures, monkeypatch, capsys, stream, code, said
):
    monkeypatch.setattr(sys, "stdout", stream)
    maps = pictures / "maps"
    assert main(["explain", str(pictures), "--model", "tiny", "-o", str(maps)]) == code
    assert {"a.png.png", "manifest.csv", "index.html"} <= {path.name for path in maps.iterdir()}
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == bool(said)


def test_a_full_disk_is_named(tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("relevit_own.example.write_example", full)
    assert main(["example", str(tmp_path / "new")]) == 2
    told = capsys.readouterr().err
    assert "the disk is full" in told and "free some space and run again\n" in told


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ("--help | head -1", 0, ""),
        ("explain --help | head -1", 0, ""),
        ("--help > /dev/full", 2, "the disk is full"),
        ("explain nowhere.jpg 2>&-", 2, ""),
    ],
)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_in_a_shell(tmp_path, typed, code, said):
    line = f"set -o pipefail; {RELEVIT} {typed}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == code and said in done.stderr
    assert done.stderr.count("\n") == bool(said)


SLEEPING = """
import signal
from time import sleep
from relevit_own import cli
signal.signal(signal.SIGINT, signal.default_int_handler)  # which what runs aside has not
cli.door.need_there = lambda *_, **__: (print("here", flush=True), sleep(60))
cli.command()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_it_says_so(number):
    given = [sys.executable, "-c", SLEEPING, "check", "nowhere"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(given, **pipes) as work:
        assert work.stdout.readline() == "here\n"
        work.send_signal(number)
        assert work.wait(10) == 130 and work.stderr.read() == "\nstopped\n"


NOBODY = """
import os, pwd
def none(*_): raise KeyError("uid not found: 23456")
pwd.getpwuid = pwd.getpwnam = none
from relevit.base.process import with_home
with with_home():
    import matplotlib.font_manager
    from relevit.base.files import cache_folder
    folder = cache_folder()
    assert folder.is_dir()
assert not folder.exists()
"""


@pytest.mark.parametrize("home", [None, "/nowhere"])
def test_a_user_without_a_home_folder_is_lent_one(home):
    ours = ("HOME", "RELEVIT_CACHE", "XDG_CACHE_HOME", "MPLCONFIGDIR")
    env = {name: value for name, value in os.environ.items() if name not in ours}
    env |= {"HOME": home} if home else {}
    subprocess.run([sys.executable, "-c", NOBODY], env=env, check=True)


@pytest.mark.parametrize(
    "env",
    [
        {"HTTPS_PROXY": "http://127.0.0.1:9"},
        {"HTTPS_PROXY": "127.0.0.1:9"},
        {"ALL_PROXY": "socks://127.0.0.1:9"},
        {"ALL_PROXY": "socks5://127.0.0.1:9"},
        {"HTTPS_PROXY": "http://user:p@ss#word@127.0.0.1:9"},
        {"HF_ENDPOINT": "http://127.0.0.1:9"},
        {"HF_HUB_OFFLINE": "1"},
    ],
    ids=str,
)
def test_a_hub_that_does_not_answer_is_said_in_seconds(pictures, env):
    ours = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
    ours |= {"HF_HOME": str(pictures / "hub")} | env
    given = ["explain", str(pictures / "a.png"), "--model", "vit_tiny_patch16_224"]
    start = time.monotonic()
    done = subprocess.run([RELEVIT, *given], env=ours, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: explain: --model vit_tiny_patch16_224: ")
    assert "connect, or give weights" in done.stderr
    assert time.monotonic() - start < 60


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("vit_tiny_patch16_224", "weights, a file that was fetched"),
        ("hf-hub:someone/theirs", "its folder, fetched elsewhere, as local-dir:FOLDER"),
        ("clip-b32", "weights, its folder that was fetched"),
    ],
)
def test_who_has_no_hub_is_told_what_can_be_given(tmp_path, monkeypatch, name, way):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConnectionError, match=f"connect, or give {way}"):
        need_model("explain", name, None, "cpu")
    if name != "clip-b32":
        with pytest.raises(ConnectionError, match=f"connect, or give {way}"):
            open_model(name)
    with pytest.raises(ValueError, match="has weights of its own; leave --weights out"):
        need_model("explain", "hf-hub:someone/theirs", str(tmp_path), "cpu")
