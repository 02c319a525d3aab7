"""TokenCut: graphs whose cut is known, keys that are the last block's, errors."""

from __future__ import annotations

import pytest
import torch
from scipy.linalg import eigh

from relevit.masks import key_features, tokencut
from relevit.masks.token_cut import FAINT, affinity, second_eigenpairs


def two_kinds(object_patches: torch.Tensor) -> torch.Tensor:
    """Features [1, tokens, 2] of right angles: one direction for the object, one for the rest."""
    flat = object_patches.flatten().double()
    return torch.stack([flat, 1 - flat], dim=1)[None]


@pytest.fixture
def square() -> torch.Tensor:
    """A 2 x 3 object on a grid of 6 x 5."""
    where = torch.zeros(6, 5, dtype=torch.bool)
    where[1:3, 1:4] = True
    return where


def test_object_of_its_own_kind_is_found(square):
    cut = tokencut(two_kinds(square), (6, 5))
    assert torch.equal(cut.mask[0], square) and torch.equal(cut.partition[0], square)
    assert square.flatten()[cut.seed[0]]


def test_eigenvalue_of_two_blocks_in_closed_form(square):
    """Blocks of n and m tokens, faint edges c: lambda = c m / (n + c m) + c n / (m + c n)."""
    cut, n = tokencut(two_kinds(square), (6, 5)), int(square.sum())
    m, c = square.numel() - n, FAINT
    d_n, d_m = n + c * m, m + c * n
    assert float(cut.eigenvalue) == pytest.approx(c * m / d_n + c * n / d_m, rel=1e-6)
    x = cut.vector[0].flatten()
    inside = square.flatten().double()
    degree = d_n * inside + d_m * (1 - inside)
    assert float((x * x * degree).sum()) == pytest.approx(1)
    assert float((x * degree).sum()) == pytest.approx(0, abs=1e-9)


def test_only_the_piece_of_the_seed_is_the_mask(square):
    square[5, 4] = True
    cut = tokencut(two_kinds(square), (6, 5))
    assert torch.equal(cut.partition[0], square)
    far = int(cut.seed) == square.numel() - 1
    assert bool(cut.mask[0, 5, 4]) == far and int(cut.mask.sum()) == (1 if far else 6)
    assert torch.equal(tokencut(two_kinds(square), (6, 5), component=False).mask[0], square)


@pytest.mark.parametrize("tokens", [4, 30, 150])
def test_dense_generalised_solve_agrees(tokens):
    random = torch.Generator().manual_seed(tokens)
    edges = affinity(torch.randn(2, tokens, 6, generator=random).double(), 0.2)
    vectors, values = second_eigenpairs(edges)
    for a, x, value in zip(edges.numpy(), vectors.numpy(), values.tolist(), strict=True):
        degree = torch.diag(torch.from_numpy(a).sum(dim=1)).numpy()
        expected, basis = eigh(degree - a, degree, subset_by_index=[1, 2])
        assert value == pytest.approx(expected[0], abs=1e-10)
        if expected[1] - expected[0] > 1e-6:  # equal eigenvalues leave the vector open
            assert abs(x @ degree @ basis[:, 0]) == pytest.approx(1, abs=1e-8)


def test_batch_is_the_same_as_one_by_one_and_scale_does_not_matter():
    random = torch.Generator().manual_seed(0)
    features = torch.randn(3, 20, 4, generator=random)
    together = tokencut(features, (4, 5))
    for i in range(3):
        alone = tokencut(7 * features[i : i + 1], (4, 5))
        assert torch.equal(alone.mask[0], together.mask[i])
        torch.testing.assert_close(alone.vector[0], together.vector[i])


# Keys


@pytest.mark.parametrize("kind", ["plain", "average_and_registers", "no_qkv_bias"])
def test_keys_are_the_last_blocks_with_the_bias_and_without_it(build_vit, images, kind):
    model, seen = build_vit(kind), []
    layer = model.blocks[-1].attn.qkv
    with layer.register_forward_hook(lambda m, i, made: seen.append(made.detach())):
        kept, removed = (key_features(model, images, bias) for bias in ("kept", "removed"))
    key = seen[0].chunk(3, dim=2)[1][:, model.num_prefix_tokens :]
    torch.testing.assert_close(kept, key)
    torch.testing.assert_close(removed, key if layer.bias is None else key - layer.bias.chunk(3)[1])
