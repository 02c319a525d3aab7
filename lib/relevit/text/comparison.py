"""All methods on the same texts: their maps, both tests of each, and who comes first.

Source: Beyond Intuition Sec. 4.2, Fig. 6 (claims BI-08 to BI-11). Its figure has curves and no
numbers, so that our areas and means were fixed here before any result was seen. The areas are
means over the erased shares of 10 to 100 % (rule `described` of `relevit.evaluate.perturbation`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from relevit.attribution import BASELINES, VARIANTS
from relevit.evaluate.intervals import bootstrap_interval
from relevit.evaluate.perturbation import accuracy_curves, image_auc_pct
from relevit.relevance import Protocol
from relevit.text.attribute import TEXT_METHODS, attribute
from relevit.text.encoder import TextTransformer
from relevit.text.experiment import Texts
from relevit.text.perturb import first_half_auc_pct, token_perturbation_rows
from relevit.text.rationales import KS, method_differences, rationale_f1, rationale_scores

RANDOM = "random"  # any order at all: the floor
FIGURE_LIMIT = 512  # tokens of the texts in Fig. 6
AREA, FIRST_HALF, F1 = "auc_pct", "first_half_auc_pct", "f1_pct"
# Of each score whether more is better; the first half is BI-09's.
SCORES = {"positive": False, "positive, first half": False, "negative": True, "F1": True}
Maps = dict[str, list[Float[Tensor, " tokens"]]]


def text_maps(
    model: TextTransformer,
    texts: Texts,
    methods: Sequence[str] = TEXT_METHODS,
    *,
    protocol: Protocol = "published",
    seed: int = 0,
    on_method: Callable[[], object] = lambda: None,
) -> tuple[Maps, dict[str, float]]:
    """Maps of each method for the predicted class, of a RANDOM order, and seconds a text.

    The published scripts explain the label instead; on texts answered rightly it is the same.
    """
    maps, seconds = {}, {}
    for name in methods:
        start = time.perf_counter()
        maps[name] = attribute(model, texts.tokens, name, protocol=protocol)
        seconds[name] = (time.perf_counter() - start) / len(texts)
        on_method()
    random = torch.Generator().manual_seed(seed)
    maps[RANDOM] = [torch.rand(len(one), generator=random) for one in texts.tokens]
    return maps, seconds


def perturb_texts(
    model: TextTransformer,
    texts: Texts,
    maps: Mapping[str, Sequence[Tensor]],
    *,
    on_method: Callable[[], object] = lambda: None,
    **options: object,
) -> pd.DataFrame:
    """Rows of `token_perturbation_rows` for each method; `options` go there."""
    parts = []
    for name, values in maps.items():
        rows = token_perturbation_rows(model, texts.tokens, values, texts.labels, **options)
        parts.append(rows.assign(method=name))
        on_method()
    return pd.concat(parts, ignore_index=True)


def perturbation_table(rows: pd.DataFrame, labels: Int[Tensor, " texts"]) -> pd.DataFrame:
    """One row a method and direction, with standard errors over documents.

    Columns: method, direction, documents, auc_pct, standard_error_pts, first_half_auc_pct,
    first_half_error_pts (areas as `first_half_auc_pct`), final_accuracy_pct (every word erased),
    chance_pct (of always naming the most frequent class).
    """
    chance = 100 * labels.bincount().max().item() / len(labels)
    parts = []
    for name in rows["method"].unique():
        own = rows[rows["method"] == name]
        curves = accuracy_curves(own)
        last = curves[curves["share_pct"] == curves["share_pct"].max()].set_index("direction")
        area, half = (
            scores.groupby("direction", sort=False)[AREA]
            for scores in (image_auc_pct(own, "described"), first_half_auc_pct(own))
        )
        table = pd.DataFrame(
            {
                "documents": area.size(),
                AREA: area.mean(),
                "standard_error_pts": area.sem(),
                FIRST_HALF: half.mean(),
                "first_half_error_pts": half.sem(),
                "final_accuracy_pct": last["accuracy_pct"],
                "chance_pct": chance,
            }
        )
        parts.append(table.rename_axis("direction").reset_index().assign(method=name))
    table = pd.concat(parts, ignore_index=True)
    return table[["method", *table.columns.drop("method")]]


def curve_table(rows: pd.DataFrame) -> pd.DataFrame:
    """`accuracy_curves` of each method, with the column `method`."""
    names = rows["method"].unique()
    return pd.concat(
        [accuracy_curves(rows[rows["method"] == name]).assign(method=name) for name in names],
        ignore_index=True,
    )


def variants_first(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of VARIANTS before all others, so that pictures give them the clearest colours."""
    late = ~table["method"].isin(VARIANTS)
    return table.iloc[late.argsort(kind="stable")]


def top_counts(limit: int) -> tuple[int, ...]:
    """How many top tokens are taken: those of Fig. 6, in proportion for shorter texts.

    8 numbers that rise; 10 to 80 for a `limit` of 512 tokens or more.
    """
    share = min(1.0, limit / FIGURE_LIMIT)
    return tuple(max(place, round(k * share)) for place, k in enumerate(KS, start=1))


def reasoning_rows(
    texts: Texts,
    maps: Mapping[str, Sequence[Tensor]],
    ks: Sequence[int],
    protocol: Protocol = "published",
) -> pd.DataFrame:
    """Rows of `rationale_f1` for each method, and whether the top token is in it (`pointed`)."""
    parts = []
    for name, values in maps.items():
        own = (texts.tokens, values, texts.documents)
        rows = rationale_f1(*own, ks, protocol=protocol)
        pointed = rationale_scores(*own, protocol=protocol)[["index", "pointed"]]
        parts.append(rows.merge(pointed, on="index").assign(method=name))
    return pd.concat(parts, ignore_index=True)


def reasoning_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a method and k: method, k, documents, f1_pct, standard_error_pts, top_token_pct."""
    groups = rows.groupby(["method", "k"], sort=False)
    return pd.DataFrame(
        {
            "documents": groups.size(),
            F1: 100 * groups["f1"].mean(),
            "standard_error_pts": 100 * groups["f1"].sem(),
            "top_token_pct": 100 * groups["pointed"].mean(),
        }
    ).reset_index()


def document_scores(perturbation: pd.DataFrame, reasoning: pd.DataFrame | None) -> pd.DataFrame:
    """Each document's SCORES in percent, one row each: method, score, index, value_pct.

    The F1 is the mean over the numbers of tokens taken. The documents of the two tests may be
    other ones; without rationales (None) there is no F1.
    """
    parts = []
    for name in perturbation["method"].unique():
        own = perturbation[perturbation["method"] == name]
        area = image_auc_pct(own, "described").rename(columns={"direction": "score"})
        half = first_half_auc_pct(own[own["direction"] == "positive"])
        half = half.drop(columns="direction").assign(score="positive, first half")
        parts += [found.assign(method=name) for found in (area, half)]
    scores = pd.concat(parts, ignore_index=True).rename(columns={AREA: "value_pct"})
    if reasoning is not None:
        mean = 100 * reasoning.groupby(["method", "index"], sort=False)["f1"].mean()
        found = mean.rename("value_pct").reset_index().assign(score="F1")
        scores = pd.concat([scores, found], ignore_index=True)
    return scores[["method", "score", "index", "value_pct"]]


def score_table(scores: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Means with 95 % bootstrap intervals over documents, and each method's place (1: best).

    Columns: method, score, documents, value_pct, low_pct, high_pct, place. RANDOM has no place.
    """
    rows = []
    for (method, score), values in scores.groupby(["method", "score"], sort=False)["value_pct"]:
        numbers = torch.tensor(values.to_numpy(dtype=float))
        interval = bootstrap_interval(numbers, seed=seed)
        rows.append((method, score, len(numbers), float(numbers.mean()), *interval))
    columns = ["method", "score", "documents", "value_pct", "low_pct", "high_pct"]
    table = pd.DataFrame(rows, columns=columns)
    ranked = table[table["method"] != RANDOM]
    good = ranked["value_pct"].where(ranked["score"].map(SCORES), -ranked["value_pct"])
    table["place"] = good.groupby(ranked["score"]).rank(ascending=False, method="min")
    return table.astype({"place": "Int64"})


def leads(scores: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """What each of VARIANTS gains over the best of BASELINES, document by document.

    Columns: score, method, best (the baseline with the best mean), documents, gain_pts, low_pts,
    high_pts. A gain above 0 is better, whichever way the score goes; the interval holds 95 % of
    the bootstrap over documents. The baseline was chosen on these documents, which flatters it.
    """
    parts = []
    for score, higher in SCORES.items():
        own = scores[scores["score"] == score]
        if own.empty:
            continue
        means = own[own["method"].isin(BASELINES)].groupby("method")["value_pct"].mean()
        best = means.idxmax() if higher else means.idxmin()
        pair = own[own["method"].isin((best, *VARIANTS))]
        signed = pair.assign(value_pct=pair["value_pct"] * (1 if higher else -1))
        parts.append(method_differences(signed, "value_pct", best, seed=seed).assign(score=score))
    names = {"against": "best", "difference": "gain_pts", "low": "low_pts", "high": "high_pts"}
    table = pd.concat(parts, ignore_index=True).rename(columns=names)
    return table[["score", "method", "best", "documents", "gain_pts", "low_pts", "high_pts"]]


def paper_order(table: pd.DataFrame) -> pd.DataFrame:
    """Whether the paper's order is that of our means: one row a statement, one column a score.

    `table` is that of `score_table` for one corpus. Means alone: whether a difference is more
    than chance is the verdicts' to say.
    """
    found: dict[str, dict[str, bool]] = {}
    for score, higher in SCORES.items():
        own = table[table["score"] == score].set_index("method")["value_pct"]
        if own.empty:
            continue
        good = own if higher else -own
        for name in VARIANTS:
            ahead = good[name] > good[list(BASELINES)].max()
            found.setdefault(f"{name} ahead of all baselines", {})[score] = bool(ahead)
        for name in ("rollout", "gradcam"):
            others = [other for other in BASELINES if other not in ("rollout", "gradcam")]
            behind = good[name] <= good[others].mean()
            found.setdefault(f"{name} behind the mean of the others", {})[score] = bool(behind)
    return pd.DataFrame(found).T.rename_axis("the paper says")


def concatenated(parts: Mapping[str, pd.DataFrame], columns: Iterable[str]) -> pd.DataFrame:
    """Tables by corpus as one, with the column `corpus` in front; empty ones keep `columns`."""
    found = [table.assign(corpus=name) for name, table in parts.items()]
    if not found:
        return pd.DataFrame(columns=["corpus", *columns])
    table = pd.concat(found, ignore_index=True)
    return table[["corpus", *table.columns.drop("corpus")]]
