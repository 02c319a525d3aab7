"""Numbers in prose come from docs/results: `make numbers` writes them, and none is typed."""

import sys

import pytest

from .projects import ROOT

sys.path.append(str(ROOT / "docs"))
import quoted

PAGES = quoted.pages()
MADE = """world,arm,classes,dataset,original_pct,with_pts,with_low_pts,with_high_pts,seeds
own,ours,all,shifted_average,41.66,6.149,-0.04,12.25,3
own,ours,all,a,52.92,-4.3,-7.2,-1e-15,3
own,published,all,shifted_average,1041.66,0.8,,,1
"""
NOTES = """arm,`val`,note
`labels`,**+7.1** (+5.4 to +8.8),97.5
"""


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Three files of results in the place of those that are there."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "added.csv").write_text(MADE)
    (tmp_path / "notes" / "arms.csv").write_text(NOTES)
    (tmp_path / "times.csv").write_text("preset,notebook,seconds\nquick,a,31\nquick,b,290\n")
    monkeypatch.setattr(quoted, "RESULTS", tmp_path)
    quoted.read.cache_clear()
    yield
    quoted.read.cache_clear()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_numbers_are_those_of_the_results(path):
    assert quoted.rewritten(path) == path.read_text(encoding="utf-8"), "run make numbers"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_number_is_typed(path):
    page = path.relative_to(ROOT).as_posix()
    assert quoted.typed(quoted.prose(path), page) == [], "see docs/quoted.py"


def test_the_errors_of_the_default_model_are_those_that_it_has():
    path = ROOT / "lib" / "relevit_own" / "assets" / "known.yaml"
    (kept,) = quoted.yaml.safe_load(path.read_text()).values()
    told = quoted.read("notes/measured").set_index("what")["value"].astype(float)
    assert told["own drawings doubted"] == kept["own_refused_pct"]
    assert told["other pictures let through"] == kept["others_passed_pct"]


@pytest.mark.parametrize("page", quoted.constants())
def test_constants_are_still_said(page):
    """A phrase that no page has is one that nobody would miss."""
    paths = PAGES if page == "everywhere" else [ROOT / page]
    texts = [quoted.UNREAD.sub(" ", quoted.prose(path)) for path in paths]
    phrases = quoted.constants()[page]
    assert [p for p in phrases if not any(quoted.re.search(p, text) for text in texts)] == []


@pytest.mark.parametrize(
    ("stands", "source", "written"),
    [
        ("+1.0", "added with", "+6.1"),
        ("**+1.0", "added with", "**+6.1"),
        ("1", "added with", "6"),
        ("0.00", "added with", "6.15"),
        ("+1.0 (+0.0 to +2.0)", "added with", "+6.1 (+0.0 to +12.2)"),
        ("fall by 1.0", "added a -with", "fall by 4.3"),
        ("by 1.0 (0.0 to 2.0)", "added dataset=a -with", "by 4.3 (0.0 to 7.2)"),
        ("1", "added published original", "1,042"),
        ("9", "added seeds", "3"),
        ("9", "added world=own count", "1"),
        ("9", "times quick sum_seconds", "321"),
        ("1.0", "added a with_sees", "4.7"),  # 3.6 * 5.653 / 4.303
        ("takes 1 s", "times quick a seconds", "takes 30 s"),
        ("takes 1 s", "times notebook=b seconds", "takes 5 min"),
        ("+1.0 (+0.0 to +2.0)", "notes/arms labels val", "+7.1 (+5.4 to +8.8)"),
        ("1", "notes/arms labels note", "98"),
    ],
)
def test_a_number_keeps_its_form(results, stands, source, written):
    text = f"{stands}<!--={source}--> points"
    assert quoted.written(text, "page") == f"{written}<!--={source}--> points"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1.0<!--=added a with-->", "page: .* -4.3 is below 0, where the words suppose"),
        ("1.0<!--=added nothing with-->", "'nothing' is in no column; write COLUMN=nothing"),
        ("1.0<!--=added colour=red with-->", "no column 'colour'; use one of"),
        ("1.0<!--=added a size-->", "no column 'size'; use one of"),
        ("1.0<!--=added a arm=other with-->", "0 rows, and not one"),
        ("1.0 (0.0 to 1.0)<!--=added published with-->", "'0.8' has no interval"),
        ("1.0<!--=added published with_sees-->", "'with' has no interval"),
        ("1.0<!--=nosuch a with-->", "no file 'nosuch'; use one of"),
        ("<!-- table: nosuch -->\n<!-- end -->", "no file 'nosuch'; use one of"),
        ("9 seeds<!--=added seeds-->", "no number stands before it"),
        ("<!-- table: added -->\n| a |", "no end behind"),
    ],
)
def test_a_number_without_its_source_is_refused(results, text, said):
    with pytest.raises(ValueError, match=said):
        quoted.written(text, "page")


def test_a_cell_without_an_interval_is_a_number(results):
    found = [quoted.cell(row, "with:+0.0~") for _, row in quoted.read("added").iterrows()]
    assert found == ["+6.1 (+0.0 to +12.2)", "-4.3 (-7.2 to +0.0)", "+0.8"]


def test_a_table_is_a_file(results):
    made = quoted.written("a\n\n<!-- table: notes/arms -->\nold\n<!-- end -->\n\nb", "page")
    assert "| arm | `val` | note |\n| --- | --- | --- |\n| `labels` | **+7.1** (+5.4" in made
    assert quoted.written(made, "page") == made and quoted.typed(made) == []


@pytest.mark.parametrize(
    "text",
    ["gains +6.1 points", "falls by 4.3", "53 % are right", "an IoU of .9", "0.64", "in 12 min",
     "(4.2 to 8.0)", "3 points", "7 times as fast", "| +6.1 |", "70 to 100 minutes", "**-2**",
     "95 of 100 images", "8 ± 2"],
)  # fmt: skip
def test_a_typed_number_is_seen(text):
    assert quoted.typed(f"It {text}.")


@pytest.mark.parametrize(
    "text",
    ["a 95 % interval", "`lr=5.0e-6`", "$0.3 x$", "40 animals", "on 2 cores", "Sec. 4.2",
     "ViT-B/16", "[it](a-1.5.md)", "+6.1<!--=added with-->", "```\n+6.1 %\n```", "A8, C19"],
)  # fmt: skip
def test_what_nobody_measured_is_not(text):
    assert quoted.typed(text) == []
