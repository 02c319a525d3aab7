"""Verdicts on the papers' claims about attribution methods, by CRITERIA fixed before the runs.

Numbers shown are gains unless they say otherwise: above 0 means better, so for the positive
AUC a fall. They are in percentage points, ± the combined standard error over images or texts
(RV-08: ± the standard deviation over seeds).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from relevit.claims.attribution import measured, methods, text
from relevit.claims.attribution.criteria import CRITERIA, NOT_TESTABLE, ROLES, SCHEMAS
from relevit.claims.attribution.scores import NOT_HERE
from relevit.claims.models import criteria_for, in_roles, named, own_names
from relevit.claims.tables import Lacking, ResultTables, check_tables, lacking
from relevit.claims.verdicts import Verdict

__all__ = [
    "CRITERIA",
    "NOT_TESTABLE",
    "ROLES",
    "SCHEMAS",
    "SOURCES",
    "attribution_criteria",
    "attribution_verdicts",
]

# Notebook -> the tables it writes as NAME.parquet.
SOURCES = {
    "04_segmentation": ("finetuned_segmentation", "methods_segmentation"),
    "05_attribution": ("ablation", "approximation", "two_objects"),
    "06_faithfulness": ("finetuned_perturbation", "methods_perturbation"),
    "11_text": ("text_accuracy", "text_perturbation", "text_rationales"),
    "12_clip": ("clip_perturbation", "clip_pointing", "clip_zero_shot"),
}

_BOTH = ("methods_segmentation", "methods_perturbation")
_TEXT = ("text_perturbation", "text_rationales", "text_accuracy")
# Their models stand in for none of ROLES, nor do their papers' names say that those are there.
_DUAL = ("clip_perturbation", "clip_pointing", "clip_zero_shot")
_RULES: dict[str, tuple[Callable[..., Verdict], tuple[str, ...]]] = {
    "BI-01": (measured.factors, ("approximation",)),
    "BI-02": (measured.factors, ("approximation",)),
    "BI-03": (measured.steadier, ("approximation",)),
    "BI-04": (measured.below_rollout, ("approximation",)),
    "BI-07": (methods.outperform, _BOTH),
    "BI-08": (text.reasoning, _TEXT),
    "BI-09": (text.movies, _TEXT),
    "BI-10": (text.no_advantage, _TEXT),
    "BI-11": (text.newsgroups, ("text_perturbation", "text_accuracy")),
    "BI-12": (text.dual_encoder, ("clip_perturbation", "clip_zero_shot")),
    "BI-13": (methods.outperform_on_large, _BOTH),
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
    names = _own_names(usable)
    usable = ResultTables(in_roles(usable, names), usable.reasons)
    return named((_verdict(claim, usable) for claim in CRITERIA), names)


def attribution_criteria(tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """CRITERIA, with the names of the paper's models where the tables are about these."""
    return criteria_for(CRITERIA, _own_names(tables))


def _own_names(tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    of_images = {name: table for name, table in tables.items() if name not in _DUAL}
    return own_names(of_images, ROLES)


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
