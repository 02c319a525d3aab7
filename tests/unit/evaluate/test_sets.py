"""The nine sets: what is computed, what is kept, and what an interruption leaves.

On real sets a picture may be broken: an error, or left out of all runs alike.
"""

from dataclasses import replace

import pandas as pd
import pytest
import torch
from torch import nn

from habitats.cutouts import CUTOUTS, TEST_SETS
from habitats.photographs import open_photographs
from relevit.data.image_set import UnreadableImage
from relevit.evaluate.predictions import Classifier
from relevit.models.spec import ModelSpec
from replicas.folders import write_folders
from replicas.objectnet import write_objectnet
from reproduction.measures import sets as measured
from reproduction.measures.sets import answer_sets, clearest, disagreed, skipped_images
from reproduction.params.common import Benchmark

PLAIN = ModelSpec("stub", "none", 16, mean=(0.0,) * 3, std=(1.0,) * 3)


@pytest.fixture
def calls(monkeypatch):
    """Predictions that are counted, and that say which call made them."""
    made = []

    def counted(self, batches):
        made.append(self.precision)
        assert sum(map(len, batches)) == 2
        number = len(made)
        return pd.DataFrame({"label": [0, 1], "label_rank": [0, number], "prediction": [0, 5]})

    monkeypatch.setattr(Classifier, "predict", counted)
    return made


def sets(folder, bench=CUTOUTS, **options):
    return answer_sets(Classifier(nn.Linear(1, 1), PLAIN), None, folder, bench, 2, **options)


def test_interrupted_evaluation_goes_on_where_it_stopped(calls, tmp_path):
    """And what is damaged is computed anew."""

    def interrupt(name):
        if name == TEST_SETS[2]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sets(tmp_path, on_set=interrupt)
    assert len(calls) == 3
    rows = sets(tmp_path)
    assert len(calls) == 9
    assert rows["label_rank"].tolist()[1::2] == list(range(1, 10))
    damaged = tmp_path / f"{TEST_SETS[3]}.parquet"
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert len(sets(tmp_path)) == 18 and len(calls) == 10


def test_kept_answers_are_those_of_weights_format_and_rules(calls, tmp_path):
    def made(name, number_format):
        classifier = Classifier(nn.Linear(1, 1), replace(PLAIN, name=name), number_format)
        before = len(calls)
        answer_sets(classifier, None, tmp_path, CUTOUTS, 2)
        return len(calls) > before

    asked = [
        ("tiny", "bfloat16"),
        ("tiny", "bfloat16"),
        ("tiny", "float32"),
        ("tiny-mae", "float32"),
    ]
    assert [made(*each) for each in asked] == [True, False, True, True]


def test_answers_of_another_stage_are_taken_where_all_is_the_same(calls, tmp_path):
    first = sets(tmp_path / "known")
    assert sets(tmp_path / "own", known=tmp_path / "known").equals(first)
    assert sets(tmp_path / "own").equals(first) and len(calls) == 9
    sets(tmp_path / "other", known=tmp_path / "nowhere")
    assert len(calls) == 18


# Real sets

COUNT = 5  # images of each set


class Brightness(nn.Module):
    """Answers that differ from picture to picture."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.linspace(-9.0, 9.0, 1000))

    def forward(self, images):
        return images.mean(dim=(1, 2, 3))[:, None] * self.slope


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "data"
    for key in set(TEST_SETS) - {"objectnet"}:
        write_folders(key, folder, per_class=2)
    write_objectnet(folder, per_class=1)
    return folder


def images_of(root, **options):
    return open_photographs(Benchmark(data="imagenet", data_root=str(root), **options))


def evaluated(root, folder, **options):
    bench = images_of(root, **options)
    return answer_sets(
        Classifier(Brightness(), bench.spec("vit-b-cut")), None, folder, bench, COUNT
    )


def test_a_broken_picture_is_named_with_its_remedy_or_left_out_and_counted(root, tmp_path):
    """The third of `r` that is asked for; what came before it is kept."""
    whole, bench = evaluated(root, tmp_path / "whole"), images_of(root, corrupted="skip")
    seen: dict[int, str] = {}
    for path in sorted((root / "imagenet-r").rglob("[!.]*_*.j*g")):
        content, seen = path.read_bytes(), {}
        path.write_bytes(content[: len(content) // 2])
        list(bench.batches("r", COUNT, COUNT, skipped=seen))
        if 2 in seen:
            break
        path.write_bytes(content)
    name = str(path.relative_to(root / "imagenet-r"))
    assert seen == {2: name}
    with pytest.raises(
        UnreadableImage, match=r"^r: .* cannot be .* unpack it again.*corrupted"
    ) as e:
        evaluated(root, tmp_path / "run")
    assert name in str(e.value)
    kept = {path.stem for path in (tmp_path / "run").iterdir()}
    assert kept == set(TEST_SETS[: TEST_SETS.index("r")])
    for _ in range(2):
        rows = evaluated(root, tmp_path / "run", corrupted="skip")
        assert rows[rows["dataset"] == "r"]["index"].tolist() == [0, 1, 3, 4]
        expected = whole[(whole["dataset"] != "r") | (whole["index"] != 2)]
        pd.testing.assert_frame_equal(rows, expected.reset_index(drop=True))
    assert skipped_images([tmp_path / "run", tmp_path / "run"]) == {"r": [name]}
    assert skipped_images([tmp_path / "whole"]) == {}


@pytest.mark.wrong_types
def test_images_to_show_are_those_seen_best_and_of_photographs_the_first(monkeypatch):
    shown = replace(CUTOUTS.draw("a", range(4)), opacity=torch.tensor([0.2, 0.9, 0.9, 1.0]))
    assert clearest(shown, 3) == [3, 1, 2]
    assert clearest(replace(shown, opacity=None), 9) == [0, 1, 2, 3]
    answers = {"one": [0, 1, 2, 3], "other": [5, 1, 6, 3]}  # on the first and third not the same

    def said(network, spec, batches):
        return pd.DataFrame({"prediction": answers[network]})

    monkeypatch.setattr(measured, "predict", said)
    pick = disagreed({name: name for name in answers}, None, shown, 2)
    assert pick.opacity.tolist() == pytest.approx([0.9, 0.2])
