"""TokenCut: an object's mask from self-supervised features, without any label.

Source: Wang et al. 2022 (CVPR), used by RobustViT for its unsupervised masks; parameters as in
the published scripts (differences B14). In the paper's steps:

    features   k_i, the keys of a Vision Transformer's last block, one for each patch
    affinity   A_ij = 1 where cos(k_i, k_j) > tau, else a faint 1e-5
    cut        the second smallest solution of (D - A) x = lambda D x, cut at its mean
    component  the part of the seed's side that hangs together with the seed

and the bilateral solver of `relevit.masks.bilateral` at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy
import torch
from jaxtyping import Bool, Float, Int
from threadpoolctl import ThreadpoolController
from torch import Tensor, nn
from torch.nn.functional import normalize

from relevit.choices.words import KeyBias
from relevit.maps import prefix_tokens

TAU = 0.2  # cosine similarity above which two tokens are joined
FAINT = 1e-5  # weight of all other edges, which keeps the graph in one piece


@dataclass(frozen=True)
class Cut:
    """The two sides of each image's graph, on its grid of patches.

    `vector` is the second generalised eigenvector x of (D - A) x = lambda D x, scaled to
    x' D x = 1, its sign such that the seed lies above the mean. `partition` is the side of
    the seed (above the mean), `mask` the object. `seed` is the token with the largest absolute
    entry, counted row by row. `eigenvalue` is lambda: near 0 for a graph that falls in two, 1
    where all tokens are alike. If every pair is, there is no cut: `vector` is 0, the mask full.
    """

    vector: Float[Tensor, "batch height width"]
    partition: Bool[Tensor, "batch height width"]
    mask: Bool[Tensor, "batch height width"]
    seed: Int[Tensor, " batch"]
    eigenvalue: Float[Tensor, " batch"]


@torch.no_grad()
def tokencut(
    features: Float[Tensor, "batch tokens channels"],
    grid: tuple[int, int],
    tau: float = TAU,
    *,
    component: bool = True,
) -> Cut:
    """Part each image's tokens in two by the normalised cut.

    `features` are those of the patches alone, `grid` is their (rows, columns). The mask is the
    `component` of the seed's side that holds the seed, by patches that share an edge, or else the
    whole side (differences B18). In float64 on the CPU; results are on the features' device.
    """
    vectors, eigenvalues = second_eigenpairs(affinity(features, tau))
    seed = vectors.abs().argmax(dim=1)
    above = vectors > vectors.mean(dim=1, keepdim=True)
    turned = ~above.gather(1, seed[:, None])  # the sign is free: the seed's side is the object
    vectors = torch.where(turned, -vectors, vectors).unflatten(1, grid)
    side = (above ^ turned).unflatten(1, grid)
    mask = torch.stack(list(map(_component, side, seed))) if component else side
    found = (vectors, side, mask, seed, eigenvalues)
    return Cut(*(tensor.to(features.device) for tensor in found))


@torch.no_grad()
def key_features(
    model: nn.Module, images: Float[Tensor, "batch 3 height width"], bias: KeyBias = "removed"
) -> Float[Tensor, "batch patches channels"]:
    """The patches' keys of the last block, all heads side by side; `images` are normalised.

    Source: TokenCut, as RobustViT's script calls it (differences B14), with `bias="kept"`.
    One vector added to all keys adds the same to all scores of a query, which softmax takes out
    again. So the bias of the key layer does nothing, has no gradient, and says nothing of the
    image (unless a norm of the keys follows). DINOv2's is twice as long as the rest of its keys:
    with it, all patches look alike and there is nothing to cut. `removed` takes it off.
    """
    layer, outputs = model.blocks[-1].attn.qkv, []
    handle = layer.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    try:
        model(images)
    finally:
        handle.remove()
    keys = outputs[-1].chunk(3, dim=2)[1]
    if bias == "removed" and layer.bias is not None:
        keys = keys - layer.bias.chunk(3)[1]
    return keys[:, prefix_tokens(model) :]


def affinity(
    features: Float[Tensor, "batch tokens channels"], tau: float = TAU
) -> Float[Tensor, "batch tokens tokens"]:
    """Weight of the edge between any two tokens: 1 above `tau`, FAINT otherwise."""
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
    Where all edges are equal every other lambda is 1 and x is given as 0. The published code
    makes a dense generalised solve.
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
    solve = scipy.sparse.linalg
    operator = solve.LinearOperator(edges.shape, matvec=without_first, dtype=edges.dtype)
    # A fixed start, so that the same features give the same bytes.
    start = np.random.default_rng(0).standard_normal(len(first))
    # Its products are too short to share: several threads would wait for each other.
    with _thread_pools().limit(limits=1, user_api="blas"):
        values, vectors = solve.eigsh(operator, k=1, which="LA", v0=start, tol=1e-12)
    return float(values[0]), vectors[:, 0]


@cache
def _thread_pools() -> ThreadpoolController:
    """Finding the libraries takes longer than a cut, so it is done once."""
    return ThreadpoolController()


def _component(
    side: Bool[Tensor, "height width"], seed: Int[Tensor, ""]
) -> Bool[Tensor, "height width"]:
    pieces, _ = scipy.ndimage.label(side.numpy())
    return torch.from_numpy(pieces == pieces.flat[int(seed)])
