"""What parameters of one notebook need of each other; of two notebooks: `params.preset`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from relevit.choices.words import HUB, LABELS, MAP_LOSSES
from reproduction.params.words import ON_DISK

# What no arm may change; of 03_robustness, whose arms have twins without relevance, two more.
NOT_OF_AN_ARM = {"preset", "model", "benchmark", "device", "output_root", "seed"}
PUBLISHED = "bert-base"  # the text model whose weights lie in files

Others = Mapping[str, Any]  # the parameters that stand above one in its cell


def _arms(*more: str) -> Callable[[Others, Others], None]:
    """Names of arms, and parameters in which all of them are alike."""

    def check(arms: Others, others: Others) -> None:
        for arm, changes in arms.items():
            if arm in ("ours", "original") or not re.fullmatch(r"[a-z0-9_-]+", arm):
                raise ValueError(
                    f"arm {arm!r}: give it a name of small letters, digits, - and _, other than "
                    "ours and original"
                )
            if wrong := sorted({*changes} & {*NOT_OF_AN_ARM, *more}):
                raise ValueError(
                    f"arm {arm!r} changes {', '.join(wrong)}, in which twins and arms are alike; "
                    "leave it out"
                )

    return check


def _cures(arms: Others, others: Others) -> None:
    if arms and not {"label", "relevance"} <= set(arms):
        raise ValueError(
            f"{sorted(arms)} lack the control or the method; name one arm label and one relevance"
        )
    _arms("masks", "images_per_class")(arms, others)


def _of_all_arms(settings: Others, others: Others) -> None:
    if wrong := sorted({*settings} & NOT_OF_AN_ARM):
        raise ValueError(f"{', '.join(wrong)} belong to the preset and its axes; leave it out")


def _followed(followed: list[str], others: Others) -> None:
    if lacking := sorted({*followed} - {*others.get("arms", followed)}):
        raise ValueError(f"{lacking} are no arms; give some of those")


def _arm_seeds(seeds: list[int], others: Others) -> None:
    if lacking := sorted({*seeds} - {*others.get("seeds", seeds)}):
        raise ValueError(f"{lacking} are not among seeds; give some of those")


def _home_arm(arm: str, others: Others) -> None:
    if arm not in (known := ["ours", *others.get("arms", {})]):
        raise ValueError(f"it is no arm; use one of {', '.join(known)}")


def _masks(masks: str, others: Others) -> None:
    if masks == "a_third" and others.get("method", "relevance") not in MAP_LOSSES:
        raise ValueError("the terms of baselines need masks of all images; give another kind")


def _compared(models: list[str], others: Others) -> None:
    if 0 < len({*models} & {*HUB}) < len(models):
        raise ValueError("mini models and ViT-B have other sizes; name models of one size")
    if len({name in LABELS for name in models}) < 2:
        raise ValueError(f"both kinds are compared; name one of {LABELS} and one that is not")


def _iav_data(data: str, others: Others) -> None:
    if data == "cutouts" and {*others.get("models", [])} & {*HUB}:
        raise ValueError(f"Cutouts has at most 128 pixels, {HUB} need 224; use cifar10")


def _iav_root(data_root: str, others: Others) -> None:
    if others.get("data") == "cifar10" and not data_root:
        raise ValueError("data cifar10 has no folder; give the one it was unpacked to")


def _reference(reference: str, others: Others) -> None:
    if reference not in others.get("models", [reference]):
        raise ValueError("it is not among models; name one of them")


def _origin(origin: str, others: Others) -> None:
    _of_published(origin != "pretrained", others)


def _text_weights(root: str, others: Others) -> None:
    _of_published(bool(root), others)
    if root and others.get("source") == "random":
        raise ValueError("source = random reads no weights; leave one of the two out")


def _of_published(given: bool, others: Others) -> None:
    model = others.get("text_model", PUBLISHED)
    if given and model != PUBLISHED:
        raise ValueError(f"it is of {PUBLISHED}, and text_model is {model}; leave it out")


def _corpus_root(root: str, others: Others) -> None:
    if not root and {*others.get("corpora", [])} & {*ON_DISK}:
        raise ValueError(f"{ON_DISK} are read from a folder; give the one they are in")


def _explained(texts: int, others: Others) -> None:
    if texts > (held_out := others.get("held_out_texts", texts)):
        raise ValueError(f"they are among held_out_texts, which are {held_out}")


# By notebook and parameter: what raises ValueError for a value that does not go with the others.
RELATIONS: dict[tuple[str, str], Callable[[Any, Others], None]] = {
    ("02_finetune", "masks"): _masks,
    ("03_robustness", "arms"): _arms("method", "weight_relevance"),
    ("03_robustness", "arm_seeds"): _arm_seeds,
    ("03_robustness", "home_arm"): _home_arm,
    ("04_cures", "arms"): _cures,
    ("04_cures", "arm_settings"): _of_all_arms,
    ("04_cures", "followed"): _followed,
    ("05a_ablations", "maps"): _arms("masks", "images_per_class"),
    ("08_iav", "models"): _compared,
    ("08_iav", "data"): _iav_data,
    ("08_iav", "data_root"): _iav_root,
    ("08_iav", "reference"): _reference,
    ("09_text", "source"): _origin,
    ("09_text", "weights_root"): _text_weights,
    ("09_text", "corpus_root"): _corpus_root,
    ("09_text", "explained_texts"): _explained,
}
