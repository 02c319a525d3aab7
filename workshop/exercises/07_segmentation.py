# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: how well does a map outline the object?
#
# They go with the notebook `07_segmentation` (RobustViT, Table 3; Beyond Intuition, Table 2). You
# write the numbers by which maps are compared, and see two of them flatter a map that is worth
# nothing. Time: 40 minutes.
#
# Run the cells in order. Where a cell says *your code here*, write yours, run it, and then run the
# check below it: it says what is not right yet.

# %%
import pandas as pd
import torch
from checks import segmentation

from relevit import attribution, evaluate, models, plots
from relevit.config import SegmentationParams
from relevit.data.benchmark import open_benchmark

# %% [markdown]
# A *relevance map* says how much each part of an image speaks for the model's answer. Nobody told
# the model where the animal is. If its map shines there all the same, that is a good sign for the
# model, and for the method that made the map. To measure it, a *mask* is needed, which is 1 on the
# animal and 0 on the background. Images here are drawings, so their masks are exact. Some animals
# are nearly see-through: that is meant, and makes the model's task hard.

# %%
plots.set_style()
cfg = SegmentationParams()
bench = open_benchmark(cfg)
spec = bench.spec(cfg.model)
network = models.load_model(cfg.model).eval()
batch, _ = bench.with_masks(24, size=spec.image_size)
masks, size = batch.masks, batch.images.shape[-2:]
heat = attribution.explain(network, spec.normalise(batch.images))
plots.heatmap_grid(batch.images[:8], [("map", heat[:8]), ("mask", masks[:8].float())])

# %% [markdown]
# ## Exercise 1: predict before you run (5 minutes)
#
# To be compared with the mask, a map is cut: what lies above its own mean is called *object*, all
# else *background*. The share of pixels that get the right name is the **pixel accuracy**.
#
# Take a map that is empty. It is 0 everywhere, knows nothing, and calls every pixel background.
# What is its pixel accuracy?
#
# <details><summary>Hint 1</summary>
#
# On which pixels is the empty map right, and on which is it wrong?
# </details>
# <details><summary>Hint 2</summary>
#
# Look at the masks above. How much of an image does an animal fill?
# </details>

# %%
prediction = None  # pixel accuracy of the empty map, in percent
### BEGIN SOLUTION
prediction = 85
### END SOLUTION

# %% [markdown]
# Write your number above before you run this cell. It measures the empty map, and the model's.

# %%
tried = {"empty map": torch.zeros_like(heat), "the model's map": heat}
measured = {
    name: evaluate.segmentation_scores(evaluate.segmentation_rows(tested, masks))
    for name, tested in tried.items()
}
for name, scores in measured.items():
    print(f"{name:<16} pixel accuracy {scores['pixel_accuracy_pct']:.1f} %")

# %%
segmentation.empty_map(prediction, measured["empty map"]["pixel_accuracy_pct"])

# %% [markdown]
# ## Exercise 2: pixel accuracy and mIoU (15 minutes)
#
# A better number does not let the large background outvote the object. The *intersection over
# union* of the object is
#
# $$\mathrm{IoU} = \frac{\text{pixels that are object in both, the cut map and the mask}}
# {\text{pixels that are object in at least one of them}} .$$
#
# The background has one, too, with the two names exchanged. **mIoU** is the mean of these two.
#
# As in the published code, count over the pixels of *all* images first, and divide once at the end.
# `heat` and `masks` have the shape *batch x 1 x height x width*, and `masks` holds True on the
# object. Each map is cut at its own mean. Return pixel accuracy and mIoU, both in percent.
#
# <details><summary>Hint 1</summary>
#
# `heat.mean(dim=(1, 2, 3), keepdim=True)` has one mean for each map. Compare `heat` with it, and
# you have the cut map, of True and False.
# </details>
# <details><summary>Hint 2</summary>
#
# For True and False, `&` is *both*, `|` is *at least one* and `~` is *not*. `.sum()` counts. The
# background of `found` is `~found`.
# </details>


# %%
def scores(heat, masks):
    """Pixel accuracy and mIoU, both in percent."""
    ### BEGIN SOLUTION
    found = heat > heat.mean(dim=(1, 2, 3), keepdim=True)
    accuracy = (found == masks).float().mean()
    ious = []
    for a, b in ((found, masks), (~found, ~masks)):
        ious.append((a & b).sum() / (a | b).sum())
    return 100 * accuracy, 100 * (ious[0] + ious[1]) / 2
    ### END SOLUTION


# %%
segmentation.scores(scores)

# %% [markdown]
# Yours on three maps: the empty one, the model's, and one that lights up a corner (with a trace of
# noise elsewhere, so that no two pixels are equal). Here are the cut maps, and then the numbers.
# The empty map and the corner have nearly the accuracy of the model's map. Their mIoU gives them
# away: the object's half of it is 0, or close to it.

# %%
draw = torch.Generator().manual_seed(0)
corner = 0.01 * torch.rand(heat.shape, generator=draw, dtype=torch.float64)
corner[..., :14, :14] += 0.99
tried["a corner"] = corner
table = {name: [float(value) for value in scores(tested, masks)] for name, tested in tried.items()}
cuts = {name: (tested > tested.mean(dim=(1, 2, 3), keepdim=True)) for name, tested in tried.items()}
plots.heatmap_grid(batch.images[:8], [(name, found[:8].float()) for name, found in cuts.items()])

# %%
pd.DataFrame(table, index=["pixel accuracy (%)", "mIoU (%)"]).T.round(1)

# %% [markdown]
# ## Exercise 3: average precision (12 minutes)
#
# Why cut at the mean, of all places? **Average precision** (AP) needs no cut. Sort the pixels by
# their relevance, the highest first, and go down the list. At each pixel of the object, note the
# *precision*: which share of the pixels so far belongs to the object. AP is the mean of these
# notes. It is 1 when all of the object comes first.
#
# `values` has one number a pixel, no two of them equal, and `truth` has True on the object. Return
# the AP, from 0 to 1.
#
# <details><summary>Hint 1</summary>
#
# `truth[values.argsort(descending=True)]` is the truth in the order of the list.
# </details>
# <details><summary>Hint 2</summary>
#
# `.cumsum(dim=0)` counts the object's pixels so far; divided by 1, 2, 3, ... (`torch.arange`) that
# is the precision at every place. Keep those places where the truth is True, and take the mean.
# </details>


# %%
def precision(values, truth):
    """Average precision of one list of pixels, from 0 to 1."""
    ### BEGIN SOLUTION
    ordered = truth[values.argsort(descending=True)]
    places = torch.arange(1, len(ordered) + 1)
    at_each = ordered.cumsum(dim=0) / places
    return at_each[ordered].mean()
    ### END SOLUTION


# %%
segmentation.precision(precision)

# %% [markdown]
# The papers' texts describe this number. Their script computes another: it puts a second list of
# pixels below the first, with `1 - map` as the relevance and the background as the truth, and takes
# one AP of both lists together. Here are both, made with your function, the mean over images:


# %%
def both_readings(maps):
    described, published = [], []
    for tested, mask in zip(maps.flatten(1), masks.flatten(1), strict=True):
        described.append(float(precision(tested, mask)))
        both = torch.cat([1 - tested, tested]), torch.cat([~mask, mask])
        published.append(float(precision(*both)))
    return [100 * sum(each) / len(each) for each in (described, published)]


readings = {name: both_readings(tried[name]) for name in ("the model's map", "a corner")}
pd.DataFrame(readings, index=["object alone (described)", "both lists (published)"]).round(1)

# %% [markdown]
# ## Exercise 4: good marks for a corner (8 minutes, with a neighbour)
#
# The map that lights up a corner has found nothing. Of the object alone its AP is no better than
# chance, and yet the published reading gives it some 80 %. Why?
#
# - **a** In some images the object reaches into the corner, and these lift the mean.
# - **b** Most pixels are background, and a map that is dark nearly everywhere gets those right.
# - **c** The published reading cuts the map at its mean, which removes the noise.
#
# <details><summary>Hint 1</summary>
#
# In the list of both, whose pixels come first: those of the map itself, or those of
# `1 - map`? Most of the map is near 0.
# </details>
# <details><summary>Hint 2</summary>
#
# Which share of these first pixels is background, as the second list says? Exercise 1 had the
# number.
# </details>

# %%
answer = None  # "a", "b" or "c"
### BEGIN SOLUTION
answer = "b"
### END SOLUTION

# %%
segmentation.good_marks(answer)
