"""Where the original looks: single images of several sets in order, and the table of whole sets."""

import pandas as pd
import pytest
import torch

from habitats.homes import habitats
from relevit.evaluate.looking import look
from reproduction.measures import first_looks

from ..micro_finetuning import SPEC, micro_model


@pytest.fixture(scope="module")
def model():
    return micro_model().eval()


def test_answers_are_drawn_again_and_looked_at_by_set(model):
    bench = habitats()
    answers = pd.DataFrame({"dataset": ["r", "a", "r"], "index": [3, 7, 1]})
    batch, seen = first_looks.look_at_answers(answers, bench, model, SPEC)
    parts = [bench.draw("r", [3, 1], size=SPEC.image_size)]
    parts.append(bench.draw("a", [7], size=SPEC.image_size))
    assert torch.equal(batch.images, torch.cat([part.images for part in parts]))
    alone = [look(model, SPEC, part, bench.classes) for part in parts]
    assert seen.titles == [title for one in alone for title in one.titles]
    assert torch.equal(seen.on_object_pct, torch.cat([one.on_object_pct for one in alone]))
    shares = torch.tensor([30.0, torch.nan, 10.0])
    least = first_looks.least_on_object(seen.__class__(**vars(seen) | {"on_object_pct": shares}), 3)
    assert least == [2, 0, 1], "one without a mask comes last"


def test_sure_answers_to_sets_like_training_have_a_row_of_their_own(model):
    looks = first_looks.look_at_sets(["val", "a"], 3, habitats(), model, SPEC)
    assert looks["dataset"].tolist() == ["val"] * 3 + ["a"] * 3
    looks["confidence_pct"] = [95.0, 91.0, 90.0, 99.0, 99.0, 99.0]
    looks["on_object_pct"] = [40.0, 60.0, 10.0, 0.0, 0.0, 90.0]
    table = first_looks.look_table(looks)
    assert table["images"].to_dict() == {"val": 3, "a": 3, "val, if sure": 2}
    off = table["most of it off the object, % of images"]
    assert off.tolist() == pytest.approx([200 / 3, 200 / 3, 50])
