"""AttnLRP against its authors' package.

Values of lxt 2.1, the explicit rules of its `lxt.explicit.functional` put together as timm's ViT,
and with gamma zennit 0.5.1's `Gamma` at fc1, fc2 and the head. Stabilisers were 1e-13. Relevance of
the labels' logits at the pixels, summed over each patch.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from relevit.attribution import METHODS

OURS = Path(__file__).parent


@pytest.mark.parametrize("gamma", [0, 0.05])
@pytest.mark.parametrize("name", ["tiny", "avg"])
def test_map(golden, golden_folder, golden_models, golden_inputs, name, gamma):
    if golden_folder != OURS and not (golden_folder / "attn_lrp.npz").is_file():
        pytest.skip(f"{golden_folder} has none: they are of our weights, by another paper's code")
    theirs = torch.from_numpy(golden("attn_lrp")[f"{name}_gamma{gamma}"])
    model, images = golden_models(name), golden_inputs["images"]
    ours = METHODS["attn_lrp"](model, images, golden_inputs["labels"], gamma=float(gamma))
    assert (ours - theirs).abs().max() <= 1e-8 * theirs.abs().max()
