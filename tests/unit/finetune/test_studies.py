"""Photographs and controls: which runs there are, and what their tables say."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from habitats.real import pacs
from habitats.real.pacs import DOMAINS
from relevit.finetune.settings import resolved
from replicas.pacs import write_pacs
from reproduction.measures.paired import ORIGINAL
from reproduction.params.cells import FINETUNED, params_of
from reproduction.params.preset import read_preset
from reproduction.runs import grids, make_missing, studies
from reproduction.runs.run import searched
from reproduction.stages import preset_file

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "photographs.md").read_text("utf-8")
# As few runs, and as small, as have every table.
SMALL = {"images_per_class": 2, "epochs": 1}
LOOKS = {"challenge_images": 40, "looked_at": 8, "followed": ["label", "relevance"]}
SMALLER = {
    "photos": {
        "common": {"seeds": [0, 1], "model": "tiny"},
        "02_finetune": SMALL,
        "04_cures": LOOKS | {"arm_settings": {"rates": [5.0e-6]}, "prices": ["ellipse"]},
    },
    "photos_elsewhere": {
        "common": {"seeds": [0], "model": "tiny"},
        "02_finetune": SMALL,
        "04_cures": LOOKS | {"worlds": [{"side": 140}, {"side": 112, "source": "cartoon"}]},
    },
}
FEW = ("label", "relevance", "swap")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_pacs(tmp_path_factory.mktemp("data") / "PACS")


@pytest.fixture
def project(data, tmp_path, monkeypatch):
    """A copy of the project with a replica of the data."""
    for name in ("notebooks", "params"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns(".*"))
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "PACS").symlink_to(data)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pacs, "FEATURES", ("tiny-mae", 112))
    return tmp_path


def rows(preset):
    return grids.of(params_of("04_cures").from_preset(preset_file(preset)))


def tried_by(run):
    return searched(run.params, run.rates)


def stored(name):
    return pd.read_csv(studies.RESULTS / f"{name}.csv")


def test_every_seed_has_an_original_and_an_arm_the_rate_that_the_rule_takes(project):
    table = rows("photos")
    assert table["run"].map(lambda run: run.name).nunique() == len(table) == 5 * 11 + 30 + 20
    counts = table.groupby(["arm", "masks", "world"]).size()
    assert set(counts) == {5}
    assert {*counts["relevance"].index} == {
        ("annotated", "own"), ("others", "own"), ("ellipse", "own"), ("tokencut", "own"),
        ("annotated", "original 6"),
    }  # fmt: skip
    own = table.set_index(["arm", "seed", "masks", "world"])["run"]
    tried = tried_by(own["swap", 3, "annotated", "own"])
    assert [run.params.lr for run in tried] == [1.0e-6, 5.0e-6, 2.5e-5]
    for controlled in (("ellipse", "own"), ("annotated", "original 6")):
        same = tried_by(own["swap", 3, *controlled])
        assert [run.name for run in same] == [run.name for run in tried]
    heads = tried_by(own["last_layer_swap", 1, "annotated", "own"])
    assert [run.params.lr for run in heads] == [1.0e-4, 1.0e-3, 1.0e-2]
    assert tried_by(own["l1_5e-6", 1, "annotated", "own"]) == []
    assert len(grids.of_preset(read_preset(preset_file("photos")))) == len(table) + 27 - 1
    assert len(rows("photos_elsewhere")) == 2 * 6 * 3


def test_arms_are_those_of_the_study(project):
    """All parameters, but rate, images and validation."""
    study = preset_file("study")
    cures, maps = (params_of(name).from_preset(study) for name in ("04_cures", "05a_ablations"))
    base = params_of(FINETUNED).from_preset(study).model_dump()
    table = rows("photos").query("seed == 3 and masks == 'annotated' and world == 'own'")
    for row in table[table["arm"] != ORIGINAL].itertuples():
        arm = cures.arm_settings | (maps.maps | cures.arms)[row.arm.removesuffix("_5e-6")]
        known = params_of(FINETUNED).checked(base | arm | {"seed": 3}, row.arm)
        settings = [resolved(each, 1e-6, "float32") for each in (known, row.run.params)]
        assert settings[0].identity == settings[1].identity, row.arm


def test_the_page_names_what_is_run(project):
    asked, _, _ = PAGE.partition("## What came out")
    cures = params_of("04_cures").from_preset(preset_file("photos"))
    named = [*cures.arms, *(f"_{mask}" for mask in cures.prices), "_longer", "_5e-6"]
    rates = [f"{rate:g}".replace("e-0", "e-") for rate in cures.arm_settings["rates"]]
    names = [f"`{each}`" for each in named if each != "l1_5e-6"]
    assert [name for name in (*names, *rates) if name not in asked] == []


def test_what_was_written_before_the_runs_stays_as_it_was():
    """Word for word as in the last commit before them, a926e26c; corrections stand below it."""
    start, end = PAGE.index("**What had been seen.**"), PAGE.index("### Corrections")
    found = hashlib.sha256(PAGE[start:end].strip().encode()).hexdigest()
    assert found == "27010b7698c928145cdf682ed2ccee9378b801f903c159fcd811f8789bc790ab"


def test_what_follows_without_runs_is_as_stored():
    arms, doses, shares = stored("photos"), stored("photos_doses"), stored("controls")
    found = {
        "photos_originals": studies.originals(doses, pd.read_csv(studies.WORLDS)),
        "photos_chance": studies.chance(arms),
        "controls": studies.with_shares(shares.drop(columns=shares.filter(like="share_"))),
    }
    for name, table in found.items():
        known = stored(name).reset_index(drop=True)
        table = table.reset_index(drop=True)
        pd.testing.assert_frame_equal(table, known, rtol=1e-3, atol=1e-4, check_like=True)


def test_p_and_power_are_those_of_drawn_seeds():
    """By drawing: two arms whose five seeds differ by 1 point, and by 0."""
    rng, seeds = np.random.default_rng(0), 5
    effect = studies.errors_seen(seeds) * 2.0 / seeds**0.5

    def drawn(true):
        values = rng.normal(true, 2.0, (2000, seeds))
        mean, error = values.mean(axis=1), values.std(axis=1, ddof=1) / seeds**0.5
        ends = np.stack([mean, mean - 2.776 * error, mean + 2.776 * error])
        asked = [f"{what}{end}_pts" for what in studies.ASKED for end in ("", "_low", "_high")]
        named = dict(zip(("change_pts", "change_low_pts", "change_high_pts"), ends, strict=True))
        arms = dict.fromkeys(asked, np.nan) | named | {"arm": "a", "seeds": seeds}
        return studies.chance(pd.DataFrame(arms))

    none, some = drawn(0.0), drawn(effect)
    assert (none["p"] < 0.05).eq(none["beyond"]).mean() > 0.999
    assert none["beyond"].mean() == pytest.approx(0.05, abs=0.02)
    assert some["beyond"].mean() == pytest.approx(studies.POWER, abs=0.03)
    assert (none["p_holm"] < 0.05).sum() <= (none["p_bh"] < 0.05).sum() <= 2
    assert some["sees_pts"].median() == pytest.approx(effect, rel=0.1)


@pytest.mark.slow
def test_all_of_it_on_a_replica(project):
    """From the presets to the tables, whose columns are those that are stored."""
    for name, smaller in SMALLER.items():
        path = preset_file(name)
        sections = yaml.safe_load(path.read_text())
        for section, values in smaller.items():
            sections[section] |= values
        sections["common"]["benchmark"]["side"] = 112
        cures = sections["04_cures"]
        cures["arms"] = {arm: each for arm, each in cures["arms"].items() if arm in FEW}
        path.write_text(yaml.safe_dump(sections))
        make_missing(grids.of_preset(read_preset(path)).values())
    found = studies.photos()
    arms = found["photos"].set_index("arm")
    sets = found["photos_sets"].set_index(["arm", "dataset"])
    assert {*FEW, ORIGINAL, "relevance_ellipse", "label_longer"} <= set(arms.index)
    means = sets["change_pts"].unstack()[[*DOMAINS[1:]]].mean(axis=1)
    assert (means - arms["change_pts"]).drop(ORIGINAL).abs().max() < 1e-3
    leads = arms["change_pts"]["relevance"] - arms["change_pts"]["label"]
    assert arms["over_label_pts"]["relevance"] == pytest.approx(leads, abs=1e-3)
    assert arms["over_label_pts"].notna()["relevance_longer"]
    dose = found["photos_doses"].set_index(["original", "seed"])
    ends = dose["line_pts"].min(), dose["line_pts"].max()
    assert 0 <= ends[0] <= ends[1] <= 15, "between the worlds, two of which have no gap"
    middle = studies.line(pd.DataFrame({"gap_pts": [0, 0, 10], "adds_pts": [1.0, 3.0, 5.0]}))
    assert middle.to_numpy().tolist() == [[0, 2], [10, 5]]
    assert dose["adds_pts"][ORIGINAL, "all"] == pytest.approx(leads, abs=1e-3)
    elsewhere = found["photos_elsewhere"].set_index(["where", "arm"])
    assert {*elsewhere.index.levels[0]} == {"112 pixels", "140 pixels", "cartoon"}
    assert list(elsewhere.loc["cartoon"].index) == [ORIGINAL, *FEW[:2]]
    apart = found.pop("photos_seeds").pivot_table("top1_pct", ["arm", "seed"], "dataset")
    means = apart[[*DOMAINS[1:]]].mean(axis=1).unstack()
    lead = means.loc["relevance"] - means.loc["label"]
    assert arms["over_label_pts"]["relevance"] == pytest.approx(lead.mean(), abs=1e-3)
    found.pop("photos_elsewhere_seeds")
    basis = ("by_seed_pts", "image_error_pts", "by_seed_pct", "image_error_pct")
    for name, table in found.items():  # the stored ones were made before these were kept
        assert set(stored(name)) == {each for each in table if not each.endswith(basis)}
