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
# # Exercises: what does the model look at?
#
# They go with the notebook `00_start` (RobustViT, Sec. 1, Fig. 1). You move animals from one home
# into another, see what the model answers, and measure where it looks. You need to know nothing
# about relevance maps yet. Time: 30 minutes.
#
# Run the cells in order. Where a cell says *your code here*, write yours, run it, and then run the
# check below it: it says what is not right yet.

# %%
import torch
from checks import start

from relevit import models, plots
from relevit.config import StartParams
from relevit.data.benchmark import open_benchmark
from relevit.data.cutouts import home_family
from relevit.evaluate import look

# %% [markdown]
# Forty animals live in eight homes, five in each. A home is a texture, and things that stand about
# there.

# %%
plots.set_style()
cfg = StartParams()
bench = open_benchmark(cfg)
spec = bench.spec(cfg.model)
network = models.load_model(cfg.model).eval()
bench.homes()

# %% [markdown]
# We draw 80 pictures, two of each animal, at home. Then the *same* animals again, in the same
# places, each in one of the seven other homes. Some animals are faint: they are in the training
# images too.

# %%
number_of_images = 80
own_homes = torch.tensor([home_family(i % 40) for i in range(number_of_images)])
other_homes = (own_homes + 1 + torch.arange(number_of_images) % 7) % 8


def draw(homes):
    """The same 80 animals in these homes, by number."""
    families, size = homes.tolist(), spec.image_size
    return bench.draw("validation", range(number_of_images), families=families, size=size)


at_home, elsewhere = draw(own_homes), draw(other_homes)
plots.image_grid([("at home", at_home.images[:8]), ("elsewhere", elsewhere.images[:8])])

# %% [markdown]
# ## Exercise 1: the same animals, elsewhere (5 minutes)
#
# The model was trained on pictures in which 95 of 100 animals are at home. First, how good it is
# there:

# %%
seen_at_home = look(network, spec, at_home, bench.classes)
right_at_home = seen_at_home.predictions == at_home.labels
print(f"right at home: {100 * right_at_home.float().mean():.1f} % of {number_of_images} pictures")

# %% [markdown]
# In how many percent of the pictures will it be right *elsewhere*? Write a number before you run
# the next cells. No number is wrong here: what counts is that you have said one.
#
# <details><summary>Hint 1</summary>
#
# A model that looked at the animal alone would give the same answers as at home.
# </details>
# <details><summary>Hint 2</summary>
#
# A model that looked at the home alone would name one of the five animals that live there. And one
# that guesses blindly is right once in forty times: 2.5 %.
# </details>

# %%
prediction = None  # in percent
### BEGIN SOLUTION
prediction = 60
### END SOLUTION

# %% [markdown]
# Now look. Above each picture stands the model's answer, and how sure it is.

# %%
seen_elsewhere = look(network, spec, elsewhere, bench.classes)
right_elsewhere = seen_elsewhere.predictions == elsewhere.labels
accuracy_elsewhere = 100 * right_elsewhere.float().mean().item()
titles = [seen_at_home.titles[:8], seen_elsewhere.titles[:8]]
plots.image_grid([("at home", at_home.images[:8]), ("elsewhere", elsewhere.images[:8])], titles)

# %%
start.elsewhere(prediction, accuracy_elsewhere)

# %% [markdown]
# ## Exercise 2: whose home is it? (10 minutes)
#
# What does the model answer when it is wrong? Perhaps an animal that lives in the home that is
# shown. Measure it: *of the wrong answers*, how many percent name an animal that is at home where
# the picture was taken?
#
# For each picture you get three whole numbers: the class that was answered, the class of the
# animal, and the home that is shown. `home_of` has one number for each of the forty classes: its
# home.
#
# <details><summary>Hint 1</summary>
#
# `answers != labels` is True where the model is wrong. `home_of[answers]` are the homes of the
# animals that it names.
# </details>
# <details><summary>Hint 2</summary>
#
# Compare `home_of[answers]` with `homes`, keep only the wrong answers of that (by putting the mask
# of wrong answers in square brackets), and take the mean of 0 and 1 (`.float().mean()`), in
# percent.
# </details>


# %%
def at_home_there(answers, labels, homes, home_of):
    """Percent of the wrong answers that name an animal of the home that is shown; one number."""
    ### BEGIN SOLUTION
    wrong = answers != labels
    lives_there = home_of[answers] == homes
    return 100 * lives_there[wrong].float().mean()
    ### END SOLUTION


# %%
start.at_home_there(at_home_there)

# %% [markdown]
# Now on the pictures elsewhere. If the home played no part, the wrong answers would be spread over
# the 39 other animals, of which 5 live there: 12.8 %.

# %%
home_of = torch.tensor([home_family(label) for label in range(40)])
share = at_home_there(seen_elsewhere.predictions, elsewhere.labels, other_homes, home_of)
print(f"wrong answers that name an animal of the home shown: {share:.1f} %")

# %% [markdown]
# ## Exercise 3: how much of the relevance lies on the animal? (10 minutes)
#
# A *relevance map* (or heatmap) says how much each pixel has mattered for the answer: 1 where it
# mattered most, 0 where it mattered least. How it is made, you will see later. The *mask* says
# where the animal is: 1 on it, 0 off it. Four pictures, their maps, and their masks:

# %%
few = [1, 8, 12, 16]
maps = [("relevance", seen_at_home.heatmaps[few]), ("object", at_home.masks[few].float())]
plots.heatmap_grid(at_home.images[few], maps, [seen_at_home.titles[i] for i in few])

# %% [markdown]
# Add up all relevance of a picture. How many percent of it lie on the animal? Both inputs have the
# shape *pictures x 1 x side x side*; the result has one number for each picture.
#
# <details><summary>Hint 1</summary>
#
# `heat * mask` is the relevance on the animal, and 0 elsewhere.
# </details>
# <details><summary>Hint 2</summary>
#
# `.sum(dim=(1, 2, 3))` adds up each picture for itself. Divide the sum on the animal by the sum
# over the whole map.
# </details>


# %%
def share_on_object(heat, mask):
    """Percent of each picture's relevance that lies on its object."""
    ### BEGIN SOLUTION
    on_object = (heat * mask).sum(dim=(1, 2, 3))
    return 100 * on_object / heat.sum(dim=(1, 2, 3))
    ### END SOLUTION


# %%
start.share_on_object(share_on_object)

# %% [markdown]
# Now on the model, at home and elsewhere. The library's number stands beside yours.

# %%
pairs = {"at home": (seen_at_home, at_home), "elsewhere": (seen_elsewhere, elsewhere)}
for name, (seen, batch) in pairs.items():
    yours = share_on_object(seen.heatmaps, batch.masks.float()).mean()
    right = 100 * (seen.predictions == batch.labels).float().mean()
    library = seen.on_object_pct.mean()
    print(
        f"{name:<10} on the animal: {yours:.1f} % (library {library:.1f} %)   right: {right:.1f} %"
    )

# %% [markdown]
# ## Exercise 4: as much on the animal, and yet wrong (5 minutes, with a neighbour)
#
# Put one animal into each of the eight homes. Change `animal` to any number from 0 to 79, and run
# the cell again as often as you like.

# %%
animal = 8
families = list(range(8))
label = int(at_home.labels[animal])
round_trip = bench.draw(
    "validation", [animal] * 8, labels=[label] * 8, families=families, size=spec.image_size
)
seen = look(network, spec, round_trip, bench.classes)
print(f"{bench.classes[label]}, at home in the {bench.homes()['home'][home_family(label)]}")
plots.heatmap_grid(round_trip.images, [("relevance", seen.heatmaps)], seen.titles, seen.colours)

# %% [markdown]
# Compare with your two lines of exercise 3. At home and elsewhere, about the same share of the
# relevance lies on the animal. Still most answers elsewhere are wrong. What do you conclude?
#
# - **a** The model still looks at the animal as much, so the home cannot be the reason.
# - **b** The home is the reason. The share says where the model looks, and not what it makes of it.
# - **c** The maps are wrong: where an answer is wrong, no relevance may lie on the animal.
#
# <details><summary>Hint 1</summary>
#
# What has changed between the two pictures of an animal, and what has not?
# </details>
# <details><summary>Hint 2</summary>
#
# Nearly half of the relevance lies off the animal, in both cases. What is there to be seen at home,
# and what elsewhere?
# </details>

# %%
answer = None  # "a", "b" or "c"
### BEGIN SOLUTION
answer = "b"
### END SOLUTION

# %%
start.conclusion(answer)
