"""One's own pictures explained: what is drawn, written and said, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import timm
import torch
from PIL import Image

from habitats.drawings import CLASSES
from habitats.homes import habitats
from relevit.attribution import explain
from relevit.data.batch import Batch
from relevit.evaluate.looking import look
from relevit.evaluate.predictions import predict
from relevit.evaluate.sis import gradient_sis
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import step_losses
from relevit.models.loading import load_model, open_model
from relevit_own import explaining
from relevit_own.explained import Subject, class_names, class_number
from relevit_own.explaining import explain_file, explain_pictures, prepare
from relevit_own.table import NOT_READ
from reproduction.measures.methods import perturb

SMALL = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
SAID = ["model", "method", "target", "class", "answer", "probability_pct"]
ON_OBJECT = ["iou_pct", "pointing_hit", "on_object_pct"]


def model(classes=5, seed=0):
    torch.manual_seed(seed)
    network = timm.create_model("vit_tiny_patch16_224", num_classes=classes, **SMALL)
    network.pretrained_cfg["crop_pct"] = 1.0
    return open_model(network)


def subject(name="ours", seed=0):
    return Subject(name, model(seed=seed), ("ant", "bee", "cat", "3", "$5_$10"))


def seen(ours, image):
    return ours.model.spec.normalise(ours.model.view.picture(image)[None])


def write(path, size=(32, 32), seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 255, (5, 7, 3), dtype=np.uint8)
    Image.fromarray(noise).resize(size).save(path)
    return path


@pytest.fixture
def folder(tmp_path):
    """Two pictures of one name, and one that no model can read."""
    for seed, name in enumerate(["ant/1.png", "bee/1.png"]):
        write(tmp_path / "set" / "images" / name, (36 + seed, 32), seed)
    (tmp_path / "set" / "images" / "bee" / "2.jpg").write_text("no picture")
    return tmp_path / "set"


@pytest.mark.parametrize(
    ("ending", "begin"), [("png", b"\x89PNG"), ("jpg", b"\xff"), ("pdf", b"%PDF")]
)
def test_a_picture_and_what_is_said_of_it(tmp_path, ending, begin):
    image, out = write(tmp_path / "$5_$10.png"), tmp_path / "maps" / f"cat.{ending}"
    said = explain_file(image, model(), out=out)
    assert list(said) == ["file", *SAID]
    assert said["class"] == said["answer"] == f"class {said['target']}"
    assert 20 <= said["probability_pct"] <= 100 and said["method"] == "gae"
    first = out.read_bytes()
    assert first.startswith(begin)
    other = (said["target"] + 1) % 5
    # Paths may be text.
    how = {"method": "rollout", "target": "abcde"[other], "names": "abcde"}
    again = explain_file(str(image), model(), out=str(out), **how)
    assert (again["target"], again["class"]) == (other, "abcde"[other])
    assert again["answer"] == "abcde"[said["target"]]
    assert again["probability_pct"] < said["probability_pct"]
    assert out.read_bytes() != first
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize(("bias", "answer"), [(-3.0, "not ill"), (2.0, "ill")])
def test_a_head_with_one_output_is_told_by_its_sigmoid(tmp_path, bias, answer):
    image, ours = write(tmp_path / "skin.png"), model(classes=1)
    ours.network.head.bias.data.fill_(bias)
    said = explain_file(image, ours, out=tmp_path / "map.png", names=["ill"])
    pixels = ours.spec.normalise(ours.view.picture(Image.open(image))[None])
    sigmoid = 100 * torch.sigmoid(ours.network(pixels)).item()
    assert (said["class"], said["answer"]) == ("ill", answer)
    assert said["probability_pct"] == pytest.approx(sigmoid, abs=1e-3) and 1 < sigmoid < 99


def test_a_head_with_one_output_has_no_classes_to_compare():
    """It would be right whatever it says."""
    ours, images = model(classes=1), torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    network, spec, labels = ours.network, ours.spec, torch.zeros(2, dtype=torch.long)
    batch = Batch(images, torch.ones(2, 1, 32, 32, dtype=torch.bool), labels)
    pixels, maps = spec.normalise(images), {"gae": torch.rand(2, 16)}
    settings = FinetuneSettings(lr=1.0, method="relevance", protocol="published")
    for work, *given in (
        (predict, spec, [batch]),
        (look, spec, batch, ["ill"]),
        (perturb, spec, batch, maps),
        (gradient_sis, pixels, labels),
        (step_losses, pixels, batch.masks.float(), labels, settings),
    ):
        with pytest.raises(ValueError, match="answers: a head with one output has no classes to"):
            work(network, *given)


def test_a_folder_has_a_picture_a_map_and_a_row_of_each(folder, tmp_path):
    out, lines = tmp_path / "out", []
    methods = ["gae", "integrated_gradients"]
    work = prepare([folder], out, methods, save_maps=True, skip_unreadable=True)
    assert len(work.left_out) == 1 and "2.jpg cannot be read" in work.left_out[0]
    explain_pictures(work, subject(), top=2, say=lines.append)
    table = pd.read_csv(out / "manifest.csv")
    assert list(table) == ["file", *SAID, "picture", "map"]
    assert len(table) == 2 * 2 * 2 and table["map"].is_unique
    assert set(table["file"]) == {"ant/1.png", "bee/1.png"} and table["picture"].nunique() == 2
    firsts = table.groupby(["file", "model", "method"], sort=False).first()
    assert (firsts["class"] == firsts["answer"]).all()
    maps = [np.load(out / name) for name in table["map"]]
    assert {(m.shape, m.dtype.name) for m in maps} == {((4, 4), "float32")}
    signed = [(m < 0).any() for m in maps]
    assert signed == (table["method"] == "integrated_gradients").tolist()
    page = (out / "index.html").read_text()
    assert page.count("<figure>") == 2 and 'href="bee/1.png.png"' in page
    assert "2.jpg cannot be read" in page and "http" not in page
    assert len(lines) == 2 and lines[0].startswith("ant/1.png: ")


@pytest.mark.parametrize(("method", "beside"), [("gae", True), ("integrated_gradients", False)])
def test_what_a_map_says_of_the_object(folder, tmp_path, method, beside):
    """An object just where the map is above its mean, in one picture; none in sight in another."""
    ours, (first, second) = subject(), sorted(folder.rglob("1.png"))
    write(first)  # as large as the model sees, so that its mask is seen pixel by pixel
    with Image.open(first) as image:
        heat = explain(ours.model.network, seen(ours, image), method=method)[0, 0]
    aside = np.zeros((32, 37), dtype=bool)
    aside[:, 0] = True
    for path, mask in ((first, (heat > heat.mean()).numpy()), (second, aside)):
        place = folder / "masks" / path.relative_to(folder / "images")
        place.parent.mkdir(parents=True)
        Image.fromarray(mask).save(place)
    masks = None if beside else folder / "masks"
    work = prepare([folder], tmp_path / "out", [method], masks=masks, skip_unreadable=True)
    table = explain_pictures(work, ours)
    assert table[ON_OBJECT].iloc[0].tolist()[:2] == [100, True]
    assert 50 < table["on_object_pct"][0] <= 100
    assert table[ON_OBJECT].iloc[1].isna().all()


NOT_SURE = "not sure this is one of the 40 classes it knows; nearest: "


@pytest.fixture
def titles(monkeypatch):
    """All that is written above the maps and the picture that are drawn."""
    found, draw = [], explaining.overlay_figure

    def drawn(picture, name, rows):
        found.extend([name, *(one.title for row in rows for one in row)])
        return draw(picture, name, rows)

    monkeypatch.setattr(explaining, "overlay_figure", drawn)
    return found


def test_a_shipped_model_says_where_it_knows_nothing(tmp_path, titles):
    """On a ramp of colours, and not on a drawing as it has learned; in all that is written."""
    (tmp_path / "in").mkdir()
    drawing = habitats().draw("val", [2], seed=9).images[0].permute(1, 2, 0).numpy()
    ramp = np.linspace(0, 255, 112).round().astype(np.uint8)
    ramp = np.broadcast_to(ramp[:, None, None], (112, 112, 3)) // [[[1, 2, 3]]]
    for name, pixels in (("bee", drawing), ("ramp", ramp.astype(np.uint8))):
        Image.fromarray(pixels).save(tmp_path / "in" / f"{name}.png")
    model, said = open_model("dinov2-s8"), []
    work = prepare([tmp_path / "in"], tmp_path / "out")
    assert class_names(model) == CLASSES
    table = explain_pictures(work, Subject("ours", model, CLASSES), say=said.append)
    assert table["known"].tolist() == [True, False] and table["class"][0] == "honeybee"
    told = [f"{row['class']} {row.probability_pct:.1f} %" for _, row in table.iterrows()]
    assert said == [f"bee.png: {told[0]}", f"ramp.png: {NOT_SURE}{told[1]}"]
    assert titles[1::2] == [f"gae\n{told[0]}", f"gae\n{NOT_SURE}{told[1]}"]
    assert pd.read_csv(tmp_path / "out" / "manifest.csv")["known"].tolist() == [True, False]
    assert NOT_SURE in (tmp_path / "out" / "index.html").read_text("utf-8")
    given = open_model(load_model(model.network))
    row = explain_file(tmp_path / "in" / "ramp.png", given, out=work.out / "a.png")
    assert "known" not in row, "of a network that was given nobody knows what it has learned"


def test_clips_image_tower_has_no_classes(tmp_path):
    tower, options = "vit_xsmall_patch16_clip_224", {"depth": 1}
    network = timm.create_model(tower, num_classes=512, **options)
    torch.save(network.state_dict(), tmp_path / "clip.pth")
    with pytest.raises(ValueError, match=r"projection to 512 numbers .* new_head=True"):
        open_model(tower, tmp_path / "clip.pth", options=options)
    asked = open_model(tower, tmp_path / "clip.pth", classes=512, options=options)
    with pytest.raises(ValueError, match="which are no classes"):
        class_names(asked)
    torch.nn.init.ones_(network.head.bias)
    assert len(class_names(open_model(network))) == 512, "a classifier of one's own"


@pytest.mark.parametrize(
    ("target", "number"),
    [
        (3, 3), ("3", 1), ("2", 2), ("cat", 0), (" CAT ", 0), ("Felis catus", 0), ("e\u0301mu", 2),
        ("crane", [3, 4]), ("cta", "nearest are cat"), ("9", "give 0 to 4"), (-1, "no class"),
    ],
)  # fmt: skip
def test_a_class_by_name_or_number(target, number):
    classes = ["cat, Felis catus", "3", "ému", "crane, bird", "crane, machine"]
    if isinstance(number, int):
        assert class_number(target, classes) == number
    else:
        with pytest.raises(ValueError, match=rf"target .*{number}".replace("[", r"\[")):
            class_number(target, classes)


@pytest.mark.parametrize(
    ("given", "how", "text"),
    [
        ("set/images/bee/2.jpg", {}, r"2\.jpg cannot be read as an image \(.*\); mend it \(a pict"),
        ("set", {"out": "out"}, r"2\.jpg cannot be .* \(1 such of 3\); .*--skip-unreadable"),
        ("set", {}, r"map\.png is one picture and 3 images are given; give a folder"),
        ("set/images/ant/1.png", {"save_maps": True}, r"map\.png is one picture and maps"),
        ("set/images/ant/1.png", {"out": "map.gif"}, r"map\.gif ends in none of \.png, \.jpg"),
        ("set/images/ant/1.png", {"methods": ["gea"]}, r"methods: \['gea'\] are unknown"),
        ("set/images/ant/1.png", {"masks": "set", "out": "out"}, r"2\.jpg is no PNG"),
        ("set/images/ant", {"masks": "no", "out": "out"}, r"the first would be .*no/1\.png; name"),
        ("dog.png", {}, r"dog\.png is missing; check its name"),
        ("set/images/ant/1.png", {"out": "set/images/ant/1.png"}, r"1\.png is the picture itself"),
    ],
)
def test_what_is_refused_before_the_work(folder, tmp_path, given, how, text):
    how = {"out": "map.png"} | how
    how |= {key: tmp_path / how[key] for key in ("out", "masks") if key in how}
    with pytest.raises((ValueError, FileNotFoundError), match=text):
        prepare([tmp_path / given], **how)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_what_a_model_cannot_see_is_refused_and_what_is_not_read_is_told(folder, tmp_path):
    (folder / "images" / "bee" / "2.jpg").unlink()
    (folder / "images" / "bee" / "3.heic").write_text("?")
    assert prepare([folder], tmp_path / "out").left_out == [f"images/bee/3.heic: {NOT_READ}"]
    deep, thin = np.full((32, 32), 900, np.uint16), np.full((1, 32), 9, np.uint8)
    for greys, why in ((deep, "more than 8 bits; scale it"), (thin, "32 x 1 pixels; one side")):
        Image.fromarray(greys).save(folder / "images" / "ant" / "2.png")
        with pytest.raises(ValueError, match=rf"2\.png cannot be read .*{why}"):
            prepare([folder], tmp_path / "out")


def test_a_mask_of_another_size_is_refused_by_name(folder, tmp_path):
    write(folder / "masks" / "ant" / "1.png", (9, 9))
    with pytest.raises(ValueError, match=r"masks/ant/1\.png is no mask of ant/1\.png \(the mask"):
        prepare([folder], tmp_path / "out")
