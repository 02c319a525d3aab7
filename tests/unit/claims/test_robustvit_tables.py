"""Verdicts on RobustViT: tables from disk, tables missing or wrong, and what the tables are."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from relevit.claims.robustvit import (
    SCHEMAS,
    SOURCES,
    changed_images,
    read_tables,
    robustvit_verdicts,
)

from ..robustvit_tables import knn, looks, made, sis


def test_changed_images():
    rows = [
        [run, "val", i, i, rank]
        for run, ranks in (("original", (0, 1)), ("seed0", (2, 0)))
        for i, rank in enumerate(ranks)
    ]
    columns = ["model_run", "dataset", "index", "label", "label_rank"]
    table = changed_images(pd.DataFrame(rows, columns=columns), {"seed0": [1]})
    assert set(SCHEMAS["changed_images"][0]) <= set(table.columns)
    assert table["classes"].tolist() == ["B", "A"]
    assert table["change_top1_pts"].tolist() == [-100.0, 100.0]


def test_tables_come_from_the_stage_folders(tmp_path):
    for notebook, names in SOURCES.items():
        (tmp_path / notebook).mkdir()
        for name in names:
            made()[name].to_parquet(tmp_path / notebook / f"{name}.parquet")
    (tmp_path / "09_sis" / "sis.parquet").unlink()
    tables = read_tables({name: tmp_path / name for name in SOURCES})
    assert set(tables) == set(SCHEMAS) - {"changed_images", "sis"}
    before = {v.id: v.verdict for v in robustvit_verdicts(tables)}
    # A results file on disk decides: change it, and the verdict changes.
    sis(missed=2).to_parquet(tmp_path / "09_sis" / "sis.parquet")
    after = {
        v.id: v.verdict
        for v in robustvit_verdicts(read_tables({name: tmp_path / name for name in SOURCES}))
    }
    assert {k for k in after if after[k] != before[k]} == {"RV-26"}
    assert (before["RV-26"], after["RV-26"]) == ("not testable here", "fails")


def test_wrong_tables():
    where = "robustvit_verdicts: "
    with pytest.raises(ValueError, match=rf"{where}tables \['runs'\] are unknown; use some of"):
        robustvit_verdicts({"runs": knn()})
    with pytest.raises(ValueError, match=r"knn has \{.*\} twice; one row is needed"):
        robustvit_verdicts({"knn": pd.concat([knn(), knn().tail(1)])})
    table = looks()
    table.loc[3, "confidence_pct"] = math.nan
    with pytest.raises(ValueError, match=r"looks has a number that is not finite at \{'dataset'"):
        robustvit_verdicts({"looks": table})


def test_categories_are_taken_as_text():
    kinds = {name: keys for name, (keys, _) in SCHEMAS.items()}
    tables = {
        name: table.astype(
            {
                key: "category"
                for key in kinds[name]
                if table[key].dtype == object or pd.api.types.is_string_dtype(table[key])
            }
        )
        for name, table in made().items()
    }
    assert robustvit_verdicts(tables) == robustvit_verdicts(made())
