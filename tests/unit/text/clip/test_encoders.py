"""The glue of 12_clip, on a small joined encoder, and what its settings change."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

pytest.importorskip("tokenizers", reason="needs the extra 'text'")
from relevit.text.clip.looking import first_of_groups, setting_maps, settings_table, word_shares

from relevit.attribution import METHODS
from relevit.config import ClipParams
from relevit.data.foregrounds import class_split
from relevit.evaluate.pointing import Pairs, draw_pairs
from relevit.text.clip import experiment
from relevit.text.clip.joining import SEED, examples
from relevit.text.tokens import word_tokenizer, words_of

CFG = ClipParams.checked(
    {"captioned_images": 80, "joining_epochs": 1, "pairs": 2, "images": 3, "head_seeds": [1]},
    "test",
)


@pytest.fixture(scope="module")
def towers():
    return experiment.begin(CFG, 1)


@pytest.fixture(scope="module")
def encoder(towers):
    return experiment.join_encoder(CFG, towers, experiment.draw_examples(CFG, towers), 1)


@pytest.fixture(scope="module")
def shown(encoder):
    return experiment.held_out(CFG, encoder.dual.spec)


@pytest.fixture(scope="module")
def pairs(encoder):
    return experiment.group_pairs(CFG, encoder, 112)


def test_each_seed_has_its_own_half_and_the_towers_stay_untrained(towers, encoder):
    assert tuple(encoder.groups.values()) == class_split(1)
    assert encoder.seed == 1 and len(encoder.history) == 1
    assert encoder.dual.text_tower is not towers.text  # the next seed begins anew


def test_features_run_once_are_those_of_the_encoder(towers, encoder, shown):
    once = experiment.projected(encoder, examples(towers, shown))
    directly, labels = experiment.embed_batches(encoder.dual, shown.batch.split(30))
    torch.testing.assert_close(once, directly)
    assert torch.equal(labels, shown.batch.labels)


def test_images_without_a_class_are_left_out(encoder, shown):
    part = shown.batch.select(range(4))
    part.labels[1] = -1
    features, labels = experiment.embed_batches(encoder.dual, [part])
    assert len(features) == 3 and labels.tolist() == [0, 2, 3]
    part.labels[:] = -1
    with pytest.raises(ValueError, match="no image with a known class; choose other held_out"):
        experiment.embed_batches(encoder.dual, [part])


def test_zero_shot_has_the_columns_of_the_claims(encoder, shown):
    features, labels = experiment.embed_batches(encoder.dual, shown.batch.split(40))
    table = experiment.zero_shot_rows(CFG, encoder, features, labels)
    assert table["classes"].tolist() == ["seen", "unseen"] and (table["seed"] == 1).all()
    assert table["chance_pct"].tolist() == [5, 5] and table["images"].tolist() == [40, 40]


def test_of_classes_without_an_image_the_mean_is_over_images(encoder):
    encoder = experiment.Encoder(
        encoder.dual, encoder.tokenizer, encoder.prompts, {"all": range(40)}
    )
    texts = encoder.texts()
    labels = torch.tensor([0, 0, 0, 5])
    table = experiment.zero_shot_rows(CFG, encoder, texts[[0, 0, 0, 6]], labels)
    row = table.iloc[0]
    assert (row["accuracy_pct"], row["chance_pct"], row["candidates"]) == (75, 2.5, 40)


def test_unseen_classes_are_erased_only_where_they_are_known():
    def table(low):
        rows = [(0, "seen", 90.0, 5.0), (0, "unseen", low, 5.0)]
        return pd.DataFrame(rows, columns=["seed", "classes", "low_pct", "chance_pct"])

    assert experiment.erased_group(table(5.0), 0) == "seen"
    assert experiment.erased_group(table(5.1), 0) == "unseen"
    assert experiment.erased_group(table(5.1).replace("seen", "all"), 0) == "all"


def test_erased_images_are_of_the_group_with_places_for_labels(encoder, shown):
    classifier, batch = experiment.erased_images(CFG, encoder, "unseen", shown.batch)
    unseen = class_split(1)[1]
    assert classifier.head.out_features == 20 and len(batch) == 3
    assert [unseen[i] for i in batch.labels.tolist()] == unseen[:3]


def test_pairs_are_found_for_each_group(pairs):
    seen, unseen = (set(part) for part in class_split(1))
    labels = pairs.labels.tolist()
    assert len(pairs) == 4
    assert all(seen >= set(both) for both in labels[:2])
    assert all(unseen >= set(both) for both in labels[2:])


def test_photographs_get_the_two_classes_they_are_most_similar_to(encoder, shown):
    classifier, spec = encoder.classifier(), encoder.dual.spec
    found = experiment.likely_pairs(classifier, spec, shown.batch, 3)
    with torch.no_grad():
        logits = classifier(spec.normalise(found.images))
    assert found.labels[:, 0].equal(logits.argmax(dim=1)) and not bool(found.masks.any())


def test_no_pairs_no_rows_but_the_columns():
    table = experiment.pointing(CFG, None, None, {})
    assert table.empty and {"model", "seed", "classes", "method", "images"} <= set(table)


def test_settings_as_published_are_the_methods_own_maps(encoder, pairs):
    classifier, spec = encoder.classifier(), encoder.dual.spec
    made = setting_maps(classifier, spec, pairs)
    pixels = spec.normalise(pairs.images)
    for name in ("token_wise", "head_wise"):
        whole = METHODS[name](classifier, pixels, pairs.labels[:, 1], protocol="published")
        found = next(v for (n, kind, _), v in made.items() if (n, kind) == (name, "published"))
        torch.testing.assert_close(found[:, 1], whole, rtol=1e-3, atol=1e-7)
    values = {kind: both for (name, kind, _), both in made.items() if name == "token_wise"}
    assert not torch.allclose(values["published"], values["values of Z (D12)"])
    assert not torch.allclose(values["published"], values["all blocks (D11)"])
    assert classifier.family == "clip"  # left as it was


def test_settings_table_counts_agreement_and_pointing_only_with_masks(pairs):
    rising = torch.arange(49.0).expand(4, 2, 49).contiguous()
    maps = {("ga", "published", 2): rising, ("ga", "other", 1): rising.flip(-1)}
    table = settings_table(pairs, maps)
    assert table["same_order"].round(6).tolist() == [1, -1]
    assert table["same_top_pct"].tolist() == [100, 0]
    assert (table["own_object_pct"] == 50).all()  # the same map for both phrases
    bare = Pairs(pairs.images, torch.zeros_like(pairs.masks), pairs.labels)
    assert "own_object_pct" not in settings_table(bare, maps)


def test_words_have_shares_for_each_method(towers, encoder, shown):
    texts = towers.encode([shown.captions[0][0], shown.captions[1][0]])
    features = experiment.projected(encoder, examples(towers, shown))[:2]
    table = word_shares(encoder.dual, texts, features, ["rollout", "token_wise"])
    assert table["kind"].unique().tolist() == ["class", "colour", "background", "other"]
    sums = table.groupby("method")["share_pct"].sum()
    assert sums.round(3).tolist() == [100, 100]


def test_images_of_two_animals_are_among_the_examples_where_asked_for(towers):
    few = CFG.model_copy(update={"captioned_pairs": 12})
    alone = CFG.model_copy(update={"captioned_pairs": 0})
    (both, _), (singles, _) = (experiment.draw_examples(cfg, towers) for cfg in (few, alone))
    assert 80 == len(singles.captions) < len(both.captions) < 92
    assert torch.equal(both.features[:80], singles.features)
    seen = set(class_split(1)[0])  # of the only one of CFG's head seeds
    assert all(set(pair) <= seen and len(set(pair)) == 2 for pair in both.labels[80:].tolist())


def test_no_seed_loses_an_image_of_two_animals(towers):
    cfg = CFG.model_copy(update={"captioned_pairs": 24, "head_seeds": [0, 1]})
    made, _ = experiment.draw_examples(cfg, towers)
    drawn = draw_pairs(24, seed=SEED + cfg.seed, size=towers.spec.image_size).labels
    for seed in cfg.head_seeds:
        seen = class_split(seed)[0]
        mine = torch.isin(drawn, torch.tensor(list(seen))).all(dim=1)
        assert 0 < int(mine.sum()) == len(made.of_classes(seen).labels[40:])


def test_width_and_temperature_reach_the_joining(towers):
    cfg = CFG.model_copy(update={"joint_width": 24, "temperature": 0.5})
    dual = experiment.join_encoder(cfg, towers, experiment.draw_examples(cfg, towers), 1).dual
    assert dual.image_projection.out_features == dual.text_projection.out_features == 24
    assert dual.scale.item() == pytest.approx(2, rel=0.1)  # one epoch changes it little


def test_words_of_things_are_known_where_their_captions_are_trained_on():
    more = experiment.begin(CFG.model_copy(update={"captioned_things": 100}), 1)
    assert "[UNK]" not in more.tokenizer.encode("a blue bus").tokens
    assert "[UNK]" in experiment.begin(CFG, 1).tokenizer.encode("a blue bus").tokens


def test_prompts_of_clip_are_the_published_ones(monkeypatch):
    monkeypatch.setattr(experiment, "random_clip", lambda prompts, seed: (torch.nn.Flatten(), None))
    classes = ("American chameleon", "black-footed ferret")
    made = {}
    for protocol in ("published", "described"):
        cfg = ClipParams(dual_model="clip-b32", source="random", protocol=protocol)
        made[protocol] = experiment.ready_encoder(cfg, classes).prompts
    assert made["published"] == tuple(f"a photo of a {name}" for name in classes)
    assert made["described"][0] == "a photo of an American chameleon"


@pytest.mark.parametrize(
    ("count", "each", "groups", "expected"),
    [
        (3, 2, 2, [[0, 1], [2, 3]]),
        (1, 2, 2, [[0], [2]]),
        (2, 3, 1, [[0, 1]]),
        (9, 3, 1, [[0, 1, 2]]),
    ],
)
def test_no_more_pairs_are_shown_than_there_are(count, each, groups, expected):
    many = each * groups
    numbers = torch.arange(many)
    duo = Pairs(
        numbers[:, None, None, None].expand(-1, 3, 4, 4),
        torch.zeros(many, 2, 4, 4),
        numbers[:, None].expand(-1, 2),
    )
    maps = {"rollout": numbers[:, None, None].expand(-1, 2, 4)}
    parts = first_of_groups(duo, maps, groups, count)
    assert [part.images[:, 0, 0, 0].tolist() for part, _ in parts] == expected
    assert [part.labels[:, 1].tolist() for part, _ in parts] == expected
    assert [found["rollout"][:, 1, 3].tolist() for _, found in parts] == expected


def test_no_more_photographs_are_asked_for_than_there_are(encoder, shown):
    classifier = encoder.classifier(list(encoder.prompts))
    for count, expected in ((1, 1), (3, 2)):
        found = experiment.likely_pairs(
            classifier, encoder.dual.spec, shown.batch.select(range(2)), count
        )
        assert len(found) == expected


def test_a_tokenizer_of_other_words_knows_these_alone():
    tokenizer = word_tokenizer(words_of(["A photo of a T-shirt"]))
    assert "[UNK]" not in tokenizer.encode("photo of t shirt").tokens
    assert tokenizer.encode("a parrot").tokens == ["[CLS]", "a", "[UNK]", "[SEP]"]
