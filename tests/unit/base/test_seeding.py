"""Seeds leave no trace, on the CPU and on CUDA devices."""

from __future__ import annotations

import pytest
import torch

from relevit.base.seeding import seeded


def drawn(seed, device="cpu"):
    with seeded(seed, torch.device(device)):
        return torch.rand(3, device=device).tolist(), torch.rand(3).tolist()


def test_the_seed_decides_and_others_draw_on():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    assert drawn(1) == drawn(1) != drawn(2)
    assert torch.equal(torch.rand(2), expected)


def test_generators_are_put_back_after_an_error():
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError), seeded(1):
        torch.rand(2) @ torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.gpu
def test_cuda_generators_go_on_where_they_were():
    before = torch.cuda.get_rng_state_all()
    assert drawn(1, "cuda") == drawn(1, "cuda") != drawn(2, "cuda")
    after = torch.cuda.get_rng_state_all()
    assert all(map(torch.equal, before, after))
