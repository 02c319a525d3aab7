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
# # Exercises: is a head looking at what matters?
#
# They go with the notebook `08_iav` (IAV, Eqs. 1 and 4). You write the score that says how far a
# head of attention agrees with the decision, ask what it gives to a head that looks nowhere in
# particular, and mend it. Time: 30 minutes.
#
# Run the cells in order. Where a cell says *your code here*, write yours, run it, and then run the
# check below it: it says what is not right yet.

# %%
import pandas as pd
import torch
from checks import iav

from relevit import models, plots
from relevit.attribution import METHODS, to_heatmap
from relevit.config import IavParams
from relevit.data.benchmark import open_benchmark
from relevit.iav import attention_entropy, class_attention, ia_scores, uniform_score

# %% [markdown]
# Six images and a model that names their animals. It cuts each image into 8 x 8 *patches*. In each
# of its 8 layers, 6 *heads* say how much attention they give to each patch: 48 small pictures for
# one image. **SmoothGrad** gives one more: how much each patch would move the answer. Such a map is
# called an *attribution*. Where it is bright, the decision is made.

# %%
plots.set_style()
cfg = IavParams()
bench = open_benchmark(cfg)
spec = bench.spec(cfg.model)
network = models.load_model(cfg.model).eval()
batch = bench.draw("val", [1, 20, 21, 53, 59, 74], size=spec.image_size)
pixels, size = spec.normalise(batch.images), batch.images.shape[-2:]
attention = class_attention(network, pixels)
attributions = METHODS["smoothgrad"](network, pixels, batch.labels, draws=4)
names = bench.names(batch.labels.tolist())
plots.heatmap_grid(batch.images, [("SmoothGrad", to_heatmap(attributions, size, spec.grid))], names)

# %% [markdown]
# ## Exercise 1: how far do two maps agree? (10 minutes)
#
# The **IA-score** of a head is the cosine of its attention $a$ and the attribution $g$:
#
# $$\frac{\sum_p a_p\, g_p}{\lVert a \rVert\, \lVert g \rVert} \qquad \text{with the length} \qquad
# \lVert a \rVert = \sqrt{\textstyle\sum_p a_p^2} .$$
#
# Write it for all heads of one image. `attention` has the shape *layers x heads x patches*,
# `attribution` one number a patch; the result has the shape *layers x heads*.
#
# <details><summary>Hint 1</summary>
#
# Divide both maps by their lengths first, then multiply and sum over the patches. `x.norm(dim=-1)`
# is the length along the last dimension.
# </details>
# <details><summary>Hint 2</summary>
#
# With `keepdim=True` the lengths keep a last dimension of size 1, so that you can divide by them.
# Multiplying *layers x heads x patches* by *patches* needs no loop.
# </details>


# %%
def ia_score(attention, attribution):
    """IA-score of each head; attention: layers x heads x patches, attribution: patches."""
    ### BEGIN SOLUTION
    rows = attention / attention.norm(dim=-1, keepdim=True)
    values = attribution / attribution.norm()
    return (rows * values).sum(dim=-1)
    ### END SOLUTION


# %%
iav.score(ia_score)

# %% [markdown]
# Now on the model. Below SmoothGrad: for each image the head that agrees with it most, by your
# score, and the one that agrees least. The library's scores should be equal to yours.

# %%
yours = torch.stack([ia_score(a, g) for a, g in zip(attention, attributions, strict=True)])
library = ia_scores(attention, attributions)
print(f"largest difference from the library: {(yours - library).abs().max():.1e}")
heads = attention.flatten(1, 2)
each = torch.arange(len(heads))
most, least = (
    heads[each, pick] for pick in (yours.flatten(1).argmax(1), yours.flatten(1).argmin(1))
)
rows = [("SmoothGrad", attributions), ("agrees most", most), ("agrees least", least)]
plots.heatmap_grid(
    batch.images, [(name, to_heatmap(row, size, spec.grid)) for name, row in rows], names
)

# %% [markdown]
# ## Exercise 2: the head that does not choose (5 minutes)
#
# Imagine a head that gives every patch the same attention. It has looked at everything and chosen
# nothing. What does it score, in percent of the best score: 0 or 100, or where between? Write down
# a number before you run on. There is no wrong one.
#
# <details><summary>Hint 1</summary>
#
# No attention and no attribution is ever negative. So can two of these maps have nothing in common
# if one of them covers all patches?
# </details>
# <details><summary>Hint 2</summary>
#
# If the attribution sits on a quarter of the patches, alike on each, the score is
# $\sqrt{1/4}$: half of the best. Look at the pictures above: how wide is the attribution?
# </details>

# %%
prediction = None  # percent of the best score, 0 to 100
### BEGIN SOLUTION
prediction = 60
### END SOLUTION

# %% [markdown]
# The truth, an image at a time. And how many of the 48 heads score less than that?

# %%
flat = uniform_score(attributions)
pd.DataFrame({
    "image": names,
    "head that does not choose": flat.numpy(),
    "best head": library.flatten(1).amax(1).numpy(),
    "heads that score less than no choice": (library < flat[:, None, None]).sum((1, 2)).numpy(),
}).round(2)  # fmt: skip

# %%
iav.uniform(prediction, attributions)

# %% [markdown]
# ## Exercise 3: a score that such a head cannot earn (10 minutes)
#
# Take its mean off each map first. Then it is positive where the map is above its own average and
# negative below, and the cosine becomes a **correlation**: 1 for the same picture, 0 for no
# relation, below 0 for a head that looks away. Uniform attention has nothing left after that. The
# shapes are those of exercise 1.
#
# <details><summary>Hint 1</summary>
#
# You have the cosine already: `ia_score` works for maps with negative values too. Only what you
# give to it changes.
# </details>
# <details><summary>Hint 2</summary>
#
# Each head's row has its own mean, along the patches: `attention.mean(dim=-1, keepdim=True)`. The
# attribution has one, too.
# </details>


# %%
def centred_score(attention, attribution):
    """Correlation of each head's row with the attribution: layers x heads."""
    ### BEGIN SOLUTION
    rows = attention - attention.mean(dim=-1, keepdim=True)
    values = attribution - attribution.mean()
    rows = rows / rows.norm(dim=-1, keepdim=True)
    return (rows * values).sum(dim=-1) / values.norm()
    ### END SOLUTION


# %%
iav.centred(centred_score)

# %% [markdown]
# Both scores, layer by layer, as means over heads and images. Beside them stands the **entropy** of
# the attention in *nats*: 0 for a head that looks at one patch, $\log 64 \approx 4.16$ for one that
# looks at all 64 alike.

# %%
centred = torch.stack([centred_score(a, g) for a, g in zip(attention, attributions, strict=True)])
entropy = attention_entropy(attention)
table = pd.DataFrame({
    name: values.mean(dim=(0, 2)).numpy()
    for name, values in [("IA-score", library), ("centred", centred), ("entropy (nats)", entropy)]
})  # fmt: skip
table.index = [f"layer {number + 1}" for number in table.index]
table.round(2)

# %% [markdown]
# ## Exercise 4: a score above 0.5, and nothing behind it (5 minutes, with a neighbour)
#
# The heads of layer 3 reach an IA-score of more than 0.5, not far below those of the last layer.
# Who reads only that would say that both see what matters. But the centred score of layer 3 is
# close to 0, and that of the last layer far above. Here is the mean of the six heads of both. (Each
# picture is stretched over its own range; how flat it really is, the entropy says.)

# %%
rows = [("SmoothGrad", attributions)]
rows += [(f"layer {number}", attention[:, number - 1].mean(dim=1)) for number in (3, 8)]
plots.heatmap_grid(
    batch.images, [(name, to_heatmap(row, size, spec.grid)) for name, row in rows], names
)

# %% [markdown]
# How can layer 3 score so high?
#
# - **a** It favours the patches that matter, only weakly.
# - **b** It looks nearly everywhere, and so also at the patches that matter.
# - **c** The attribution is wrong for this layer.
#
# <details><summary>Hint 1</summary>
#
# Compare the entropy of layer 3 with 4.16, its largest value, and with that of the last layer.
# </details>
# <details><summary>Hint 2</summary>
#
# What did the head of exercise 2 score, which does not choose at all?
# </details>

# %%
answer = None  # "a", "b" or "c"
### BEGIN SOLUTION
answer = "b"
### END SOLUTION

# %%
iav.flat(answer)

# %% [markdown]
# It is not so in every image: put number 9, a bright shrimp on blue water, into the list at the
# top, and layer 3 agrees there by both scores.
#
# **What to take home.** A score needs a zero: what does it give to somebody who does nothing? Ask
# that of every number in this suite, before you ask what is high.
