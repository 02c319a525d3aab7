"""A step of training asks a GPU for nothing, and is few kernels. No GPU is needed to see that."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import timm
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from relevit.finetune import step
from relevit.finetune.epochs import descend, read
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import make_optimizer, step_losses

MOST_KERNELS = 1050  # of a step of twelve blocks in float32


def vit(device, depth=12):
    sizes = dict(img_size=32, patch_size=8, embed_dim=48, depth=depth, num_heads=4)
    model = timm.create_model("vit_base_patch16_224", num_classes=10, **sizes)
    return model.to(device).train()


def shown(device):
    masks = torch.zeros(8, 1, 32, 32, device=device)
    masks[..., :16] = 1
    labels = torch.arange(8, device=device)
    return torch.rand(8, 3, 32, 32, device=device), masks, labels


class Watch(TorchDispatchMode):
    """Kernels that are started, and what a GPU would have to be waited for to fetch or give."""

    def __init__(self):
        super().__init__()
        self.kernels, self.copies = 0, []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        found = op(*args, **(kwargs or {}))
        name = op.overloadpacket.__name__
        views = [one.alias_info for one in op._schema.returns]
        seen = any(alias and not alias.is_write for alias in views) or name == "_unsafe_view"
        self.kernels += not (seen or op.namespace == "profiler")
        if name in ("_to_copy", "copy_") and args[0].device != found.device:
            self.copies.append(f"{name} from {args[0].device} to {found.device}")
        return found


WAYS = [
    *({"explanation": name} for name in
      ("gae", "attention", "rollout", "readout", "legrad", "attn_lrp")),
    *({"method": name} for name in ("cft", "energy", "l1")),
    *({"method": name, "protocol": protocol}
      for name in ("gradmask", "rrr") for protocol in ("published", "described")),
    {"trained_blocks": 1}, {"class_term": "label", "protocol": "described"},
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_step_asks_for_no_value(way, monkeypatch):
    """On `meta`, where tensors have none: to ask for one is an error."""
    monkeypatch.setattr(step, "autocast", lambda *how: nullcontext())  # there is none for `meta`
    settings, model = FinetuneSettings(lr=1e-6, **way), vit("meta", 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = shown("meta")
    with Watch() as watch:
        told = descend(optimizer, step_losses(model, *inputs, settings).named)
    assert watch.copies == []
    with pytest.raises((NotImplementedError, RuntimeError)):  # so that the test can fail
        read([told])


def test_a_step_is_few_kernels():
    settings, model = FinetuneSettings(lr=1e-6), vit("cpu")
    optimizer, inputs = make_optimizer(model, settings), shown("cpu")
    for _ in range(2):  # the first makes the optimiser's state
        with Watch() as watch:
            descend(optimizer, step_losses(model, *inputs, settings).named)
    assert MOST_KERNELS - 200 < watch.kernels <= MOST_KERNELS


def test_losses_are_read_at_once_and_with_the_same_digits():
    values = torch.rand(3, 2)
    rows = [{"a": one, "loss": other} for one, other in values] + [{"loss": values[0, 0], "n": 7}]
    expected = [{name: float(value) for name, value in row.items()} for row in rows]
    assert read(rows) == expected and isinstance(read(rows)[-1]["n"], int)
    assert read([]) == [] and read([{"n": 1}]) == [{"n": 1}]
