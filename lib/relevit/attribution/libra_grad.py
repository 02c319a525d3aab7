"""LibraGrad: tokens times a gradient whose paths are balanced, averaged over the blocks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from relevit.attribution.backward_rules import SHARED, Rules, constant
from relevit.maps import Inputs, Map, Target, method, wide


@method()
def libra_grad(model: nn.Module, images: Inputs, target: Target = None) -> Map:
    """Libra FullGrad+: the mean over blocks of a patch's tokens times their gradient. Signed.

    Attention maps, the divisors of norms and the gates of activations are constants, and a product
    hands half to each factor. Then the logit is the sum over the tokens before any block, plus
    the biases behind them times their gradients. As in the authors' reference notebook the map has
    no terms of biases.
    Source: Mehri, Baghshah, Pilehvar 2025 (CVPR).
    """
    rules = Rules(SHARED | dict.fromkeys((torch.softmax, Tensor.softmax, F.softmax), constant))
    seen = rules.run(model, images.detach(), target)
    found = rules.shares(seen.score, seen.inputs)
    whole = sum(share.to(wide(share)) for share in found)
    return whole.sum(dim=2)[:, seen.prefix :].detach() / len(found)
