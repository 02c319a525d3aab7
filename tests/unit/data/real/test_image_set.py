"""What all readers of real data sets refuse alike: other options, missing sets, broken pictures."""

from __future__ import annotations

from functools import partial

import pytest

from relevit.data.real.cifar import read_cifar10
from relevit.data.real.gtsegs import read_gtsegs
from relevit.data.real.image_set import UnreadableImage
from relevit.data.real.imagenet import read_imagenet
from relevit.data.real.imagenet_s import read_imagenet_s
from relevit.data.real.objectnet import read_objectnet
from relevit.data.real.shifted import (
    read_imagenet_a,
    read_imagenet_r,
    read_si_score,
    read_sketch,
    read_v2,
)
from replicas.imagenet import write_imagenet, write_imagenet_a
from replicas.objectnet import write_objectnet
from replicas.pictures import truncate
from replicas.si_score import write_si_score

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("read", "options", "text"),
    [
        (
            read_imagenet,
            {"part": "test"},
            r"imagenet: part is 'test'; give one of \('val', 'train'\)",
        ),
        (
            read_imagenet_s,
            {"part": "test"},
            r"imagenet_s: part is 'test'; give one of \('train-semi'",
        ),
        (
            read_imagenet_s,
            {"merged": "drop"},
            r"imagenet_s: merged is 'drop'; give one of \('skip'",
        ),
        (read_imagenet_a, {"ways": 100}, r"a: ways is 100; give 1000, as the papers do .B6"),
        (read_imagenet_r, {"ways": 100}, r"r: ways is 100; give 1000, as the papers do .B6"),
        (
            read_objectnet,
            {"answers": "all"},
            r"objectnet: answers is 'all'; give 'any', or 'first' .*B7",
        ),
        (read_objectnet, {"border": -1}, r"objectnet: border is -1 pixels; give 1, or 0"),
        (
            read_si_score,
            {"factor": "size"},
            r"si_score: factor is 'size'; give one of \('location', 'rotation', 'area'\)",
        ),
    ],
)
def test_options_are_checked(tmp_path, read, options, text):
    with pytest.raises(ValueError, match=text):
        read(tmp_path, **options)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (
            read_imagenet,
            r"val: folder .*imagenet/val is missing; unpack ILSVRC2012_img_val.tar there",
        ),
        (read_imagenet_a, r"^a: folder .*imagenet-a is missing; unpack imagenet-a.tar there"),
        (read_imagenet_r, r"^r: folder .*imagenet-r is missing; unpack imagenet-r.tar there"),
        (read_sketch, r"^sketch: folder .*sketch is missing; unpack ImageNet-Sketch.zip there"),
        (read_v2, r"^v2: folder .* is missing; unpack imagenetv2-matched-frequency.tar.gz there"),
        (read_objectnet, r"objectnet: folder .*images is missing; unpack objectnet-1.0.zip in"),
        (
            partial(read_si_score, factor="area"),
            r"si_size: folder .*si-score/area is missing; unpack size.zip there",
        ),
        (
            read_imagenet_s,
            r"imagenet_s: folder .*train-semi is missing; copy the pictures from ImageNet",
        ),
        (read_gtsegs, r"gtsegs: file .*gtsegs_ijcv.mat is missing; put gtsegs_ijcv.mat into"),
        (
            partial(read_cifar10, size=32),
            r"folder .*cifar-10-batches-bin is missing; unpack cifar-10-binary.tar.gz there",
        ),
    ],
)
def test_missing_sets_are_told_with_what_to_get(tmp_path, read, text):
    with pytest.raises(FileNotFoundError, match=text):
        read(tmp_path)


@pytest.mark.parametrize(
    ("read", "write", "name", "pictures"),
    [
        (read_imagenet, write_imagenet, "val", "imagenet/val"),
        (read_imagenet_a, write_imagenet_a, "a", "imagenet-a"),
        (read_objectnet, write_objectnet, "objectnet", "objectnet-1.0/images"),
        (partial(read_objectnet, border=0), write_objectnet, "objectnet", "objectnet-1.0/images"),
        (read_si_score, write_si_score, "si_location", "si-score/location"),
    ],
)
def test_a_broken_or_lost_picture_is_named_and_others_can_be_read(
    tmp_path, read, write, name, pictures
):
    write(tmp_path)
    found = read(tmp_path)
    truncate(tmp_path / pictures / found.ids[1])
    text = rf"^{name}: {found.ids[1]} cannot be read \(.*\); unpack it again, or give corrupted"
    with pytest.raises(UnreadableImage, match=text) as error:
        found[1]
    assert error.value.place == 1
    assert found[0].shape == (3, 224, 224)
    (tmp_path / pictures / found.ids[2]).unlink()
    with pytest.raises(UnreadableImage, match=rf"^{name}: {found.ids[2]} cannot be read"):
        found[2]
