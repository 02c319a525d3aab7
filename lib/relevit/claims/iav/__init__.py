"""Verdicts on the claims of the IAV paper, by CRITERIA fixed before the runs.

Four models of one size stand in for the paper's (`criteria`), each pretrained once and finetuned
from several seeds. Numbers are means over seeds ± their standard deviation, which says how
far another finetuning could be, and not another pretraining.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from relevit.claims.attribution.scores import NOT_HERE
from relevit.claims.iav import accuracy, entropy, finetuning, heads, trends
from relevit.claims.iav.criteria import CRITERIA, MASKED, NOT_TESTABLE, ROLES, SCHEMAS
from relevit.claims.models import criteria_for, in_roles, named, own_names
from relevit.claims.tables import Lacking, ResultTables, check_tables
from relevit.claims.verdicts import Verdict

__all__ = [
    "CRITERIA",
    "NOT_TESTABLE",
    "ROLES",
    "SCHEMAS",
    "SOURCES",
    "iav_criteria",
    "iav_verdicts",
]

# Notebook -> the tables it writes as NAME.parquet.
SOURCES = {
    "07_pretraining": ("models", "shift"),
    "07_iav": ("scores", "slopes", "epochs", "drift", "masking", "entropy", "space"),
}

_RULES: dict[str, Callable[[str, Mapping[str, pd.DataFrame]], Verdict]] = {
    "IAV-01": accuracy.dino_most_accurate,
    "IAV-02": accuracy.deit_weaker,
    "IAV-03": accuracy.accuracy_does_not_tell,
    "IAV-04": accuracy.dino_best,
    "IAV-05": finetuning.maps_change_less,
    "IAV-06": finetuning.attention_as_good,
    "IAV-07": finetuning.entropy_trends,
    "IAV-08": entropy.does_not_tell,
    "IAV-09": entropy.early_and_late,
    "IAV-10": entropy.last_layer,
    "IAV-11": trends.scores_over_depth,
    "IAV-12": trends.map_of_dino,
    "IAV-13": heads.head_decides,
    "IAV-14": heads.one_or_two_low,
    "IAV-15": heads.all_high,
    "IAV-16": heads.mostly_high,
    "IAV-17": heads.high_to_low,
    "IAV-18": trends.classes_group,
    "IAV-19": trends.only_the_trend_tells,
    "IAV-20": entropy.small_objects,
    "IAV-21": heads.same_part,
    "IAV-22": heads.look_elsewhere,
}


def iav_verdicts(tables: Mapping[str, pd.DataFrame]) -> list[Verdict]:
    """Judge IAV-01 to IAV-22 by CRITERIA, in that order.

    `tables` has any of the names in SCHEMAS, each with the columns given there (others are
    ignored). A run that lacks epochs, layers or levels that others have is left out; a claim
    whose tables, columns or models are not there, or have too few seeds, is 'not testable here',
    and the reason says what is missing. Tables of the paper's own models are judged on these.
    Raises: ValueError for an unknown name, a repeated row or a number that is not finite.
    """
    usable = check_tables(tables, SCHEMAS, "iav_verdicts", MASKED)
    names = own_names(usable, ROLES)
    compact = {name: _compact(table) for name, table in in_roles(usable, names).items()}
    usable = ResultTables(compact, usable.reasons)
    return named((_verdict(claim, usable) for claim in CRITERIA), names)


def iav_criteria(tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """CRITERIA, with the names of the paper's models where the tables are about these."""
    return criteria_for(CRITERIA, own_names(tables, ROLES))


def _compact(table: pd.DataFrame) -> pd.DataFrame:
    """Texts as categories, in which rows are found fast: `scores` has millions."""
    texts = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    return table.astype(dict.fromkeys(texts, "category"))


def _verdict(claim: str, tables: Mapping[str, pd.DataFrame]) -> Verdict:
    try:
        return _RULES[claim](claim, tables)
    except Lacking as lacking:
        return Verdict(claim, NOT_HERE, "", str(lacking))
