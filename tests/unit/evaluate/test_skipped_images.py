"""The nine real sets, of which a picture is broken: an error, or left out of all runs alike."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
from torch import nn

from relevit.config import PipelineParams
from relevit.data.benchmark import imagenet
from relevit.data.cutouts import TEST_SETS
from relevit.data.real.image_set import UnreadableImage
from relevit.evaluate import accuracies
from relevit.evaluate.accuracies import nine_sets, skipped_images
from replicas.imagenet import (
    write_imagenet,
    write_imagenet_a,
    write_imagenet_r,
    write_sketch,
    write_v2,
)
from replicas.objectnet import write_objectnet
from replicas.si_score import write_si_score

COUNT = 5  # images of each set
KEYS = ["dataset", "index"]


class Brightness(nn.Module):
    """Answers that differ from picture to picture."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.linspace(-9.0, 9.0, 1000))

    def forward(self, images):
        return images.mean(dim=(1, 2, 3))[:, None] * self.slope


@pytest.fixture
def root(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    for write in (write_imagenet, write_imagenet_a, write_imagenet_r, write_sketch, write_v2):
        write(folder, per_class=2)
    write_objectnet(folder, per_class=1)
    write_si_score(folder, per_class=2)
    monkeypatch.setattr(accuracies, "load_model", lambda *args: Brightness())
    return folder


def images_of(root, **options):
    params = PipelineParams(
        preset="rehearsal", seeds=[0], data="imagenet", data_root=str(root), **options
    )
    return imagenet(params, "vit-b-cut")


def evaluated(root, folder, **options):
    return nine_sets(
        "vit-b-cut",
        None,
        folder,
        images_per_set=COUNT,
        device="cpu",
        precision="float32",
        images=images_of(root, **options),
    )


@pytest.fixture
def broken(root, tmp_path):
    """Answers to the whole sets, then the third picture of `r` that is asked for is cut off."""
    whole = evaluated(root, tmp_path / "whole")
    bench = images_of(root, corrupted="skip")
    for path in sorted((root / "imagenet-r").rglob("*.jpg")):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        seen: dict[int, str] = {}
        list(bench.batches("r", COUNT, COUNT, skipped=seen))
        if 2 in seen:
            break
        path.write_bytes(content)
    assert seen == {2: str(path.relative_to(root / "imagenet-r"))}
    return whole, seen[2]


def test_broken_picture_is_an_error_that_names_set_path_and_remedy(root, broken, tmp_path):
    with pytest.raises(UnreadableImage) as caught:
        evaluated(root, tmp_path / "run")
    text = str(caught.value)
    assert text.startswith(f"r: {broken[1]} cannot be read") and "unpack it again" in text
    assert "corrupted" in text
    kept = {path.stem for path in (tmp_path / "run").iterdir()}
    assert kept == set(TEST_SETS[: TEST_SETS.index("r")]), "what came before it is kept"


def test_broken_picture_is_left_out_and_counted(root, broken, tmp_path):
    whole, name = broken
    first = evaluated(root, tmp_path / "run", corrupted="skip")
    for rows in (first, evaluated(root, tmp_path / "run", corrupted="skip")):
        assert rows[rows["dataset"] == "r"]["index"].tolist() == [0, 1, 3, 4]
        expected = whole[(whole["dataset"] != "r") | (whole["index"] != 2)]
        pd.testing.assert_frame_equal(rows, expected.reset_index(drop=True))
    assert skipped_images([tmp_path / "run", tmp_path / "run"]) == {"r": [name]}
    assert skipped_images([tmp_path / "whole"]) == {}


def test_numbers_name_the_same_picture_in_draw(root, broken):
    bench = images_of(root, corrupted="skip")
    (batch,) = bench.batches("r", COUNT, COUNT)
    assert torch.equal(batch.images[2], bench.draw("r", [3]).images[0])


def test_interrupted_evaluation_reads_no_picture_again(root, tmp_path, monkeypatch):
    first, asked = evaluated(root, tmp_path / "run"), []
    (tmp_path / "run" / "sketch.parquet").unlink()
    whole = accuracies.evaluate_sets

    def counted(*args, draw, **options):
        def drawn(name, *rest, **others):
            asked.append(name)
            return draw(name, *rest, **others)

        return whole(*args, draw=drawn, **options)

    monkeypatch.setattr(accuracies, "evaluate_sets", counted)
    pd.testing.assert_frame_equal(evaluated(root, tmp_path / "run"), first)
    assert asked == ["sketch"]
    evaluated(root, tmp_path / "run", ways=200)
    assert asked[1:] == list(TEST_SETS), "other rules, other answers"
