"""A model's card: the README beside its weights, with the front matter that Hugging Face reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from relevit.base.files import file_fingerprint, write_atomically
from relevit.choices.words import MORE_MODELS
from relevit.models.heads import BOTH
from relevit.models.loading import OwnModel

# https://huggingface.co/docs/hub/model-cards
FRONT = {"library_name": "timm", "pipeline_tag": "image-classification"}
TAGS, OF_MAPS = ("timm", "robustvit"), ("vision-transformer", "explainability", "relevance-maps")
LICENCE = "# license: CHOOSE ONE  <- the weights are yours: say apache-2.0, mit, cc-by-4.0, ...\n"
CITATION = """@inproceedings{chefer2022optimizing,
  title     = {Optimizing Relevance Maps of Vision Transformers Improves Robustness},
  author    = {Chefer, Hila and Schwartz, Idan and Wolf, Lior},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2022},
  note      = {arXiv:2206.01161},
  url       = {https://arxiv.org/abs/2206.01161}
}"""


def write_card(
    path: Path,
    own: OwnModel,
    about: str,
    settings: Mapping[str, Any],
    data: Mapping[str, Any],
    numbers: pd.DataFrame,
    weights: Path,
) -> None:
    """Write the card of finetuned `weights` to `path`, a README.md beside them.

    `about` says what was trained, `settings` are those of the finetuning and `data` facts of the
    images, both listed as they are; `numbers` compares before and after, a row a test set. The
    licence is left to the reader.
    """
    spec, front = own.spec, FRONT | {"tags": [*TAGS, *(() if own.no_maps else OF_MAPS)]}
    parts = [
        f"---\n{yaml.safe_dump(front, sort_keys=False)}{LICENCE}---\n",
        f"# {spec.name}, finetuned with {about}\n",
        "A classifier of images finetuned by RelEViT. The relevance terms, where they are named, "
        "are those of RobustViT (Chefer, Schwartz, Wolf 2022): answers shall rest on the object "
        "and not on the background.\n",
        f"- architecture: `{spec.timm_name}`, {spec.classes} classes, "
        f"{spec.image_size} x {spec.image_size} pixels",
        f"- head before finetuning: {'new' if own.new_head else 'as it came'}",
        f"- weights: `{weights.name}`, SHA-256 begins with `{file_fingerprint(weights)}`\n",
        f"## Use\n\n```python\n{load_code(own, weights)}```\n",
        f"## Data\n\n{_listed(data)}\n",
        f"## Numbers\n\n```\n{numbers.to_string()}\n```\n",
        f"## Settings\n\n{_listed(settings)}\n",
        f"## Citation\n\n```bibtex\n{CITATION}\n```\n",
    ]
    write_atomically(path, "\n".join(parts))


def load_code(own: OwnModel, weights: Path) -> str:
    """How to load the model and answer for an image, run beside the weights.

    With plain timm, but where the architecture is one of `MORE_MODELS`.
    """
    spec, view = own.spec, own.view
    if getattr(own.network, "global_pool", "") == BOTH:  # which timm has no option for
        loading = (
            "import timm.data\n"
            "from PIL import Image\n"
            "from relevit import load_model\n\n"
            'model = load_model("local-dir:.")\n'
        )
    elif spec.timm_name in MORE_MODELS:
        loading = (
            "import timm.data\n"
            "from PIL import Image\n"
            "from relevit import load_model\n\n"
            f'model = load_model("{spec.name}", "{weights.name}", options={spec.options})\n'
        )
    else:
        options = "".join(f", {key}={value!r}" for key, value in spec.options.items())
        loading = (
            "import timm\n"
            "from PIL import Image\n\n"
            f'model = timm.create_model("{spec.timm_name}", num_classes={spec.classes}, '
            f'checkpoint_path="{weights.name}"{options})\n'
        )
    return loading + (
        f"prepare = timm.data.create_transform({spec.image_size}, mean={spec.mean}, "
        f'std={spec.std}, interpolation="{view.interpolation}", crop_pct={view.crop_pct:g}, '
        f'crop_mode="{view.crop_mode}")\n'
        'logits = model.eval()(prepare(Image.open("image.jpg").convert("RGB"))[None])\n'
    )


def _listed(facts: Mapping[str, Any]) -> str:
    """A line a fact, nested ones as JSON."""
    lines = [
        f"- {key}: {json.dumps(value, default=str) if isinstance(value, (dict, list)) else value}"
        for key, value in facts.items()
    ]
    return "\n".join(lines) or "Nothing is noted."
