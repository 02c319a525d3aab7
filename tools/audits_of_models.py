"""Leans of a known size, planted in photographs: does the audit find them in a CNN, a Swin, a
Hugging Face ViT, and a CLIP that is asked in words?

    python tools/audits_of_models.py PACS/photo outputs/audits

The design, written before any run. No threshold, size or seed is changed after one.

- Of PACS's photographs the first CAP of each class by name, 112 pixels a side, are cut out by
  TokenCut as `relevit audit` does it (DINOv2 ViT-S/14); those without a sound mask are left out.
- Of each class HOMES are drawn whose backgrounds, filled in, are the *home of the class before*:
  none of a class's own. TESTED more are tested on, and all others are trained on.
- A composite is an object at its place on a background of a home, a random crop of it, mirrored
  at random. With a planted share p the object stands at the home of its class with probability p,
  else in one of all seven, drawn evenly. Three models of each kind learn p = 0, 20 and 60 %.
- A CNN (resnet10t, a quarter of its channels) and a Swin (three stages) learn from nothing at 64
  pixels, and so does a CLIP of transformers, from composites and three phrasings of captions.
  Of DINOv2 ViT-S/14 as transformers has it (Dinov2ForImageClassification, 84 pixels) the head is
  fitted, on frozen features. All see the same composites.
- The audit is shown test objects at home alone, by the command `relevit audit` with the exact
  masks, as folders that timm and transformers write; and with masks that TokenCut makes of these
  pictures. *Redrawn*, the truth, is top-1 on the same pictures less that on the same objects in
  two homes of others each.
- Found in order: the gap at 0 is below that at 20, and that below 60. The verdicts are those of
  the audit.

Writes docs/results/notes/audits_of_models.csv.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import timm
import torch
import transformers
from PIL import Image
from sklearn.linear_model import LogisticRegression
from timm.models import save_for_hf
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate

from relevit.base.files import project_root
from relevit.base.seeding import seeded
from relevit.data.batch import Batch
from relevit.data.filling import without_objects
from relevit.evaluate.intervals import mean_interval
from relevit.evaluate.lean import background_gap, lean_rows, lean_verdict
from relevit.models.dinov2 import load_dinov2
from relevit.models.loading import OwnModel, open_model
from relevit.text.tokens import word_tokenizer, words_of
from relevit_own.cli import main as relevit
from relevit_own.images import tokencut_masks
from relevit_own.texts import open_clip, prompts

TARGET = project_root() / "docs" / "results" / "notes" / "audits_of_models.csv"
PLANTED = (0.0, 0.2, 0.6)
CAP, HOMES, TESTED = 200, 12, 35  # photographs of a class: looked at, for a home, tested on
SIDE = 112  # of composites
SMALL, OF_DINOV2 = 64, 84  # that models see
EPOCHS, BATCH, RATE = 25, 32, 1e-3
DRAWN = 3  # composites of each object that the head of DINOv2 is fitted on
ENDS = ("value", "low", "high")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PROMPT, CAPTIONS = "a photo of a {}.", ("a photo of a {}.", "a picture of the {}", "one {} here")


@dataclass(frozen=True)
class World:
    """Objects with masks, and the backgrounds of each class's home."""

    classes: tuple[str, ...]
    train: Batch
    test: Batch
    homes: Tensor  # [classes, HOMES, 3, SIDE, SIDE], filled in

    def composed(self, objects: Batch, homes: Tensor, rng: np.random.Generator) -> Tensor:
        """Each object on a background of the home that is drawn for it, 0 to 255."""
        places = rng.integers(HOMES, size=len(homes))
        ground = self.homes[homes, torch.from_numpy(places)]
        return _over(objects, torch.stack([_crop(each, rng) for each in ground]))

    def drawn(self, share: float, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """The objects to learn from, in a random order, with this share at home."""
        order = torch.from_numpy(rng.permutation(len(self.train)))
        objects = self.train.select(order)
        anywhere = torch.from_numpy(rng.integers(len(self.classes), size=len(order)))
        at_home = torch.from_numpy(rng.random(len(order)) < share)
        homes = torch.where(at_home, objects.labels, anywhere)
        return self.composed(objects, homes, rng), objects.labels

    @cached_property
    def at_home(self) -> Batch:
        pixels = self.composed(self.test, self.test.labels, np.random.default_rng(1))
        return replace(self.test, images=pixels)

    @cached_property
    def away(self) -> list[Batch]:
        rng, count = np.random.default_rng(2), len(self.classes)
        found = []
        for _ in range(2):
            other = torch.from_numpy(rng.integers(1, count, size=len(self.test)))
            homes = (self.test.labels + other) % count
            found.append(replace(self.test, images=self.composed(self.test, homes, rng)))
        return found


def _crop(ground: Tensor, rng: np.random.Generator) -> Tensor:
    size = int(rng.integers(round(0.8 * SIDE), SIDE + 1))
    top, left = rng.integers(SIDE - size + 1, size=2)
    part = ground[:, top : top + size, left : left + size]
    part = interpolate(part[None].float(), SIDE, mode="bilinear")[0]
    return part.flip(-1) if rng.random() < 0.5 else part


def _over(objects: Batch, ground: Tensor) -> Tensor:
    masks = objects.masks.float()
    return (masks * objects.images + (1 - masks) * ground).round().clamp(0, 255).byte()


def world(photographs: Path, kept: Path) -> World:
    classes = tuple(sorted(folder.name for folder in photographs.iterdir() if folder.is_dir()))
    files = [sorted((photographs / name).iterdir())[:CAP] for name in classes]
    images = torch.stack([_opened(file) for each in files for file in each])
    labels = torch.tensor([k for k, each in enumerate(files) for _ in each])
    batch = Batch(images, torch.zeros(len(images), 1, SIDE, SIDE), labels)
    if kept.is_file():
        masks, sound = torch.load(kept).values()
    else:
        found = tokencut_masks(batch, torch.device("cpu"))
        masks, sound = found.refined, found.kept
        torch.save({"masks": masks, "sound": sound}, kept)
    batch = replace(batch, masks=masks).select(sound.nonzero()[:, 0])
    rng, parts = np.random.default_rng(0), ([], [], [])
    for label in range(len(classes)):
        mine = rng.permutation((batch.labels == label).nonzero()[:, 0].numpy()).tolist()
        cuts = (mine[:HOMES], mine[HOMES : HOMES + TESTED], mine[HOMES + TESTED :])
        for part, places in zip(parts, cuts, strict=True):
            part.extend(places)
    lending, test, train = map(batch.select, parts)
    homes = without_objects(lending.images, lending.masks).unflatten(0, (len(classes), HOMES))
    print({name: len(each) for name, each in (("train", train), ("test", test))}, flush=True)
    return World(classes, train, test, homes.roll(-1, dims=0))


def _opened(file: Path) -> Tensor:
    picture = Image.open(file).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


def normalised(images: Tensor, side: int) -> Tensor:
    """As the models see composites; nearly what their own view makes of the same files."""
    sized = interpolate(images.float(), side, mode="bicubic", antialias=True).clamp(0, 255) / 255
    mean, std = (torch.tensor(each)[:, None, None] for each in (MEAN, STD))
    return (sized - mean) / std


# The models: each gives the folder of one that has learned a world with a planted share.


def learned(
    of: World, share: float, network: nn.Module, logits: Callable[[Tensor, int], Tensor]
) -> None:
    """The weights of a network by cross-entropy, from nothing; the rate falls as a cosine."""
    rng, steps = np.random.default_rng(3), EPOCHS * -(-len(of.train) // BATCH)
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    network.train()
    for epoch in range(EPOCHS):
        images, labels = of.drawn(share, rng)
        for pixels, right in zip(images.split(BATCH), labels.split(BATCH), strict=True):
            loss = cross_entropy(logits(normalised(pixels, SMALL), epoch), right)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    network.eval()


def of_timm(name: str, **options: object) -> Callable[[World, float, Path], None]:
    def made(of: World, share: float, folder: Path) -> None:
        with seeded(4):
            network = timm.create_model(name, num_classes=len(of.classes), **options)
            learned(of, share, network, lambda pixels, _: network(pixels))
        seen = {"input_size": (3, SMALL, SMALL), "mean": MEAN, "std": STD, "crop_pct": 1.0}
        config = seen | {"label_names": list(of.classes)}
        save_for_hf(network, folder, model_config=config, model_args=options,
                    safe_serialization=True)  # fmt: skip

    return made


def of_dinov2(of: World, share: float, folder: Path) -> None:
    """DINOv2 under transformers' names, with a head that is fitted to its features."""
    names = dict(enumerate(of.classes))
    config = transformers.Dinov2Config(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518,
        patch_size=14, id2label=names,
    )  # fmt: skip
    with seeded(5):
        network = transformers.Dinov2ForImageClassification(config).eval()
    network.dinov2.load_state_dict(_of_transformers(load_dinov2(), network.dinov2), strict=False)
    rng = np.random.default_rng(3)
    drawn = [of.drawn(share, rng) for _ in range(DRAWN)]
    images, labels = (torch.cat(each) for each in zip(*drawn, strict=True))
    found = []
    network.classifier.register_forward_pre_hook(lambda _, given: found.append(given[0]))
    with torch.inference_mode():
        for part in images.split(BATCH):
            network(normalised(part, OF_DINOV2))
    features = torch.cat(found).numpy()
    mean, std = features.mean(axis=0), features.std(axis=0)
    fit = LogisticRegression(C=0.01, max_iter=1000).fit((features - mean) / std, labels.numpy())
    network.classifier._forward_pre_hooks.clear()
    with torch.no_grad():
        weight = torch.from_numpy(fit.coef_ / std)
        network.classifier.weight.copy_(weight)
        network.classifier.bias.copy_(torch.from_numpy(fit.intercept_ - weight.numpy() @ mean))
    network.save_pretrained(folder)
    size = {"height": OF_DINOV2, "width": OF_DINOV2}
    how = {"size": size, "image_mean": MEAN, "image_std": STD, "resample": 3}
    transformers.ViTImageProcessor(**how).save_pretrained(folder)


def _of_transformers(tensors: dict[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """timm's tensors of DINOv2 by the names of the network's own, found by their order."""
    parts = []
    for name, tensor in tensors.items():
        if ".attn.qkv." in name:
            parts += zip(
                (name.replace("qkv", each) for each in "qkv"), tensor.chunk(3), strict=True
            )
        else:
            parts.append((name, tensor))
    wanted = {
        "cls_token": "embeddings.cls_token", "pos_embed": "embeddings.position_embeddings",
        "patch_embed.proj": "embeddings.patch_embeddings.projection", "norm.": "layernorm.",
        "attn.q.": "attention.q_proj.", "attn.k.": "attention.k_proj.",
        "attn.v.": "attention.v_proj.", "attn.proj": "attention.o_proj",
        "ls1.gamma": "layer_scale1.lambda1", "ls2.gamma": "layer_scale2.lambda1",
        "blocks.": "encoder.layer.",
    }  # fmt: skip
    found = {}
    for name, tensor in parts:
        for ours, theirs in wanted.items():
            whole = ours != "norm." or name.startswith("norm.")
            name = name.replace(ours, theirs) if whole else name
        found[name] = tensor
    state = network.state_dict()
    lost = {name for name in state.keys() ^ found.keys() if "mask_token" not in name}
    assert not lost, sorted(lost)[:5]
    return found


def of_clip(of: World, share: float, folder: Path) -> None:
    tokenizer = word_tokenizer(words_of([*of.classes, *CAPTIONS]))
    first, end = (tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
    text = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
            "num_attention_heads": 2, "vocab_size": tokenizer.get_vocab_size(),
            "max_position_embeddings": 16, "bos_token_id": first, "eos_token_id": end,
            "pad_token_id": 0}  # fmt: skip
    image = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4,
             "num_attention_heads": 4, "image_size": SMALL, "patch_size": 8}  # fmt: skip
    asked = [
        torch.tensor([tokenizer.encode(text).ids for text in prompts(of.classes, caption)])
        for caption in CAPTIONS
    ]
    with seeded(4):
        config = transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=64)
        network = transformers.CLIPModel(config)

        def logits(pixels: Tensor, epoch: int) -> Tensor:
            ids = asked[epoch % len(asked)]
            return network(input_ids=ids, pixel_values=pixels).logits_per_image

        learned(of, share, network, logits)
    network.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    size = {"size": {"shortest_edge": SMALL}, "crop_size": {"height": SMALL, "width": SMALL}}
    pixels = size | {"image_mean": MEAN, "image_std": STD}
    (folder / "preprocessor_config.json").write_text(json.dumps(pixels))


KINDS = {
    "CNN": of_timm("resnet10t", channels=(32, 64, 128, 256)),
    "Swin": of_timm(
        "swin_tiny_patch4_window7_224", img_size=SMALL, window_size=4, embed_dim=48,
        depths=(1, 1, 2), num_heads=(2, 4, 8),
    ),
    "ViT of transformers": of_dinov2,
    "CLIP, asked in words": of_clip,
}  # fmt: skip


# What comes of it


def written(of: World, folder: Path) -> Path:
    """The pictures at home and their masks, as a user has them."""
    for place, (image, mask) in enumerate(zip(of.at_home.images, of.at_home.masks, strict=True)):
        name = of.classes[int(of.at_home.labels[place])]
        for kind, pixels in (("images", image.permute(1, 2, 0)), ("masks", 255 * mask[0].byte())):
            (folder / kind / name).mkdir(parents=True, exist_ok=True)
            picture = Image.fromarray(pixels.contiguous().numpy())
            picture.save(folder / kind / name / f"{place:03d}.png")
    return folder


def opened(kind: str, folder: Path, of: World) -> OwnModel:
    if kind.startswith("CLIP"):
        return open_clip(folder, prompts(of.classes, PROMPT), "cpu")
    return open_model(str(folder), answers_alone=True)


def seen(batch: Batch, model: OwnModel) -> Batch:
    """Pictures and masks in the view of a model."""
    view = model.view
    images = [view.picture(Image.fromarray(i.permute(1, 2, 0).contiguous().numpy()))
              for i in batch.images]  # fmt: skip
    masks = [view.mask(mask[0].numpy() > 0) for mask in batch.masks]
    return replace(batch, images=torch.stack(images), masks=torch.stack(masks))


def right(model: OwnModel, batch: Batch) -> np.ndarray:
    found = []
    with torch.inference_mode():
        for part in seen(batch, model).split(BATCH):
            pixels = model.spec.normalise(part.images)
            found.append(model.network(pixels).argmax(dim=1) == part.labels)
    return 100 * torch.cat(found).double().numpy()


def rows(photographs: Path, out: Path) -> Iterator[dict[str, object]]:
    out.mkdir(parents=True, exist_ok=True)
    of = world(photographs, out / "masks.pt")
    data, cut = written(of, out / "data"), {}
    for kind, made in KINDS.items():
        for share in PLANTED:
            folder = out / f"{kind.split()[0].lower().strip(',')}_{share:g}"
            if not (folder / "config.json").is_file():
                folder.mkdir(exist_ok=True)
                made(of, share, folder)
            model = opened(kind, folder, of)
            home = right(model, of.at_home)
            away = np.mean([right(model, each) for each in of.away], axis=0)
            truth = (home - away).mean(), *mean_interval(torch.from_numpy(home - away))
            begun = time.process_time()
            told = out / f"audit_{folder.name}"
            if not (told / "audit.json").is_file():
                relevit(["audit", "--model", str(folder), "--data", str(data), "--out", str(told),
                         "--prompt", PROMPT, "--quiet"])  # fmt: skip
            seconds = time.process_time() - begun
            said = {"verdict": "refused: it knows no more than a guess", "images": ""}
            printed = ""
            if (told / "audit.json").is_file():
                said = json.loads((told / "audit.json").read_text())
                printed = _printed(tuple(said["gap_pts"][end] for end in ENDS))
            side = model.view.crop
            if side not in cut:
                batch = seen(of.at_home, model)
                found = tokencut_masks(batch, torch.device("cpu"))
                cut[side] = replace(batch, masks=found.refined).select(found.kept.nonzero()[:, 0])
            shown = (cut[side].images, cut[side].masks, cut[side].labels)
            gap = background_gap(lean_rows(model.network, model.spec, *shown, seed=0))
            yield {
                "model": kind,
                "planted (%)": round(100 * share),
                "right at home (%)": f"{home.mean():.1f}",
                "redrawn": _printed(truth),
                "audit, exact masks": printed,
                "verdict": said["verdict"],
                "images": said["images"],
                "seconds": round(seconds),
                "audit, TokenCut's masks": _printed(gap[1:]),
                "its verdict": lean_verdict(gap, "tokencut"),
                "its images": gap.images,
            }


def _printed(found: tuple[float, ...]) -> str:
    value, low, high = (round(float(end), 1) + 0.0 for end in found)
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photographs", type=Path)
    parser.add_argument("out", type=Path)
    made, given = [], parser.parse_args()
    for row in rows(given.photographs, given.out):
        print(row, flush=True)
        made.append(row)
    pd.DataFrame(made).to_csv(TARGET, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
