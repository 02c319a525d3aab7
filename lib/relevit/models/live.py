"""Networks that somebody has made: what they were made with, and those of others as timm's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import timm
from torch import Tensor, nn

from relevit.base.errors import PACKAGES, need_packages, one_line
from relevit.base.seeding import seeded
from relevit.maps import logits_of
from relevit.models.foreign import FAMILIES, Foreign
from relevit.models.passport import PROCESSOR, Passport, labels_of, of_transformers, pixels_of

SET = ("num_classes", "in_chans", "pretrained", "pretrained_cfg", "checkpoint_path")


def options_of(network: nn.Module) -> dict[str, Any]:
    """What `timm.create_model` was told of a network, beside its name and classes.

    timm notes it; what is no plain value cannot be said again and is left out.
    """
    told = dict(getattr(network, "_model_args", {}))
    size = getattr(getattr(network, "patch_embed", None), "img_size", None)
    usual = tuple(network.pretrained_cfg.get("input_size", (3, 0, 0)))[1:]
    if size and "img_size" not in told and tuple(size) != usual:
        told["img_size"] = size[0] if size[0] == size[1] else list(size)
    return {key: value for key, value in told.items() if key not in SET and _plain(value)}


def _plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


class Answering(nn.Module):
    """A classifier of transformers that gives its logits alone, and has no maps."""

    def __init__(self, network: nn.Module, pretrained_cfg: Mapping[str, Any]) -> None:
        super().__init__()
        self.network, self.num_classes = network, network.config.num_labels
        self.pretrained_cfg = dict(pretrained_cfg)

    def forward(self, images: Tensor) -> Tensor:
        return logits_of(self.network(images), self.num_classes)


def answering(folder: Path) -> nn.Module:
    """A classifier of any family from its folder, as transformers loads it, without its code.

    Raises: ValueError for what transformers takes for no classifier of images.
    """
    need_packages(str(folder), "text", *PACKAGES)
    from transformers import AutoModelForImageClassification as Classifiers

    try:
        network = Classifiers.from_pretrained(folder, local_files_only=True).eval()
        processor = json.loads((folder / PROCESSOR).read_text("utf-8"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(
            f"model {str(folder)!r}: transformers cannot open it as a classifier of images "
            f"({one_line(error)}); give a folder with its config, its weights and {PROCESSOR}"
        ) from error
    return Answering(
        network, pixels_of(processor) | {"label_names": labels_of(network.config.to_dict())}
    )


def as_timm(module: nn.Module, answers_alone: bool = False) -> nn.Module:
    """A network of transformers or torchvision in timm's anatomy; any other as it is.

    Weights are copied. Its pixels are those of its `pretrained_cfg`. Raises: ValueError for a
    family that has no place there, unless its answers are all that is wanted.
    """
    name, config = type(module).__name__, getattr(module, "config", None)
    known = getattr(config, "model_type", None) in FAMILIES
    if hasattr(config, "model_type") and answers_alone and not known:
        named = {"label_names": labels_of(config.to_dict())}
        return Answering(module, {**named, **module.pretrained_cfg})
    if hasattr(config, "model_type"):
        size = tuple(module.pretrained_cfg.get("input_size", (3, 224, 224)))[-1]
        processor = {"size": {"height": size, "width": size}}
        said = config.to_dict() | {"architectures": [name]}
        passport = of_transformers(said, processor, name)
        if passport.outputs == 0:
            raise ValueError(
                f"model {name}: it has no head of classes; give it as ...ForImageClassification, "
                "or its folder with new_head=True"
            )
    elif type(module).__module__ == "torchvision.models.vision_transformer":
        passport = _of_torchvision(module)
    else:
        return module
    return _rebuilt(module, passport)


def _of_torchvision(module: nn.Module) -> Passport:
    if module.representation_size is not None:
        raise ValueError(
            "model VisionTransformer: torchvision's representation_size is not read here; leave it "
            "out, or give timm's model"
        )
    options = {
        "img_size": module.image_size,
        "patch_size": module.patch_size,
        "embed_dim": module.hidden_dim,
        "depth": len(module.encoder.layers),
        "num_heads": module.encoder.layers[0].num_heads,
        "mlp_ratio": module.mlp_dim / module.hidden_dim,
    }
    foreign = Foreign("vit_base_patch16_224", options)
    more = {"foreign": foreign, "epsilon": module.encoder.ln.eps}
    return Passport("it", foreign.timm_name, options, **more)


def _rebuilt(module: nn.Module, passport: Passport) -> nn.Module:
    tensors = passport.as_timm(module.state_dict())
    with seeded(0):
        network = timm.create_model(
            passport.architecture, num_classes=len(tensors["head.weight"]), **passport.options
        )
    passport.finish(network, passport.both)
    network.to(next(module.parameters()))
    network.load_state_dict(tensors)
    network.pretrained_cfg.update({"label_names": passport.classes, **module.pretrained_cfg})
    return network.train(module.training)
