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
# # Exercises: attribution
#
# They go with the notebook `06_attribution` (Beyond Intuition, Sec. 2 and 3). A *relevance map*
# says which patches of an image an answer rests on. You write two such maps, and ask whether they
# follow the class. Time: 40 minutes.
#
# Run the cells in order. Where a cell says *your code here*, write yours, run it, and then run the
# check below it: it says what is not right yet.

# %%
import torch
from checks import attribution

from relevit import evaluate, models, plots
from relevit.attention.recording import record_attention
from relevit.attribution import METHODS, to_heatmap
from relevit.config import AttributionParams
from relevit.data.benchmark import open_benchmark
from relevit.data.pairs import draw_pairs

# %% [markdown]
# Twenty images with two animals each. The model has learned these animals one at a time, so two of
# them are new to it; a map can be asked for any class all the same.

# %%
plots.set_style()
cfg = AttributionParams()
bench = open_benchmark(cfg)
spec = bench.spec(cfg.model)
network = models.load_model(cfg.model).eval()
duo = draw_pairs(20, seed=cfg.seed, size=spec.image_size)
pixels, shown = spec.normalise(duo.images), duo.images[:5]
titles = ["\nand ".join(bench.names(labels)) for labels in duo.labels[:5].tolist()]
plots.image_grid([("image", shown)], [titles])

# %% [markdown]
# ## Exercise 1: attention rollout (12 minutes)
#
# In each block a token takes from the others as its attention says, and keeps itself besides. Let
# $A_l$ be the attention of block $l$, averaged over heads. Half of the new token is the old one:
#
# $$R \leftarrow I, \qquad R \leftarrow \tfrac12 (A_l + I)\, R \quad \text{for } l = 1 \dots L .$$
#
# Row $i$ of $R$ then says what token $i$ is made of. The map is the row of the class token (token
# 0), over the patches (tokens 1 and up). Write it for one image: the input has the shape
# *layers x heads x tokens x tokens*, the result has one number a patch.
#
# <details><summary>Hint 1</summary>
#
# `attention[l].mean(dim=0)` is the map of a block, and `torch.eye(tokens)` the identity.
# </details>
# <details><summary>Hint 2</summary>
#
# `@` multiplies matrices. The later block stands on the left of what is there already.
# </details>


# %%
def roll_out(attention):
    """What the class token is made of; attention: layers x heads x tokens x tokens."""
    ### BEGIN SOLUTION
    identity = torch.eye(attention.shape[-1], dtype=attention.dtype)
    made_of = identity
    for block in attention:
        mixed = (block.mean(dim=0) + identity) / 2
        made_of = mixed @ made_of
    return made_of[0, 1:]
    ### END SOLUTION


# %%
attribution.rollout(roll_out)

# %% [markdown]
# Now on a real model, with the library's map below yours: they should be equal. Both begin with the
# second block, as the published code does (difference C15): the first one's bright spots lie
# anywhere.

# %%
with torch.no_grad(), record_attention(network) as tape:
    network(pixels[:5])
attention = torch.stack(tape.maps)  # layers x images x heads x tokens x tokens
yours = torch.stack([roll_out(attention[1:, i]) for i in range(5)])
library = METHODS["rollout"](network, pixels[:5], start_block=2)
size = duo.images.shape[-2:]
rows = [("yours", yours), ("library", library)]
plots.heatmap_grid(shown, [(name, to_heatmap(row, size, spec.grid)) for name, row in rows], titles)

# %% [markdown]
# ## Exercise 2: which animal does a map point at? (8 minutes)
#
# Each image is explained twice: once for its first animal, once for its second. A map *points*
# where it is highest. It is right if that place is nearer to the animal that was asked for than to
# the other one.
#
# Two methods play: rollout, as you wrote it, and GAE, which weighs attention by the gradient of the
# class's logit. Of the 40 maps of each, how many percent are right? Write two numbers, *before* you
# run the next cell.
#
# <details><summary>Hint 1</summary>
#
# How would a coin do, thrown for each map?
# </details>
# <details><summary>Hint 2</summary>
#
# Look at the input of your `roll_out`. Does the class's name occur in it?
# </details>

# %%
rollout_pct, gae_pct = None, None  # of 40 maps each
### BEGIN SOLUTION
rollout_pct, gae_pct = 50, 75
### END SOLUTION

# %% [markdown]
# The game, for all twenty images, and the maps of the first five.

# %%
maps = {
    name: torch.stack([METHODS[name](network, pixels, asked) for asked in duo.labels.T], dim=1)
    for name in ("rollout", "gae")
}
two_objects = evaluate.pointing_table(duo, maps, spec.grid)
two_objects.round(1)

# %%
rows = [
    (f"{name},\n{which} animal", to_heatmap(maps[name][:5, i], size, spec.grid))
    for name in maps
    for i, which in enumerate(("first", "second"))
]
plots.heatmap_grid(shown, rows, titles)

# %%
attribution.pointing((rollout_pct, gae_pct), two_objects)

# %% [markdown]
# Twenty images are few: `low_pct` and `high_pct` say how far a share may be off by chance.

# %% [markdown]
# ## Exercise 3: one map for all classes (5 minutes, with a neighbour)
#
# Rollout gave the same map for both animals. So does *raw attention*, the last block's map as it
# is. Why?
#
# - **a** Each row of attention sums to 1, so the two animals must share it.
# - **b** The class is chosen only in the head, behind the last block.
# - **c** The mean over heads mixes those that look at one animal with those that look at the other.
#
# <details><summary>Hint 1</summary>
#
# Follow an image through the model. Where do the two logits part?
# </details>
# <details><summary>Hint 2</summary>
#
# What would you have to change in the model so that one class gets another logit, and no attention
# map changes?
# </details>

# %%
answer = None  # "a", "b" or "c"
### BEGIN SOLUTION
answer = "b"
### END SOLUTION

# %%
attribution.same_map(answer)

# %% [markdown]
# ## Exercise 4: heads that count (15 minutes)
#
# Rollout hears all heads alike. Beyond Intuition's *head-wise* map weighs them by what the class
# owes to each (Eq. 15). For the heads $h$ of one block, with attention $A^h$ and gradient
# $\nabla A^h$ of the class's logit:
#
# $$I_h = \Big|\sum_{q,k} A^h_{qk}\, \nabla A^h_{qk}\Big|, \qquad
# \theta_h = \frac{I_h}{\sum_j I_j}, \qquad A = \sum_h \theta_h A^h .$$
#
# Write it for one block of one image: both inputs have the shape *heads x tokens x tokens*, the
# result has *tokens x tokens*.
#
# <details><summary>Hint 1</summary>
#
# `(attention * gradient).sum(dim=(1, 2))` has one number a head. Only then comes `.abs()`.
# </details>
# <details><summary>Hint 2</summary>
#
# `weights[:, None, None]` has the shape *heads x 1 x 1*, and multiplies each head by its own
# weight. What is left to do is a sum over heads.
# </details>


# %%
def weigh_heads(attention, gradient):
    """The heads of one block, weighed by their share in the class; both heads x tokens x tokens."""
    ### BEGIN SOLUTION
    importance = (attention * gradient).sum(dim=(1, 2)).abs()
    weights = importance / importance.sum()
    return (weights[:, None, None] * attention).sum(dim=0)
    ### END SOLUTION


# %%
attribution.head_wise(weigh_heads)

# %% [markdown]
# Your matrices in the place of the mean over heads, for the first animal of each image, from the
# third of the eight blocks on (difference C3). The paper adds the identity and does not halve: the
# map gets larger, and the picture stays the same.

# %%
with record_attention(network) as tape:
    logits = network(pixels[:5])
score = logits.gather(1, duo.labels[:5, :1]).sum()
gradients = torch.autograd.grad(score, tape.maps)
relevance = torch.eye(tape.maps[0].shape[-1]).repeat(5, 1, 1)
for block, slope in zip(tape.maps[2:], gradients[2:], strict=True):
    pairs = zip(block.detach(), slope, strict=True)
    relevance = relevance + torch.stack([weigh_heads(*pair) for pair in pairs]) @ relevance
heads = {"protocol": "described", "start_block": 3}
library = METHODS["head_wise"](network, pixels[:5], duo.labels[:5, 0], feedback="none", **heads)
rows = [("yours", relevance[:, 0, 1:]), ("library", library)]
plots.heatmap_grid(shown, [(name, to_heatmap(row, size, spec.grid)) for name, row in rows], titles)

# %% [markdown]
# Does this map follow the class? The paper multiplies it by *feedback*: the gradient of the class's
# logit by the last block's attention to each patch. The same game, without feedback and with it.

# %%
maps = {
    f"head weights, feedback: {feedback}": torch.stack(
        [
            METHODS["head_wise"](network, pixels, asked, feedback=feedback, **heads)
            for asked in duo.labels.T
        ],
        dim=1,
    )
    for feedback in ("none", "gradient")
}
evaluate.pointing_table(duo, maps, spec.grid).round(1)

# %% [markdown]
# Head weights know the class, and alone they do hardly better than a coin: a weight makes a head
# louder or softer, and cannot move where it looks. Feedback speaks patch by patch, and it is what
# tells the two animals apart.
