"""Micro networks under the names of the papers' models, and files in their authors' layouts."""

import argparse

import timm
import torch

from relevit.models.registry import PAPER_MODELS

SMALL = {"img_size": 64, "embed_dim": 16, "depth": 2, "num_heads": 2}
BEIT = SMALL | {"use_abs_pos_emb": False, "use_rel_pos_bias": True, "init_values": 0.1}
CREATE = timm.create_model
DROPPED = {"positional_embedding": 1, "class_embedding": 2}  # leading dimensions of 1, joined


def make_small(monkeypatch):
    """timm makes the same architectures in micro sizes, and reaches no hub."""

    def made(timm_name, pretrained=False, **named):
        if pretrained:
            raise OSError("We couldn't connect\nto the hub.")
        options = BEIT if timm_name.startswith("beit") else SMALL
        return CREATE(timm_name, **(options | named))

    monkeypatch.setattr(timm, "create_model", made)


def trained(name, classes=0, seed=7, **options):
    """Tensors of a micro model, far from where one starts."""
    model = PAPER_MODELS[name]
    torch.manual_seed(seed)
    options = dict(model.options) | options
    network = timm.create_model(model.timm_name, num_classes=classes, **options)
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    return {key: value.clone() for key, value in network.state_dict().items()}


def before(prefix, tensors):
    return {f"{prefix}{key}": value for key, value in tensors.items()}


def projection(width=16):
    """The head of a self-supervised network: several layers, and no classifier."""
    return {"head.0.weight": torch.zeros(8, width), "head.1.running_mean": torch.zeros(8)}


def robustvit(tensors):
    """What RobustViT's finetuning writes, with DataParallel."""
    optimizer = {"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": [{"lr": 1e-6}]}
    state = before("module.", tensors)
    best = torch.tensor(81.5)
    return {"epoch": 8, "state_dict": state, "best_acc1": best, "optimizer": optimizer}


def robustvit_one_gpu(tensors):
    return robustvit(tensors) | {"state_dict": tensors}


def mae(tensors):
    return {"model": tensors, "args": argparse.Namespace(lr=0.1, output_dir="x"), "epoch": 99}


def dino(tensors):
    """The full checkpoint: two networks, of which the teacher counts, each with a projection."""
    other = {key: value + 1 for key, value in tensors.items()}
    head = {"head.mlp.0.weight": torch.zeros(8, 16), "head.last_layer.weight_g": torch.zeros(4, 1)}
    student = before("module.backbone.", other) | before("module.", head)
    teacher = before("backbone.", tensors) | head
    return {"student": student, "teacher": teacher, "epoch": 9, "args": argparse.Namespace(lr=1)}


def moco(tensors):
    """MoCo-v3's pretraining: the encoder, its slow copy and a predictor."""
    other = {key: value + 1 for key, value in tensors.items()}
    state = before("module.base_encoder.", tensors | projection())
    state |= before("module.momentum_encoder.", other | projection())
    state |= {"module.predictor.0.weight": torch.zeros(8, 8)}
    return {"epoch": 300, "arch": "vit_base", "state_dict": state, "scaler": {"scale": 2.0}}


def flat(tensors):
    return tensors


LAYOUTS = {
    "flat": flat,
    "robustvit": robustvit,
    "robustvit_one_gpu": robustvit_one_gpu,
    "mae": mae,
    "dino": dino,
    "moco": moco,
}
WITHOUT_HEAD = ("dino", "moco")  # of which there is a projection in its place


def linear_file(weight, bias, name="linear"):
    """A linear head on its own, as DINO publishes it; MoCo-v3 says `head`."""
    state = {f"module.{name}.weight": weight, f"module.{name}.bias": bias}
    return {"epoch": 100, "state_dict": state, "optimizer": {}, "best_acc": 78.2}


def as_openai(tensors):
    """The image tower in the names of OpenAI's CLIP, beside a text tower."""
    swaps = {
        "patch_embed.proj": "conv1",
        "norm_pre": "ln_pre",
        "attn.qkv.": "attn.in_proj_",
        "attn.proj": "attn.out_proj",
        "mlp.fc1": "mlp.c_fc",
        "mlp.fc2": "mlp.c_proj",
        "norm1": "ln_1",
        "norm2": "ln_2",
        "norm.": "ln_post.",
        "blocks.": "transformer.resblocks.",
        "pos_embed": "positional_embedding",
        "cls_token": "class_embedding",
    }
    found = {"text_projection": torch.zeros(4, 4), "logit_scale": torch.tensor(4.6)}
    for key, value in tensors.items():
        for ours, theirs in swaps.items():
            key = key.replace(ours, theirs)
        if key == "head.weight":
            found["visual.proj"] = value.T
        elif key != "head.bias":
            found[f"visual.{key}"] = value.flatten(0, DROPPED.get(key, 0))
    return found


def without(tensors, *names):
    return {key: value for key, value in tensors.items() if key not in names}


CHANGES = {
    "less": lambda t: without(t, "blocks.1.mlp.fc1.bias", "norm.weight", "fc_norm.weight"),
    "more": lambda t: t | {"blocks.2.mlp.fc1.bias": torch.zeros(64)},
    "both": lambda t: {k.replace("blocks.1", "blocks.2"): v for k, v in t.items()},
    "other": lambda t: {"layer.weight": t["cls_token"]},
    "logits": lambda t: t | {"pre_logits.fc.weight": torch.zeros(16, 16)},
    "size": lambda t: t | {"cls_token": torch.zeros(1, 1, 32)},
    "pictures": lambda t: t | {"pos_embed": torch.zeros(1, 1 + 8 * 8, 16)},
    "patches": lambda t: t | {"patch_embed.proj.weight": torch.zeros(16, 3, 8, 8)},
    "nan": lambda t: t | {"blocks.0.norm1.bias": torch.full((16,), float("nan"))},
    "whole numbers": lambda t: t | {"blocks.0.norm1.bias": torch.ones(16, dtype=torch.int64)},
    "double": lambda t: {k: v.double() for k, v in t.items()},
    "list": lambda t: list(t.values()),
}  # what makes whole weights unfit for their model
