"""Files of published models: had from the hub once, and read without a pickle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import nn

from relevit.base.errors import one_line
from relevit.base.files import from_project
from relevit.base.hub import need_hub

CUT_BLOCKS = 2  # of random models in the shape of large ones


def model_folder(
    where: str,
    weights_root: str,
    name: str,
    hub: str,
    files: Sequence[str],
    *,
    more: Sequence[str] = (),
    revision: str | None = None,
    note: str = "",
) -> Path:
    """Folder with `files` of a published model, and `more` of it where there are.

    It is `name` below `weights_root`, or where that is empty the hub's, fetched once.
    """
    own = f"give weights_root, a folder with {name}/ and in it {', '.join(files)}"
    if weights_root:
        folder = from_project(weights_root) / name
    else:
        from huggingface_hub import snapshot_download

        need_hub(f"{where}: {hub}", hub, own)
        try:
            wanted = [*files, *more]
            folder = Path(snapshot_download(hub, revision=revision, allow_patterns=wanted))
        except Exception as error:  # the hub's errors are of many kinds
            raise ConnectionError(
                f"{where}: {hub} cannot be had from the hub ({one_line(error)}); {own}"
            ) from error
    if missing := [name for name in files if not (folder / name).is_file()]:
        raise FileNotFoundError(
            f"{where}: {folder} lacks {', '.join(missing)}; put the files of {hub} there, or {own} "
            f"(left empty it is the hub's){note}"
        )
    return folder


def read_weights(
    where: str, architecture: type[nn.Module], folder: Path, **options: Any
) -> nn.Module:
    """A model of transformers out of a folder's safetensors: no pickle, no code of the folder.

    A pooler that the file lacks is left as it was drawn.
    """
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        model, about = architecture.from_pretrained(
            folder,
            use_safetensors=True,  # a pickle would run what it says
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            **options,
        )
        lacking = sorted(key for key in about["missing_keys"] if not key.startswith("pooler."))
        if lacking:  # they would be left at random
            raise ValueError(f"it lacks {lacking[0]}, {len(lacking)} in all")
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ValueError(
            f"{where}: {folder} holds no {architecture.__name__} that transformers can read "
            f"({one_line(error)}); copy its files there again"
        ) from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
    return model
