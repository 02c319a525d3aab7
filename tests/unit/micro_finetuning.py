"""A relevance finetuning that takes a moment: a two-block ViT and ten small pictures.

Run as a script, this file is the process that `finetune/test_resume.py` kills: `serve` below.
"""

from __future__ import annotations

import os
import sys
import traceback
from functools import cache
from pathlib import Path

import timm
import torch

from relevit.data.cutouts import CUTOUTS
from relevit.finetune import loop as finetune
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import step_losses
from relevit.models.spec import ModelSpec

SIZE = 28
SPEC = ModelSpec(
    "micro",
    "vit_tiny_patch16_224",
    SIZE,
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
    options={"patch_size": 14, "embed_dim": 16, "depth": 2, "num_heads": 2},
)
SETTINGS = FinetuneSettings(lr=1.0e-3, epochs=3, batch_size=4)
LONG = SETTINGS.changed(epochs=8)
RESULT = ("weights.safetensors", "log.jsonl")


class Stop(BaseException):
    """Ends a run at once; not an Exception, so that nothing catches it."""


def stop(*args, **kwargs):
    raise Stop


def micro_model(seed=0):
    torch.manual_seed(seed)
    return timm.create_model(SPEC.timm_name, img_size=SIZE, num_classes=40, **SPEC.options)


@cache
def pictures(name, count):
    """Cutouts with both object and background in the mask, whatever the recipes say."""
    drawn = CUTOUTS.draw(name, range(3 * count), size=SIZE)
    share = drawn.masks.float().mean(dim=(1, 2, 3))
    return drawn.select(((share > 0) & (share < 1)).nonzero()[:count, 0])


def validate(model, settings):
    shown = pictures("validation", 4)
    images = SPEC.normalise(shown.images)
    return step_losses(model, images, shown.masks.float(), shown.labels, settings).numbers()


def run(folder, settings=SETTINGS, *, model=None, train=None, inputs=None, **callbacks):
    """One micro finetuning; `callbacks` may replace `validate`, too."""
    model = micro_model() if model is None else model
    train = pictures("finetune", 10) if train is None else train
    check = callbacks.pop("validate", validate)
    return finetune.finetune(
        model, SPEC, train, check, settings, Path(folder), inputs=inputs or {}, **callbacks
    )


def result(folder):
    return {name: (Path(folder) / name).read_bytes() for name in RESULT}


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def undisturbed_run(folder):
    """A run that nothing disturbed: its history, weights and files."""
    model = micro_model()
    history = run(folder, model=model)
    return history, weights(model), result(folder)


# A process to kill


def serve():
    """Run the finetuning of each folder named on stdin in a process of its own.

    A fork saves importing torch and timm again for each; nothing is computed before it.
    """
    torch.set_num_threads(1)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run_and_tell(line.strip())
        say("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def run_and_tell(folder):
    try:
        say("child", os.getpid())
        run(
            folder,
            LONG,
            on_epoch=lambda row: say("epoch", row["epoch"]),
            on_step=lambda step, steps: say("step", step),
        )
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def say(*words):
    print(*words, flush=True)


if __name__ == "__main__":
    serve()
