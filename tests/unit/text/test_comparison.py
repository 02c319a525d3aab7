"""All methods on the same texts: tables, places, leads, and what single texts show."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
import pytest
import torch

from relevit.claims import TABLES, judge
from relevit.config import TextParams
from relevit.text import comparison, looking
from relevit.text.attribute import TEXT_METHODS
from relevit.text.comparison import BASELINES, RANDOM, SCORES, VARIANTS
from relevit.text.experiment import accuracy, read_texts
from relevit.text.generated import generated_corpus, generated_tokenizer
from relevit.text.pretrained import build_encoder
from relevit.text.rationales import KS
from relevit.text.tokens import Tokens

pytest.importorskip("tokenizers", reason="needs the extra 'text'")


@pytest.fixture(scope="module")
def model():
    return build_encoder(TextParams(), generated_tokenizer(), 2)


@pytest.fixture(scope="module")
def texts():
    return read_texts(generated_tokenizer(), generated_corpus(0, 0, 5).test, 64)


@pytest.fixture(scope="module")
def maps(model, texts):
    return comparison.text_maps(model, texts, protocol="described", seed=3)[0]


@pytest.fixture(scope="module")
def rows(model, texts, maps):
    """Both tests: perturbation, reasoning."""
    erased = comparison.perturb_texts(model, texts, maps, protocol="described")
    return erased, comparison.reasoning_rows(texts, maps, (1, 4), "described")


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


# Maps and tables


def test_all_methods_and_a_random_order(texts, maps, model):
    assert list(maps) == [*TEXT_METHODS, RANDOM]
    for values in maps.values():
        assert [len(one) for one in values] == [len(one) for one in texts.tokens]
    again, seconds = comparison.text_maps(model, texts, ["ga"], seed=3)
    assert all(torch.equal(a, b) for a, b in zip(again[RANDOM], maps[RANDOM], strict=True))
    other = comparison.text_maps(model, texts, ["ga"], seed=4)[0][RANDOM]
    assert not torch.equal(other[0], maps[RANDOM][0])
    assert set(seconds) == {"ga"} and seconds["ga"] > 0


def test_tables_are_those_that_the_claims_are_judged_by(model, texts, rows):
    tables = {
        "text_perturbation": comparison.perturbation_table(rows[0], texts.labels),
        "text_rationales": comparison.reasoning_table(rows[1]),
        "text_accuracy": pd.DataFrame([accuracy(model, texts)]),
    }
    tables = {k: comparison.concatenated({"generated": v}, []) for k, v in tables.items()}
    for name, table in tables.items():
        assert set(table.columns) == {*TABLES[name].keys, *TABLES[name].numbers}
    assert len(tables["text_perturbation"]) == 2 * (len(TEXT_METHODS) + 1)
    # A model that guesses is not judged; what is missing must not be a table.
    assert "train it longer" in judge(tables, only=["BI-08"])[0].reason


def test_numbers_of_the_perturbation_table():
    shares = [0.0, *range(10, 110, 10)]
    hits = {0: [True] * 6 + [False] * 5, 1: [True] * 11}  # up to 50 % erased; always
    table = pd.DataFrame(
        [
            ("ga", i, "positive", share, hit)
            for i, own in hits.items()
            for share, hit in zip(shares, own, strict=True)
        ],
        columns=["method", "index", "direction", "share_pct", "hit"],
    )
    (row,) = comparison.perturbation_table(table, torch.tensor([1, 1])).itertuples()
    assert row.auc_pct == pytest.approx(75)  # of 50 % and 100 %
    assert row.standard_error_pts == pytest.approx(25)
    assert (row.first_half_auc_pct, row.final_accuracy_pct, row.chance_pct) == (100, 50, 100)
    assert row.documents == 2


def test_top_counts_are_those_of_the_figure_in_proportion():
    assert comparison.top_counts(512) == comparison.top_counts(2048) == KS
    assert comparison.top_counts(128) == (2, 5, 8, 10, 12, 15, 18, 20)
    for limit in range(8, 600):
        counts = comparison.top_counts(limit)
        assert counts[0] > 0 and all(a < b for a, b in pairwise(counts))


def test_top_token_of_the_reasoning_table(texts, rows):
    table = comparison.reasoning_table(rows[1])
    assert (table["documents"] == len(texts)).all()
    # With one token taken, precision says whether it is in the rationale.
    first = rows[1][rows[1]["k"] == 1].groupby("method")["precision"].mean() * 100
    named = table[table["k"] == 4].set_index("method")["top_token_pct"]
    pd.testing.assert_series_equal(named.sort_index(), first, check_names=False)


def test_concatenated_keeps_columns_without_a_table():
    assert list(comparison.concatenated({}, ["method", "k"])) == ["corpus", "method", "k"]
    table = pd.DataFrame({"method": ["ga"], "k": [1]})
    assert list(comparison.concatenated({"a": table, "b": table}, [])["corpus"]) == ["a", "b"]


def test_variants_come_first_and_others_keep_their_order():
    table = pd.DataFrame({"method": ["ga", "token_wise", RANDOM, "head_wise", "ga"]})
    order = comparison.variants_first(table)["method"].tolist()
    assert order == ["token_wise", "head_wise", "ga", RANDOM, "ga"]


# Who comes first


def test_document_scores_have_each_document_once(texts, rows):
    scores = comparison.document_scores(*rows)
    assert set(scores["score"]) == set(SCORES)
    assert (scores.groupby(["method", "score"])["index"].nunique() == len(texts)).all()
    assert not scores.duplicated(["method", "score", "index"]).any()
    own = rows[1][(rows[1]["method"] == "ga") & (rows[1]["index"] == 2)]
    found = scores[(scores["method"] == "ga") & (scores["score"] == "F1")].set_index("index")
    assert found.loc[2, "value_pct"] == pytest.approx(100 * own["f1"].mean())
    assert "F1" not in set(comparison.document_scores(rows[0], None)["score"])


def test_best_place_is_the_lowest_positive_area_and_the_highest_f1():
    table = comparison.score_table(by_hand(**every_method({"ga": 30, "rollout": 20, RANDOM: 10})))
    places = table.set_index(["method", "score"])["place"]
    assert places["rollout", "positive"] == places["ga", "F1"] == 1
    assert places["ga", "positive"] == places["rollout", "F1"] == 2
    assert places[RANDOM].isna().all()
    row = table.set_index(["method", "score"]).loc["ga", "F1"]
    assert (row["value_pct"], row["low_pct"], row["high_pct"]) == (31, 30, 32)


def test_lead_is_over_the_best_baseline_and_above_zero_is_better():
    values = dict.fromkeys(BASELINES, 40.0) | {"ga": 30.0, "rollout": 50.0}
    values |= {"head_wise": 27.0, "token_wise": 55.0, "gae": 0.0, RANDOM: 99.0}
    table = comparison.leads(by_hand(**every_method(values)))
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
    order = comparison.paper_order(comparison.score_table(by_hand(**every_method(values))))
    assert order["F1"].to_dict() == {
        "head_wise ahead of all baselines": True,
        "rollout behind the mean of the others": True,
        "gradcam behind the mean of the others": False,
        "token_wise ahead of all baselines": False,
    }
    assert not order["positive"].drop("gradcam behind the mean of the others").any()


# Single texts


def test_attention_of_the_class_token_is_shared_out(model, texts):
    rows = looking.class_attention(model, texts.tokens[0])
    assert rows.shape == (2, len(texts.tokens[0]))
    torch.testing.assert_close(rows.sum(dim=1), torch.ones(2))


def test_start_table_has_the_first_blocks_of_both(model, texts):
    table = looking.start_table(model, texts)
    assert table["published"].tolist() == [2, 2, 2, 2]
    assert (table["described"] == 1).all()
    assert table["same_order"].between(-1, 1).all() and (table["same_order"] < 0.999).all()
    assert table["same_top_pct"].between(0, 100).all()


def test_path_starts_give_other_answers_and_other_maps(model, texts):
    table, maps = looking.path_starts(model, texts.tokens[0])
    assert list(table.index) == ["zero (published)", "padding (described)", "the text"]
    assert table["probability_pct"].between(0, 100).all() and table["logit"].nunique() == 3
    zero, padding = (values for (values,) in maps.values())
    assert zero.shape == padding.shape == (len(texts.tokens[0]),)
    assert not torch.allclose(zero, padding)
    published = comparison.text_maps(model, texts.select([0]), ["token_wise"])[0]["token_wise"]
    torch.testing.assert_close(zero, published[0])


def test_left_after_erases_the_most_relevant_words():
    one = Tokens(
        "a b c d",
        (2, 7, 8, 9, 7, 3),
        ((0, 0), (0, 1), (2, 3), (4, 5), (6, 7), (0, 0)),
        (True, False, False, False, False, True),
    )
    values = torch.tensor([9.0, 0.1, 0.4, 0.2, 0.3, 9.0])
    assert looking.left_after(one, values, 50) == "a · c ·"
    assert looking.left_after(one, values, 0) == "a b c d"
