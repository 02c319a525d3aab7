"""Parameter files: the plain part of YAML, in which every value stands once and under a name."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from relevit.choices.messages import short, shown

TEXT = "tag:yaml.org,2002:str"
LARGEST = 100_000  # bytes of a file, far more than the longest list of classes has


class _Loader(yaml.SafeLoader):
    """Safe YAML without what the last of two values wins by, and what grows as it is read."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event, wrong = self.peek_event(), ""
        if isinstance(event, yaml.AliasEvent):
            wrong = "an alias (*); write the value itself"
        elif event.tag is not None:
            wrong = "a tag (!); write the value without it, or put it into quotes"
        if wrong:
            raise yaml.MarkedYAMLError(None, None, wrong, event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names = set()
        for key, _ in node.value:
            if key.tag != TEXT:
                wrong = "a key that is no name; write one, or put this into quotes"
                raise yaml.MarkedYAMLError(None, None, wrong, key.start_mark)
            if key.value in names:
                wrong = f"{shown(key.value)} stands twice; leave one of the two"
                raise yaml.MarkedYAMLError(None, None, wrong, key.start_mark)
            names.add(key.value)
        return super().construct_mapping(node, deep)


def yaml_values(path: Path) -> dict[str, Any]:
    """The values of a parameter file by name; none for an empty one.

    Raises: FileNotFoundError; ValueError, in one sentence, for a file that is no such list.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"params: {path} is missing; copy params/quick.yaml to it and edit it"
        )
    return _read(path, changed_at(path))


def changed_at(path: Path) -> int:
    """When a file was changed, in nanoseconds; 0 where there is none."""
    return path.stat().st_mtime_ns if path.is_file() else 0


@lru_cache
def _read(path: Path, changed: int) -> dict[str, Any]:
    """Kept, as it is asked for section by section and takes a while: nobody may change it."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path}: has over {LARGEST:,} bytes, too many for parameters; cut it")
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1
        raise ValueError(f"{path}: no valid YAML: line {line}: {short(error.problem)}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: no UTF-8 text: save it as UTF-8") from error
    except RecursionError:  # its traceback is long
        raise ValueError(f"{path}: too many brackets in each other; write fewer") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: no valid YAML: {short(' '.join(str(error).split()))}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ValueError(f"{path}: needs `name: value` lines, has {type(values).__name__}")
    return values
