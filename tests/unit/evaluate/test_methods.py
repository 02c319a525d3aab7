"""Methods side by side: the maps, the tables, and what one map is worth in both tests."""

import pandas as pd
import pytest
import torch

from habitats.cutouts import CUTOUTS
from relevit.attribution import METHODS
from relevit.data.batch import Batch
from relevit.evaluate import Erasing
from relevit.models.spec import ModelSpec
from reproduction.measures import methods as made
from reproduction.measures.methods import area_table, chance_maps, perturb, shared_maps

HALF = Erasing(shares_pct=(50,))
SPEC = ModelSpec("micro", "none", 28, mean=(0.5,) * 3, std=(0.5,) * 3)


@pytest.fixture(scope="module")
def pictures():
    return CUTOUTS.draw("val", range(5), labels=range(5), size=28)


@pytest.fixture
def micro(build_vit):
    return build_vit().float()


def test_maps_are_those_of_the_methods(micro, pictures, monkeypatch):
    monkeypatch.setattr(made, "BATCH", 2)
    names = ("gae", "rollout", "token_wise")
    maps = shared_maps(micro, SPEC, pictures.images, names, target=pictures.labels)
    assert list(maps) == list(names)
    for name in names:
        expected = METHODS[name](
            micro, SPEC.normalise(pictures.images), pictures.labels, protocol="published"
        )
        torch.testing.assert_close(maps[name], expected, rtol=1e-4, atol=1e-7)


def test_a_pair_is_explained_for_each_of_its_classes(micro, pictures):
    labels = torch.stack([pictures.labels, pictures.labels.flip(0)], dim=1)
    pairs = Batch(pictures.images, pictures.masks.expand(-1, 2, -1, -1), labels)
    maps = made.pair_maps(micro, SPEC, pairs, ["gae", "rollout"])
    second = shared_maps(micro, SPEC, pictures.images, ["gae"], target=labels[:, 1])["gae"]
    assert maps["gae"].shape[:2] == (5, 2) and torch.equal(maps["gae"][:, 1], second)
    assert torch.equal(maps["rollout"][:, 0], maps["rollout"][:, 1])


def test_each_difference_is_set_alone_and_what_moves_most_comes_first(micro, pictures):
    found = made.single_differences(micro, SPEC.normalise(pictures.images), ["ga", "rollout"])
    assert found["same order"].is_monotonic_increasing and found["same order"].max() <= 1
    names = set(zip(found["method"], found["option"], strict=True))
    assert {("ga", "mean_first"), ("rollout", "start_block"), ("rollout", "normalise")} <= names
    told = found["told from the first"]
    assert told[0] == "" and "yes" in set(told[1:]) <= {"yes", "no"}


def test_published_segmentation_judges_ga_over_all_blocks_and_erasing_from_block_2(
    build_vit, pictures
):
    """The published scripts of the two tests differ in GA's first block (differences C2)."""
    model, pixels = build_vit(depth=8).float(), SPEC.normalise(pictures.images)
    maps = shared_maps(model, SPEC, pictures.images, ["ga", "gae"])
    torch.testing.assert_close(maps["ga"], METHODS["ga"](model, pixels, start_block=2))
    found = made.outlining_maps(model, SPEC, pictures.images, maps)
    torch.testing.assert_close(found["ga"], METHODS["ga"](model, pixels, start_block=1))
    assert found["gae"] is maps["gae"] and not torch.equal(found["ga"], maps["ga"])
    assert made.outlining_maps(model, SPEC, pictures.images, maps, "described") == maps


def test_ablation_has_the_rows_of_the_paper(micro, pictures):
    maps = made.ablation_maps(micro, SPEC, pictures.images)
    whole = shared_maps(micro, SPEC, pictures.images, ["head_wise", "token_wise"])
    torch.testing.assert_close(maps["head_wise|integrated_gradient"], whole["head_wise"])
    torch.testing.assert_close(maps["token_wise|integrated_gradient"], whole["token_wise"])
    rows = perturb(micro, SPEC, pictures, maps, HALF)
    areas, of_images = area_table(rows), made.area_by_image(rows)
    table = made.ablation_table(made.segmentation_table(maps, pictures.masks, (4, 4)), areas)
    assert list(zip(table["perception"], table["feedback"], strict=True)) == list(made.ABLATION)
    row = table.iloc[3]
    expected = areas[areas["method"] == "head_wise|integrated_gradient"].set_index("direction")
    assert row["positive_auc_pct"] == expected.loc["positive", "auc_pct"]
    assert row["negative_low_pct"] == expected.loc["negative", "low_pct"]
    mean = of_images["positive", "head_wise|integrated_gradient"].mean()
    assert mean == pytest.approx(row["positive_auc_pct"])
    assert not table.drop(columns=["perception", "feedback"]).isna().any(axis=None)


def test_maps_for_the_label_are_made_anew_where_the_answer_is_wrong(micro, pictures):
    """Against the long way: explain the label of every image, erase every image."""
    names, erasing = ["gae", "rollout"], Erasing("token", shares_pct=(30, 60))
    answers = micro(SPEC.normalise(pictures.images)).argmax(dim=1)
    labels = torch.where(torch.arange(5) % 2 == 0, answers, (answers + 1) % 5)
    batch = Batch(pictures.images, pictures.masks, labels, pictures.families)
    own = shared_maps(micro, SPEC, batch.images, names)
    rows = perturb(micro, SPEC, batch, own, erasing)
    found = made.perturb_by_label(micro, SPEC, batch, rows, erasing)
    maps = shared_maps(micro, SPEC, batch.images, names, target=labels)
    long_way = perturb(micro, SPEC, batch, maps, erasing, explained=labels)
    keys = ["method", "direction", "index", "share_pct"]
    found, long_way = (t.sort_values(keys).reset_index(drop=True) for t in (found, long_way))
    pd.testing.assert_frame_equal(found, long_way, rtol=1e-4)
    assert not found["logit"].equals(rows.sort_values(keys)["logit"].reset_index(drop=True))
    assert area_table(found)["method"].unique().tolist() == names


def test_chance_is_the_same_in_every_run_and_leaves_the_global_seed_alone():
    state = torch.get_rng_state()
    first = chance_maps(3, 16)
    assert torch.equal(first, chance_maps(3, 16)) and torch.equal(state, torch.get_rng_state())
    orders = first.argsort(dim=1)
    assert not torch.equal(orders[0], orders[1]), "each image has its own"
    assert abs(float(torch.corrcoef(chance_maps(1000, 2).T)[0, 1])) < 0.1


def test_images_to_erase_that_are_the_first_to_outline_are_explained_once(
    micro, pictures, monkeypatch
):
    asked, other = [], pictures.select([4, 3])
    explain = made.shared_maps

    def counted(model, spec, images, *rest, **options):
        asked.append(len(images))
        return explain(model, spec, images, *rest, **options)

    monkeypatch.setattr(made, "shared_maps", counted)
    outlined, erased = made.maps_of_both(micro, SPEC, pictures, pictures.select([0, 1]), ["gae"])
    assert asked == [5] and torch.equal(erased["gae"], outlined["gae"][:2])
    outlined, erased = made.maps_of_both(micro, SPEC, pictures, other, ["gae"])
    assert asked[1:] == [5, 2]
    torch.testing.assert_close(erased["gae"], outlined["gae"][[4, 3]], rtol=1e-4, atol=1e-7)


def test_both_tests_of_runs_become_tables_and_one_change_in_words(micro, build_vit, pictures):
    models = {"original": micro, "seed0": build_vit(seed=1).float(), "seed1": micro}
    tested = {
        run: made.gae_tests(model, SPEC, pictures, pictures.select([0, 1]), HALF)
        for run, model in models.items()
    }
    tables = made.tables_of_runs(tested, pictures.masks, (4, 4))
    assert list(tables["finetuned_images"]) == ["model_run", "index", "iou_pct", "right"]
    assert len(tables["finetuned_images"]) == 3 * 5
    assert set(tables["finetuned_perturbation"]["model_run"]) == set(models)
    found = made.finetuning_changes(tables["finetuned_changes"])
    for kind, name, metric, words in (
        ("segmentation", "metric", "miou_pct", "mIoU"),
        ("perturbation", "direction", "positive", "area, most relevant first"),
    ):
        table = tables[f"finetuned_{kind}"].set_index(["model_run", name]).xs(metric, level=name)
        values = table["value_pct" if name == "metric" else "auc_pct"]
        before, after = values["original"], (values["seed0"] + values["seed1"]) / 2
        assert found.loc[words].tolist()[:2] == [before.round(1), after.round(1)]
        assert found.loc[words, "change, points"].startswith(f"{after - before:+z.1f} (")


def test_kinds_of_answers_have_areas_and_curves_of_their_own(micro, pictures):
    maps = {"gae": chance_maps(5, 16), "random": chance_maps(5, 16)}
    rows = perturb(micro, SPEC, pictures, maps, HALF)
    both = pd.concat([rows.assign(model="b", target="x"), rows.assign(model="a", target="x")])
    areas = made.area_tables(both, ["model", "target"], "published")
    assert areas["model"].tolist() == ["b"] * 4 + ["a"] * 4
    assert areas["auc_pct"][:4].tolist() == area_table(rows)["auc_pct"].tolist()
    assert made.curves_of(rows)["method"].tolist() == ["gae"] * 4 + ["random"] * 4
