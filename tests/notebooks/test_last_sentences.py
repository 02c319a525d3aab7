"""The last sentences of lessons follow from the numbers above them, whichever way these lie."""

import ast
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch

from relevit import iav
from relevit.evaluate.intervals import mean_interval
from reproduction import heads, language, measures, plots
from reproduction.lessons.last import STORED, closing, side, stored
from reproduction.measures import judge, knn, paired
from reproduction.measures.causal import ZEROS
from reproduction.params.cells import params_of
from reproduction.params.order import NOTEBOOKS, notebook_file
from reproduction.runs import effects

ROOT = Path(__file__).parents[2]
COUNT = 40  # images, scenes, texts
ENDS = "", "_low", "_high"
SLOPES = "supervised", "self-supervised", "difference"
TURNS = {"above": 8.0, "between": 0.0, "below": -8.0}
TOLD = {  # words that are said at this turn alone
    "03a_robustness": {
        "above": [
            "points: relevance adds",
            "    with it, against the original: +8.0 (+4.0 to +12.0) points: the model gains",
            "against the original: of 1 tests more are found in 1, fewer in 0",
            "against its twin: of 1 tests more are found in 0, fewer in 1",
            "classes gain more",
        ],
        "between": [
            "against its twin: of 1 tests more are found in 0, fewer in 0",
            "no order shows",
        ],
        "below": [
            "relevance takes away",
            "    without it, against the original: -8.0 (-12.0 to -4.0) points: the model loses",
            "against the original: of 1 tests more are found in 0, fewer in 1",
            "classes gain less",
        ],
    },
    "04a_cures": {
        "above": [
            "its term trains.",
            "against the original +8.0 (+4.0 to +12.0) points: it gains.",
            "points: relevance with annotated masks leads GradMask, published.",
        ],
        "between": ["whether it gains or loses", "whether relevance with annotated masks leads"],
        "below": [
            "points: it loses.",
            "points: relevance with annotated masks trails GradMask, published.",
        ],
    },
    "05a_ablations": {
        "above": [
            "2 images a class: +8.0 (+4.0 to +12.0) points: it gains",
            "same test images: +8.0 (+4.0 to +12.0) points: it gains more",
            "GAE, last three blocks, less GAE on all blocks: +8.0",
            "attention, last three blocks, less GAE on the same blocks: +8.0",
            "points: it gains more",
        ],
        "between": ["whether it gains or loses", "whether it gains more"],
        "below": [
            "points: it loses",
            "same test images: -8.0 (-12.0 to -4.0) points: it gains less",
            "points: it gains less",
        ],
    },
    "06a_attribution": {
        "above": [
            "outlines, head-wise minus feedback alone, 40 images: +8.0 (+7.7 to +8.3) points: per",
            "points: feedback adds",
            ": mostly one is found",
            "less its area, 40 images: +8.0 (+7.7 to +8.3) points: what is kept lies on it more",
        ],
        "between": ["whether perception adds", "so few images do not tell"],
        "below": [
            "points: perception costs",
            "points: feedback costs",
            "mostly none is found",
            "points: what is kept lies on it less than by its size",
        ],
    },
    "07a_segmentation": {
        "above": [
            "points: the map fits the mask",
            "scenes: +8.0 (+7.7 to +8.3) points: the answer leads",
            "of 2 methods 1 are seen to be truer than a flat map from both zeros: GAE.",
            "More than the paper's 20",
        ],
        "between": ["whether the answer leads or trails", "It may be the paper's"],
        "below": [
            "points: the map fits it less",
            "points: the answer trails",
            "Less than the paper",
        ],
    },
    "08a_iav": {
        "above": [
            "the order of the kinds stays.",
            ": supervised +8.00 (+4.00 to +12.00), rises",
            "difference +8.00 (+4.00 to +12.00), above 0.",
        ],
        "between": ["(-4.00 to +4.00), cannot be told", "the order of the kinds is not told"],
        "below": [
            "the order of the kinds turns over",
            ": supervised -8.00 (-12.00 to -4.00), falls",
            "difference -8.00 (-12.00 to -4.00), below 0.",
        ],
    },
    "09a_text": {
        "above": ["points: token-wise leads it", ": leads 1, trails 0."],
        "between": [
            "leads it or trails it cannot be told",
            "each for itself, it leads in 0 of 2 panels and trails in 0; by luck alone 0.1 would",
            "each for itself, 90 to 90 texts",
        ],
        "below": ["points: token-wise trails it", ": leads 0, trails 1."],
    },
    "06_attribution": {
        "above": [
            "GAE: 58 % (54 to 62). It follows the question.",
            "of 1 these follow: 1.",
            "mean over blocks: +8.0 (+7.7 to +8.3) points: it follows more often.",
            "last block: +8.0 (+7.7 to +8.3) points: it follows more often.",
        ],
        "between": ["GAE: 50 % (46 to 54). A coin may do as well.", "whether it follows more"],
        "below": [
            "GAE: 42 % (38 to 46). It points at the other animal.",
            "points: it follows less often.",
        ],
    },
    "07_segmentation": {
        "above": ["GAE is truer.", "it rewards more than the worth of parts"],
        "between": ["So few scenes do not tell.", "so few scenes do not tell."],
        "below": ["Raw attention is truer, though it knows no class.", "puts the truth first"],
    },
    "08_iav": {
        "above": [
            "it looks more at its own animal.",
            "right? It fits its own image better than another",
        ],
        "between": ["whether it looks more at", "No fit to its own image is seen. "],
        "below": ["it looks less at its own animal.", "It fits another image better than its own"],
    },
    "09_text": {
        "above": ["The answers hang on the tokens that token-wise marks.", ": fewer are right."],
        "between": ["do not tell whether they hang on these", "tell whether fewer are right"],
        "below": ["token-wise marks the wrong ones.", ": more are right."],
    },
    "10_your_own": {
        "above": [
            "a, with relevance less without: +8.0 (+4.0 to +12.0) points: relevance helped.",
            "less original: +8.0 (+4.0 to +12.0) points: the model gained.",
            "points: the lean grows.",
        ],
        "between": ["whether relevance helped", "whether the model", "whether the lean grows"],
        "below": ["relevance harmed.", "the model lost.", "points: the lean shrinks."],
    },
    "99_report": {
        "above": [
            "points: relevance adds to the same training",
            "points: with it the model loses.",
            "Contradicted: 0 of these",
        ],
        "between": [
            "points: whether relevance adds",
            "contradicted 8,",
            "Contradicted: 8 of these",
        ],
        "below": ["points: relevance takes from the same", "contradicted 16,", "and in 16 of them"],
    },
}


def pointing(lead: float) -> dict:
    rows = pd.DataFrame({"method": ["raw_attention", "gae", "token_wise"], "own_object_pct": 50.0})
    rows.loc[rows["method"] == "gae", "own_object_pct"] += lead
    ends = {"low_pct": rows["own_object_pct"] - 4, "high_pct": rows["own_object_pct"] + 4}
    rows = rows.assign(**ends)
    by_block = rows[rows["method"] == "gae"].assign(way="entry by entry", block=1)
    wiggle = torch.tensor([1.0, -1.0]).repeat(COUNT // 2)
    ways = {"one": (50 + lead + wiggle)[None], "other": (50 + 0 * wiggle)[None]}
    return {"two_objects": rows, "duo": range(COUNT), "by_block": by_block} | ways


def truth(lead: float, outline: float = 0.0, worth: float = 0.0) -> dict:
    """By `lead` GAE is truer; by `outline` and `worth` these tests prefer it to raw attention."""
    level = np.random.default_rng(0).normal(60, 4, COUNT)
    wiggle = np.tile([1.0, -1.0], COUNT // 2)
    raw = pd.DataFrame(dict.fromkeys(("truth_pct", "miou_pct", "erasing_pts"), level))
    gae = raw.add(wiggle, axis=0) + np.array([lead, outline, worth])
    flat = 0 * raw + 50 + wiggle[:, None]
    found = {"raw_attention": raw, "gae": gae, "(flat)": flat, "(true worths)": raw - lead}
    methods = ["raw_attention", "gae"]
    return {"drawn": True, "METHODS": methods, "found": found, "three": judge.compared(found)}


def agreement(lead: float) -> dict:
    """Heads that look where the map and the animal are, anywhere, or where they are not."""
    random = torch.Generator().manual_seed(0)
    bright, other = (torch.rand(COUNT, 64, generator=random) for _ in range(2))
    rows = {8.0: bright, 0.0: other, -8.0: 1 - bright}[lead][:, None, None]
    maps = {"smoothgrad": bright, "mask": bright.round()}
    return {"found": {"run": heads.Explanation(rows, maps, (8, 8))}}


def erasing(lead: float) -> dict:
    wiggle = np.tile([1.0, -1.0], COUNT // 2)
    changed = pd.DataFrame({"random": 20.0, "token_wise": 20 + lead + wiggle})
    return {"changed": changed, "right": 100 - changed}


def own(lead: float) -> dict:
    row = {"dataset": "a", "change": "with relevance - without", "change_pts": lead}
    row |= {"low_pts": lead - 4, "high_pts": lead + 4}
    models = pd.DataFrame({"model": ["original", "without", "with relevance"]})
    held, places = SimpleNamespace(HELD_OUT="held_out"), np.arange(COUNT)
    elsewhere = {8.0: 0 * places, 0.0: places % 2, -8.0: 0 * places + 1}[lead]
    shown = {"image": np.tile(places, 2), "condition": np.repeat(["same", "other"], COUNT)}
    before, after = (
        SimpleNamespace(rows=pd.DataFrame(shown | {"right": np.append(0 * places + 1, right)}))
        for right in (1 - places % 2, elsewhere)
    )
    audits = {"original": before, "without": before, "with relevance": after}
    start = row | {"change": "with relevance - original"}
    changes = pd.DataFrame([row, start, row | {"dataset": "held_out", "change_pts": 0.0}])
    (cell,) = [cell for cell in cells_of("10_your_own") if cell.id == "own-lean-before"]
    (by_hand,) = [one for one in ast.parse(cell.source).body if isinstance(one, ast.FunctionDef)]
    known = {"answers": models, "audits": audits, "changes": changes, "images": held}
    exec(ast.unparse(by_hand), known)
    return known


def report(lead: float) -> dict:
    added = row(lead, "adds", world="own", arm="ours", classes="all", seeds=3) | row(-lead, "with")
    verdicts = ["holds"] * 5 + ["contradicted"] * int(8 - lead) + ["undecided", "not testable"]
    table = pd.DataFrame({"verdict": verdicts, "decides": "decided", "reason": ""})
    table.iloc[-2, 1] = "about 2 times the seeds and images"
    table.iloc[-1, 2] = "05_ablations/ablations: no run has the class term of Eq. 4"
    each = table.assign(id=range(len(table)), size=3, sum=1).set_index(["verdict", "id"])
    return {"added": pd.DataFrame([added]), "verdict_table": table, "each": each}


def row(lead: float, name: str = "", **others) -> dict:
    """A number and its interval, as the columns of a table, beside others."""
    named = {f"{name}{end}_pts": lead + more for end, more in zip(ENDS, (0, -4, 4), strict=True)}
    return {key.removeprefix("_"): value for key, value in named.items()} | others


def nine_columns(lead: float) -> dict:
    causes = {"cause": "object size", "spearman": lead / 20}
    causes |= {"low": (lead - 4) / 20, "high": (lead + 4) / 20, "count": COUNT}
    changes, adds = (
        row(of, data="val", k=1, seeds=3, images=COUNT) | {"change_pts": of} for of in (lead, -lead)
    )
    of_ways = row(lead, "adds") | row(lead, "with") | row(lead, "without")
    named = {"arm": "published", "classes": "B", "seeds": 3, "images": COUNT}
    listed = pd.DataFrame([of_ways | named])
    tables = {"knn_changes": pd.DataFrame([changes]), "knn_adds": pd.DataFrame([adds])}
    tables |= {"causes": pd.DataFrame([causes])}
    return {"listed": listed, "paired": paired} | tables


def cures(lead: float) -> dict:
    gap = pd.DataFrame({"largest_difference": [max(lead, 0.0)]})
    numbers = row(lead) | row(lead, "lead", change_pts=lead, seeds=1)
    arms = pd.DataFrame([numbers], ["GradMask, published"])
    cfg = SimpleNamespace(compared_model="tiny", images_per_set=COUNT)
    tables = {"arms": arms, "cfg": cfg, "OURS": "ours, annotated masks"}
    return {"gaps": {("gradmask", "published"): gap}} | tables


def maps_to_train_on(lead: float) -> dict:
    both = row(lead, "over_same") | row(-lead, "over_gae")
    maps = pd.DataFrame([row(lead, "over_gae"), both], ["gae_last3", "attention_last3"])
    amount = row(lead) | row(-lead, "lead")
    amount |= {"change_pts": lead, "seeds": 1, "images": COUNT}
    full = SimpleNamespace(images_per_class=3, classes=40)
    tables = {"fewer": pd.DataFrame([amount], ["2 images a class"]), "maps_table": maps}
    return tables | {"full": full, "maps_counts": "seeds: 1"}


def halves(lead: float) -> dict:
    first = {
        "method": "token_wise",
        "option": "baseline",
        "same order": 0.6,
        "from": 0.5,
        "to": 0.7,
        "told from the first": "",
    }
    wiggle = np.tile([1.0, -1.0], COUNT // 2)
    alone = dict.fromkeys(("none|integrated_gradient", "head_wise|none"), 50 + 0 * wiggle)
    both = {"head_wise|integrated_gradient": 50 + lead + wiggle}
    found = pd.DataFrame({"found": wiggle + lead > 0, "image": range(COUNT)})
    tables = {"single": pd.DataFrame([first]), "compared": range(COUNT)}
    kept = pd.DataFrame({"on_object_pct": 20 + lead + wiggle, "fills_pct": 20.0})
    known = {"better": {"outlines": pd.DataFrame(alone | both)}, "parts_found": kept}
    known |= tables | {"table": found}
    (pairs,) = (cell.source for cell in cells_of("06a_attribution") if cell.id == "06a-pairs")
    exec(pairs, known)
    return known


def map_or_model(lead: float) -> dict:
    wiggle = torch.tensor([1.0, -1.0]).repeat(COUNT // 2)
    gain = SimpleNamespace(mean=lead, low=lead - 4, high=lead + 4)
    pairs = pd.Series(lead + wiggle.numpy())
    told = {"pairs_of": {"Worth, 40 scenes": ("the answer", pairs, ("leads", "trails"))}}
    truer = pairs if lead > 0 else 0 * pairs
    told |= {"beyond": {(m, z): truer - 20 * (m == "ga") for m in ("gae", "ga") for z in ZEROS}}
    times = pd.Series(np.exp(np.log(20) + (lead + wiggle.numpy()) / 8))
    told |= {"maps": dict.fromkeys(("gae", "ga")), "zeros": ZEROS, "times_more": times}
    return told | {"gain": gain, "ious": np.zeros((1, COUNT))}


def pretrained(lead: float) -> dict:
    """With the zero taken off the slopes lie by `lead`, and as the paper has them always above."""
    kinds = {"model": [*"abcd"], "kind": ["supervised", "self-supervised"] * 2}
    intervals = [
        {"map": name, "kind": kind, "slope": slope, "low": slope - 4, "high": slope + 4}
        for name, slope in (("beyond", lead), ("smoothgrad", 9.0))
        for kind in SLOPES
    ]
    tables = {"slopes": kinds, "intervals": intervals, "scores": {"image": [0, 1]}}
    named = {
        "PROPERTIES": {"iav_slope": "slope"},
        "MAPS": {"beyond": "beyond", "smoothgrad": "own"},
    }
    apart = {
        "apart": pd.Series({"iav_slope": lead > 0}),
        "luck_pct": 100 / 3,
        "kinds_of": [*"abcd"],
    }
    return {name: pd.DataFrame(rows) for name, rows in tables.items()} | named | apart


def on_texts(lead: float) -> dict:
    named = {"corpus": "movie_reviews", "score": "positive", "best": "gae", "enough": 90.0}
    counts = [{"counted": f"{counted} answers"} for counted in ("own", "right")]
    rows = [row(lead, documents=24, **named) | {"gain_pts": lead} | each for each in counts]
    return {"gains": pd.DataFrame(rows)}


MADE = {
    "03a_robustness": nine_columns,
    "04a_cures": cures,
    "05a_ablations": maps_to_train_on,
    "06a_attribution": halves,
    "07a_segmentation": map_or_model,
    "08a_iav": pretrained,
    "09a_text": on_texts,
    "06_attribution": pointing,
    "07_segmentation": truth,
    "08_iav": agreement,
    "09_text": erasing,
    "10_your_own": own,
    "99_report": report,
}
CFG = params_of("06_attribution").from_preset(ROOT / "params" / f"{STORED}.yaml")
NAMES = {
    "cfg": CFG,
    "closing": closing,
    "side": side,
    "mean_interval": mean_interval,
    "plots": plots,
    "pd": pd,
    "judge": judge,
    "torch": torch,
    "iav": iav,
    "heads": heads,
    "knn": knn,
    "measures": measures,
    "language": language,
    "effects": effects,
}


def cells_of(name: str) -> list[nbformat.NotebookNode]:
    return nbformat.read(ROOT / notebook_file(name), as_version=4).cells


def last_cell(name: str) -> nbformat.NotebookNode:
    (cell,) = (cell for cell in cells_of(name) if "lesson" in cell.metadata.get("tags", []))
    return cell


def test_every_appendix_ends_in_sentences_that_turn():
    """The lessons that are not here are in `test_lessons`."""
    assert {name for name in NOTEBOOKS if name[2] == "a"} <= set(TOLD)


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("name", TOLD)
def test_the_last_sentence_turns_with_its_numbers(name, turn, capsys):
    exec(last_cell(name).source, NAMES | MADE[name](TURNS[turn]))
    printed = capsys.readouterr().out
    for key, words in TOLD[name].items():
        for said in [words] if isinstance(words, str) else words:
            assert (said in printed) == (key == turn), (said, printed)


@pytest.mark.parametrize(
    ("leads", "words"),
    [
        ((8.0, 8.0, 8.0), "The tests choose one map: GAE."),
        ((8.0, 0.0, 8.0), "The tests may choose one map: GAE."),
        ((8.0, -8.0, 0.0), "The tests do not choose one map."),
    ],
)
def test_the_tests_of_a_map_agree_or_not(leads, words, capsys):
    exec(last_cell("07_segmentation").source, NAMES | truth(*leads))
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lead", "gain", "words"),
    [
        (8.0, 8.0, "relevance helped."),
        (8.0, 2.0, "better than the twin only."),
        (8.0, -2.0, "better than the twin only."),
        (8.0, -8.0, "less is lost."),
        (-8.0, 8.0, "less is gained."),
        (-8.0, 2.0, "relevance harmed."),
        (0.0, -2.0, "whether relevance helped or harmed cannot be told."),
    ],
)
def test_relevance_helped_where_something_was_gained(lead, gain, words, capsys):
    known = own(lead)
    moved = known["changes"]["change"] == "with relevance - original"
    known["changes"].loc[moved, ["change_pts", "low_pts", "high_pts"]] = gain, gain - 4, gain + 4
    exec(last_cell("10_your_own").source, NAMES | known)
    (said,) = (
        line
        for line in capsys.readouterr().out.splitlines()
        if "a, with" in line and "without" in line
    )
    assert said.endswith(f"points: {words}")


def test_claims_that_are_undecided_and_not_testable_are_told_apart(capsys):
    whole = report(8.0)
    for left, words in ((slice(None), ("decide 1 of 1.", "class term 1 of 1 could")),
                        (slice(5), ("decide 0 of 0.", "class term 0 of 0 could"))):  # fmt: skip
        table = whole["verdict_table"][left]
        exec(last_cell("99_report").source, NAMES | whole | {"verdict_table": table})
        printed = capsys.readouterr().out
        assert all(said in printed for said in words), printed


def test_another_run_stands_beside_the_stored_one():
    """Also one of the stored preset with a parameter changed."""
    for other in ({"preset": "quick"}, {"pairs": CFG.pairs + 1}):
        both = closing(CFG.model_copy(update=other), "Mine.")
        assert both.startswith(f"Mine.\n\nThe stored run ({STORED}):\n")
        assert stored(CFG.notebook) in both
    assert closing(CFG, "Mine.") == "Mine."
