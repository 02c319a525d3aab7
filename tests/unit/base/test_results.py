"""Files that the suite wrote, read when they are whole and named when they are not."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from relevit.base.results import read_json, read_rows, read_table

AGAIN = "; delete the folder {}, and run again to make it anew"


def refused(path, reason):
    text = f"results: {path} is cut short, damaged or was edited ({reason})"
    return pytest.raises(ValueError, match=f"^{re.escape(text + AGAIN.format(path.parent))}$")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"parameters": {"epo', "it is no JSON"),
        (b"", "it is no JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b'{"a": "\xe4"}', "it is no text in UTF-8"),
        (b"[1]", "it holds no values by name"),
    ],
)
def test_json_that_is_none(tmp_path, content, reason):
    path = tmp_path / "summary.json"
    path.write_bytes(content)
    with refused(path, reason) as caught:
        read_json(path)
    assert not isinstance(caught.value, json.JSONDecodeError)
    path.write_bytes(b'{"epoch": 0}\n' + content + b"\n")
    with refused(path, reason):
        read_rows(path)


def test_a_value_that_is_gone_is_told_with_the_file(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text('{"parameters": {"seed": 1}, "epochs": [1]}')
    found = read_json(path)
    assert found == {"parameters": {"seed": 1}, "epochs": [1]}
    assert found.get("lr") is None and found["parameters"]["seed"] == 1
    with refused(path, "it has no 'chosen_lr'"):
        found["chosen_lr"]
    with refused(path, "it has no 'model'"):
        found["parameters"]["model"]
    with refused(path, "its 'epochs' are no values by name"):
        found.values_of("epochs")


def test_a_table_that_is_none(tmp_path):
    path = tmp_path / "rates.parquet"
    whole = pd.DataFrame({"lr": np.linspace(0, 1, 50)})
    whole.to_parquet(path)
    assert read_table(path, ["lr"]).equals(whole)
    with refused(path, "it has no column 'index'"):
        read_table(path, ["lr", "index"])
    path.write_bytes(path.read_bytes()[:-20])
    with refused(path, "it is no whole parquet file"):
        read_table(path)
    with pytest.raises(FileNotFoundError, match=r"gone\.parquet is missing; run the stage that"):
        read_table(path.with_name("gone.parquet"))
