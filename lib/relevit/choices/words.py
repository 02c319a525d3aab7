"""The words that parameters and functions share, each said once: what may be chosen, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator

from relevit.protocols import Protocol as Protocol  # one of these words

Added = dict[str, Callable[..., Any]]  # by name: `CURES["blur"] = blur`


def one_of(own: Collection[str], table: Mapping[str, Any]) -> Any:
    """The type of a parameter: one of these words, or a name of the table."""
    return Annotated[str, AfterValidator(partial(_known, own, table))]


def _known(own: Collection[str], table: Mapping[str, Any], name: str) -> str:
    if name in own and name in table:
        raise ValueError("the name is ours; give what you added another")
    if name not in own and name not in table:
        known = ", ".join([*own, *table]) or "nothing, or add it (docs/extending.md)"
        raise ValueError(f"it is unknown; use {known}")
    return name


# Number formats: `tf32` is float32 whose matrices a GPU rounds to ten bits before it multiplies
# them. `auto` takes the one that the device has in hardware.
Precision = Literal["float32", "tf32", "bfloat16"]
PrecisionChoice = Literal["auto", "float32", "bfloat16"]

# Finetuning: what is trained, on whose masks, through which map. Losses of the map are
# RobustViT's and others; baselines look at the gradient by the pixels.
Baseline = Literal["gradmask", "rrr"]
MapLoss = Literal["relevance", "cft", "energy", "l1"]
MAP_LOSSES = get_args(MapLoss)
Method = Literal[MapLoss, Baseline]
# Further losses of the map, which a run has by name: `(step) -> scalar` (`relevit.losses.Step`).
MORE_LOSSES: Added = {}
MoreLoss = one_of((), MORE_LOSSES)
# `boxes` are those around annotated masks, `a_third` annotated ones of one image in three. The last
# three say nothing of where the object is: another image's, one ellipse for all, upside down.
MaskSource = Literal[
    "annotated", "tokencut", "boxes", "a_third", "others", "ellipse", "upside_down"
]
TrainedMap = Literal["gae", "attention", "rollout", "readout", "legrad", "attn_lrp"]
# All of `relevit.attribution.METHODS`, known before torch is loaded.
AttributionName = Literal[
    "raw_attention",
    "rollout",
    "gradcam",
    "gae",
    "ga",
    "partial_lrp",
    "lrp",
    "transformer_attribution",
    "head_wise",
    "token_wise",
    "smoothgrad",
    "integrated_gradients",
    "attention_gradient",
    "legrad",
    "readout",
    "attn_lrp",
    "libra_grad",
]
# What others call them.
ALIASES = {
    "attention_rollout": "rollout",
    "chefer": "gae",
    "generic_attention": "gae",
    "transformer_mm_explainability": "gae",
    "transformer_explainability": "transformer_attribution",
    "grad_cam": "gradcam",
    "attention": "raw_attention",
    "chefer_lrp": "transformer_attribution",
    "attnlrp": "attn_lrp",
    "ig": "integrated_gradients",
    "smooth_grad": "smoothgrad",
}
# What is done to half of the images of a batch by their masks (`finetune.augmenting`).
AUGMENTATIONS = ("none", "swap", "swap_seams", "swap_strange", "swap_sizes", "grey", "crop")
# Further ones, `(pictures, masks, rng) -> (pictures, masks)`.
CURES: Added = {}
Augmentation = one_of(AUGMENTATIONS, CURES)

# Variants of the method; what each changes: `reproduction.runs.grids`.
Variant = Literal[
    "full",
    "no_background",
    "no_foreground",
    "no_classification",
    "only_background",
    "only_foreground",
    "only_classification",
    "ground_truth",
    "confidence",
    "predicted_target",
    "attention",
    "rollout",
    "exact_gradient",
    "temperature",
    "constant_rate",
]

# Automatic masks: the bias of the keys that are cut (differences B18).
KeyBias = Literal["removed", "kept"]

# Perturbation: what is erased (E5), and its colour (E7).
Unit = Literal["pixel", "token"]
Fill = Literal["black", "mean"]

# Where the images come from, and how pictures are read.
OWN_DATA = HABITATS, IMAGENET, PACS = "habitats", "imagenet", "pacs"
# Further ones, `(set_name, data_root, view) -> ImageSet` (`habitats.photographs`).
READERS: Added = {}
DataName = one_of(OWN_DATA, READERS)
Preprocessing = Literal["published", "timm"]
Corrupted = Literal["error", "skip"]

# CLIP by name, and on the hub (Beyond Intuition Sec. 4.2).
CLIP, CLIP_ON_HUB = "clip-b32", "openai/clip-vit-base-patch32"

# Models of the embedded benchmark.
MiniName = Literal["mini-supervised", "mini-deit", "mini-mae", "mini-dino"]
ModelName = Literal["dinov2-s", "dinov2-s8", "tiny", "tiny-mae", MiniName]
DINOV2 = ("dinov2-s", "dinov2-s8")  # those that start from DINOv2
# Those whose weights come with the package, by the images that they have learned from.
SHIPPED = {
    "cutouts": ("tiny", "tiny-mae"),
    "habitats": ("dinov2-s8", "tiny", "tiny-mae", *get_args(MiniName)),
}
# Models with a head for ImageNet's 1,000 classes: RobustViT's seven (Tab. 1), those of Beyond
# Intuition, and two random ones of two blocks for rehearsals.
PaperModelName = Literal[
    "vit-b",
    "vit-l",
    "ar-s",
    "ar-b",
    "ar-l",
    "deit-s",
    "deit-b",
    "dino-b",
    "mae-b",
    "moco-v3-b",
    "vit-b-cut",
    "deit-s-cut",
]
# Whether a model belongs to the preset's data is known with the preset (`reproduction.params`).
AnyModelName = Literal[ModelName, PaperModelName]
# Further ones: `(**options) -> (network, ModelSpec)` (`relevit.models`).
MORE_MODELS: Added = {}

# Models that IAV finetunes: ViT-B of timm's hub, and which were pretrained with labels.
HubName = Literal["beit-b", "dino-b", "deit-b", "vit-b-in21k"]
HUB = get_args(HubName)
LABELS = ("mini-supervised", "mini-deit", "deit-b", "vit-b-in21k")
KINDS = {
    name: "supervised" if name in LABELS else "self-supervised"
    for name in (*get_args(MiniName), *HUB)
}
