"""Parameter files that are none: one sentence that names the file, and soon."""

from __future__ import annotations

import re
import time

import pytest

from reproduction.params.yaml_files import yaml_values

LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"epochs: 1\nlr: 0.1\nepochs: 2\n", "no valid YAML: line 3: 'epochs' stands twice; leave"),
        (b"benchmark:\n  ways: 200\n  ways: 200\n", "no valid YAML: line 3: 'ways' stands twice"),
        (b"5: 1\n", "no valid YAML: line 1: a key that is no name; write one, or put"),
        (b"null: 1\n", "no valid YAML: line 1: a key that is no name"),
        (b"lr: 0.1\non: 1\n", "no valid YAML: line 2: a key that is no name"),
        (b"? [a, b]\n: 1\n", "no valid YAML: line 1: a key that is no name"),
        (b"<<: {lr: 0.1}\n", "no valid YAML: line 1: a key that is no name"),
        (b"lr: &rate 0.1\nhead_lr: *rate\n", "no valid YAML: line 2: an alias (*); write the val"),
        (LAUGHS.encode(), "no valid YAML: line 2: an alias (*); write the value itself"),
        (b"lr: " + b"[" * 5000 + b"]" * 5000, "too many brackets in each other; write fewer"),
        ("data_root: Möbel\n".encode("latin-1"), "no UTF-8 text: save it as UTF-8"),
        ("lr: 0.1\n".encode("utf-16"), "no UTF-8 text: save it as UTF-8"),
        ("lr: 0.1\n".encode("utf-16-le"), "no valid YAML: unacceptable character #x0000: spec"),
        (b"lr: !!float x\n", "no valid YAML: line 1: a tag (!); write the value without it, or"),
        (b"lr: !!timestamp x\n", "no valid YAML: line 1: a tag (!)"),
        (b"? !!str {}\n: 1\n", "no valid YAML: line 1: a tag (!)"),
        (b"lr: !" + b"x" * 5000, "no valid YAML: line 1: a tag (!)"),
        (b"%x" + b"y" * 5000 + b"\n%YAML 9.9\n---\na: 1", "no valid YAML: line 2: found incompat"),
        (b"? " + b"x" * 5000 + b"\n: 1\n? " + b"x" * 5000, "no valid YAML: line 3: 'xxx"),
        (b"a: 1\n" * 60_000, "has over 100,000 bytes, too many for parameters; cut it"),
        (b"lr: 2026-99-99\n", "no valid YAML: month must be in 1..12"),
        (b"false\n", "needs `name: value` lines, has bool"),
    ],
)
def test_a_file_that_is_none_is_one_sentence(tmp_path, content, text):
    path = tmp_path / "02_finetune.yaml"
    path.write_bytes(content)
    start = time.process_time()
    with pytest.raises(ValueError, match=rf"^{re.escape(f'{path}: {text}')}") as caught:
        yaml_values(path)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 600
    assert time.process_time() - start < 5


def test_text_of_any_language_and_an_empty_file_are_read(tmp_path):
    path = tmp_path / "10_your_own.yaml"
    path.write_text("\ufeffdata: Möbel\nown_options: {img_size: 224}\n", encoding="utf-8")
    assert yaml_values(path) == {"data": "Möbel", "own_options": {"img_size": 224}}
    path.write_text("# Nothing.\n")
    assert yaml_values(path) == {}
