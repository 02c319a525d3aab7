"""The hub that timm and transformers fetch weights from: does it answer?"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from relevit.base.errors import one_line

PATIENCE_S = 5.0  # for the first answer; a download itself may take as long as it likes
# What can be given in place of what the hub has: of timm's names, and of `hf-hub:`.
A_FILE = "give weights, a file that was fetched elsewhere"
A_FOLDER = "give its folder, fetched elsewhere, as local-dir:FOLDER"


def need_hub(user: str, repository: str, instead: str = A_FILE) -> None:
    """Raise ConnectionError within seconds where the hub does not answer and has to.

    It has not where files of `repository` are in its cache: those of a name without a tag, such as
    timm/vit_base_patch16_224, under any. `instead` is what its user can give. The hub's own client
    tries each of several files six times, which takes most of a minute.
    """
    from huggingface_hub import constants, get_session

    cache, name = Path(constants.HF_HUB_CACHE), f"models--{repository.replace('/', '--')}"
    found = [*cache.iterdir()] if cache.is_dir() else []
    if any(fnmatch(each.name, pattern) for each in found for pattern in (name, f"{name}.*")):
        return
    way = f"connect, or {instead}"
    if constants.HF_HUB_OFFLINE:
        raise ConnectionError(f"{user}: its weights are not here, and HF_HUB_OFFLINE is set; {way}")
    try:
        get_session().head(constants.ENDPOINT, timeout=PATIENCE_S)
    except Exception as error:  # of many kinds: a proxy's address may be no address
        raise ConnectionError(
            f"{user}: the hub does not answer ({constants.ENDPOINT}: {one_line(error)}); {way}"
        ) from error
