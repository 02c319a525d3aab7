"""What stands beside weights is believed: networks of transformers, torchvision, timm, a run."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

import numpy as np
import pytest
import timm
import torch
import torchvision
import transformers as hf
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from relevit.models import load_model, open_model
from relevit.models.checkpoints import save_weights
from relevit.models.passport import config_of, write_passport
from relevit_own.outputs import known_names, possible_places, settled

from .conftest import SMALL, made

pytestmark = pytest.mark.usefixtures("no_network")

NAMES = ("ant", "bee", "crow")
LABELS = dict(enumerate(NAMES))
SIZES = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32,
         "patch_size": 8}  # fmt: skip
INSIDE = SIZES | {"intermediate_size": 96}
TEXT = {"hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
        "intermediate_size": 8, "vocab_size": 20}  # fmt: skip
TWO = {"vision_config": INSIDE, "text_config": TEXT}
FAMILIES = {  # class, options beside the names of its classes
    "ViT": ("ViT", "ViTForImageClassification", INSIDE),
    "ViT, MSN": ("ViTMSN", "ViTMSNForImageClassification", INSIDE),
    "DeiT": ("DeiT", "DeiTForImageClassification", INSIDE),
    "DeiT, two heads": ("DeiT", "DeiTForImageClassificationWithTeacher", INSIDE),
    "BEiT": ("Beit", "BeitForImageClassification", INSIDE | {"use_relative_position_bias": True}),
    "BEiT, class token": ("Beit", "BeitForImageClassification",
                          INSIDE | {"use_absolute_position_embeddings": True}),
    "data2vec": ("Data2VecVision", "Data2VecVisionForImageClassification",
                 INSIDE | {"use_relative_position_bias": True}),
    "data2vec, class token": ("Data2VecVision", "Data2VecVisionForImageClassification",
                              INSIDE | {"use_mean_pooling": False}),
    "DINOv2": ("Dinov2", "Dinov2ForImageClassification", SIZES | {"mlp_ratio": 2}),
    "DINOv2, SwiGLU": ("Dinov2", "Dinov2ForImageClassification", SIZES | {"use_swiglu_ffn": True}),
    "DINOv2, registers": ("Dinov2WithRegisters", "Dinov2WithRegistersForImageClassification",
                          SIZES | {"num_register_tokens": 4}),
    "SigLIP": ("Siglip", "SiglipForImageClassification", TWO),
    "CLIP": ("CLIP", "CLIPForImageClassification", TWO),
}  # fmt: skip
PIXELS = {"mean": (0.2, 0.3, 0.4), "std": (0.3, 0.2, 0.1)}


def of_transformers(kind, cls, options, **more):
    torch.manual_seed(0)
    network = getattr(hf, cls)(getattr(hf, f"{kind}Config")(**options, **more)).eval()
    for weights in network.parameters():
        nn.init.normal_(weights, std=0.3)
    return network


def kept(network, folder, **processor):
    """A folder as transformers leaves it."""
    network.save_pretrained(folder)
    size = {"height": 32, "width": 32}
    how = {"size": size, "image_mean": [0.2, 0.3, 0.4], "image_std": [0.3, 0.2, 0.1]} | processor
    hf.ViTImageProcessor(**how).save_pretrained(folder)
    return folder


def same(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_network_of_transformers_is_the_same_function(tmp_path, family):
    network = of_transformers(*FAMILIES[family], id2label=LABELS)
    own = open_model(f"local-dir:{kept(network, tmp_path)}")
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        same(own.network(images), network(images).logits)
        exact = own.network.double()(images.double())
        torch.testing.assert_close(
            exact, network.double()(images.double()).logits, rtol=1e-6, atol=1e-7
        )
    assert (own.spec.names, own.spec.mean, own.spec.std) == (NAMES, *PIXELS.values())
    assert own.spec.grid == (4, 4) and not own.no_maps
    network.float().pretrained_cfg = PIXELS | {"input_size": (3, 32, 32)}
    with torch.no_grad():
        same(open_model(network).network(images), network(images).logits)


@pytest.mark.parametrize("family", ["ViT", "BEiT", "DINOv2, SwiGLU", "DINOv2, registers", "CLIP"])
def test_a_tensor_that_is_missing_is_named(tmp_path, family):
    """Of each kind one; what no answer hangs on may be left out."""
    network = of_transformers(*FAMILIES[family], id2label=LABELS)
    state = {key: value.clone() for key, value in network.state_dict().items()}
    folder, refused = kept(network, tmp_path), []
    for lost in (key for key in state if ".1." not in key):
        save_file({k: v for k, v in state.items() if k != lost}, folder / "model.safetensors")
        try:
            own = open_model(f"local-dir:{folder}")
        except ValueError as error:
            refused.append(str(error))
        else:
            images = torch.randn(1, 3, 32, 32)
            with torch.no_grad():
                same(own.network(images), network(images).logits)
    assert len(refused) > 10
    assert all("missing" in said and "\n" not in said for said in refused), refused


def test_clips_image_tower_alone_has_the_same_features(tmp_path):
    network = of_transformers("CLIPVision", "CLIPVisionModel", INSIDE)
    own = open_model(f"local-dir:{kept(network, tmp_path)}", classes=3, new_head=True)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        tokens = own.network.forward_features(images)
        same(own.network.forward_head(tokens, pre_logits=True), network(images).pooler_output)


def test_positions_are_resized_as_transformers_does_it(tmp_path):
    network = of_transformers(*FAMILIES["DINOv2"], id2label=LABELS)
    size = {"size": {"height": 64, "width": 64}}
    own, images = open_model(str(kept(network, tmp_path, **size))), torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        same(own.network(images), network(images).logits)
    assert own.spec.image_size == 64


@pytest.mark.parametrize("wrapped", ["", "model.", "module.model."])
def test_torchvisions_file_and_network(tmp_path, wrapped):
    network = torchvision.models.VisionTransformer(32, 8, 2, 4, 48, 96, num_classes=3).eval()
    for weights in network.parameters():
        nn.init.normal_(weights, std=0.3)
    state = {f"{wrapped}{key}": value for key, value in network.state_dict().items()}
    torch.save({"state_dict": state} if wrapped else state, tmp_path / "w.pth")
    shape = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 4}
    how = {"options": shape | {"mlp_ratio": 2}}
    own, images = (
        open_model("vit_tiny_patch16_224", tmp_path / "w.pth", **how),
        torch.randn(2, 3, 32, 32),
    )
    network.pretrained_cfg = PIXELS | {"input_size": (3, 32, 32)}
    with torch.no_grad():
        same(own.network(images), network(images))
        same(open_model(network).network(images), network(images))
    assert own.spec.mean == (0.485, 0.456, 0.406), "that of all of torchvision's weights"


SWIN = ("Swin", "SwinForImageClassification", {"image_size": 32, "embed_dim": 12,
        "depths": [1, 1], "num_heads": [2, 2], "window_size": 4})  # fmt: skip
REFUSED = {
    "swin": lambda: of_transformers(*SWIN),
    "without a head of classes": lambda: of_transformers("ViT", "ViTModel", INSIDE),
    "no head of classes|without a head": lambda: of_transformers("CLIP", "CLIPModel", TWO),
    "SigLIP's tower pools by attention": lambda: of_transformers("Siglip", "SiglipModel", TWO),
}  # fmt: skip


@pytest.mark.parametrize("said", REFUSED)
def test_what_has_no_place_in_timms_anatomy_is_refused_by_name(tmp_path, said):
    REFUSED[said]().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=said):
        open_model(str(tmp_path))


def test_for_answers_alone_any_classifier_will_do(tmp_path):
    network = of_transformers(*SWIN, id2label=LABELS)
    images = torch.randn(2, 3, 32, 32)
    network.pretrained_cfg = PIXELS | {"input_size": (3, 32, 32)}
    for given in (network, str(kept(network, tmp_path))):
        own = open_model(given, answers_alone=True)
        with torch.no_grad():
            same(own.network(images), network(images).logits)
        assert "no relevance maps" in own.no_maps and own.spec.mean == PIXELS["mean"]
    plain = timm.create_model("resnet18", num_classes=3).eval()
    torch.save(plain.state_dict(), tmp_path / "r.pth")
    own = open_model("resnet18", tmp_path / "r.pth", answers_alone=True)
    with torch.no_grad():
        same(own.network(images), plain(images))
    assert own.spec.classes == 3 and "no relevance maps" in own.no_maps
    with pytest.raises(ValueError, match="ResNet has no blocks"):
        open_model(plain)


# timm's own words


def files_of_timm(folder, network, **config):
    """A folder as `save_for_hf` leaves it."""
    spec = open_model(network).spec
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_of(network, spec, NAMES) | config))
    torch.save(network.state_dict(), folder / "pytorch_model.bin")
    return folder


@pytest.fixture
def three():
    torch.manual_seed(0)
    network = timm.create_model("vit_tiny_patch16_224", num_classes=3, **SMALL).eval()
    network.head.weight.data *= 30
    network.pretrained_cfg.update(PIXELS, crop_pct=1.0, interpolation="bilinear")
    return network


def test_timms_folder_is_what_timm_makes_of_it(tmp_path, three):
    folder = files_of_timm(tmp_path / "hf", three)
    theirs = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    picture = Image.effect_noise((90, 60), 90).convert("RGB")
    cfg = timm.data.resolve_model_data_config(theirs)
    pixels = timm.data.create_transform(**cfg, is_training=False)(picture)[None]
    for name, weights in ((f"local-dir:{folder}", None), ("vit_tiny_patch16_224", folder)):
        own = open_model(name, weights)
        seen = own.spec.normalise(own.view.picture(picture)[None])
        same(own.network(seen), theirs(pixels))
        assert own.spec.names == NAMES and own.spec.mean == PIXELS["mean"]


CONTRADICTIONS = [
    ("deit_tiny_patch16_224", {}, "are of 'vit_tiny_patch16_224' and not 'deit_tiny_patch16_224'"),
    ("vit_tiny_patch16_224", {"options": {"depth": 3}}, "has depth = 2, and 3 is asked for"),
    ("vit_tiny_patch16_224", {"classes": 5}, "a head of 3 classes and 5 are asked for"),
    ("", {"num_classes": 5, "label_names": None}, "says 5 outputs, and its weights have 3"),
    ("", {"label_names": ["a", "b"]}, "names 2 classes for 3 outputs"),
]


@pytest.mark.parametrize(("name", "how", "said"), CONTRADICTIONS)
def test_what_contradicts_a_passport_is_refused(tmp_path, three, name, how, said):
    """`how` is what a model of this name is asked for, or what the folder's config says."""
    folder = files_of_timm(tmp_path / "hf", three)
    if not name:
        config = folder / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | how))
    for alone in (True, False):
        with pytest.raises(ValueError, match=said):
            open_model(*((name, folder) if name else (str(folder),)), answers_alone=alone,
                       **(how if name else {}))  # fmt: skip


def test_a_checkpoint_of_train_py_says_what_it_is_of(tmp_path):
    network = made("deit_tiny_patch16_224")
    args = argparse.Namespace(model="deit_tiny_patch16_224", mean=[0.1, 0.2, 0.3], std=None)
    told = {"arch": args.model, "args": args, "version": 2, "state_dict": network.state_dict()}
    torch.save(told, tmp_path / "last.pth.tar")
    own = open_model("deit_tiny_patch16_224", tmp_path / "last.pth.tar", options=SMALL)
    assert own.spec.mean == (0.1, 0.2, 0.3) and own.spec.std == (0.229, 0.224, 0.225)
    with pytest.raises(ValueError, match="are of 'deit_tiny_patch16_224' and not 'vit_tiny"):
        load_model("vit_tiny_patch16_224", tmp_path / "last.pth.tar", options=SMALL)


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_written_is_read_again(tmp_path, three, whole):
    """By us and by plain timm; a network that timm does not make is not called one."""
    if not whole:
        three.head = nn.Sequential(nn.Linear(16, 8), nn.GELU(), nn.Linear(8, 3))
    own, weights = open_model(three), tmp_path / "weights.safetensors"
    save_weights(weights, three, own.spec.name)
    write_passport(weights, three, own.spec, NAMES)
    if not whole:
        with pytest.raises(ValueError, match="network was made by code that timm does not have"):
            open_model(str(tmp_path))
        return
    again, images = open_model(str(tmp_path)), torch.randn(2, 3, 32, 32)
    theirs = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    assert torch.equal(again.network(images), three(images))
    assert torch.equal(theirs(images), three(images))
    assert (again.spec.names, again.spec.mean) == (NAMES, PIXELS["mean"])


ELSEWHERE = {  # heads by other names than head.weight, or two of them
    "swin_tiny_patch4_window7_224": {"embed_dim": 12, "num_heads": (1, 1, 2, 2)},
    "hiera_tiny_224": {"embed_dim": 16},
    "levit_128s": {},
    "crossvit_9_240": {},
    "mixer_s32_224": {},
    "mobilenetv3_small_050": {},
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_file_of_any_classifier_of_timm_is_read(tmp_path, name):
    network = timm.create_model(name, num_classes=3, **ELSEWHERE[name]).eval()
    torch.save(network.state_dict(), tmp_path / "w.pth")
    own = open_model(name, tmp_path / "w.pth", answers_alone=True, options=ELSEWHERE[name])
    images = torch.randn(1, 3, own.spec.image_size, own.spec.image_size)
    with torch.no_grad():
        assert torch.equal(own.network(images), network(images)) and own.spec.classes == 3
    with pytest.raises(ValueError, match="has no relevance maps"):
        open_model(name, tmp_path / "w.pth", options=ELSEWHERE[name])


NARROW = {"embed_dims": (8, 8, 16, 16), "num_heads": (1, 1, 2, 2)}


@pytest.mark.parametrize("name", ["pvt_v2_b0", "twins_svt_small", "test_convnext"])
def test_norms_of_a_run_are_those_of_its_network(tmp_path, name):
    """The first two have norms of two kinds."""
    options = NARROW if "test" not in name else {}
    network = timm.create_model(name, num_classes=3, **options).eval()
    for weights in network.parameters():
        nn.init.normal_(weights, std=0.1)
    own = open_model(network, answers_alone=True)
    spec = replace(own.spec, options=options)
    save_weights(tmp_path / "weights.safetensors", network, own.spec.name)
    write_passport(tmp_path / "weights.safetensors", network, spec, NAMES)
    again = open_model(str(tmp_path), answers_alone=True)
    images = torch.randn(1, 3, own.spec.image_size, own.spec.image_size)
    with torch.no_grad():
        assert torch.equal(again.network(images), network(images))


# Which class is which output

SYNSETS = timm.data.ImageNetInfo("imagenet-1k").label_names()
PLACES = [  # classes, names of the outputs, their number; places, or what is said
    (["Cat", "ant"], ["ant", "bat", "cat, house cat"], 3, [2, 0]),
    (["x", "y"], (), 2, [0, 1]),
    ([SYNSETS[5], SYNSETS[3]], (), 1000, [5, 3]),
    ([SYNSETS[3], SYNSETS[5]], (), 2, [0, 1]),
    (["cardigan"], ["Cardigan, Cardigan Welsh corgi", "cardigan"], 2, [1]),
    (["crane"], ["crane", "crane", "ant"], 3, "'crane' of the images may be 0 'crane' and 1 'cr"),
    (
        ["Cat", "cat", "ant"],
        ["ant", "bat", "cat"],
        3,
        "'Cat', 'cat' of the images are one of the m",
    ),
    (["dog", "ant"], NAMES, 3, "'dog' of the images are none of the 3 that the model knows, 'an"),
    (["ant", "bees"], ["bee", "ant"], 2, "'bees' of the images are none of the 2 .*--names"),
    (["x", "y"], (), 3, "'x', 'y' of the images are none of the 3 that the model knows"),
]


@pytest.mark.parametrize(("classes", "names", "count", "found"), PLACES)
def test_classes_are_found_among_outputs(classes, names, count, found):
    if isinstance(found, str):
        with pytest.raises(ValueError, match=found):
            possible_places(classes, names, count)
    else:
        assert list(possible_places(classes, names, count).values()) == [found]


def test_an_order_is_taken_from_answers_only_beyond_doubt():
    classes = ["Ape", "Jackal", "ibis"]
    possible = possible_places(classes, (), 3)
    assert list(possible.values()) == [[0, 1, 2], [0, 2, 1]], "torchvision's and timm's"
    labels = np.repeat([0, 1, 2], 6)
    for way, places in possible.items():
        found, note = settled(possible, labels, np.array(places)[labels])
        assert found == places and f"in {way}, by its answers: right on 18 of 18" in note
    few, unlike = labels[::3], np.zeros(6, int)
    for some, answers in ((few, few), (few, unlike)):
        with pytest.raises(ValueError, match=r"order of the head's classes is not known.*--names"):
            settled(possible, some, answers)


def test_names_that_part_from_those_of_the_weights_are_refused():
    assert known_names((), NAMES, 3) == NAMES and known_names(NAMES, (), 3) == NAMES
    assert known_names(["ant", "bee, honeybee", "crow"], NAMES, 3)[1] == "bee, honeybee"
    with pytest.raises(ValueError, match="output 1 is 'bee' by the weights, and 'wasp' is told"):
        known_names(["ant", "wasp", "crow"], NAMES, 3)
    with pytest.raises(ValueError, match="2 are told of a head with 3 outputs"):
        known_names(["ant", "bee"], (), 3)
