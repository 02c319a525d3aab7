"""What the report shows: links to the cells with the numbers, and tables of texts and phrases."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from relevit import claims
from relevit.base import errors, stages
from relevit.claims import CLAIMS, claim_grid, evidence_cells, folded
from relevit.claims.registry import (
    CONTRADICTED,
    HOLDS,
    NO_ROOM,
    NOT_TESTABLE,
    VERDICTS,
    ResultTables,
)
from relevit.claims.report import COLOURS, Cell
from relevit.config import NOTEBOOKS, ReportParams
from relevit.evaluate.looking import RIGHT, WRONG

from .made import made
from .made.frames import frame
from .made.maps import text_rationales

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
    assert links[0] == "08_ablations.ipynb#cell-id=00-x"
    assert links[1] == "09_sis.ipynb#cell-id=01-x"


def test_without_notebooks(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"evidence_cells: no notebooks in .*; give the pr"):
        evidence_cells(tmp_path / "nothing")


def verdict_rows():
    return claims.verdict_table(
        [
            claims.Verdict("RV-26", CONTRADICTED, "3 of 4 < 5", "not met"),
            claims.Verdict("RV-42", NOT_TESTABLE, "", "no run"),
            claims.Verdict("IAV-01", NO_ROOM, "1 " * 90, "within its error"),
        ]
    )


def test_every_claim_is_a_card_with_its_number_and_links():
    page = claim_grid(verdict_rows(), {"RV-26": [Cell("09_sis", "01"), Cell("09_sis", "02")]})
    assert '<a href="09_sis.ipynb#cell-id=01">09_sis</a>' in page
    assert page.count("<a href") == 2 and ">09_sis (2)<" in page
    assert '<p class="number">3 of 4 &lt; 5</p>' in page
    assert page.count("<article") == 3
    assert '<article data-paper="IAV" data-verdict="no room">' in page
    assert page.count("1 " * 90) == 2, "a long number is cut in the card, and whole below it"


def test_the_grid_counts_verdicts_and_offers_those_that_there_are():
    page = claim_grid(verdict_rows(), {})
    rows = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in page.split("<tr")]
    assert ["", CONTRADICTED, NO_ROOM, NOT_TESTABLE] in [row[:4] for row in rows]
    assert ["RobustViT", "1", "0", "1"] in rows and ["all", "1", "1", "1"] in rows
    assert "<option>IAV</option>" in page and "<option>holds</option>" not in page
    assert "Beyond Intuition" not in page


def test_without_javascript_all_claims_are_shown_and_no_filter():
    page = claim_grid(verdict_rows(), {}).split("<script>")[0]
    assert "<form hidden>" in page and "<article hidden" not in page
    assert "form.hidden = false" in claim_grid(verdict_rows(), {})


def test_every_verdict_has_a_colour():
    assert set(COLOURS) == set(VERDICTS)
    decided = {RIGHT: HOLDS, WRONG: CONTRADICTED}  # as gain and loss in pictures
    assert {COLOURS[verdict]: verdict for verdict in decided.values()} == decided


RUNS = [
    {"on_object_pct": [50.0, 60.0], "iou_pct": [40.0, 44.0]},
    {"on_object_pct": [52.0, 64.0], "iou_pct": [40.0, 46.0]},
]


def added(low):
    row = ["own", "ours", "all", 3.0, 1.0, 2.0, low, 4.0, 2]
    names = "world arm classes with_pts without_pts adds_pts adds_low_pts adds_high_pts seeds"
    return frame([row], names)


@pytest.mark.parametrize(("low", "told"), [(0.1, "more than chance"), (-0.1, "this may be chance")])
def test_findings(low, told):
    tables = ResultTables(made("shifted", "changes") | {"added": added(low)})
    verdicts = [
        claims.Verdict("RV-26", CONTRADICTED, "", ""),
        claims.Verdict("RV-42", HOLDS, "", ""),
    ]
    first, second, third = claims.findings(tables, RUNS, verdicts).splitlines()
    assert first.startswith("1. **What the relevance terms add.** ") and first.endswith(f"{told}.")
    assert f"So the terms add **+2.0 points** (95 % interval {low:+.1f} to +4.0, 2 seeds)" in first
    assert "51 % of the relevance lies on the object, after it **62 %**" in second
    assert "by 40 % before and 45 % after (IoU). On `val`" in second and "-0.5 ± 0.5" in second
    assert (
        third
        == "3. **What holds here.** The three papers make 2 claims: *holds* 1, *contradicted* 1."
    )


def test_findings_name_our_arm_and_need_an_interval():
    others = added(0.1).assign(arm="paper", adds_pts=-7.0)
    for ours, told in ((added(0.1), "add **+2.0 points**"), (added(math.nan), "is not known here")):
        tables = ResultTables(made("shifted", "changes") | {"added": pd.concat([others, ours])})
        assert told in claims.findings(tables, RUNS, []).splitlines()[0]


@pytest.mark.parametrize("waiting", [(), ("added",)])
def test_findings_before_the_controls_have_landed(waiting):
    tables = ResultTables(made("shifted", "changes"), waiting=waiting)
    first = claims.findings(tables, RUNS, []).splitlines()[0]
    assert "changes by **+3.0 ± 0.5 points** on the seven shifted sets (2 seeds)" in first


def test_the_contents_lead_to_the_sections():
    text = "\n".join(
        cell.source
        for cell in nbformat.read(ROOT / "notebooks" / "99_report.ipynb", as_version=4).cells
        if cell.cell_type == "markdown"
    )
    anchors, links = (re.findall(rf'{name}="#?([a-z-]+)"', text) for name in ("id", "href"))
    assert links == anchors and len(set(anchors)) == len(anchors) > 10


def test_folded():
    page = folded("Table 1 & 2", pd.DataFrame({"a": [1]}))
    assert page.startswith("<details><summary>Table 1 &amp; 2</summary>") and "<table" in page
    styled = folded("Table 3", pd.DataFrame({"a": [1.234]}).style.format("{:.1f}"))
    assert "1.2" in styled and "1.234" not in styled


# The notebooks of the suite


# Statements about things that the suite does not have, and an identity.
ELSEWHERE = {"RV-24", "RV-25", "BI-05", "BI-06", "BI-14", "BI-21", "IAV-21"}


@pytest.mark.parametrize("claim", sorted(set(CLAIMS) - ELSEWHERE))
def test_every_testable_claim_has_evidence(claim):
    cells = cells_of_the_suite().get(claim, [])
    assert cells, f"tag the cell that shows the number of {claim}"
    assert {cell.notebook for cell in cells} <= set(NOTEBOOKS) - {"99_report"}


def test_no_tag_without_a_criterion():
    assert set(cells_of_the_suite()) <= set(CLAIMS)


@cache
def cells_of_the_suite():
    return evidence_cells(ROOT / "notebooks")


# Texts, and images with text.

TEXTS = [name for name, found in claims.TABLES.items() if found.notebook in ("11_text", "12_clip")]


@pytest.fixture
def tables():
    return made(*TEXTS)


def test_text_overview(tables):
    shown = claims.text_overview(tables)
    assert shown.loc[("movie_reviews", "ga")].tolist() == [
        "50.0 ± 0.5",
        "50.0 ± 0.5",
        "50.0 ± 0.5",
        "50.0 ± 0.5",
        "51.5 ± 0.5",
        "50.0",
    ]
    assert shown.loc[("movie_reviews", "transformer_attribution"), "positive first half"] == (
        "80.0 ± 0.5"
    )
    assert shown.loc[("newsgroups", "ga"), "F1"] == "–"  # it has no rationales
    methods = shown.loc["movie_reviews"].index.tolist()
    assert methods[0] == "raw_attention" and methods[-1] == "token_wise"


def test_clip_stands_below_table_3(tables):
    shown = claims.clip_overview(tables)
    assert shown.index.get_level_values("model").unique().tolist() == [
        "CLIP (paper)",
        "dinov2-minilm",
    ]
    assert shown.loc[("CLIP (paper)", "ga"), ("label", "negative")] == "37.1"
    assert shown.loc[("dinov2-minilm", "ga"), ("label", "positive")] == "50.0 ± 0.5"
    assert (shown.loc[(slice(None), "rollout"), "label"] == "–").all(axis=None)


def test_phrases_over_seeds(tables):
    shown = claims.phrases_overview(tables)
    unseen = shown.loc[("dinov2-minilm", "unseen")]
    assert unseen[["zero-shot", "chance"]].tolist() == ["30.0 ± 1.0", "5.0"]
    assert unseen["points: token_wise"] == "85.0 ± 0.0"
    assert shown.loc[("dinov2-minilm", "all"), "zero-shot"] == "–"


def test_a_missing_table_leaves_its_part_out(tables):
    assert claims.not_shown(tables, "11_text") == ""
    del tables["text_perturbation"], tables["clip_perturbation"], tables["clip_zero_shot"]
    assert claims.text_overview(tables).columns.tolist()[0] == "F1"
    assert claims.clip_overview(tables).empty
    assert "zero-shot" not in claims.phrases_overview(tables)
    assert claims.not_shown(tables, "12_clip").startswith(
        "**Not all of `12_clip` is shown**: no table clip_perturbation and no clip_zero_shot: run"
    )
    parts = ("text_overview", "accuracy_overview", "clip_overview", "phrases_overview")
    assert all(getattr(claims, name)({}).empty for name in parts)
    tables["text_rationales"] = text_rationales().drop(columns="f1_pct")
    assert "table text_rationales lacks ['f1_pct']" in claims.not_shown(tables, "11_text")
    assert claims.text_overview(tables).empty


def test_without_the_extra_the_report_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    monkeypatch.setattr(stages, "need_stage", lambda cfg, notebook: tmp_path / notebook)
    text = claims.not_shown({}, "11_text")
    assert text.endswith("It needs tokenizers and transformers: pip install relevit[text].")
    cfg = ReportParams(output_root=str(tmp_path / "outputs"))
    assert stages.possible_stage(cfg, "10_knn") == tmp_path / "10_knn"
    assert stages.possible_stage(cfg, "11_text") == tmp_path / "outputs" / "quick" / "11_text"
    assert not list((tmp_path / "outputs" / "quick" / "11_text").iterdir())  # it was not run
    monkeypatch.setattr(errors, "find_spec", lambda name: True)
    assert stages.possible_stage(cfg, "11_text") == tmp_path / "11_text"


def test_shaded_texts(tmp_path):
    assert "11_text has not written shaded.html" in claims.shaded_texts(tmp_path)
    (tmp_path / "shaded.html").write_text("<div>naïve</div>", encoding="utf-8")
    assert claims.shaded_texts(tmp_path) == "<div>naïve</div>"
