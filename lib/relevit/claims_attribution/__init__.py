"""Verdicts on the papers' claims about attribution methods, by CRITERIA fixed before the runs.

Numbers shown are gains unless they say otherwise: above 0 means better, so for the positive
AUC a fall. They are in percentage points, ± the combined standard error over images (RV-08:
± the standard deviation over seeds).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from relevit.claims import Verdict
from relevit.claims_attribution import measured, methods
from relevit.claims_attribution.criteria import CRITERIA, NOT_TESTABLE, ROLES, SCHEMAS
from relevit.claims_attribution.scores import NOT_HERE
from relevit.claims_models import criteria_for, in_roles, named, own_names
from relevit.claims_tables import Lacking, ResultTables, check_tables, lacking

__all__ = [
    "CRITERIA", "NOT_TESTABLE", "ROLES", "SCHEMAS", "SOURCES", "attribution_criteria",
    "attribution_verdicts",
]  # fmt: skip

# Notebook -> the tables it writes as NAME.parquet.
SOURCES = {
    "04_segmentation": ("finetuned_segmentation", "methods_segmentation"),
    "05_attribution": ("ablation", "approximation", "two_objects"),
    "06_faithfulness": ("finetuned_perturbation", "methods_perturbation"),
}

_BOTH = ("methods_segmentation", "methods_perturbation")
_RULES: dict[str, tuple[Callable[..., Verdict], tuple[str, ...]]] = {
    "BI-01": (measured.factors, ("approximation",)),
    "BI-02": (measured.factors, ("approximation",)),
    "BI-03": (measured.steadier, ("approximation",)),
    "BI-04": (measured.below_rollout, ("approximation",)),
    "BI-07": (methods.outperform, _BOTH),
    "BI-15": (methods.larger_lead, ("methods_perturbation",)),
    "BI-16": (measured.parts_help, ("ablation",)),
    "BI-17": (methods.variants_similar, _BOTH),
    "BI-18": (methods.dino_similar, ("methods_segmentation",)),
    "BI-19": (methods.dino_promising, ("methods_segmentation",)),
    "BI-20": (measured.point_apart, ("two_objects",)),
    "BI-22": (methods.same_for_every_class, ("methods_perturbation",)),
    "RV-08": (measured.maps_improve, ("finetuned_segmentation",)),
    "RV-39": (measured.stays_faithful, ("finetuned_perturbation",)),
    "RV-40": (methods.gae_most_faithful, ("methods_perturbation",)),
}


def attribution_verdicts(tables: Mapping[str, pd.DataFrame]) -> list[Verdict]:
    """Judge BI-01 to BI-22, RV-08, RV-39 and RV-40 by CRITERIA, in that order.

    `tables` has any of the names in SCHEMAS, each with the columns given there (others are
    ignored). What needs a table, columns or rows that are not there is 'not testable here', and
    the reason says what is missing. Tables of the paper's own models are judged on these (ROLES).
    Raises: ValueError for an unknown name, a repeated row or a number that is not finite.
    """
    usable = check_tables(tables, SCHEMAS, "attribution_verdicts")
    names = own_names(usable, ROLES)
    usable = ResultTables(in_roles(usable, names), usable.reasons)
    return named((_verdict(claim, usable) for claim in CRITERIA), names)


def attribution_criteria(tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """CRITERIA, with the names of the paper's models where the tables are about these."""
    return criteria_for(CRITERIA, own_names(tables, ROLES))


def _verdict(claim: str, tables: ResultTables) -> Verdict:
    if claim in NOT_TESTABLE:
        return Verdict(claim, NOT_HERE, "", NOT_TESTABLE[claim])
    if claim == "BI-06":
        reason = "an identity, tested to rounding in tests/unit/test_claims_attribution.py"
        return Verdict(claim, "holds", "", reason)
    rule, needed = _RULES[claim]
    missing = lacking(tables, *needed)
    if missing:
        return Verdict(claim, NOT_HERE, "", missing)
    try:
        return rule(claim, *(tables[name] for name in needed))
    except Lacking as reason:
        return Verdict(claim, NOT_HERE, "", str(reason))
