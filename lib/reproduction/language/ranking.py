"""Which method comes first, by both tests on the same texts, and by how much.

Source: Beyond Intuition Sec. 4.2, Fig. 6 (claims BI-08 to BI-11). Its figure has curves and no
numbers, so that our areas and means were fixed here before any result was seen. The areas are
means over the erased shares of 10 to 100 % (the default of `relevit.evaluate.perturbation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pandas as pd
import torch

from relevit.attribution import BASELINES, VARIANTS
from relevit.evaluate.intervals import PERCENT, mean_interval
from relevit.text.encoder import TextTransformer
from relevit.text.token_maps import RANDOM, method_maps
from relevit.text.token_perturbation import AREA, FIRST_HALF, perturb_texts, text_areas
from relevit.text.tokens import Texts
from reproduction.params.cells import Params

# Of each score whether more is better; the first half is BI-09's.
SCORES = {"positive": False, "positive, first half": False, "negative": True, "F1": True}


def variants_first(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of VARIANTS before all others, so that pictures give them the clearest colours."""
    late = ~table["method"].isin(VARIANTS)
    return table.iloc[late.argsort(kind="stable")]


def document_scores(perturbation: pd.DataFrame, reasoning: pd.DataFrame | None) -> pd.DataFrame:
    """Each document's SCORES in percent, one row each: method, score, index, value_pct.

    The F1 is the mean over the numbers of tokens taken. The documents of the two tests may be
    other ones; without rationales (None) there is no F1.
    """
    areas = text_areas(perturbation)
    half = areas[areas["direction"] == "positive"].assign(score="positive, first half")
    parts = pd.concat(
        [
            areas.rename(columns={"direction": "score", AREA: "value_pct"}),
            half.rename(columns={FIRST_HALF: "value_pct"}),
        ]
    )
    # Method by method, as all tables list them.
    scores = pd.concat([own for _, own in parts.groupby("method", sort=False)], ignore_index=True)
    if reasoning is not None:
        mean = 100 * reasoning.groupby(["method", "index"], sort=False)["f1"].mean()
        found = mean.rename("value_pct").reset_index().assign(score="F1")
        scores = pd.concat([scores, found], ignore_index=True)
    return scores[["method", "score", "index", "value_pct"]]


def score_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Means with 95 % intervals over documents, and each method's place (1: best).

    Columns: method, score, documents, value_pct, low_pct, high_pct, place. RANDOM has no place.
    """
    rows = []
    for (method, score), values in scores.groupby(["method", "score"], sort=False)["value_pct"]:
        numbers = torch.tensor(values.to_numpy(dtype=float))
        interval = mean_interval(numbers, PERCENT)
        rows.append((method, score, len(numbers), float(numbers.mean()), *interval))
    columns = ["method", "score", "documents", "value_pct", "low_pct", "high_pct"]
    table = pd.DataFrame(rows, columns=columns)
    ranked = table[table["method"] != RANDOM]
    good = ranked["value_pct"].where(ranked["score"].map(SCORES), -ranked["value_pct"])
    table["place"] = good.groupby(ranked["score"]).rank(ascending=False, method="min")
    return table.astype({"place": "Int64"})


def leads(scores: pd.DataFrame) -> pd.DataFrame:
    """What each of VARIANTS gains over the best of BASELINES, on the same documents.

    Columns: score, method, best (the baseline with the best mean), documents, gain_pts, low_pts,
    high_pts. A gain above 0 is better, whichever way the score goes; the interval is
    of the differences, document by document: what is hard for all methods drops out.
    The baseline was chosen on these documents, which flatters it.
    """
    rows = []
    for score, higher in SCORES.items():
        own = scores[scores["score"] == score]
        if own.empty:
            continue
        wide = own.pivot(index="index", columns="method", values="value_pct").astype(float)
        signed = wide if higher else -wide
        means = own.groupby("method")["value_pct"].mean().reindex(sorted(BASELINES))
        best = means.idxmax() if higher else means.idxmin()
        for name in (name for name in own["method"].unique() if name in VARIANTS):
            gain = torch.tensor((signed[name] - signed[best]).to_numpy())
            interval = mean_interval(gain)
            rows.append((score, name, best, len(gain), float(gain.mean()), *interval))
    columns = ["score", "method", "best", "documents", "gain_pts", "low_pts", "high_pts"]
    return pd.DataFrame(rows, columns=columns)


def over_random(values: pd.DataFrame) -> pd.DataFrame:
    """By how much each column, in percent, is above RANDOM's; a row of `values` is a text.

    Columns: mean, low, high, in points; the interval is of the differences, text by text.
    """
    rows = {}
    for name in values.columns.drop(RANDOM):
        more = torch.tensor((values[name] - values[RANDOM]).to_numpy(dtype=float))
        rows[name] = float(more.mean()), *mean_interval(more, (-100.0, 100.0))
    return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "low", "high"])


def erase_words(
    cfg: Params,
    models: Mapping[str, TextTransformer],
    texts: Mapping[str, Texts],
    on_method: Callable[[], object] = lambda: None,
) -> dict[str, pd.DataFrame]:
    """Rows of `perturb_texts` by corpus, for all methods and RANDOM, by `cfg.protocol`."""
    rules, found = {"protocol": cfg.protocol, "on_method": on_method}, {}
    for name, model in models.items():
        maps = method_maps(model, texts[name], seed=cfg.seed, **rules)
        found[name] = perturb_texts(model, texts[name], maps, **rules)
    return found


def concatenated(parts: Mapping[str, pd.DataFrame], columns: Iterable[str]) -> pd.DataFrame:
    """Tables by corpus as one, with the column `corpus` in front; empty ones keep `columns`."""
    found = [table.assign(corpus=name) for name, table in parts.items()]
    if not found:
        return pd.DataFrame(columns=["corpus", *columns])
    table = pd.concat(found, ignore_index=True)
    return table[["corpus", *table.columns.drop("corpus")]]
