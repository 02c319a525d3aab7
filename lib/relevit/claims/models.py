"""Claims judged on the papers' own models, where other presets have models that stand in for them.

Rules and criteria name the stand-ins. Tables of the papers' models are judged under these names,
and what is said about them gets the models' own names back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pandas as pd

from relevit.claims.verdicts import Verdict
from relevit.models.registry import CUT, PAPER_MODELS

Roles = Mapping[str, str]  # name of a stand-in -> the paper's model

# What criteria say about the stand-ins, and is not so with the papers' models.
_SENTENCE = re.compile(r"(?:^|(?<=\. ))[\w-]+(?:, which [^,.]*,)? stands in for [^.]*\. ")
_CLAUSE = re.compile(r", which stands in for \w+,?")


def own_names(tables: Mapping[str, pd.DataFrame], roles: Roles) -> dict[str, str]:
    """Stand-in -> the model that the tables have in its place; empty where they have stand-ins.

    All roles are in it as soon as a table has a model of the papers. One that is cut for a
    rehearsal counts as the whole.
    """
    found = _models(tables)
    if not found & set(PAPER_MODELS):
        return {}
    return {
        role: model + CUT if model not in found and model + CUT in found else model
        for role, model in roles.items()
    }


def in_roles(
    tables: Mapping[str, pd.DataFrame], names: Mapping[str, str]
) -> dict[str, pd.DataFrame]:
    """The tables with the stand-ins' names in the place of `names`, which `own_names` gives."""
    roles = {model: role for role, model in names.items()}
    return {name: _renamed(table, roles) for name, table in tables.items()}


def named(verdicts: Iterable[Verdict], names: Mapping[str, str]) -> list[Verdict]:
    """The verdicts with the models' own names again."""
    return [
        replace(v, number=_own(v.number, names), reason=_own(v.reason, names)) for v in verdicts
    ]


def criteria_for(criteria: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """The criteria with the models' own names, and without what they say of stand-ins."""
    if not names:
        return dict(criteria)
    return {
        claim: _own(_CLAUSE.sub("", _SENTENCE.sub("", text)), names)
        for claim, text in criteria.items()
    }


def _models(tables: Mapping[str, pd.DataFrame]) -> set[str]:
    named = [table["model"].unique() for table in tables.values() if "model" in table]
    return {str(model) for models in named for model in models}


def _renamed(table: pd.DataFrame, roles: Mapping[str, str]) -> pd.DataFrame:
    if "model" not in table or not roles:
        return table
    models = {model: roles.get(str(model), str(model)) for model in table["model"].unique()}
    return table.assign(model=table["model"].astype(object).map(models))


def _own(text: str, names: Mapping[str, str]) -> str:
    if not names:
        return text
    longest = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    return re.sub(rf"(?<![\w-])({longest})(?![\w-])", lambda found: names[found[0]], text)
