"""Which method comes first: tables, places, leads, the paper's order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from relevit.claims import judge
from relevit.config import TextParams
from relevit.evaluate.intervals import bootstrap_interval
from relevit.text.corpora.generated import generated_corpus, generated_tokenizer
from relevit.text.pretrained import build_encoder
from relevit.text.ranking import (
    BASELINES,
    SCORES,
    VARIANTS,
    concatenated,
    document_scores,
    leads,
    paper_order,
    score_table,
    variants_first,
)
from relevit.text.rationales import rationale_rows, rationale_table
from relevit.text.token_maps import RANDOM, TEXT_METHODS, method_maps
from relevit.text.token_perturbation import perturb_texts, perturbation_table
from relevit.text.tokens import read_texts
from relevit.text.train import accuracy

pytest.importorskip("tokenizers", reason="needs the extra 'text'")


@pytest.fixture(scope="module")
def model():
    return build_encoder(TextParams(), generated_tokenizer(), 2)


@pytest.fixture(scope="module")
def texts():
    return read_texts(generated_tokenizer(), generated_corpus(0, 0, 5).test, 64)


@pytest.fixture(scope="module")
def rows(model, texts):
    """Both tests: perturbation, reasoning."""
    maps = method_maps(model, texts, protocol="described", seed=3)[0]
    erased = perturb_texts(model, texts, maps, protocol="described")
    return erased, rationale_rows(texts, maps, (1, 4), "described")


def by_hand(**scores) -> pd.DataFrame:
    """`document_scores` of two documents: method -> score -> the two values."""
    return pd.DataFrame(
        [
            (method, score, i, value)
            for method, own in scores.items()
            for score, values in own.items()
            for i, value in enumerate(values)
        ],
        columns=["method", "score", "index", "value_pct"],
    )


def every_method(values) -> dict[str, dict[str, tuple[float, float]]]:
    return {
        name: {"positive": (value, value + 2), "F1": (value, value + 2)}
        for name, value in values.items()
    }


# Tables


def test_tables_are_those_that_the_claims_are_judged_by(model, texts, rows):
    tables = {
        "text_perturbation": perturbation_table(rows[0], texts.labels),
        "text_rationales": rationale_table(rows[1]),
        "text_accuracy": pd.DataFrame([accuracy(model, texts)]),
    }
    tables = {k: concatenated({"generated": v}, []) for k, v in tables.items()}
    assert len(tables["text_perturbation"]) == 2 * (len(TEXT_METHODS) + 1)
    # Nothing is judged of a model that guesses.
    chance = tables["text_perturbation"].groupby("corpus")["chance_pct"].max()
    tables["text_accuracy"] = tables["text_accuracy"].join(chance, on="corpus")
    found = judge({f"11_text/{name}": table for name, table in tables.items()}, only=["BI-08"])[0]
    assert found.verdict in ("no room", "undecided") and "naming one class" in found.reason


def test_concatenated_keeps_columns_without_a_table():
    assert list(concatenated({}, ["method", "k"])) == ["corpus", "method", "k"]
    table = pd.DataFrame({"method": ["ga"], "k": [1]})
    assert list(concatenated({"a": table, "b": table}, [])["corpus"]) == ["a", "b"]


def test_variants_come_first_and_others_keep_their_order():
    table = pd.DataFrame({"method": ["ga", "token_wise", RANDOM, "head_wise", "ga"]})
    order = variants_first(table)["method"].tolist()
    assert order == ["token_wise", "head_wise", "ga", RANDOM, "ga"]


# Who comes first


def test_document_scores_have_each_document_once(texts, rows):
    scores = document_scores(*rows)
    assert set(scores["score"]) == set(SCORES)
    assert (scores.groupby(["method", "score"])["index"].nunique() == len(texts)).all()
    assert not scores.duplicated(["method", "score", "index"]).any()
    own = rows[1][(rows[1]["method"] == "ga") & (rows[1]["index"] == 2)]
    found = scores[(scores["method"] == "ga") & (scores["score"] == "F1")].set_index("index")
    assert found.loc[2, "value_pct"] == pytest.approx(100 * own["f1"].mean())
    assert "F1" not in set(document_scores(rows[0], None)["score"])


def test_best_place_is_the_lowest_positive_area_and_the_highest_f1():
    table = score_table(by_hand(**every_method({"ga": 30, "rollout": 20, RANDOM: 10})))
    places = table.set_index(["method", "score"])["place"]
    assert places["rollout", "positive"] == places["ga", "F1"] == 1
    assert places["ga", "positive"] == places["rollout", "F1"] == 2
    assert places[RANDOM].isna().all()
    row = table.set_index(["method", "score"]).loc["ga", "F1"]
    assert (row["value_pct"], row["low_pct"], row["high_pct"]) == (31, 30, 32)


def test_lead_is_over_the_best_baseline_and_above_zero_is_better():
    values = dict.fromkeys(BASELINES, 40.0) | {"ga": 30.0, "rollout": 50.0}
    values |= {"head_wise": 27.0, "token_wise": 55.0, "gae": 0.0, RANDOM: 99.0}
    table = leads(by_hand(**every_method(values)))
    table = table.set_index(["score", "method"])
    assert table.loc["positive", "best"].unique().tolist() == ["ga"]
    assert table.loc["F1", "best"].unique().tolist() == ["rollout"]
    gains = table["gain_pts"]
    assert (gains["positive", "head_wise"], gains["positive", "token_wise"]) == (3, -25)
    assert (gains["F1", "head_wise"], gains["F1", "token_wise"]) == (-23, 5)
    assert set(table.index.unique("method")) == set(VARIANTS)


def test_order_of_the_paper():
    values = dict.fromkeys(BASELINES, 40.0) | {"rollout": 20.0, "gradcam": 45.0}
    values |= {"head_wise": 50.0, "token_wise": 30.0}
    order = paper_order(score_table(by_hand(**every_method(values))))
    assert order["F1"].to_dict() == {
        "head_wise ahead of all baselines": True,
        "rollout behind the mean of the others": True,
        "gradcam behind the mean of the others": False,
        "token_wise ahead of all baselines": False,
    }
    assert not order["positive"].drop("gradcam behind the mean of the others").any()


def test_gains_are_paired():
    """Ahead by about 10 points on documents that differ by far more than that."""
    level = np.linspace(0, 80, 20)
    better = level + np.linspace(5, 15, 20)
    values = dict.fromkeys(BASELINES, 0 * level) | {"ga": level, "token_wise": better}
    table = leads(by_hand(**{name: {"F1": of} for name, of in values.items()}))
    (row,) = table.itertuples()
    assert (row.method, row.best, row.documents) == ("token_wise", "ga", 20)
    assert row.gain_pts == pytest.approx(10)
    interval = bootstrap_interval(torch.tensor(better - level))
    assert (row.low_pts, row.high_pts) == pytest.approx(interval) and interval[0] > 8
