"""What `make decide` came to: its verdicts beside those of `make reproduce`, and its numbers.

`python -m reproduction.claims.decided` judges the tables that are there of the preset `decide`, and
writes docs/results/decide.csv and decide_numbers.csv, and verdicts.csv from these and claims.csv.
What was predicted stood before the runs, in docs/results/notes/decide_predictions.csv
(docs/decide.md).
"""

from __future__ import annotations

import pandas as pd

from relevit.base.files import project_root
from reproduction.claims.chance import STRICT, YES, by_chance
from reproduction.claims.judging import NOT_TESTABLE, UNDECIDED, judge
from reproduction.claims.report import ResultTables, number_table, verdict_table

PRESET, NOT_MADE = "decide", "not made yet"
RESULTS = project_root() / "docs" / "results"


def verdicts(tables: ResultTables, predicted: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By file: the verdicts on what was predicted, or could be judged; and their numbers.

    `held`: whether the prediction did; `decided`: whether a claim was that the plan had promised. A
    claim whose runs are not there is NOT_MADE. And what luck alone would do (`by_chance`).

    The preset's own runs have the class term of Eq. 4, so that they are the method's.
    """
    found = judge(tables)
    table = verdict_table(found)[["id", "claim", "verdict", "number", "reason", "evidence"]]
    table = table.merge(predicted.drop(columns="why"), on="id", how="left")
    known, made = table["predicted"].notna(), ~table["reason"].str.contains("no table ")
    judged = known | (table["verdict"] != NOT_TESTABLE)
    table["verdict"] = table["verdict"].where(made, NOT_MADE)
    table["held"] = (table["predicted"] == table["verdict"]).map(YES).where(known & made)
    open_ = [UNDECIDED, NOT_TESTABLE]
    promised = made & table["planned"].notna() & ~table["planned"].isin(open_)
    table["decided"] = (~table["verdict"].isin(open_)).map(YES).where(promised)
    table = table[judged].merge(by_chance(found, judge(tables, level=STRICT)), "left", on="id")
    return {"decide": table, "decide_numbers": number_table(found)}


def standing(decided: pd.DataFrame, reproduced: pd.DataFrame) -> pd.DataFrame:
    """Of each claim the verdict of `make decide`, where that has judged it, else of `reproduce`.

    `reproduced` is docs/results/claims.csv. Columns: paper, id, run (which of the two), verdict,
    and `reproduce`, what that one says.
    """
    judged = decided[~decided["verdict"].isin([NOT_MADE, NOT_TESTABLE])]
    found = reproduced[["paper", "id"]].assign(reproduce=reproduced["verdict"])
    found["verdict"] = found["id"].map(judged.set_index("id")["verdict"])
    found["run"] = found["verdict"].isna().map({True: "reproduce", False: PRESET})
    return found.assign(verdict=found["verdict"].fillna(found["reproduce"]))


def main() -> None:
    tables = ResultTables.of(project_root() / "outputs" / PRESET)
    predicted = pd.read_csv(RESULTS / "notes" / "decide_predictions.csv")
    made = verdicts(tables, predicted)
    made["verdicts"] = standing(made["decide"], pd.read_csv(RESULTS / "claims.csv"))
    for name, table in made.items():
        path = RESULTS / f"{name}.csv"
        table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")


if __name__ == "__main__":
    main()
