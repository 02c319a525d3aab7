"""What a reader gives back is what was written: over all sets of the catalogue."""

import re
from dataclasses import replace

import pytest
import torch
from PIL import Image, ImageOps

from habitats.real.catalogue import CATALOGUE
from habitats.real.classes import IMAGENET_NAMES, SI_CLASSES
from relevit.data.image_set import UnreadableImage
from relevit.models.spec import View
from replicas import WRITERS
from replicas.imagenet_s import write_imagenet_s
from replicas.objectnet import write_objectnet
from replicas.pictures import KINDS, Written, picture, save_jpeg, truncate

VIEW = View(resize=48, crop=32)
pytestmark = pytest.mark.usefixtures("no_network")


def held(key: str, root, call: int, written: list[Written], view: View, **options) -> None:
    """Hold every label, picture and mask that is read to what was written."""
    found = CATALOGUE[key].read(root, view, call=call, **options)
    by_name = {one.id: one for one in written}
    assert found.name == key and sorted(found.ids) == sorted(by_name)
    assert found.labels.dtype == torch.int64
    if key not in ("objectnet", "gtsegs", "cifar10", "cifar100"):  # by folder, and as in the file
        assert found.labels.tolist() == sorted(found.labels.tolist())
    batch = found.read(range(len(found)))
    assert torch.equal(batch.labels, found.labels)
    for place, one in enumerate(by_name[name] for name in found.ids):
        assert found.labels[place] == one.label
        assert torch.equal(batch.images[place], view.picture(one.image)), one.id
        if one.mask is None:
            assert not batch.masks[place].any()
        else:
            assert torch.equal(batch.masks[place], view.mask(one.mask)), one.id
    shuffled = [*range(len(found))][::-3]
    assert torch.equal(found.read(shuffled).images, batch.images[shuffled])


@pytest.mark.parametrize("key", WRITERS)
def test_what_is_read_is_what_was_written(tmp_path, key):
    options = {"merged": "keep"} if key == "imagenet_s" else {}
    whole = replace(VIEW, resize=32, squash=True, mask_pixels="nearest")  # E4
    view = whole if key == "gtsegs" else VIEW
    for call, written in enumerate(WRITERS[key](tmp_path, per_class=2)):
        held(key, tmp_path, call, written, view, **options)


@pytest.mark.parametrize("key", ["v2", "objectnet", "imagenet_s"])
def test_a_broken_picture_is_named_and_the_others_can_be_read(tmp_path, key):
    WRITERS[key](tmp_path, per_class=2)
    found = CATALOGUE[key].read(tmp_path, VIEW)
    truncate(next(one for one in sorted(tmp_path.rglob("*")) if str(one).endswith(found.ids[1])))
    name = re.escape(found.ids[1])
    with pytest.raises(UnreadableImage, match=rf"^{key}: {name} cannot be read \(.*\); unpack it"):
        found.read([0, 1])
    skipped: dict[int, str] = {}
    rest = sum(map(len, found.batches(4, ahead=2, skipped=skipped)))
    assert rest == len(found) - 1 and skipped == {1: found.ids[1]}


def test_objects_of_si_score_are_matched_to_imagenet_by_hand():
    assert len(SI_CLASSES) == 61 == len(set(SI_CLASSES.values()))
    names = [name.lower().split(", ") for name in IMAGENET_NAMES]
    assert [name for name, index in SI_CLASSES.items() if name not in names[index]] == ["jeans"]
    assert "blue jean" in names[SI_CLASSES["jeans"]]
    assert SI_CLASSES["missile"] == 657  # a look-up finds the projectile, 744


def test_objectnet_counts_every_class_of_an_object_or_the_first_alone(tmp_path):
    write_objectnet(tmp_path)
    found = CATALOGUE["objectnet"].read(tmp_path, VIEW)
    chair = found.labels.tolist().index(423)
    assert found.read([chair]).accepted[423] == (423, 559, 765)  # in the file's order
    first = CATALOGUE["objectnet"].read(tmp_path, VIEW, answers="first")
    assert first.read([chair]).accepted == {} and torch.equal(first.labels, found.labels)
    assert 954 in found.labels.tolist()  # the banana, whose line in ILSVRC's order is another


def test_merged_classes_are_skipped_or_have_two_answers(tmp_path):
    write_imagenet_s(tmp_path)
    skipped, kept = (
        CATALOGUE["imagenet_s"].read(tmp_path, VIEW, merged=merged) for merged in ("skip", "keep")
    )
    assert len(kept) == len(skipped) + 4 and {836, 999}.isdisjoint(skipped.labels.tolist())
    assert kept.read([0]).accepted[836] == (836, 837)


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_of_any_mode_are_read_as_rgb_and_not_turned(tmp_path, kind):
    stored = save_jpeg(picture(4, 5, kind=kind), tmp_path / "sketch" / "n01440764" / "x.JPEG")
    found = CATALOGUE["sketch"].read(tmp_path, VIEW).read([0]).images[0]
    original = VIEW.picture(picture(4, 5, kind="rgb" if kind == "cmyk" else kind))
    assert (found.int() - original.int()).abs().float().mean() < 8  # JPEG loses a little
    if kind == "exif":
        assert not torch.equal(found, VIEW.picture(ImageOps.exif_transpose(Image.open(stored))))


@pytest.mark.parametrize(("labels", "count"), [("fine", 100), ("coarse", 20)])
def test_superclasses_of_cifar100(tmp_path, labels, count):
    WRITERS["cifar100"](tmp_path, per_class=1)
    found = CATALOGUE["cifar100"].read(tmp_path, VIEW, labels=labels)
    assert len(found.classes) == count == len(found.labels.unique())
    assert found.labels.tolist() == [y * count // 100 for y in range(100)]
