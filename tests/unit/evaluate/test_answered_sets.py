"""The nine sets: what is computed, what is kept, and what an interruption leaves."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit.data import cutouts
from relevit.evaluate.predictions import Classifier
from relevit.evaluate.sets import evaluate_sets
from relevit.models.loading import ModelSpec

from .test_predictions import LOGITS, PLAIN, Table


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


def sets(folder, identity="one", **options):
    arguments = {"images_per_set": 2, "identity": identity} | options
    return evaluate_sets(Classifier(Table(LOGITS), PLAIN), folder, **arguments)


def test_each_set_has_its_rows_and_its_file(calls, tmp_path):
    seen = []
    rows = sets(tmp_path / "new" / "folder", on_set=seen.append)
    assert len(calls) == 9 and seen == list(cutouts.TEST_SETS)
    assert rows["dataset"].tolist() == [name for name in cutouts.TEST_SETS for _ in range(2)]
    names = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert names == {f"{name}.parquet" for name in cutouts.TEST_SETS}


def test_finished_sets_are_read(calls, tmp_path):
    first = sets(tmp_path)
    seen = []
    again = sets(tmp_path, on_set=seen.append)
    assert len(calls) == 9 and seen == list(cutouts.TEST_SETS)
    pd.testing.assert_frame_equal(again, first)


def test_interrupted_evaluation_goes_on_where_it_stopped(calls, tmp_path):
    def interrupt(name):
        if name == cutouts.TEST_SETS[2]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sets(tmp_path, on_set=interrupt)
    assert len(calls) == 3
    rows = sets(tmp_path)
    assert len(calls) == 9
    assert rows["label_rank"].tolist()[1::2] == list(range(1, 10))


def test_stopped_while_a_file_is_written(calls, tmp_path, monkeypatch):
    def half(self, path, **options):
        path.write_bytes(b"half a file")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pd.DataFrame, "to_parquet", half)
        with pytest.raises(KeyboardInterrupt):
            sets(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(sets(tmp_path)) == 18


def test_another_identity_is_computed_anew(calls, tmp_path):
    sets(tmp_path)
    other = sets(tmp_path, identity="two")
    assert len(calls) == 18 and other["label_rank"].max() == 18
    sets(tmp_path, identity="two")
    assert len(calls) == 18
    sets(tmp_path)
    assert len(calls) == 27


def test_damaged_file_is_computed_anew(calls, tmp_path):
    sets(tmp_path)
    damaged = tmp_path / f"{cutouts.TEST_SETS[3]}.parquet"
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert len(sets(tmp_path)) == 18 and len(calls) == 10


def test_sets_are_drawn_as_asked(tmp_path):
    model = Table([[float(label == answer) for label in range(40)] for answer in range(256)])
    spec = ModelSpec("stub", "none", 16, mean=(0.0,) * 3, std=(1 / 255,) * 3)
    classifier = Classifier(model, spec)
    rows = evaluate_sets(classifier, tmp_path, images_per_set=3, identity="", seed=5)
    for name, part in rows.groupby("dataset"):
        shown = cutouts.draw(name, range(3), seed=5, size=16)
        assert part["label"].tolist() == shown.labels.tolist()
        assert part["family"].tolist() == shown.families.tolist()
        expected = [v if v < 40 else 0 for v in shown.images[:, 0, 0, 0].tolist()]
        assert part["prediction"].tolist() == expected


def test_sets_without_a_readable_image_are_an_error(tmp_path):
    def nothing(name, count, batch_size, *, skipped, **options):
        skipped[0] = "a/b.jpg"
        return iter([])

    with pytest.raises(ValueError, match="evaluate: no images to classify; give at least one"):
        sets(tmp_path, draw=nothing)
