"""Links from claims to the cells that show their numbers."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook

from relevit.claims import attribution as claims_attribution
from relevit.claims import iav as claims_iav
from relevit.claims import verdicts as claims
from relevit.claims.evidence import Cell, evidence_cells, folded, linked_table
from relevit.claims.robustvit import CRITERIA, OUTSIDE
from relevit.config import NOTEBOOKS

ROOT = Path(__file__).parents[3]


@pytest.fixture
def notebooks(tmp_path):
    def write(name, *tags):
        cells = [
            new_code_cell("1", id=f"{i:02}-x", metadata={"tags": t}) for i, t in enumerate(tags)
        ]
        nbformat.write(new_notebook(cells=cells), tmp_path / f"{name}.ipynb")
        return tmp_path

    return write


def test_cells_and_links(notebooks):
    notebooks("09_sis", ["parameters"], ["RV-26", "nbval-check-output"])
    folder = notebooks("08_ablations", ["RV-26", "BI-01"], ["RV-263", "claims"])
    cells = evidence_cells(folder)
    assert list(cells) == ["RV-26", "BI-01"]
    assert cells["RV-26"] == [Cell("08_ablations", "00-x"), Cell("09_sis", "01-x")]
    links = [cell.link() for cell in cells["RV-26"]]
    assert links[0] == "08_ablations/executed.html#cell-id=00-x"
    assert links[1] == "09_sis/executed.html#cell-id=01-x"


def test_the_anchor_is_what_nbconvert_writes(notebooks):
    path = notebooks("09_sis", ["RV-26"]) / "09_sis.ipynb"
    page, _ = HTMLExporter().from_filename(str(path))
    (cell,) = evidence_cells(path.parent)["RV-26"]
    assert f'id="{cell.link().split("#")[1]}"' in page


def test_without_notebooks(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"evidence_cells: no notebooks in .*; give the pr"):
        evidence_cells(tmp_path / "nothing")


def test_linked_table():
    verdicts = [
        claims.Verdict("RV-26", "fails", "3 of 4 < 5", "not met"),
        claims.Verdict("RV-42", "not testable here", "", "no run"),
    ]
    table = claims.verdict_table(verdicts, CRITERIA)
    page = linked_table(table, {"RV-26": [Cell("09_sis", "01"), Cell("09_sis", "02")]})
    assert '<a href="09_sis/executed.html#cell-id=01">09_sis</a>' in page
    assert "3 of 4 &lt; 5" in page
    assert page.count("<a href") == 2 and ">09_sis (2)<" in page and page.count("<tr") == 3


def test_folded():
    page = folded("Table 1 & 2", pd.DataFrame({"a": [1]}))
    assert page.startswith("<details><summary>Table 1 &amp; 2</summary>") and "<table" in page


# The notebooks of the suite


def can_be_tested():
    criteria = claims.CRITERIA | CRITERIA | claims_attribution.CRITERIA | claims_iav.CRITERIA
    outside = {**OUTSIDE, **claims_attribution.NOT_TESTABLE, **claims_iav.NOT_TESTABLE}
    return sorted(claim for claim in criteria if claim not in outside)


@pytest.mark.parametrize("claim", [c for c in can_be_tested() if c != "BI-06"])
def test_every_testable_claim_has_evidence(claim):
    cells = cells_of_the_suite().get(claim, [])
    assert cells, f"tag the cell that shows the number of {claim}"
    assert {cell.notebook for cell in cells} <= set(NOTEBOOKS) - {"99_report"}


def test_no_tag_without_a_criterion():
    known = {**claims.CRITERIA, **CRITERIA, **claims_attribution.CRITERIA, **claims_iav.CRITERIA}
    assert set(cells_of_the_suite()) <= set(known)


_CELLS: dict = {}


def cells_of_the_suite():
    if not _CELLS:
        _CELLS.update(evidence_cells(ROOT / "notebooks"))
    return _CELLS
