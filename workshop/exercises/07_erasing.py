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
# # Exercises: erasing
#
# They go with the notebook `07_segmentation` (Beyond Intuition, Table 1; RobustViT, supplement N).
# A relevance map says which patches of an image an answer rests on. Is it true? Take these patches
# away, and see whether the answer falls. Time: 40 minutes.
#
# Run the cells in order. Where a cell says *your code here*, write yours, run it, and then run the
# check below it: it says what is not right yet.

# %%
from dataclasses import replace

import pandas as pd
import torch
from checks import faithfulness

from relevit import evaluate, models, plots
from relevit.attribution import to_heatmap
from relevit.config import SegmentationParams
from relevit.data.benchmark import open_benchmark
from relevit.protocols import options

# %% [markdown]
# Forty images of animals, a model, and two maps of each image: that of GAE, for the model's own
# answer, and one of random numbers, which knows nothing. Patches are counted row by row.

# %%
plots.set_style()
cfg = SegmentationParams()
bench = open_benchmark(cfg)
spec = bench.spec(cfg.model)
network = models.load_model(cfg.model).eval()
batch = bench.draw("val", range(40), size=spec.image_size)
maps = evaluate.shared_maps(network, spec, batch.images, ["gae"])
draw = torch.Generator().manual_seed(0)
maps["random"] = torch.rand(maps["gae"].shape, generator=draw)
size, few = batch.images.shape[-2:], batch.select(range(6))
rows = [(name, to_heatmap(values[:6], size, spec.grid)) for name, values in maps.items()]
plots.heatmap_grid(few.images, rows, bench.names(few.labels.tolist()))

# %% [markdown]
# ## Exercise 1: erase what counts (15 minutes)
#
# Make the most relevant patches of an image black. `image` has the shape *3 x height x width*,
# `relevance` one number a patch, and `share_pct` says how many percent of the patches go, rounded
# down to whole patches. The patches form a square, row by row.
#
# <details><summary>Hint 1</summary>
#
# `relevance.argsort(descending=True)` has the numbers of the patches, the most relevant one first.
# Set a vector of truth values to `True` at the first of them.
# </details>
# <details><summary>Hint 2</summary>
#
# `.reshape(side, side)` makes a grid of the vector. `.repeat_interleave(patch, dim=0)`, and then
# the same with `dim=1`, make of each patch its pixels. Multiply the image by what is *not* hidden.
# </details>


# %%
def erase_most(image, relevance, share_pct):
    """The image with its most relevant patches black; relevance: one number a patch."""
    ### BEGIN SOLUTION
    count = int(len(relevance) * share_pct / 100)
    hidden = torch.zeros(len(relevance), dtype=torch.bool)
    hidden[relevance.argsort(descending=True)[:count]] = True
    side = round(len(relevance) ** 0.5)
    patch = image.shape[-1] // side
    grid = hidden.reshape(side, side)
    return image * ~grid.repeat_interleave(patch, dim=0).repeat_interleave(patch, dim=1)
    ### END SOLUTION


# %%
faithfulness.erase_most(erase_most)

# %% [markdown]
# One image, erased step by step: the most relevant patches first (the *positive* test), the least
# relevant first (the *negative* test, the same function with the sign turned), and by chance.

# %%
shares = [0, 10, 30, 50, 70, 90]
image, relevance = batch.images[0], maps["gae"][0]
orders = {"positive": relevance, "negative": -relevance, "by chance": maps["random"][0]}
rows = [
    (name, torch.stack([erase_most(image, order, share) for share in shares]).to(torch.uint8))
    for name, order in orders.items()
]
plots.image_grid(rows, [[f"{share} %" for share in shares]] * 3)

# %% [markdown]
# ## Exercise 2: how far does it fall? (8 minutes)
#
# On whole images the model is right in 95 of 100 cases, and an animal covers 15 % of its image on
# average. Now 30 % of the patches are black. How often is the model still right, in percent, if
#
# - GAE's most relevant patches went,
# - or as many patches, drawn by chance?
#
# Write two numbers, *before* you run the next cell.
#
# <details><summary>Hint 1</summary>
#
# Look at the column of 30 % above: what would you still recognise?
# </details>
# <details><summary>Hint 2</summary>
#
# There are 40 classes: who guesses is right in 2.5 % of the cases. Where between that and 95 % will
# each one be?
# </details>

# %%
gae_pct, chance_pct = None, None  # right answers at 30 % erased
### BEGIN SOLUTION
gae_pct, chance_pct = 10, 90
### END SOLUTION

# %% [markdown]
# The whole test: each image, both maps, both directions, at five shares.

# %%
erasing = evaluate.Erasing(unit="token", shares_pct=shares[1:])
answers = evaluate.perturb(network, spec, batch, maps, erasing)
curves = pd.concat(
    evaluate.accuracy_curves(rows).assign(method=name) for name, rows in answers.groupby("method")
)
plots.perturbation_curves(curves, f"{cfg.model}, {len(batch)} images")

# %%
faithfulness.fall((gae_pct, chance_pct), curves, share_pct=30)

# %% [markdown]
# ## Exercise 3: one number for a curve (7 minutes)
#
# The papers' tables hold the *area under the curve* (AUC). Join the points by straight lines, and
# take the area below, divided by 100: then a model that is always right has about 100 %. The first
# point is the whole image. The published code adds a last one: at 100 % erased the accuracy is 0.
#
# Shares rise from 0 and need not be evenly spaced. The result is one number, in percent.
#
# <details><summary>Hint 1</summary>
#
# `[*shares_pct, 100]` is a new list with one number more.
# </details>
# <details><summary>Hint 2</summary>
#
# Between two points lies a trapezoid. Its area is its width times the mean of its two heights.
# </details>


# %%
def area(shares_pct, accuracy_pct):
    """Area under the curve in percent; both are lists of numbers, and the shares begin with 0."""
    ### BEGIN SOLUTION
    shares, heights = [*shares_pct, 100], [*accuracy_pct, 0]
    total = 0
    for i in range(len(shares) - 1):
        total += (shares[i + 1] - shares[i]) * (heights[i] + heights[i + 1]) / 2
    return total / 100
    ### END SOLUTION


# %%
faithfulness.area(area)

# %% [markdown]
# The areas of the four curves above, with the library's beside them. GAE is faithful where it lies
# *below* the random map in the positive test, and *above* it in the negative one.

# %%
rule = options("published", "auc_weights")
for (name, direction), rows in answers.groupby(["method", "direction"]):
    points = evaluate.accuracy_curves(rows)
    yours = area(points["share_pct"].tolist(), points["accuracy_pct"].tolist())
    (library,) = evaluate.auc_table(rows, **rule)["auc_pct"]
    print(f"{name:<7} {direction}   yours {yours:.1f}   library {library:.1f}")

# %% [markdown]
# ## Exercise 4: what is black to the model? (10 minutes, with a neighbour)
#
# Here the random map erases once more: the same patches, once in black, once in the mean colour of
# the pictures on which the model was pretrained, a grey.

# %%
only = {"random": maps["random"]}
in_grey = replace(erasing, fill="mean", directions=["positive"])
grey = evaluate.perturb(network, spec, batch, only, in_grey)
black = answers[(answers["method"] == "random") & (answers["direction"] == "positive")]
both = {"black": black, "grey": grey}
table = {
    name: evaluate.accuracy_curves(rows)["accuracy_pct"].tolist() for name, rows in both.items()
}
table = pd.DataFrame(table, index=[f"{share} %" for share in shares]).T
areas = [evaluate.auc_table(rows, **rule)["auc_pct"].item() for rows in both.values()]
table.assign(AUC=areas).round(1)

# %% [markdown]
# The two rows differ. Why?
#
# - **a** Other patches were erased: a random map is another one each time.
# - **b** Black lets more of the picture through than grey.
# - **c** The model has never seen pictures with such patches, and makes something of the patches
#   themselves.
#
# <details><summary>Hint 1</summary>
#
# Are the maps the same? Are the patches the same? What is left?
# </details>
# <details><summary>Hint 2</summary>
#
# What might a model that learned from whole pictures take a grey square for, and what a black one?
# </details>

# %%
answer = None  # "a", "b" or "c"
### BEGIN SOLUTION
answer = "c"
### END SOLUTION

# %%
faithfulness.colour(answer)

# %% [markdown]
# So an accuracy that falls does not prove that a map is right. What counts is the distance to the
# random map's curve, erased in the same way: `07_segmentation` compares all methods like this.
