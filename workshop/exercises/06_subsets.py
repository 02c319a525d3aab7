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
# # Exercises: which few pixels make the model sure?
#
# They go with the notebook `06_attribution` (RobustViT, App. A, Fig. 5). You take pixels away from
# an image until almost none is left, and the model still names an animal with confidence: the right
# one, and then one that is not there. Time: 30 minutes.
#
# Run the cells in order. Where a cell says *your code here*, write yours, run it, and then run the
# check below it: it says what is not right yet.

# %%
import torch
from checks import sis

from relevit import models, plots
from relevit.config import AttributionParams
from relevit.data.benchmark import open_benchmark
from relevit.evaluate.sis import gradient_sis

# %% [markdown]
# Three images, and a model that names their animals. Its **confidence** is the share, in percent,
# that it gives to a name; the 40 names it knows share 100 %.

# %%
plots.set_style()
cfg = AttributionParams()
bench = open_benchmark(cfg)
spec = bench.spec(cfg.model)
network = models.load_model(cfg.model).eval().requires_grad_(False)
batch = bench.draw("val", [119, 43, 104], size=spec.image_size)
pixels = spec.normalise(batch.images)
sure_pct, answers = (100 * network(pixels).softmax(dim=1)).max(dim=1)
own = [f"{n} {s:.0f} %" for n, s in zip(bench.names(answers.tolist()), sure_pct, strict=True)]
plots.image_grid([("whole", batch.images)], [own])

# %% [markdown]
# ## Exercise 1: how few pixels are enough? (5 minutes)
#
# Make pixels of these images grey, one after the other, wherever you like. How many must stay in
# view, in percent, so that the model is still at least 90 % sure of the animal? The animals cover
# 7 to 16 % of their images. Write down a number, the mean of the three, before you run on. There
# is no wrong one.
#
# <details><summary>Hint 1</summary>
#
# The pixels that stay need not lie side by side, and need not lie on the animal.
# </details>
# <details><summary>Hint 2</summary>
#
# Nobody asks whether *you* would know the animal. Only the model must.
# </details>

# %%
prediction = None  # percent of the pixels, 0 to 100
### BEGIN SOLUTION
prediction = 25
### END SOLUTION

# %% [markdown]
# Such a set of pixels is called a **sufficient input subset**. The library looks for a small one
# (this takes some seconds). Look for the animals in what is left.


# %%
def show(name, found, label):
    """The whole images, and below them what a model sees of them in the subsets."""
    seen = spec.denormalise(pixels * found.mask)
    both = zip(found.confidence_pct, found.kept_pct, strict=True)
    kept = [f"{label} {sure:.0f} %\n{share:.0f} % of the pixels" for sure, share in both]
    whole = spec.denormalise(pixels)
    return plots.image_grid([("whole", whole), (name, seen)], [own, kept])


found = gradient_sis(network, pixels, answers, per_step=cfg.per_step)
show("enough", found, "sure")

# %%
sis.own_subset(prediction, found.kept_pct)

# %% [markdown]
# ## Exercise 2: one step of the search (10 minutes)
#
# Go backwards: start with all pixels and remove, step by step, those that the class needs least.
# The gradient tells which these are. `slope[i]` says how much surer the model would be with more
# of pixel `i`; a *negative* slope speaks against the class.
#
# Write one step. `kept` has a 1 for each pixel in view and a 0 for each that is gone, `slope` one
# number a pixel. Return a new `kept`, in which `count` more pixels are gone: those in view that
# have the least slope.
#
# <details><summary>Hint 1</summary>
#
# A pixel that is gone cannot go again. Give it a slope that is never the least:
# `slope.masked_fill(kept == 0, torch.inf)`.
# </details>
# <details><summary>Hint 2</summary>
#
# `x.argsort()` gives the places of the numbers in order, the least first. Work on `kept.clone()`.
# </details>


# %%
def erase(kept, slope, count):
    """What is kept when `count` pixels in view are removed, those with the least slope."""
    ### BEGIN SOLUTION
    in_view = slope.masked_fill(kept == 0, torch.inf)
    kept = kept.clone()
    kept[in_view.argsort()[:count]] = 0
    return kept
    ### END SOLUTION


# %%
sis.step(erase)

# %% [markdown]
# Your step on the first image, 500 pixels at a time. And now for a name that is **wrong**: *lady
# beetle*. The gradient of its confidence decides what goes.


# %%
def look(kept):
    """Confidence in percent when only the pixels of `kept` are seen, and the slope of its log."""
    kept = kept.clone().requires_grad_()
    log_share = network(pixels[:1] * kept.view_as(pixels[0, 0])).log_softmax(dim=1)[0, wrong]
    return 100 * log_share.exp().item(), torch.autograd.grad(log_share, kept)[0]


wrong = bench.classes.index("lady-beetle")
kept, path, views = torch.ones(pixels[0, 0].numel()), [], []
for _ in range(0, len(kept), cfg.per_step):
    sure, slope = look(kept)
    path.append(sure)
    views.append(kept)
    kept = erase(kept, slope, cfg.per_step).float()  # also of True and False
seen = spec.denormalise(pixels[:1] * torch.stack(views).view(-1, 1, *pixels.shape[2:]))
titles = [f"step {number}\n{path[number]:.1f} %" for number in range(0, len(path), 5)]
plots.image_grid([("lady beetle?", seen[::5])], [titles])

# %% [markdown]
# ## Exercise 3: where to stop? (10 minutes)
#
# You now have the confidence at each step: `path_pct[0]` is that of the whole image, and at each
# step fewer pixels are left. It does not just fall; it goes up and down. Write what finds the
# smallest sufficient subset on the path: the number of the **last** step at which the confidence is
# at least `threshold_pct`. Where it never is, return the step at which it is highest.
#
# <details><summary>Hint 1</summary>
#
# `path_pct >= threshold_pct` says of each step whether it is sure, and `.nonzero()` gives their
# numbers.
# </details>
# <details><summary>Hint 2</summary>
#
# Ask first whether any step is sure: `.any()`. If none is, `.argmax()` is the answer.
# </details>


# %%
def smallest(path_pct, threshold_pct):
    """Number of the step with the smallest sufficient subset; path_pct: one number a step."""
    ### BEGIN SOLUTION
    sure = path_pct >= threshold_pct
    if not sure.any():
        return path_pct.argmax()
    return sure.nonzero().max()
    ### END SOLUTION


# %%
sis.stop(smallest)

# %% [markdown]
# Your own search is complete. Here is what it has found, and then what the library finds for all
# three images. (Rounding may lead the two along different paths.)

# %%
number = int(smallest(torch.tensor(path), cfg.confidence_pct))
share = 100 * views[number].mean()
print(f"yours, step {number}: lady beetle {path[number]:.1f} %, {share:.0f} % of the pixels")
labels = torch.full_like(answers, wrong)
found = gradient_sis(network, pixels, labels, per_step=cfg.per_step)
show("subset", found, "lady beetle")

# %% [markdown]
# The same search with larger pieces: not single pixels, but squares of 4 x 4, as many pixels in a
# step as before. The confidence in *lady beetle* along the paths, one line an image:

# %%
squares = gradient_sis(network, pixels, labels, side=4, per_step=cfg.per_step // 16)
paths = {"single pixels": found, "squares of 4 x 4": squares}
plots.confidence_paths(paths, cfg.confidence_pct)

# %% [markdown]
# ## Exercise 4: sure of what? (5 minutes, with a neighbour)
#
# On the whole images the model gave the lady beetle less than 0.01 %. Of some pixels of the same
# images it is 90 % sure that they show one. What does that mean?
#
# - **a** Something in these images looks like a lady beetle, and the subset has found it.
# - **b** The confidence says which name fits best to what is left, and not that it fits well.
# - **c** The model is not trained well enough.
#
# <details><summary>Hint 1</summary>
#
# Compare the two panels. What would you expect of the right one if there were a beetle's shell, or
# a leg?
# </details>
# <details><summary>Hint 2</summary>
#
# The 40 confidences always add up to 100 %. How sure is a model that is shown noise?
# </details>

# %%
answer = None  # "a", "b" or "c"
### BEGIN SOLUTION
answer = "b"
### END SOLUTION

# %%
sis.sure(answer)

# %% [markdown]
# **What to take home.** A model's confidence is a claim about its 40 names, and not about the
# world. An explanation that shows *enough for the model* need not show *a reason*.
