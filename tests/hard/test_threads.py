"""Which results are equal to the bit on one core and on two, and which only nearly.

docs/library.md has both lists in words. The same number of threads gives the same bits each time.
"""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from habitats.corruptions import blur, jigsaw
from habitats.homes import habitats
from relevit.attribution import METHODS, explain_all, patch_grid, to_heatmap
from relevit.data.batch import Batch
from relevit.evaluate.intervals import mean_interval
from relevit.evaluate.perturbation import Judged, perturbation_rows
from relevit.evaluate.predictions import predict
from relevit.evaluate.segmentation import segmentation_rows
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import make_optimizer, step_losses
from relevit.iav import class_attention, ia_scores
from relevit.masks import tokencut
from relevit.masks.token_cut import key_features
from relevit.models import load_model, model_spec

MODEL, SIZE, COUNT, STEPS = "tiny", 112, 3, 3
# Drawn, counted or decided. All else has sums of floating-point numbers, which threads divide.
EQUAL = {
    *("images", "masks", "labels", "blurred", "jigsaw", "interval", "automatic masks"),
    *("answers", "erased answers", "pixels found"),
}
NEAR = 1.0e-5  # of the largest number of a result; seen: at most 4e-7
# AdamW divides a gradient by its own size, also where that is rounding alone.
ALIKE = 0.02  # of the length of the way that the weights have gone


def results() -> dict[str, Tensor]:
    """One of each kind, small."""
    model, spec = load_model(MODEL).eval(), model_spec(MODEL)
    drawn = habitats().draw("a", range(COUNT), size=SIZE)
    images = spec.normalise(drawn.images)
    found = {"images": drawn.images, "masks": drawn.masks, "labels": drawn.labels}
    found |= {"blurred": blur(drawn.images, 2.0), "jigsaw": jigsaw(drawn.images, 4, 3)}

    answers = predict(model, spec, [drawn])
    found["answers"] = torch.tensor(answers["prediction"].to_numpy())
    found["logits"] = model(images).detach()
    found["interval"] = torch.tensor(mean_interval(torch.arange(40.0)))

    maps = explain_all(model, images, drawn.labels, METHODS)
    found |= maps
    grid = patch_grid(model, images)
    rows = segmentation_rows(to_heatmap(maps["gae"], (SIZE, SIZE), grid), drawn.masks)
    found["pixels found"] = torch.tensor(rows["correct"].to_numpy())
    found["average precision"] = torch.tensor(rows["ap_pct"].to_numpy())
    tested = [Judged(drawn.images, maps["gae"], drawn.labels)]
    erased = perturbation_rows(model, spec.normalise, tested, grid)
    found["erased answers"] = torch.tensor(erased["hit"].to_numpy())
    found["scores of heads"] = ia_scores(class_attention(model, images), maps["smoothgrad"])

    found["automatic masks"] = tokencut(key_features(model, images), grid).mask
    found["weights"] = finetuned(model, images, drawn)
    return found


def finetuned(model: torch.nn.Module, images: Tensor, drawn: Batch) -> Tensor:
    settings = FinetuneSettings(lr=5.0e-6)
    optimizer = make_optimizer(model, settings)
    before = [value.detach().clone() for value in model.parameters()]
    for _ in range(STEPS):
        optimizer.zero_grad()
        step_losses(model, images, drawn.masks.float(), drawn.labels, settings).total.backward()
        optimizer.step()
    moved = [now - then for now, then in zip(model.parameters(), before, strict=True)]
    return torch.cat([value.detach().flatten() for value in moved])


@pytest.fixture(scope="module")
def found() -> Iterator[list[dict[str, np.ndarray]]]:
    """What is found with one thread, with two, and with two again."""
    before, all_found = torch.get_num_threads(), []
    for threads in (1, 2, 2):
        torch.set_num_threads(threads)
        all_found.append({name: value.numpy() for name, value in results().items()})
    yield all_found
    torch.set_num_threads(before)


def test_same_number_of_threads_gives_the_same_bits(found):
    _, two, again = found
    assert [name for name in two if two[name].tobytes() != again[name].tobytes()] == []


def test_one_thread_and_two_give_the_same_but_for_rounding(found):
    one, two, _ = found
    assert set(METHODS) | EQUAL < set(one)
    assert [name for name in EQUAL if one[name].tobytes() != two[name].tobytes()] == []
    for name in set(one) - EQUAL:
        apart = difference(one[name], two[name], whole=name == "weights")
        assert apart <= (ALIKE if name == "weights" else NEAR), (name, apart)


def difference(one: np.ndarray, two: np.ndarray, *, whole: bool) -> float:
    """Relative: of the largest number, or of the length of the whole. NaN must be where NaN is."""
    np.testing.assert_array_equal(np.isnan(one), np.isnan(two))
    one, two = np.nan_to_num(one), np.nan_to_num(two)
    size = np.linalg.norm if whole else lambda values: np.abs(values).max()
    return float(size(one - two) / size(one))
