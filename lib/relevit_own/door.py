"""What is wrong with words of the command, said before torch is loaded, which takes seconds.

Files that are missing, models, methods and devices that nobody knows, a hub that does not answer.
What these let through is looked at again, more closely, by whoever uses it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import get_args

from relevit.base.errors import PACKAGES, need_packages

TOKENCUT = "tokencut"  # in place of masks
PLAIN = {("check", "data"), ("explain", "image"), ("judge", "method")}  # typed without an option


def need_words(given: Sequence[str]) -> None:
    """Raise ValueError for an empty word, which as a path is the folder that one is in."""
    for before, word in pairwise(["relevit", *given]):
        if not word or re.fullmatch(r"--[\w-]+=", word):
            raise ValueError(
                f"behind {word or before} stands nothing; is a variable of your shell empty? give "
                "it a value, or leave it out"
            )


def need_there(command: str, **paths: str | Path | None) -> None:
    """Raise FileNotFoundError that names the first option whose file or folder is missing."""
    for name, path in paths.items():
        if path is not None and str(path) != "" and not os.path.exists(path):
            flag = "" if (command, name) in PLAIN else f"--{name} "
            raise FileNotFoundError(f"{command}: {flag}{path} is missing; check its name")


def need_room(command: str, **folders: str | Path | None) -> None:
    """Raise ValueError that names the first option whose folder cannot be made or written to."""
    for name, folder in folders.items():
        if folder is not None:
            path = Path(folder).absolute()
            there = next(each for each in (path, *path.parents) if each.exists())
            if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
                why = "may only be read" if there.is_dir() else "is a file"
                raise ValueError(
                    f"{command}: --{name} cannot be written, for {there} {why}; give another"
                )


def need_masks(command: str, masks: str | None) -> None:
    """As `need_there`, but for `tokencut`."""
    need_there(command, masks=None if masks == TOKENCUT else masks)


def need_device(command: str, device: str) -> None:
    """Raise ValueError for what is no device's name; whether it is here torch says."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", device):
        raise ValueError(f"{command}: --device {device}; use auto, cpu, cuda, cuda:N or mps")


def need_methods(command: str, methods: Iterable[str]) -> None:
    """Raise ValueError for a method's name that nobody knows, with those like it."""
    from relevit.choices.words import ALIASES, AttributionName

    loaded = sys.modules.get("relevit.attribution.methods")  # to which others may have added some
    known = [*loaded.METHODS] if loaded else [*get_args(AttributionName)]
    for name in methods:
        if name not in known and name.lower() not in ALIASES:
            raise ValueError(
                f"{command}: --method {name} is unknown{_like(name, known)}; use some of "
                f"{', '.join(known)}"
            )


def need_model(command: str, name: str, weights: str | None, device: str) -> None:
    """Raise ValueError for a model's name that nobody knows, with those like it; FileNotFoundError
    for weights that are missing; ConnectionError where they are on a hub that does not answer."""
    from relevit.choices.words import CLIP, CLIP_ON_HUB, MORE_MODELS, AnyModelName, HubName

    need_device(command, device)
    need_there(command, weights=weights)
    if ":" in name and weights:
        raise ValueError(f"{command}: --model {name} has weights of its own; leave --weights out")
    suite = {*get_args(AnyModelName), *get_args(HubName), *MORE_MODELS}
    place, _, inside = name.rpartition(":")
    if is_clip(name):
        need_packages(command, "text", *PACKAGES)
    towers = name == CLIP and command == "finetune"  # timm's
    if name in suite or towers or (place.startswith("local") and inside):
        return
    written = Path(name, "config.json").is_file()
    if os.path.isdir(name) and (written or not in_timm(name)):
        if not written:
            raise FileNotFoundError(
                f"{command}: --model {name} holds no finished run nor another model with its "
                "config.json; give the --out of relevit finetune, or a model's name"
            )
        return
    if not place and name != CLIP and not in_timm(name):
        raise ValueError(
            f"{command}: --model {name} is unknown{_like(name, [*suite, *timm_words()])}; use a "
            f"name of timm's, one of {', '.join(sorted(suite))}, or the --out of relevit finetune"
        )
    if not weights:
        from relevit.base.hub import A_FILE, A_FOLDER, need_hub

        repository, instead = f"timm/{name}", A_FILE
        if place:
            repository, instead = inside.partition("@")[0], A_FOLDER  # of a revision
        elif name == CLIP:
            repository, instead = CLIP_ON_HUB, "give weights, its folder that was fetched elsewhere"
        need_hub(f"{command}: --model {name}", repository, instead)


def is_clip(name: str) -> bool:
    """Whether a model is asked about texts: CLIP by name, or a folder as transformers has it."""
    from relevit.choices.words import CLIP

    config = Path(name, "config.json")
    try:
        return name == CLIP or json.loads(config.read_text("utf-8"))["model_type"] == "clip"
    except (OSError, ValueError, LookupError, TypeError):
        return False


def need_texts(name: str, texts: Sequence[str]) -> None:
    """Raise ValueError for CLIP with fewer than two, whose logit is no probability, and for texts
    without CLIP."""
    if is_clip(name) and len(texts) < 2:
        raise ValueError(
            f"explain: {name} compares texts; give two or more, such as --text 'a bus' 'a bicycle'"
        )
    if texts and not is_clip(name):
        raise ValueError(
            f"explain: --text is for CLIP, and {name} is none; leave it out, or take clip-b32"
        )


def _like(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, known)
    return f", nearest are {', '.join(close)}" if close else ""


def in_timm(name: str) -> bool:
    """Whether timm may know a model: one of this name, and weights of this tag, if there is one."""
    return {*name.split(".", 1)} <= timm_words()


@cache
def timm_words() -> frozenset[str]:
    """timm's models, their tags, and both, read off its files: to load it takes torch.

    Words of other things are among them.
    """
    text = "".join(
        path.read_text("utf-8")
        for path in Path(find_spec("timm").origin).parent.glob("models/*.py")
    )
    found = re.findall(r"(?m)^def (\w+)\(|['\"]([\w.]+)['\"]\s*:", text)
    whole = {defined or key for defined, key in found}
    return frozenset(whole.union(*(each.split(".", 1) for each in whole)))
