"""The study of photographs on a replica of PACS, a few drawn pictures: grid, runs, tables."""

import hashlib
import importlib
import os
import re
import zlib

import numpy as np
import pandas as pd
import pytest

from habitats.real.pacs import CLASSES, DOMAINS, PAGE, read_pacs
from habitats.real.pacs import COUNTS as ALL_OF_IT
from replicas.pictures import picture, stored_jpeg, truncate
from reproduction.measures.paired import ORIGINAL
from reproduction.runs import photos

from .conftest import SCRIPT

COUNTS = dict(zip(DOMAINS, (10, 2, 10, 2), strict=True))


@pytest.fixture(scope="module")
def pacs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("PACS")
    for domain, count in COUNTS.items():
        for label, name in enumerate(CLASSES):
            for i in range(count):
                path = folder / domain / name / f"pic_{i:03}.jpg"
                stored_jpeg(picture(zlib.crc32(str(path).encode()[-40:]), label), path)
    return folder


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    return importlib.import_module("photos")


SMALLER = {
    "SEEDS": (0, 1), "LONGER_SEEDS": (0,), "LONGER": 3, "RATES": (5e-6,),
    "ARMS": ("label", "relevance", "swap"), "CONTROLS": ("ellipse",), "CONTROLLED": ("relevance",),
    "ELSEWHERE": {"cartoon": {"source": "cartoon"}}, "ELSEWHERE_SEEDS": (0,),
    "ELSEWHERE_ARMS": ("label", "relevance", "swap"),
}  # fmt: skip


@pytest.fixture
def few(tool, monkeypatch):
    """The same with fewer runs."""
    for name, value in SMALLER.items():
        monkeypatch.setattr(tool, name, value)
    return tool


@pytest.fixture
def study(pacs, tmp_path):
    few = {"images_per_class": 2, "masked": 14, "features": ("tiny-mae", 112)}
    return photos.Study(pacs, tmp_path, model="tiny", **few)


def made(study, tool):
    """All runs, one after the other, as `make_all` makes them side by side."""
    for seed in tool.SEEDS:
        photos.train(study, photos.Run(ORIGINAL, seed))
    for run in tool.tries():
        photos.train(study, run)
    rates = tool.judged(study)
    for seed in tool.LONGER_SEEDS:
        photos.train(study, photos.Run(ORIGINAL, seed, epochs=tool.LONGER))
    for _, run in tool.grid(tool.taken(rates)):
        photos.answer(study, run)
    for other in tool.elsewhere(study).values():
        for seed in tool.ELSEWHERE_SEEDS:
            photos.train(other, photos.Run(ORIGINAL, seed))
        for _, run in tool.smaller(tool.taken(rates)):
            photos.answer(other, run)
    return rates


def test_domains_are_read_by_their_folders(pacs):
    found = read_pacs(pacs)
    assert {name: len(part) for name, part in found.items()} == {
        name: count * len(CLASSES) for name, count in COUNTS.items()
    }
    assert {label for part in found.values() for label in part.labels} == {*range(len(CLASSES))}


def test_what_is_no_pacs_is_said_before_any_work(pacs, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=f"no folder photo, .*Li et al. 2017.*{PAGE}"):
        read_pacs(tmp_path)
    with monkeypatch.context() as fewer:
        fewer.setitem(ALL_OF_IT, "cartoon", 69)
        with pytest.raises(ValueError, match="cartoon has 70 pictures, and PACS 69; give PACS"):
            read_pacs(pacs)
    for domain in DOMAINS:
        (tmp_path / domain).mkdir()
        for name in CLASSES:
            os.symlink(pacs / domain / name, tmp_path / domain / name)
    (tmp_path / "sketch" / "house").unlink()
    with pytest.raises(ValueError, match=r"sketch has the classes dog, .*; those of PACS are dog"):
        read_pacs(tmp_path)
    (tmp_path / "sketch" / "house").mkdir()
    with pytest.raises(ValueError, match="house"):
        read_pacs(tmp_path)
    stored_jpeg(picture(1, 5), tmp_path / "sketch" / "house" / "cut.jpg")
    truncate(tmp_path / "sketch" / "house" / "cut.jpg")
    with pytest.raises(ValueError, match=r"house/cut.jpg cannot be read"):
        read_pacs(tmp_path)


def test_a_seed_draws_photographs_that_the_original_has_seen(study):
    """Classes take turns, so that the mask of a neighbour is one of another class."""
    sets = photos.pictures(study)
    assert {name: len(each) for name, each in sets.items()} == {
        "train": 56, "val": 14, "art_painting": 14, "cartoon": 70, "sketch": 14
    }  # fmt: skip
    found = photos.to_finetune(study, 0)
    assert 0 < len(found) <= 14 and (found.labels.diff() != 0).all()
    known = {image.numpy().tobytes() for image in sets["train"].read(range(56)).images}
    assert all(image.numpy().tobytes() in known for image in found.images)
    wrong = photos.to_finetune(study, 0, "others")
    assert (wrong.images == found.images).all() and (wrong.masks == found.masks.roll(1, 0)).all()


def test_arms_are_those_of_the_study(tool):
    settings = {arm: photos.settings_of(photos.Run(arm, 3, 1e-6)) for arm in tool.ARMS}
    same = {(s.seed, s.lr, s.class_term, s.epochs, s.keep) for s in settings.values()}
    assert same == {(3, 1e-6, "label", 5, "last")}
    assert {name for name, s in settings.items() if s.weights["relevance"] == 0} == {
        "label", "swap", "swap_strange", "last_layer_swap"
    }  # fmt: skip
    assert settings["both"].augmentation == settings["swap"].augmentation == "swap"
    assert settings["readout_last3"].explanation == "readout"
    assert settings["l1"].method == "l1" and settings["l1"].weights["relevance"] == 0.3
    blocks = {name: s.trained_blocks for name, s in settings.items()}
    few = {"last_layer_swap": 0, "gae_last3": 3, "readout_last3": 3}
    assert blocks == dict.fromkeys(blocks) | few


def test_the_grid_has_the_rates_of_the_rule_and_one_for_all(tool):
    rates = dict.fromkeys(tool.ARMS, 5e-6) | {"swap": 1e-6, "last_layer_swap": 1e-3}
    runs = list(tool.grid(rates))
    assert len(runs) == len(set(runs)) == len({run for _, run in runs}) == 45 + 5 + 5 + 30 + 9
    count = pd.Series([arm for arm, _ in runs]).value_counts()
    assert count["swap"] == count["swap_5e-6"] == count["relevance_ellipse"] == 5
    assert not {"last_layer_swap_5e-6", "label_5e-6"} & set(count.index)
    assert count["relevance_longer"] == count["original_longer"] == 3
    assert tool._beside("swap_5e-6", "label", {"label_5e-6": None}) == "label_5e-6"


def test_the_page_names_what_is_run(tool):
    page = (SCRIPT.parents[1] / "docs" / "photographs.md").read_text("utf-8")
    asked, _, _ = page.partition("## What came out")
    named = [*tool.ARMS, *(f"_{mask}" for mask in tool.CONTROLS), "_longer", "_5e-6"]
    rates = [f"{rate:g}".replace("e-0", "e-") for rate in tool.RATES]
    assert [name for name in [*(f"`{each}`" for each in named), *rates] if name not in asked] == []


def test_what_was_written_before_the_runs_stays_as_it_was():
    """Word for word as in the last commit before them, a926e26c; corrections stand below it."""
    page = (SCRIPT.parents[1] / "docs" / "photographs.md").read_text("utf-8")
    start, end = page.index("**What had been seen.**"), page.index("### Corrections")
    found = hashlib.sha256(page[start:end].strip().encode()).hexdigest()
    assert found == "27010b7698c928145cdf682ed2ccee9378b801f903c159fcd811f8789bc790ab"


def stored(name):
    return pd.read_csv(SCRIPT.parents[1] / "docs" / "results" / f"{name}.csv")


def test_what_is_said_of_chance_follows_from_what_is_stored(tool):
    arms, doses = stored("photos"), stored("photos_doses")
    found = {"photos_originals": tool.originals(doses, pd.read_csv(tool.WORLDS))}
    found["photos_chance"] = tool.chance(arms)
    for name, table in found.items():
        known = stored(name).reset_index(drop=True)
        pd.testing.assert_frame_equal(table.reset_index(drop=True), known, rtol=1e-3, atol=1e-4)


def test_p_and_power_are_those_of_drawn_seeds(tool):
    """By drawing: two arms whose five seeds differ by 1 point, and by 0."""
    rng, seeds = np.random.default_rng(0), 5
    effect = tool.errors_seen(seeds) * 2.0 / seeds**0.5

    def drawn(true):
        values = rng.normal(true, 2.0, (2000, seeds))
        mean, error = values.mean(axis=1), values.std(axis=1, ddof=1) / seeds**0.5
        ends = np.stack([mean, mean - 2.776 * error, mean + 2.776 * error])
        rows = {f"{what}{end}_pts": np.nan for what in tool.ASKED for end in ("", "_low", "_high")}
        named = dict(zip(("change_pts", "change_low_pts", "change_high_pts"), ends, strict=True))
        return tool.chance(pd.DataFrame(rows | named | {"arm": "a", "seeds": seeds}))

    none, some = drawn(0.0), drawn(effect)
    assert (none["p"] < 0.05).eq(none["beyond"]).mean() > 0.999
    assert none["beyond"].mean() == pytest.approx(0.05, abs=0.02)
    assert some["beyond"].mean() == pytest.approx(tool.POWER, abs=0.03)
    assert (none["p_holm"] < 0.05).sum() <= (none["p_bh"] < 0.05).sum() <= 2
    assert some["sees_pts"].median() == pytest.approx(effect, rel=0.1)


@pytest.mark.slow
def test_all_of_it_on_a_replica(study, few, tmp_path):
    """Runs that are there are read, and one that lacks a table gets it."""
    rates = made(study, few)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*") if path.is_file()}
    first = photos.folder_of(study, photos.Run("label", 0, few.taken(rates)["label"]))
    (first / "lean.parquet").unlink()
    assert made(study, few).equals(rates)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*") if path.is_file()}
    assert {path.name for path in after if after[path] != before[path]} == {"lean.parquet"}

    docs = tmp_path / "docs"
    (docs / "results").mkdir(parents=True)
    few.write(study, rates, docs)
    found = {path.stem: pd.read_csv(path) for path in docs.glob("results/*.csv")}
    arms = found["photos"].set_index("arm")
    sets = found["photos_sets"].set_index(["arm", "dataset"])
    assert {*few.ARMS, ORIGINAL, "relevance_ellipse", "label_longer"} <= set(arms.index)
    means = sets["change_pts"].unstack()[[*DOMAINS[1:]]].mean(axis=1)
    assert (means - arms["change_pts"]).drop(ORIGINAL).abs().max() < 1e-3
    leads = arms["change_pts"]["relevance"] - arms["change_pts"]["label"]
    assert arms["over_label_pts"]["relevance"] == pytest.approx(leads, abs=1e-3)
    dose = found["photos_doses"].set_index(["original", "seed"])
    ends = dose["line_pts"].min(), dose["line_pts"].max()
    assert 0 <= ends[0] <= ends[1] <= 15, "between the worlds, two of which have no gap"
    middle = few.line(pd.DataFrame({"gap_pts": [0, 0, 10], "adds_pts": [1.0, 3.0, 5.0]}))
    assert middle.to_numpy().tolist() == [[0, 2], [10, 5]]
    assert arms["over_swap_pts"].notna()["label"] and arms["over_swap_pts"].isna()["label_longer"]
    assert dose["adds_pts"][ORIGINAL, "all"] == pytest.approx(leads, abs=1e-3)
    elsewhere = found["photos_elsewhere"].set_index(["where", "arm"])
    assert list(elsewhere.loc["cartoon"].index) == [ORIGINAL, "label", "relevance", "swap"]
    changes = elsewhere["change_pts"]["cartoon"]
    lead = elsewhere["over_label_pts"]["cartoon", "swap"]
    assert lead == pytest.approx(changes["swap"] - changes["label"], abs=1e-3)
    assert (docs / "photos.png").is_file()
    apart = found.pop("photos_seeds").pivot_table("top1_pct", ["arm", "seed"], "dataset")
    means = apart[[*DOMAINS[1:]]].mean(axis=1).unstack()
    lead = means.loc["relevance"] - means.loc["label"]
    assert arms["over_label_pts"]["relevance"] == pytest.approx(lead.mean(), abs=1e-3)
    reach = 12.71 * lead.std() / 2**0.5  # of two seeds alone
    assert lead.mean() - arms["over_label_low_pts"]["relevance"] >= reach - 1e-2
    assert set(found.pop("photos_elsewhere_seeds")["where"]) == {"cartoon"}
    basis = re.compile("by_seed|image_error|images$")  # the stored ones were made before
    for name, table in found.items():
        assert set(stored(name)) == {each for each in table if not basis.search(each)}
