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
# # Exercises: relevance finetuning
#
# They go with the notebook `02_finetune` (RobustViT, Sec. 3). You write the map that is trained,
# and the term that punishes the background. Time: 35 minutes.
#
# Run the cells in order. Where a cell says *your code here*, write yours, run it, and then run the
# check below it: it says what is not right yet.

# %%
import torch
from checks import finetune

from relevit import attribution, models, plots
from relevit.attention.recording import record_attention
from relevit.attribution import to_heatmap
from relevit.config import FinetuneParams
from relevit.data.benchmark import open_benchmark
from relevit.losses import background_loss

# %% [markdown]
# Six images with their masks, and a model that has seen its animals at home nearly always.

# %%
plots.set_style()
cfg = FinetuneParams()
bench = open_benchmark(cfg)
spec = bench.spec(cfg.model)
network = models.load_model(cfg.model).eval()
batch = bench.draw("a", range(0, 240, 41), size=spec.image_size)
pixels = spec.normalise(batch.images)
plots.image_grid([("image", batch.images), ("object", batch.images * batch.masks)])

# %% [markdown]
# ## Exercise 1: GAE in ten lines (15 minutes)
#
# For every block $l$ there is an attention map $A_l$ and the gradient $\nabla A_l$ of the class's
# logit by it. Relevance starts with every token in its own place, and each block mixes it:
#
# $$R \leftarrow I, \qquad \bar A_l = \mathrm{mean}_\text{heads}\,(\nabla A_l \odot A_l)^+, \qquad
# R \leftarrow R + \bar A_l R .$$
#
# The map is what the class token (token 0) takes from the patches (tokens 1 and up). Write it for
# one image: both inputs have the shape *layers x heads x tokens x tokens*, the result has one
# number a patch.
#
# <details><summary>Hint 1</summary>
#
# `torch.eye(tokens)` is the start. Go through the layers in order, and cut negative products with
# `.clamp(min=0)` before you take the mean over heads.
# </details>
# <details><summary>Hint 2</summary>
#
# In `R[i, j]` the row `i` is the token that takes, and the column `j` the one that it is taken
# from. You want the row of token 0, without its first entry.
# </details>


# %%
def gae(attention, gradients):
    """Relevance of each patch; attention and gradients: layers x heads x tokens x tokens."""
    ### BEGIN SOLUTION
    tokens = attention.shape[-1]
    relevance = torch.eye(tokens, dtype=attention.dtype)
    for block, slope in zip(attention, gradients, strict=True):
        mixed = (slope * block).clamp(min=0).mean(dim=0)
        relevance = relevance + mixed @ relevance
    return relevance[0, 1:]
    ### END SOLUTION


# %%
finetune.gae(gae)

# %% [markdown]
# Now on a real model. The library's map stands below yours: they should be equal.

# %%
with record_attention(network) as tape:
    logits = network(pixels)
score = logits.max(dim=1).values.sum()
gradients = torch.autograd.grad(score, tape.maps)
maps = [torch.stack(parts).detach() for parts in (tape.maps, gradients)]
yours = torch.stack([gae(maps[0][:, i], maps[1][:, i]) for i in range(len(pixels))])
rows = [("yours", yours), ("library", attribution.gae(network, pixels))]
size = batch.images.shape[-2:]
plots.heatmap_grid(batch.images, [(name, to_heatmap(row, size, spec.grid)) for name, row in rows])

# %% [markdown]
# ## Exercise 2: the background term (10 minutes)
#
# Eq. 1 asks for no relevance off the object: $\mathrm{MSE}(R \odot (1 - S),\, 0)$, with the heatmap
# $R$ and the mask $S$, which is 1 on the object. Both have the shape *batch x 1 x side x side*.
#
# <details><summary>Hint 1</summary>
#
# `1 - mask` is the background. Multiply, so that the object counts nothing.
# </details>
# <details><summary>Hint 2</summary>
#
# The mean squared error to 0 is the mean of the squares, over *all* pixels.
# </details>


# %%
def background(heat, mask):
    """Mean squared relevance off the object; one number."""
    ### BEGIN SOLUTION
    return (heat * (1 - mask)).square().mean()
    ### END SOLUTION


# %%
finetune.background(background)

# %% [markdown]
# The loss of each of the six images, with the library's beside it. Which of them looks off its
# object most? Compare with the pictures above.

# %%
heat = to_heatmap(yours, size, spec.grid)
masks = batch.masks.float()
for number, name in enumerate(bench.names(batch.labels.tolist())):
    pair = heat[number, None], masks[number, None]
    print(f"{name:<12} yours {background(*pair):.4f}   library {background_loss(*pair):.4f}")

# %% [markdown]
# ## Exercise 3: why so different weights? (10 minutes, with a neighbour)
#
# The background term weighs 2, the foreground term, which asks for relevance on *all* of the
# object, only 0.3. Why?
#
# - **a** The foreground term has larger values, and the weights bring both to one scale.
# - **b** A model may be right without looking at all of the object.
# - **c** The masks' outlines are not exact.
#
# <details><summary>Hint 1</summary>
#
# By what do you recognise an elephant, and how much of it must you see?
# </details>
# <details><summary>Hint 2</summary>
#
# Which of the two terms would punish a model that looks at the trunk alone?
# </details>

# %%
answer = None  # "a", "b" or "c"
### BEGIN SOLUTION
answer = "b"
### END SOLUTION

# %%
finetune.weights(answer)
