"""What the stages of a preset need from outside: fetched or looked at before long work starts."""

from __future__ import annotations

from collections.abc import Mapping

from relevit.base.errors import PACKAGES, need_packages
from relevit.choices.words import DINOV2, HUB
from reproduction.params.cells import Params
from reproduction.params.order import NOTEBOOKS
from reproduction.params.preset import Preset
from reproduction.params.words import ON_DISK


def fetch(preset: Preset) -> None:
    """Fetch what the stages of a preset would fetch, once and now.

    Texts and models that they name in a folder are looked at there instead.
    Raises: ImportError without the extra `text`, ConnectionError for what cannot be had,
    FileNotFoundError or ValueError for what is missing from a folder or wrong in it.
    """
    need_packages("pipeline", "text", *PACKAGES)
    if set(NOTEBOOKS) - set(preset.stages):  # a few alone, which fetch what they need themselves
        return
    stages = preset.stages
    _fetch_originals(stages)
    original, text = stages["00_start"], stages["09_text"]
    trains = original.source == "train" or bool(stages["03_robustness"].home_shares)
    pretrained = trains and original.model in DINOV2
    own = stages["10_your_own"].own_model in DINOV2
    if pretrained or own or stages["01_masks"].feature_model == "dinov2-s":
        from relevit.models.dinov2 import load_dinov2

        load_dinov2()
    if text.text_model == "minilm-l6":
        from relevit.text.minilm import minilm_folder

        minilm_folder()
    _fetch_texts(f"{preset.path}: 09_text", text)
    if text.text_model == "bert-base" and text.source == "pretrained":
        from reproduction.language.pretrained import bert_folder

        bert_folder(text.weights_root)
    if stages["09a_text"].clip and text.source == "pretrained":
        from relevit.text.clip.from_transformers import clip_folder

        clip_folder(text.weights_root)


def _fetch_originals(stages: Mapping[str, Params]) -> None:
    from relevit.models import loading
    from relevit.models.registry import CUT

    original, compared = stages["00_start"], stages["08_iav"]
    names = [*original.others, original.model] if original.source == "published" else []
    asked = {name: original.weights_root for name in names if not name.endswith(CUT)}
    asked |= {name: compared.weights_root for name in compared.models if name in HUB}
    for name, root in asked.items():
        if not root:
            loading.load_model(name)


def _fetch_texts(place: str, cfg: Params) -> None:
    if "movie_reviews" in cfg.corpora:
        from habitats.corpora.movie_reviews import fetch_reviews

        fetch_reviews()
    if on_disk := [name for name in cfg.corpora if name in ON_DISK]:
        from reproduction.language.reading import read_on_disk

        for name in on_disk:
            read_on_disk(cfg, name, where=place)
