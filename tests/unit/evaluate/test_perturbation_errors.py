"""What the perturbation test refuses, and how it says so."""

from __future__ import annotations

import pytest
import torch

from ..left_half import Seen, left_first, run, white


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"unit": "patch"}, r"unit 'patch' is unknown; use one of \['pixel', 'token'\]"),
        ({"fill": "grey"}, r"fill 'grey' is unknown"),
        ({"directions": ["both"]}, r"direction 'both' is unknown"),
        ({"shares_pct": []}, r"shares_pct \[\], chunk 50; needed are shares that rise"),
        ({"shares_pct": [0, 10]}, r"above 0 and up to 100"),
        ({"shares_pct": [20, 10]}, r"shares_pct \[20, 10\]"),
        ({"shares_pct": [50, 101]}, r"up to 100"),
        ({"chunk": 0}, r"chunk 0; .* at least one input"),
        ({"labels": torch.tensor([3])}, r"labels \[3\] for 1 images and 3 classes; .* in 0..2"),
        ({"explained": torch.tensor([-1])}, r"explained classes \[-1\] for 1 images"),
        ({"explained": torch.tensor([0, 1])}, r"explained classes \[0, 1\] for 1 images"),
        ({"labels": torch.tensor([0, 1])}, r"images \(1, 3, 8, 8\), maps \(1, 16\), labels \(2,\)"),
        ({"maps": torch.zeros(2, 16)}, r"maps \(2, 16\).* one map and one label for each"),
        ({"maps": torch.zeros(1, 15)}, r"15 patches for images of \(8, 8\) pixels; .* square grid"),
        ({"maps": torch.zeros(1, 9)}, r"9 patches .* divides the images"),
        ({"maps": torch.zeros(1, 1, 4, 4)}, r"maps \(1, 1, 4, 4\) with unit='pixel'.*images' size"),
        ({"maps": torch.zeros(1, 1, 8, 8), "unit": "token"}, r"unit='token'.*\[batch, patches\]"),
    ],
)
def test_errors_of_the_run(options, text):
    arguments = {"maps": left_first(), "labels": torch.tensor([0])} | options
    with pytest.raises(ValueError, match=text):
        run(Seen(), white(), **arguments)
