"""Tables of pictures: their columns, and what is wrong with a row."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit_own.folder import read_data, read_splits
from unit.own.troubles import write_plain

ROWS = [
    ("images/bee/0.jpg", "None", "masks/bee/0.png", "train"),
    ("images/ant/0.jpg", "ant", "", "train"),
    ("images/bee/1.jpg", "None", "masks/bee/1.png", "val"),
]


@pytest.fixture
def table(tmp_path):
    write_plain(tmp_path)
    return pd.DataFrame(ROWS, columns=["image", "label", "mask", "split"])


@pytest.mark.parametrize(
    "name", ["birds.csv", "semicolons.csv", "birds.parquet", "categories.parquet"]
)
def test_tables_list_pictures_masks_and_parts(tmp_path, table, name):
    """A class may be called None; that is no missing label."""
    if name == "categories.parquet":
        table = table.astype({"label": "category"})
    if name.endswith("parquet"):
        table.replace({"mask": {"": None}}).to_parquet(tmp_path / name)
    else:
        text = table.to_csv(index=False, sep=";" if name.startswith("semi") else ",")
        (tmp_path / name).write_text("\ufeff" + text, encoding="utf-8")  # as Excel writes it
    found = read_splits(tmp_path / name)
    assert list(found) == ["train", "validation"]
    assert found["train"].classes == found["validation"].classes == ("None", "ant")
    assert found["train"].ids == ("images/bee/0.jpg", "images/ant/0.jpg")
    assert found["train"].masks == (tmp_path / "masks/bee/0.png", None)
    assert found["validation"].has_masks and found["validation"].labels.tolist() == [0]
    with pytest.raises(ValueError, match=r"has the parts train, validation; read it with"):
        read_data(tmp_path / name)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(("10", "2", "1"), ("1", "2", "10")), (("k10", "k2", "k1"), ("k1", "k10", "k2"))],
)
def test_whole_numbers_are_in_order_of_their_value_and_names_of_their_text(
    tmp_path, table, labels, classes
):
    table.assign(label=labels).to_csv(tmp_path / "birds.csv", index=False)
    assert read_splits(tmp_path / "birds.csv")["train"].classes == classes


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"image": None}, r"has no column image; it has 'label', 'mask', 'split'"),
        ({"label": ["a", None, "b"]}, r"birds.csv, row 2, has no label; give each picture"),
        ({"image": ["images/bee/0.jpg", "gone.jpg", "x"]}, r"row 2: the image .*gone.jpg is miss"),
        ({"mask": ["", "", "gone.png"]}, r"row 3: the mask .*gone.png is missing; write paths"),
        ({"split": ["train", "holdout", "val"]}, r"row 2, has the split 'holdout'; give one of"),
        ({"label": ["a"] * 3}, r"has 1 class, 'a'; needed are at least 2"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, table, change, text):
    for column, values in change.items():
        table = table.drop(columns=column) if values is None else table.assign(**{column: values})
    table.to_csv(tmp_path / "birds.csv", index=False)
    with pytest.raises((ValueError, FileNotFoundError), match=text):
        read_splits(tmp_path / "birds.csv")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", r"birds.csv cannot be read"),
        (b"image,label\n", r"birds.csv has no rows; list at least one"),
        ("image,label\nx,Grünspecht\n".encode("latin-1"), r"cannot be read \(.*UTF-8"),
    ],
)
def test_files_that_are_no_tables(tmp_path, content, text):
    (tmp_path / "birds.csv").write_bytes(content)
    with pytest.raises(ValueError, match=text):
        read_data(tmp_path / "birds.csv")
