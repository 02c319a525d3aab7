"""What the report shows: what to take away from five verdicts, and one table of all."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pandas as pd

from relevit.base.results import read_table
from relevit.evaluate.looking import RIGHT, WRONG
from reproduction.claims.judging import (
    CONTRADICTED,
    DECIDED,
    HOLDS,
    NO_ROOM,
    NOT_TESTABLE,
    PAPERS,
    SAME,
    UNDECIDED,
    VERDICTS,
    Verdict,
)
from reproduction.claims.numbers import Number
from reproduction.paper import published
from reproduction.params.order import NOTEBOOKS
from reproduction.runs.effects import signed

FEW = 2  # parts of a list of numbers that are read without a click
# White on these is easy to read. Those that decide have colours, two of them those of gain and loss
# in pictures; those that do not are grey.
COLOURS = {
    HOLDS: RIGHT,
    CONTRADICTED: WRONG,
    SAME: "#2f6b66",
    UNDECIDED: "#3d434c",
    NO_ROOM: "#545b66",
    NOT_TESTABLE: "#69707d",
}

FIVE = {  # the claim that a lesson's question is about, and the question: 03, 05, 06, 07, 08
    "RV-01": "Does the paper's method gain on shifted sets?",
    "RV-11": "Is it the background term that does it?",
    "BI-20": "Does a map know which of two animals it is asked for?",
    "BI-07": "Do the two maps of Beyond Intuition lead all others in every test?",
    "IAV-11": "Do heads tell, over depth, how these four models were pretrained?",
}
ANSWERS = {
    HOLDS: "Yes, here",
    CONTRADICTED: "No, not here",
    SAME: "It makes no difference here",
    UNDECIDED: "Undecided",
    NO_ROOM: "Nothing can show here",
    NOT_TESTABLE: "Not testable here",
}


class ResultTables(Mapping[str, pd.DataFrame]):
    """Tables of stages by `stage/stem`, or by the stem that one stage alone has; read when asked.

    `folders` gives the folder of each stage.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._paths = {
            f"{stage}/{path.stem}": path
            for stage, folder in folders.items()
            for path in sorted(Path(folder).glob("*.parquet"))
        }
        self._read: dict[str, pd.DataFrame] = {}

    @classmethod
    def of(cls, preset: Path) -> ResultTables:
        """Those of a preset's folder; of a notebook run by hand beside its stages none."""
        return cls({stage: preset / stage for stage in NOTEBOOKS})

    def __getitem__(self, name: str) -> pd.DataFrame:
        """The table. Raises: KeyError for an unknown name, or a stem of two stages."""
        found = [key for key in self._paths if name in (key, key.split("/")[1])]
        if len(found) != 1:
            raise KeyError(
                f"{name} is {len(found) or 'no'} table{'s' * (len(found) > 1)} of this run: run "
                f"the stage that writes it, or use one of {found or list(self._paths)}"
            )
        if found[0] not in self._read:
            self._read[found[0]] = read_table(self._paths[found[0]])
        return self._read[found[0]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def verdict_table(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """The verdicts as a table.

    Columns: paper, id, claim, verdict, number (with its 95 % interval and line), reason, ours (the
    verdict on the preset's own runs, where these are not the method's), decides (what would decide
    it), source (in the paper), evidence (the stages, and what stands in for what there), criterion.
    """
    sentences, rows = published.claims().set_index("id"), []
    for one in verdicts:
        evidence = "; ".join(filter(None, map(", ".join, (one.stages, one.stand_ins))))
        claim, where = sentences.loc[one.id, ["claim", "where"]]
        paper = PAPERS[one.id.split("-")[0]]
        found = (one.verdict, one.number, one.reason, one.ours, one.decides, where, evidence)
        rows.append((paper, one.id, claim, *found, one.criterion))
    columns = ["paper", "id", "claim", "verdict", "number", "reason", "ours", "decides", "source"]
    return pd.DataFrame(rows, columns=[*columns, "evidence", "criterion"])


def number_table(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """The numbers that decide, a row each, those of a claim as ranked.

    Columns: id, verdict of the claim, name, value, low, high, unit, side and line, d (0: none),
    seeds, and `says`: what the number alone would come to.
    """
    rows = [
        (one.id, one.verdict, part.name, part.value, part.low, part.high, part.unit, part.side,
         part.line, part.d, part.runs, _says(part))
        for one in verdicts
        for part in one.ranked
    ]  # fmt: skip
    columns = ["id", "verdict", "name", "value", "low", "high", "unit", "side", "line", "d"]
    return pd.DataFrame(rows, columns=[*columns, "seeds", "says"])


def _says(part: Number) -> str:
    found = {HOLDS: part.met, CONTRADICTED: part.against, SAME: part.small}
    return next((verdict for verdict, so in found.items() if so), UNDECIDED)


def verdict_counts(table: pd.DataFrame) -> pd.DataFrame:
    """How many claims of each paper have which verdict, and of all."""
    counts = pd.crosstab(table["paper"], table["verdict"], margins=True, margins_name="all")
    papers = [name for name in (*PAPERS.values(), "all") if name in counts.index]
    names = [name for name in (*VERDICTS, "all") if name in counts]
    return counts.loc[papers, names].rename_axis(index=None, columns=None)


def verdict_page(table: pd.DataFrame) -> str:
    """`verdict_table` as HTML, a part for each paper that opens on a click."""
    parts = []
    for paper, rows in table.groupby("paper", sort=False):
        counts = Counter(rows["verdict"])
        told = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])
        body = "".join(map(_line, rows.to_dict("records")))
        head = "<tr><th>id</th><th>claim</th><th>verdict</th><th>numbers</th></tr>"
        parts.append(
            f"<details><summary><b>{paper}</b>: {told}</summary>"
            f'<table class="verdicts">{head}{body}</table></details>'
        )
    style = ".verdicts td, .verdicts th {text-align: left !important; vertical-align: top}"
    return f"<style>{style}</style>{''.join(parts)}"


def _line(row: Mapping[str, str]) -> str:
    text = {name: html.escape(value) for name, value in row.items()}
    reason = _few(row["reason"].rstrip("."))
    reason += "" if reason.endswith("</details>") or not reason else ". "
    evidence = f"{text['evidence']}." if row["evidence"] else ""
    missing = f" Would decide it: {text['decides']}" * (row["decides"] != DECIDED)
    ours = f"<br><small>Ours: {_few(row['ours'])}</small>" * bool(row["ours"])
    return (
        f'<tr><td style="white-space: nowrap">{text["id"]}</td><td>{text["claim"]} '
        f"<small>({text['source']})</small><details><summary>criterion</summary>"
        f"{text['criterion']}</details></td>"
        f'<td><span style="background: {COLOURS[row["verdict"]]}; color: white; padding: 0 .4em; '
        f'border-radius: 4px; white-space: nowrap">{text["verdict"]}</span></td>'
        f"<td>{_few(row['number'])}<br><small>{reason}{evidence}{missing}</small>{ours}</td></tr>"
    )


def _few(text: str) -> str:
    """A list of many parts as its first ones, and the others that open on a click."""
    parts = [html.escape(part) for part in text.split("; ")]
    if len(parts) <= FEW + 1:
        return "; ".join(parts)
    rest = f"<details><summary>and {len(parts) - FEW} more</summary>{'; '.join(parts[FEW:])}"
    return f"{'; '.join(parts[:FEW])}{rest}</details>"


def folded(title: str, table: pd.DataFrame) -> str:
    """A large table as HTML that opens on a click; numbers with one decimal."""
    page = table.to_html(border=0, float_format="{:z.1f}".format, na_rep="–")
    inner = f'<div style="overflow-x: auto">{page}</div>'
    return f"<details><summary>{html.escape(title)}</summary>{inner}</details>"


def findings(verdicts: Iterable[Verdict]) -> str:
    """What to take away from the verdicts on FIVE, as Markdown.

    Each is a question, its answer, the numbers or how many there are on which side, and what would
    decide it. Raises: KeyError for a claim that was not judged.
    """
    found = {one.id: one for one in verdicts}
    told = [f"**{question}** {_answer(found[id])}" for id, question in FIVE.items()]
    return "\n".join(f"{place}. {text}" for place, text in enumerate(told, 1))


def _answer(one: Verdict) -> str:
    """`No, not here (BI-07): ...`, with the numbers or, of many, on which side they lie."""
    against, met = (sum(getattr(part, side) for part in one.parts) for side in ("against", "met"))
    why = f"of {len(one.parts)} numbers {met} are wholly on the right side, {against} on the wrong"
    if len(one.parts) <= FEW:  # without the distances that are no difference
        why = re.sub(r"(head|token)_wise", r"\1-wise", re.sub(", d [0-9.]+", "", one.number))
        why = why.replace("_", " ").replace(", ", ", asked: ")
        why = re.sub(r"\ba(?= [+-])", "set a", why)
    if not one.parts:
        why = re.sub(r"^\S+/\S+: |; see what ours say$", "", one.reason)  # without the file
        why = why.replace("the class term of Eq. 4", "the paper's class term")
    more = [f"Would decide it: {one.decides}." * (one.verdict == UNDECIDED)]
    more += [f"Our own terms, by the same criterion: {one.ours.split(':')[0]}." * bool(one.ours)]
    return " ".join(filter(None, [f"{ANSWERS[one.verdict]} ({one.id}): {why.rstrip('.')}.", *more]))


def added_told(added: pd.DataFrame | None) -> str:
    """What the relevance terms add, in sentences; `added` is `paired.added_table`, where made."""
    if added is not None:
        added = added.query("world == 'own' and arm == 'ours' and classes == 'all'")
    if added is None or added.empty:
        return "What finetuning alone would do is not known here: run 03_robustness."
    row = added.iloc[0]
    ends = [row[f"adds_{end}_pts"] for end in ("low", "high")]
    chance = round(ends[0], 1) <= 0 <= round(ends[1], 1)
    return (
        f"Finetuned on where it looks, the model changes by {signed(row['with_pts'])} points on "
        f"the seven shifted sets. The same finetuning without the relevance terms changes it by "
        f"{signed(row['without_pts'])}. So the terms add **{signed(row['adds_pts'])} points** "
        f"(95 % interval {signed(ends[0])} to {signed(ends[1])}, "
        f"{int(row['seeds'])} seeds): {'this may be chance' if chance else 'more than chance'}."
    )
