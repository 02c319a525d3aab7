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
# # Exercises: a mask from no one
#
# They go with the notebook `01_masks` (TokenCut, Wang et al. 2022, as RobustViT uses it, Sec. 4).
# You find the animal in a picture without being told where it is: build a graph of patches, cut it
# in two, and grade the result. Time: 40 minutes.
#
# Run the cells in order. Where a cell says *your code here*, write yours, run it, and then run the
# check below it: it says what is not right yet.

# %%
import torch
from checks import masks
from torch.nn.functional import interpolate

from relevit import plots
from relevit.config import MasksParams
from relevit.data.benchmark import open_benchmark
from relevit.masks import feature_model, feature_spec, key_features, mask_quality, tokencut
from relevit.models.registry import shipped_weights

# %% [markdown]
# Six pictures. The row below shows what we want to find. These exact masks come with the drawings:
# they only serve to grade ours.

# %%
plots.set_style()
cfg = MasksParams()
bench = open_benchmark(cfg)
size = bench.spec(cfg.model).image_size
batch = bench.draw("validation", [8, 10, 12, 14, 0, 22], size=size)
cut_out = plots.cut_out(batch.images, batch.masks)
plots.image_grid([("image", batch.images), ("animal", cut_out)])

# %% [markdown]
# A small Vision Transformer describes each of 14 x 14 patches by a vector of 128 numbers: its *key*
# in the last block. Patches that show similar things have similar keys. (The network has learned
# the animals' names, but no one has ever shown it where they are.)

# %%
weights = shipped_weights(cfg.feature_model, cfg.benchmark.learned)
network = feature_model(cfg.feature_model, 196, weights=weights)
pixels = feature_spec(cfg.feature_model).normalise(batch.images)
pixels = interpolate(pixels, 196, mode="bicubic", antialias=True)
keys = key_features(network, pixels).double()
grid = network.patch_embed.grid_size
print("pictures, patches, numbers for each:", tuple(keys.shape))

# %% [markdown]
# ## Exercise 1: a graph of patches (10 minutes)
#
# Join any two patches of a picture. How alike they are says the cosine of their keys,
#
# $$\cos(i, j) = \frac{k_i \cdot k_j}{\lVert k_i \rVert\, \lVert k_j \rVert} .$$
#
# The edge between them weighs 1 when the cosine is above the threshold $\tau$ (`tau`), and
# 0.00001 otherwise: a thread, so that the graph does not fall apart. The input has the shape
# *patches x channels*, the result *patches x patches*.
#
# <details><summary>Hint 1</summary>
#
# Divide each row by its length first: `features.norm(dim=1, keepdim=True)`. Then the product of the
# matrix with its own transpose, `unit @ unit.T`, holds all cosines at once.
# </details>
# <details><summary>Hint 2</summary>
#
# `cosines > tau` is True or False. `.double()` makes 1 and 0 of it, and `.clamp(min=...)` lifts the
# zeros.
# </details>


# %%
def affinity(features, tau):
    """Weight of the edge between any two patches: 1 for alike ones, 0.00001 for others."""
    ### BEGIN SOLUTION
    unit = features / features.norm(dim=1, keepdim=True)
    cosines = unit @ unit.T
    return (cosines > tau).double().clamp(min=1e-5)
    ### END SOLUTION


# %%
masks.affinity(affinity)

# %% [markdown]
# Your graph, seen from two of its patches: what the patch is joined to stays bright. First a patch
# on the animal, then the one in the upper left corner. What would the two rows look like if the
# graph knew animal and background perfectly?


# %%
def enlarged(patches):
    """Maps of patches as masks of pixels: True where a patch is 1."""
    return interpolate(patches[:, None].float(), size, mode="nearest") > 0.5


graphs = torch.stack([affinity(k, cfg.tau) for k in keys])
on_animal = interpolate(batch.masks.float(), grid, mode="area").flatten(1).argmax(dim=1)
start_at = {"from the animal": on_animal.tolist(), "from the corner": [0] * len(graphs)}
rows = []
for name, patches in start_at.items():
    joined = graphs[range(len(graphs)), patches].reshape(-1, *grid)
    rows.append((name, plots.cut_out(batch.images, enlarged(joined))))
plots.image_grid([("image", batch.images), *rows])

# %% [markdown]
# ## Exercise 2: cut the graph in two (15 minutes)
#
# A good cut parts few strong edges and leaves two large sides. Finding the best one takes too long.
# But when each patch $i$ may get any number $x_i$ in place of yes and no, the answer is known: with
# the table of edges $A$, and $D$, which has the sums of its rows on the diagonal and 0 elsewhere,
#
# $$(D - A)\, x = \lambda D x .$$
#
# The solution with the smallest $\lambda$ is no cut: it has $\lambda = 0$, and all patches get the
# same number. The *second* smallest is the one we want. Patches with large numbers are one side,
# those with small numbers the other. The input is the table $A$, the result has one number for each
# patch.
#
# <details><summary>Hint 1</summary>
#
# `torch.linalg.eigh(M)` solves $M y = \lambda y$ for a symmetric matrix. Ours becomes one with
# $M = D^{-1/2} (D - A)\, D^{-1/2}$ and $y = D^{1/2} x$. So divide $D - A$ by the roots of the sums,
# both by rows and by columns, and do not forget to go back from $y$ to $x$.
# </details>
# <details><summary>Hint 2</summary>
#
# `values, vectors = torch.linalg.eigh(M)` sorts by size, the smallest first, and has its vectors in
# *columns*: `vectors[:, 0]` is the first. With `root = edges.sum(dim=1).sqrt()`, dividing by
# `root[:, None]` goes by rows, and by `root[None, :]` by columns.
# </details>


# %%
def second_vector(edges):
    """The vector x of the second smallest lambda; edges: patches x patches."""
    ### BEGIN SOLUTION
    sums = edges.sum(dim=1)
    root = sums.sqrt()
    laplacian = torch.diag(sums) - edges
    _, vectors = torch.linalg.eigh(laplacian / root[:, None] / root[None, :])
    return vectors[:, 1] / root
    ### END SOLUTION


# %%
masks.second_vector(second_vector)

# %% [markdown]
# With $x$, $-x$ is a solution too, and so is $x$ of any length: the graph does not say which side
# is the object. TokenCut decides: the object is the side of the patch with the largest number, plus
# or minus. That patch is called the *seed*. Of its side, TokenCut keeps the piece that hangs
# together with the seed. If yellow and blue are exchanged in a picture of your row, that is why.

# %%
yours = torch.stack([second_vector(edges) for edges in graphs]).reshape(-1, *grid)
cut = tokencut(keys, grid, cfg.tau)
steps = [("yours", yours), ("library", cut.vector), ("seed's side", cut.partition)]
plots.cut_steps(batch.images, [*steps, ("seed's piece", cut.mask), ("animal", batch.masks[:, 0])])

# %% [markdown]
# ## Exercise 3: grade a mask (10 minutes)
#
# How well do a found mask and the exact one agree? The usual grade is the *intersection over union*
# (IoU): the pixels that are in both, divided by the pixels that are in at least one. Write it for
# two masks of one picture, True on the object, with the shape *side x side*; give one number, in
# percent.
#
# <details><summary>Hint 1</summary>
#
# For masks of True and False, `a & b` is True where both are, `a | b` where at least one is.
# </details>
# <details><summary>Hint 2</summary>
#
# `.sum()` counts what is True.
# </details>


# %%
def iou(found, exact):
    """Intersection over union of two masks, in percent."""
    ### BEGIN SOLUTION
    both = (found & exact).sum()
    either = (found | exact).sum()
    return 100 * both / either
    ### END SOLUTION


# %%
masks.iou(iou)

# %% [markdown]
# Take two squares of the same size, one shifted by half its side, so that each covers half of the
# other. What is their IoU? Guess before you run the cell.

# %%
squares = torch.zeros(2, 30, 30, dtype=torch.bool)
squares[0, 10:20, 5:15] = True
squares[1, 10:20, 10:20] = True
print(f"half of each: IoU {iou(squares[0], squares[1]):.1f} %")

# %% [markdown]
# Now the six pictures: the piece with the seed, and all of the seed's side.

# %%
exact = batch.masks[:, 0]
pieces, sides = enlarged(cut.mask)[:, 0], enlarged(cut.partition)[:, 0]
library = mask_quality(pieces[:, None], batch.masks)["iou_pct"]
for i, name in enumerate(bench.names(batch.labels.tolist())):
    piece, side = iou(pieces[i], exact[i]), iou(sides[i], exact[i])
    print(f"{name:<14} piece {piece:5.1f} % (library {library[i]:5.1f} %)   side {side:5.1f} %")

# %% [markdown]
# ## Exercise 4: why the leaf? (5 minutes, with a neighbour)
#
# In four pictures the mask is on the animal. In the last two it is on a leaf, and its IoU is 0.
# Here they are again, with three thresholds. Try others.

# %%
lost = [4, 5]
tried = {tau: tokencut(keys[lost], grid, tau).mask for tau in (0.2, 0.4, 0.6)}
plots.cut_steps(batch.images[lost], [(f"tau {tau:g}", found) for tau, found in tried.items()])

# %% [markdown]
# What has gone wrong?
#
# - **a** The vector has the wrong sign: the animal is what lies on the other side of the cut.
# - **b** The threshold is too low: patches of leaf and animal are joined that are not alike.
# - **c** The cut finds what differs from the rest. Leaf and animal both do, and the seed lies on
#   the leaf.
#
# <details><summary>Hint 1</summary>
#
# Look at the pictures of exercise 2: on which side of the cut are leaf and animal, and what happens
# in the step from the seed's side to its piece?
# </details>
# <details><summary>Hint 2</summary>
#
# Has anyone told TokenCut that we are looking for an animal?
# </details>

# %%
answer = None  # "a", "b" or "c"
### BEGIN SOLUTION
answer = "c"
### END SOLUTION

# %%
masks.leaf(answer)
