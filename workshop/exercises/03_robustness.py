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
# # Exercises: with and without
#
# They go with the notebook `03_robustness`. You measure how much a model leans
# on the background, compare answers image by image, and find out why a change alone proves
# nothing. No model is trained here. Time: 35 minutes.
#
# Run the cells in order. Where a cell says *your code here*, write yours, run it, and then run the
# check below it: it says what is not right yet.

# %%
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from checks import controls

from relevit import models, plots
from relevit.config import RobustnessParams
from relevit.data.benchmark import open_benchmark
from relevit.evaluate.paired import paired_change
from relevit.evaluate.predictions import Classifier

# %% [markdown]
# The model knows forty animals. Each has a *home*, a texture with things on it, and in 95 of 100
# training images it was at home. Below are the same animals twice, in the same pose: at home
# (`mixed_same`), and in a home that was drawn by lot (`mixed_random`).

# %%
plots.set_style()
cfg = RobustnessParams()
bench = open_benchmark(cfg)
spec = bench.spec(cfg.model)
classifier = Classifier(models.load_model(cfg.model).eval(), spec)
COUNT = 80  # images of a set

homes = {
    title: bench.draw(name, range(COUNT), size=spec.image_size)
    for title, name in (("at home", "mixed_same"), ("elsewhere", "mixed_random"))
}
shown = range(1, COUNT, 11)
names = bench.names(homes["at home"].labels[shown].tolist())
plots.image_grid([(title, batch.images[shown]) for title, batch in homes.items()], [names, names])

# %% [markdown]
# ## Exercise 1: predict before you run (5 minutes)
#
# At home the model is right on nearly all of these animals. On how many of 100 is it right
# elsewhere?
#
# <details><summary>Hint 1</summary>
#
# Could you name the animals in the lower row? Now imagine that you had learned them from pictures
# in which the background gave the answer away.
# </details>
# <details><summary>Hint 2</summary>
#
# Five animals share each home, so the home alone leaves a choice of five. Who relied on it is lost
# elsewhere; who knew the animal is not. The truth is some mixture of both.
# </details>

# %%
prediction = None  # percent of the animals, elsewhere
### BEGIN SOLUTION
prediction = 50
### END SOLUTION

# %% [markdown]
# Write your number above before you run this cell. It asks the model; titles are its answers.

# %%
told = {title: classifier.predict(batch.split(COUNT)) for title, batch in homes.items()}
right_pct = {t: 100 * float((rows["label_rank"] == 0).mean()) for t, rows in told.items()}
titles = [bench.names(rows["prediction"].iloc[list(shown)]) for rows in told.values()]
print({title: f"{value:.1f} % right" for title, value in right_pct.items()})
plots.image_grid([(title, batch.images[shown]) for title, batch in homes.items()], titles)

# %%
controls.elsewhere(prediction, right_pct["elsewhere"])

# %% [markdown]
# The difference of the two is the **background gap**. The animals are the same, down to their
# pose, so nothing but the home can have made it. That is why it says more than the accuracy on a
# hard set, where many things differ at once.
#
# ## A treatment, and its twin
#
# RobustViT treats a model that leans on the background by finetuning, which takes minutes. Here is
# a treatment that takes a second: darken all of the image but the object.
#
# It has a twin. There the same mask is moved to a place drawn by lot, and wraps around at the
# borders. The twin's pictures are as dark and as odd, and only one thing is missing: the knowledge
# where the object is. Such a twin is called a **control**. In `03_robustness` it is a finetuning on
# the same images, with as many steps, and the weight of the relevance terms at 0.

# %%
draw = torch.Generator().manual_seed(0)
places = torch.randint(spec.image_size, (COUNT, 2), generator=draw).tolist()
parts = []
for name in ("a", "objectnet", "si_size"):
    batch = bench.draw(name, range(COUNT), size=spec.image_size)
    moved = [mask.roll(by, dims=(1, 2)) for mask, by in zip(batch.masks, places, strict=True)]
    arms = {
        "original": batch.images,
        "with": plots.cut_out(batch.images, batch.masks),
        "without": plots.cut_out(batch.images, torch.stack(moved)),
    }
    for arm, images in arms.items():
        found = classifier.predict(replace(batch, images=images).split(COUNT))
        rows = {"dataset": name, "index": range(COUNT), "arm": arm}
        parts.append(pd.DataFrame(rows | {"right": found["label_rank"] == 0}))
answers = pd.concat(parts, ignore_index=True)
plots.image_grid([(arm, images[shown]) for arm, images in arms.items()])

# %% [markdown]
# Of these answers, one row an image and arm, the first ones:

# %%
answers.head(3)

# %% [markdown]
# ## Exercise 2: a change and its error (12 minutes)
#
# Two arms have answered the same images. By how much did the share of right answers change, and
# how sure is that number? Other images of the same kind would give another one; how far off it may
# be is told by its **standard error**.
#
# Because the images are the same, subtract first, image by image: each is won (1), lost (-1) or
# unchanged (0). The change is the mean of these differences. Its standard error is their standard
# deviation, divided by the square root of their number.
#
# `before` and `after` hold 1 for a right answer and 0 for a wrong one, the same images in the same
# order. Return both numbers in points, that is, in hundredths.
#
# <details><summary>Hint 1</summary>
#
# `after - before` has one number an image. All that you need comes from it alone.
# </details>
# <details><summary>Hint 2</summary>
#
# `difference.std(ddof=1)` is the standard deviation, `np.sqrt(len(difference))` the root. Both
# results times 100.
# </details>


# %%
def change(before, after):
    """Change of the accuracy and its standard error, both in points."""
    ### BEGIN SOLUTION
    difference = 100 * (after - before)
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    return difference.mean(), error
    ### END SOLUTION


# %%
controls.change(change)

# %% [markdown]
# Now for the answers from above. The last column is the error that you would get if the two arms
# had answered *different* images: then you could not subtract image by image, and each arm would
# add its own luck. Paired, an image that both find easy or both find hard says nothing and does no
# harm.

# %%
wide = answers.pivot(index=["dataset", "index"], columns="arm", values="right").astype(float)
table = {}
for arm in ("with", "without"):
    for name, rows in wide.groupby(level="dataset"):
        points, error = change(rows["original"].to_numpy(), rows[arm].to_numpy())
        alone = 100 * np.hypot(rows["original"].sem(), rows[arm].sem())
        table[arm, name] = {"change": points, "error, paired": error, "not paired": alone}
pd.DataFrame(table).T.round(1)

# %% [markdown]
# ## Exercise 3: what knowing the object adds (10 minutes)
#
# What the treatment *adds* is a difference of two differences: the change with it, minus the change
# of its twin without it. The original stands in both and drops out.
#
# Take a table such as `answers` above, and return one number in points. Each set counts the same,
# however many images it has: first the accuracy of every set and arm, then the differences, then
# their mean over the sets.
#
# <details><summary>Hint 1</summary>
#
# `table.groupby(["dataset", "arm"])["right"].mean()` has the accuracies, and `.unstack("arm")` puts
# the arms side by side.
# </details>
# <details><summary>Hint 2</summary>
#
# With one column an arm, `top1["with"] - top1["without"]` has one number a set. Its mean, times
# 100, is what you want.
# </details>


# %%
def added(table):
    """What the treatment adds, in points; columns: dataset, index, arm, right."""
    ### BEGIN SOLUTION
    top1 = 100 * table.groupby(["dataset", "arm"])["right"].mean().unstack("arm")
    with_it = top1["with"] - top1["original"]
    without_it = top1["without"] - top1["original"]
    return (with_it - without_it).mean()
    ### END SOLUTION


# %%
controls.added(added)

# %% [markdown]
# The library has the same with intervals: 95 of 100 such intervals hold the true value. Compare
# the first row with the last.

# %%
arms = {arm: rows.assign(seed=0, in_a=True) for arm, rows in answers.groupby("arm")}
pairs = {
    "with, since the original": ("with", "original"),
    "without, since the original": ("without", "original"),
    "what it adds": ("with", "without"),
}
sets = list(answers["dataset"].unique())
summary = pd.DataFrame(
    {row: paired_change(arms[a], arms[b], sets).loc["all"] for row, (a, b) in pairs.items()}
).T
print(f"yours: {added(answers):.1f} points")
summary[["change_pts", "low_pts", "high_pts"]].astype(float).round(1)

# %% [markdown]
# Darkness at any place does harm: such pictures are odd, and the object is often in the dark.
# Darkness off the object does hardly any. So the treatment seems to do nothing, and only beside its
# twin one sees what knowing the place is worth. The twin also says what is asked: one that darkens
# the whole image evenly would answer another question.

# %% [markdown]
# ## Exercise 4: "it does nothing" (8 minutes, with a neighbour)
#
# A group finetunes with the paper's terms and weights, and tests on seven shifted sets. The mean
# change since the original is +0.8 points. They write: *relevance terms do next to nothing.* But
# their control, finetuned without these terms, stands at -10.3 points. (These are the numbers of
# `docs/context.md`, for five seeds.) What is wrong with their sentence?
#
# - **a** It lacks an interval: +0.8 may be chance.
# - **b** The original is no control: images and steps have changed the model, too.
# - **c** The original was tested on other images than the finetuned models.
#
# <details><summary>Hint 1</summary>
#
# What happened to the finetuned model that did not happen to the original? List all of it.
# </details>
# <details><summary>Hint 2</summary>
#
# Which of these happened to the control as well? What is left is the relevance terms.
# </details>

# %%
answer = None  # "a", "b" or "c"
### BEGIN SOLUTION
answer = "b"
### END SOLUTION

# %%
controls.no_control(answer)
