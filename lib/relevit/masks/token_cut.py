"""TokenCut: an object's mask from self-supervised features, without any label.

Source: Wang et al. 2022 (CVPR), used by RobustViT for its unsupervised masks; parameters as in
the published scripts (differences B14, B18). Features are the keys of a Vision Transformer's last
block. Tokens whose features are alike are joined by a strong edge, all others by a faint one; the
normalised cut of that graph parts object and rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.ndimage import label
from scipy.sparse.linalg import LinearOperator, eigsh
from threadpoolctl import ThreadpoolController
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn
from torch.nn.functional import normalize

from relevit.attention.token_rows import prefix_tokens
from relevit.config.words import KeyBias
from relevit.models.dinov2 import load_dinov2
from relevit.models.loading import load_model, load_pretrained, model_spec
from relevit.models.registry import PAPER_MODELS, paper_spec
from relevit.models.spec import ModelSpec

TAU = 0.2  # cosine similarity above which two tokens are joined
FAINT = 1e-5  # weight of all other edges, which keeps the graph in one piece


# What is cut


def feature_spec(name: str) -> ModelSpec:
    """The backbone with the pixel statistics of its own pretraining, as TokenCut has it for DINO.

    Finetuning shows all the papers' models another mean and std (differences B5).
    Raises: ValueError for an unknown name.
    """
    return paper_spec(name, "timm") if name in PAPER_MODELS else model_spec(name)


def feature_model(
    name: str, side: int, device: torch.device | str = "cpu", weights: Path | None = None
) -> nn.Module:
    """A backbone for TokenCut that takes squares of `side` pixels, in eval mode.

    `dino-b` is the paper's (differences B14); `weights` is its file (`origin_weights`).
    `dinov2-s` is DINOv2 as it was pretrained, without any label; its position embedding is
    resampled once, from the pretrained grid to the new one. A shipped model such as `tiny-mae`
    has been finetuned with labels after its pretraining.
    Raises: ValueError for an unknown name or a side that its patches do not divide, and as
    `load_dinov2`.
    """
    model = load_pretrained(name) if name == "dinov2-s" else load_model(name, weights)
    patch = model.patch_embed.patch_size[0]
    if side < patch or side % patch:
        raise ValueError(
            f"feature_model: {side} px are no whole number of {name}'s patches; use a multiple "
            f"of {patch}"
        )
    model.set_input_size(img_size=side)
    if name == "dinov2-s":
        grid = list(model.patch_embed.grid_size)
        with torch.no_grad():
            model.pos_embed.copy_(resample_abs_pos_embed(load_dinov2()["pos_embed"], grid))
    return model.eval().to(device)


@torch.no_grad()
def key_features(
    model: nn.Module, images: Float[Tensor, "batch 3 height width"], bias: KeyBias = "removed"
) -> Float[Tensor, "batch patches channels"]:
    """The patches' keys of the last block, all heads side by side.

    Source: TokenCut, as RobustViT's script calls it (differences B14), with `bias="kept"`.
    One vector added to all keys adds the same to all scores of a query, which softmax takes out
    again. So the bias of the key layer does nothing, has no gradient, and says nothing of the
    image (unless a norm of the keys follows). DINOv2's is twice as long as the rest of its keys:
    with it, all patches look alike and there is nothing to cut. `removed` takes it off.
    `images` are normalised. The model's mode and hooks are left as they were.
    Raises: ValueError for another bias, or a model without a joint layer for query, key and
    value in its last block.
    """
    if bias not in get_args(KeyBias):
        raise ValueError(f"key_features: bias is {bias!r}; use one of {get_args(KeyBias)}")
    layer = getattr(getattr(getattr(model, "blocks", [None])[-1], "attn", None), "qkv", None)
    if not isinstance(layer, nn.Linear):
        raise ValueError(
            f"key_features: {type(model).__name__} has no linear layer blocks[-1].attn.qkv; use a "
            "timm Vision Transformer"
        )
    outputs = []
    handle = layer.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    try:
        model(images)
    finally:
        handle.remove()
    keys = outputs[-1].chunk(3, dim=2)[1]
    if bias == "removed" and layer.bias is not None:
        keys = keys - layer.bias.chunk(3)[1]
    return keys[:, prefix_tokens(model) :]


# The cut


@dataclass(frozen=True)
class Cut:
    """The two sides of each image's graph, on its grid of patches.

    `vector` is the second generalised eigenvector x of (D - A) x = lambda D x, scaled to
    x' D x = 1, its sign such that the seed lies above the mean. `partition` is the side of
    the seed (above the mean), `mask` the part of it that hangs together with the seed, by
    patches that share an edge (differences B18). `seed` is the token with the largest
    absolute entry, counted row by row. `eigenvalue` is lambda: near 0 for a graph that falls in
    two, 1 where all tokens are alike. If every pair is, there is no cut: `vector` is 0 and
    the mask is full.
    """

    vector: Float[Tensor, "batch height width"]
    partition: Bool[Tensor, "batch height width"]
    mask: Bool[Tensor, "batch height width"]
    seed: Int[Tensor, " batch"]
    eigenvalue: Float[Tensor, " batch"]


@torch.no_grad()
def tokencut(
    features: Float[Tensor, "batch tokens channels"], grid: tuple[int, int], tau: float = TAU
) -> Cut:
    """Part each image's tokens in two by the normalised cut.

    `grid` is (rows, columns) of the patches. The generalised problem is solved in its symmetric
    form, and of its eigenvectors only the second is computed; the published code makes a dense
    generalised solve. Computed in float64 on the CPU; results are on the features' device.
    Raises: ValueError when the grid does not fit, tau is no cosine, or features are no numbers.
    """
    batch, tokens, _ = features.shape
    rows, columns = grid
    if rows * columns != tokens or tokens < 2:
        raise ValueError(
            f"tokencut: {tokens} tokens on a grid of {rows} x {columns}; give (rows, columns) of "
            "two patches or more, and features without class and register tokens"
        )
    edges = affinity(features, tau)
    vectors, eigenvalues = second_eigenpairs(edges)
    seed = vectors.abs().argmax(dim=1)
    above = vectors > vectors.mean(dim=1, keepdim=True)
    turned = ~above.gather(1, seed[:, None])
    partition = (above ^ turned).reshape(batch, rows, columns)
    vectors = torch.where(turned, -vectors, vectors).reshape(batch, rows, columns)
    pieces = [_piece(side, int(s)) for side, s in zip(partition, seed, strict=True)]
    found = (vectors, partition, torch.stack(pieces), seed, eigenvalues)
    return Cut(*(tensor.to(features.device) for tensor in found))


def affinity(
    features: Float[Tensor, "batch tokens channels"], tau: float = TAU
) -> Float[Tensor, "batch tokens tokens"]:
    """Weight of the edge between any two tokens: 1 above `tau`, FAINT otherwise.

    In float64, on the CPU. Raises: ValueError as `tokencut`.
    """
    if not -1 < tau < 1:
        raise ValueError(
            f"tokencut: tau is {tau}; it is a cosine, so between -1 and 1 (paper: {TAU})"
        )
    if not bool(features.isfinite().all()):
        raise ValueError("tokencut: the features hold NaN or infinite numbers; check the model")
    unit = normalize(features.cpu().double(), dim=2)
    return (unit @ unit.transpose(1, 2) > tau).double().clamp_min(FAINT)


def joined_share(
    features: Float[Tensor, "batch tokens channels"], tau: float = TAU
) -> Float[Tensor, " batch"]:
    """Share of all pairs of tokens that are joined: 1 leaves nothing to cut."""
    return (affinity(features, tau) > FAINT).double().mean(dim=(1, 2))


def second_eigenpairs(
    edges: Float[Tensor, "batch tokens tokens"],
) -> tuple[Float[Tensor, "batch tokens"], Float[Tensor, " batch"]]:
    """x and lambda of (D - A) x = lambda D x by I - D^-1/2 A D^-1/2, whose y is D^1/2 x.

    The first y is D^1/2 1 with lambda 0, so taking it out leaves the second as the largest of
    D^-1/2 A D^-1/2: it is never below the 0 that the first then has, as A's diagonal is 1.
    Where all edges are equal every other lambda is 1 and x is given as 0.
    """
    root = edges.sum(dim=2).sqrt()
    flat = edges.amax(dim=(1, 2)) == edges.amin(dim=(1, 2))
    y, values = torch.zeros_like(root), torch.ones_like(root[:, 0])
    for i in (~flat).nonzero().flatten().tolist():
        largest, vector = _largest_but_first(edges[i].numpy(), root[i].numpy())
        y[i], values[i] = torch.from_numpy(vector), 1 - largest
    return y / root, values


def _largest_but_first(edges: np.ndarray, root: np.ndarray) -> tuple[float, np.ndarray]:
    """Largest eigenvalue, and its vector, of D^-1/2 A D^-1/2 without its eigenvector `root`.

    By Lanczos: tens of products of the matrix with a vector, where a dense solve has N^3 steps.
    """

    def without_first(v: np.ndarray) -> np.ndarray:
        return (edges @ (v / root)) / root - first * (first @ v)

    first = root / np.linalg.norm(root)
    operator = LinearOperator(edges.shape, matvec=without_first, dtype=edges.dtype)
    # A fixed start, so that the same features give the same bytes.
    start = np.random.default_rng(0).standard_normal(len(first))
    # Its products are too short to share: several threads would wait for each other.
    with _thread_pools().limit(limits=1, user_api="blas"):
        values, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=1e-12)
    return float(values[0]), vectors[:, 0]


@cache
def _thread_pools() -> ThreadpoolController:
    """Finding the libraries takes longer than a cut, so it is done once."""
    return ThreadpoolController()


def _piece(side: Bool[Tensor, "height width"], seed: int) -> Bool[Tensor, "height width"]:
    pieces, _ = label(side.numpy())
    return torch.from_numpy(pieces == pieces.flat[seed])
