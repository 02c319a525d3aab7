"""Changes of accuracy by seed and set, and paired differences between kinds of runs."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from relevit.claims.robustvit import criteria as fixed
from relevit.claims.tables import Lacking
from relevit.claims.verdicts import EPS, signed
from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS

Tables = Mapping[str, pd.DataFrame]


def select(table: pd.DataFrame, **where: object) -> pd.DataFrame:
    """The rows with these values, compared as text. Raises: Lacking without any.

    08_ablations leaves out variants that diverged, and shows which.
    """
    for column, value in where.items():
        table = table[table[column].astype(str) == str(value)]
    if table.empty:
        hint = ", or see what diverged in 08_ablations" if "variant" in where else ""
        raise Lacking(f"no run with {_named(where)}: run it{hint}")
    return table


def changes(table: pd.DataFrame, metric: str = "top1", **where: object) -> pd.DataFrame:
    """Change against the original in points: seeds down, the nine sets across.

    A run that lacks a set is left out. Raises: Lacking when no run is left.
    """
    rows = select(table, **where)
    rows = rows.assign(change=rows[f"{metric}_pct"] - rows[f"original_{metric}_pct"])
    return _whole(rows, "change", where)


def accuracies(table: pd.DataFrame, column: str = "top1_pct", **where: object) -> pd.Series:
    """Accuracy on each of the nine sets, mean over seeds. Raises: Lacking."""
    return _whole(select(table, **where), column, where).mean()


def original_accuracy(table: pd.DataFrame, model: str) -> pd.Series:
    """Top-1 of a model before finetuning on the nine sets, from any of its runs."""
    rows = select(table, model=model).drop_duplicates("dataset").assign(seed=0)
    return _whole(rows, "original_top1_pct", {"model": model}).iloc[0]


def standard_error(pct: pd.Series, images: float) -> pd.Series:
    """Of an accuracy in percent over so many images, in points."""
    return (pct * (100 - pct) / images) ** 0.5


def paired(ours: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Ours minus other over the seeds that both have. Raises: Lacking without a common one."""
    common = ours.index.intersection(other.index)
    if common.empty:
        raise Lacking(f"seeds {list(ours.index)} and {list(other.index)}: none is in both")
    return ours.loc[common] - other.loc[common]


def shifted(by_seed: pd.DataFrame) -> pd.Series:
    """Average over the seven shifted sets, of each seed."""
    return by_seed[list(SHIFTED_SETS)].mean(axis=1)


def gains(by_seed: pd.DataFrame) -> bool:
    """Whether the mean over seeds and over the shifted sets is above 0."""
    return bool(shifted(by_seed).mean() > EPS)


def clear(difference: pd.Series) -> bool:
    """Whether the mean over seeds is above the std."""
    return bool(difference.mean() > difference.std() + EPS)


def small_loss(difference: pd.Series) -> bool:
    """Whether ours falls short of the other by little: see criteria."""
    return bool(-difference.mean() <= max(fixed.SIMILAR_PTS, difference.std()) + EPS)


def noisy(*differences: pd.Series) -> bool:
    """Whether the spread over seeds is too large to call any of the differences small."""
    return any(difference.std() > fixed.MAX_STD_PTS for difference in differences)


def text(values: pd.Series) -> str:
    """Mean ± std over seeds."""
    return signed(values.mean(), values.std())


def seed_count(by_seed: pd.DataFrame | pd.Series) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{len(by_seed)} seed{'' if len(by_seed) == 1 else 's'}"


def by_set(by_seed: pd.DataFrame, sets: tuple[str, ...]) -> str:
    """`a +1.2 ± 0.3, ...` over seeds."""
    return ", ".join(f"{name} {text(by_seed[name])}" for name in sets)


def first_model(table: pd.DataFrame) -> str:
    """The model that a table is about: the first named in it."""
    return str(table["model"].iloc[0])


def _whole(rows: pd.DataFrame, column: str, where: Mapping[str, object]) -> pd.DataFrame:
    rows = rows.astype({"dataset": str})
    wide = rows.pivot(index="seed", columns="dataset", values=column)
    wide = wide.reindex(columns=list(TEST_SETS)).dropna()
    if wide.empty:
        raise Lacking(f"no run with {_named(where)} has all nine sets: evaluate it on them")
    return wide


def _named(where: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in where.items())
