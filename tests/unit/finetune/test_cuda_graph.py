"""A step out of a graph: when it is recorded, and when it is not. On a GPU: that it is the same."""

from __future__ import annotations

import time
from contextlib import nullcontext
from copy import deepcopy

import numpy as np
import pytest
import timm
import torch

from relevit.base.device import autocast, tensor_float32
from relevit.base.results import read_rows
from relevit.data.batch import Batch
from relevit.finetune import step
from relevit.finetune.baselines import Sample, gradients
from relevit.finetune.cuda_graph import PLAIN, Recorded
from relevit.finetune.epochs import LOG, read
from relevit.finetune.loop import _need_labels, train_step
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import make_optimizer, step_losses
from relevit.models.spec import HALF, ModelSpec

from ..micro_finetuning import SETTINGS, micro_model, run

LARGE, SMALL = torch.ones(4, 2), torch.ones(3, 2)


class Calls:
    """How each step was taken. `broken`: nothing can be recorded."""

    def __init__(self, broken=False):
        self.broken, self.how, self.recorded = broken, [], 0

    def plain(self, x):
        self.how.append("plain")
        return {"loss": x.sum()}

    def record(self, step, inputs):
        if self.broken:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        self.recorded += 1

        def replay(x):
            self.how.append("replay")
            return {"loss": x.sum()}

        return replay


def taken(calls, inputs):
    recorded = Recorded(torch.optim.SGD([torch.zeros(1)]), record=calls.record)
    found = [recorded(calls.plain, each)["loss"] for each in inputs]
    assert found == [each.sum() for each in inputs]
    return calls.how


def test_after_three_plain_steps_of_one_shape_a_graph_takes_the_rest_of_it():
    calls = Calls()
    how = taken(calls, [LARGE, SMALL, *[LARGE] * (PLAIN + 2), SMALL, LARGE])
    assert how == ["plain"] * (1 + PLAIN) + ["replay"] * 3 + ["plain", "replay"]
    assert calls.recorded == 1


def test_what_cannot_be_recorded_is_said_once_and_goes_on():
    calls = Calls(broken=True)
    said = r"training: a step cannot be recorded as a CUDA graph \(operation not permitted when"
    with pytest.warns(UserWarning, match=said) as told:
        assert taken(calls, [LARGE] * (PLAIN + 4)) == ["plain"] * (PLAIN + 4)
    assert len(told) == 1


@pytest.mark.parametrize("labels", [[0, -1], [39, 40]])
def test_labels_without_an_output_are_refused_before_a_gpu_meets_them(labels):
    model = micro_model()  # 40 outputs
    _need_labels(torch.tensor([0, 39]), model)
    with pytest.raises(ValueError, match=r"finetune: labels from .*, and the model has 40 outputs"):
        _need_labels(torch.tensor(labels), model)


# On a GPU

SIDE = 224
SPEC = ModelSpec("vit", "vit_base_patch16_224", SIDE, classes=1000, **HALF)


def pictures(count, outlined=None):
    rng = torch.Generator().manual_seed(1)
    images = torch.randint(256, (count, 3, SIDE, SIDE), generator=rng, dtype=torch.uint8)
    masks = torch.zeros(count, 1, SIDE, SIDE, dtype=torch.bool)
    masks[..., 50:120, 60:150] = True
    return Batch(images, masks, torch.arange(count), outlined=outlined)


def vit(name="vit_small_patch16_224"):
    torch.manual_seed(0)
    return timm.create_model(name, num_classes=1000).cuda().train()


def stepped(model, settings, recorded, batches):
    """Losses of steps on these batches, at a rate that changes in their midst."""
    optimizer, rng, told = make_optimizer(model, settings), np.random.default_rng(0), []
    recorded = Recorded(optimizer) if recorded else None
    for place, batch in enumerate(batches):
        optimizer.param_groups[0]["lr"] = settings.lr / (1 + place // 6)
        told.append(train_step(model, SPEC, optimizer, batch, rng, settings, None, recorded))
    assert recorded is None or recorded._replay is not None
    return read(told), optimizer


@pytest.mark.gpu
@pytest.mark.filterwarnings("error:training")
@pytest.mark.parametrize(
    "way",
    [{}, {"precision": "tf32"}, {"precision": "bfloat16"}, {"explanation": "readout"},
     {"method": "gradmask", "options": {"exact_gradient": True}}, {"method": "rrr"},
     {"trained_blocks": 3, "weights": {"relevance": 0}}],
    ids=str,
)  # fmt: skip
def test_a_graph_trains_as_plain_steps_do(way):
    settings, model = FinetuneSettings(lr=1e-5, **way), vit()
    batches = [pictures(4)] * 9 + [pictures(3)] + [pictures(4)] * 2
    start, twin, copy = (deepcopy(model) for _ in range(3))
    plain, optimizer = stepped(twin, settings, False, batches)
    again, _ = stepped(copy, settings, False, batches)
    found, other = stepped(model, settings, True, batches)
    # As two plain trainings agree, whose sums a GPU adds in any order, or to some thousandths.
    share = 2e-2 if settings.precision == "bfloat16" else 5e-3
    for key in plain[0]:
        one, two, three = (np.array([row[key] for row in rows]) for rows in (plain, again, found))
        allowed = share * np.abs(one).max() + 4 * np.abs(two - one).max()
        assert np.abs(three - one).max() <= allowed, (key, one, two, three)
    assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"] == settings.lr / 2
    assert not other.param_groups[0]["capturable"]
    first = next(iter(optimizer.state.values()))["step"]
    assert int(first) == int(next(iter(other.state.values()))["step"]) == len(batches)
    # A rate that stayed where it was while it was recorded would be a third of the way apart.
    begun, one, two = (
        torch.cat([x.detach().flatten() for x in each.parameters()])
        for each in (start, twin, model)
    )
    apart = float((one - two).norm() / (one - begun).norm())
    print(f"{way}: weights {apart:.2e} of their way apart")
    assert apart < 0.25


@pytest.mark.gpu
@pytest.mark.parametrize("recorded", [False, True])
def test_no_step_waits(recorded):
    settings, model = FinetuneSettings(lr=1e-6, precision="tf32"), vit()
    optimizer, rng = make_optimizer(model, settings), np.random.default_rng(0)
    recorded = Recorded(optimizer) if recorded else None
    how, batch = (rng, settings, None, recorded), pictures(4)
    for _ in range(PLAIN + 2):  # constants are made, and the graph
        train_step(model, SPEC, optimizer, batch, *how)
    torch.cuda.set_sync_debug_mode("error")
    try:
        told = [train_step(model, SPEC, optimizer, batch, *how) for _ in range(3)]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(np.isfinite(row["loss_total"]) for row in read(told))


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_a_graph_is_faster(precision):
    """Of ViT-B at batch 8, where the launches of kernels take longest beside the work."""
    settings, batch, medians = FinetuneSettings(lr=1e-6, precision=precision), pictures(8), []
    for recorded in (False, True):
        model = vit("vit_base_patch16_224")
        optimizer, rng, taken = make_optimizer(model, settings), np.random.default_rng(0), []
        recorded = Recorded(optimizer) if recorded else None
        for _ in range(20):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            train_step(model, SPEC, optimizer, batch, rng, settings, None, recorded)
            torch.cuda.synchronize()
            taken.append(1000 * (time.perf_counter() - begun))
        medians.append(float(np.median(taken[PLAIN + 2 :])))
        del model, optimizer, recorded
    print(
        f"a step of ViT-B/16, batch 8, {precision}: {medians[0]:.1f} ms, a graph {medians[1]:.1f}"
    )
    assert medians[1] < medians[0]


@pytest.mark.gpu
def test_a_run_on_a_gpu_is_that_of_the_processor(tmp_path):
    """The micro run, ten steps, through the whole loop; weights up to what rounding grows to."""
    settings = SETTINGS.changed(epochs=6, lr=1e-4)
    run(tmp_path / "cpu", settings)
    model = micro_model().cuda()
    run(tmp_path / "gpu", settings, model=model, validate=lambda *_: {"loss_total": 0.0})
    logs = [read_rows(tmp_path / name / LOG) for name in ("cpu", "gpu")]
    for one, two in zip(*logs, strict=True):
        for key in (key for key in one if key.startswith("train_")):
            assert two[key] == pytest.approx(one[key], rel=2e-3), (key, one["epoch"])


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["published", "described"])
@pytest.mark.parametrize("method", ["gradmask", "rrr"])
def test_baselines_are_float32_whatever_is_asked(method, way, monkeypatch):
    """And what TF32 would do to their gradients is printed."""
    batch, model, found = pictures(8), vit(), []
    inputs = (SPEC.normalise(batch.images), batch.masks.float(), batch.labels)
    sample = Sample(*(each.cuda() for each in inputs))
    for precision, rounded in (("float32", False), ("tf32", False), ("tf32", True)):
        settings = FinetuneSettings(lr=1.0, method=method, protocol=way, precision=precision)
        how = (lambda device, _: nullcontext()) if rounded else autocast
        monkeypatch.setattr(step, "autocast", how)
        with tensor_float32("cuda", rounded):
            slopes = gradients(model, step_losses(model, *sample, settings).total)
        found.append(torch.cat([slope.flatten() for slope in slopes.values()]))
    exact, asked, rough = found
    error, noise = (float((x - exact).norm() / exact.norm()) for x in (rough, asked))
    print(f"{method}, {way}: gradients in TF32 are off by {error:.1e}, float32 again {noise:.1e}")
    assert noise < 1e-5
