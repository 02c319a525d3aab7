"""One step of finetuning: the losses of the method and of its baselines."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from relevit.attribution import gae, relevance_and_logits, to_heatmap
from relevit.choices.words import MAP_LOSSES
from relevit.finetune.loop import only
from relevit.finetune.settings import BASELINES, FinetuneSettings
from relevit.finetune.step import frozen_part, make_optimizer, step_losses, trained_weights
from relevit.losses import LOSSES, Step, Term, background_loss, foreground_loss

from ..attribution_cases import PROTOCOLS
from ..micro_finetuning import SETTINGS, SIZE, SPEC, micro_model, pictures

GRID = (2, 2)


def step_inputs(count=4):
    shown = pictures("finetune", count)
    return SPEC.normalise(shown.images), shown.masks.float(), shown.labels


def losses_of(model=None, **changes):
    """Of one step on four pictures, with these settings."""
    return step_losses(model or micro_model(), *step_inputs(), SETTINGS.changed(**changes))


def gradients(model, total):
    return torch.autograd.grad(total, list(model.parameters()), allow_unused=True)


def same_gradients(one, other):
    return all(
        (a is None) == (b is None) and (a is None or torch.allclose(a, b, rtol=1e-4, atol=1e-7))
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("method", ["relevance", *BASELINES])
def test_total_is_the_weighted_sum(method):
    weights = {"relevance": 0.5, "classification": 3.0, "background": 7.0, "foreground": 0.25}
    losses = losses_of(weights=weights, method=method)
    wanted = 7 * losses.terms["background"]
    if method == "relevance":
        wanted = wanted + 0.25 * losses.terms["foreground"]
    torch.testing.assert_close(losses.relevance, wanted)
    torch.testing.assert_close(losses.total, 0.5 * wanted + 3 * losses.classification)
    numbers = losses.numbers()
    names = (*LOSSES[method], "relevance", "classification", "total")
    assert list(numbers) == [f"loss_{name}" for name in names]
    assert numbers["loss_total"] == float(losses.total.detach())


@pytest.mark.parametrize("option", ["decay", "normalise", "temperature", "exact_gradient"])
def test_options_of_a_loss_are_its_own_unless_its_term_names_a_rule(monkeypatch, option):
    """Also where a setting of the run, or an option of another loss, has the same name."""

    def mine(step, **options):
        told.append(options)
        return step.heatmaps.mean()

    told = []
    for term in (Term(mine, 1.0), Term(mine, 1.0, (option,))):
        monkeypatch.setitem(LOSSES["relevance"], "mine", term)
        losses_of(temperature=3.0, weights={})
    assert told == [{}, {option: SETTINGS.changed(temperature=3.0).rules[option]}]


def test_a_loss_sees_all_of_the_outlined_images_and_nothing_of_others(monkeypatch):
    seen, outlined = [], torch.tensor([False, True, False, True])
    term = Term(lambda step: seen.append(step) or step.heatmaps.mean(), 1.0)
    monkeypatch.setitem(LOSSES["relevance"], "mine", term)
    images, masks, labels = step_inputs()
    settings = SETTINGS.changed(weights={})
    step_losses(micro_model(), images, masks, labels, settings, outlined=outlined)
    (step,) = seen
    assert {len(part) for part in vars(step).values()} == {2}
    assert torch.equal(step.labels, labels[outlined])
    assert torch.equal(step.images, images[outlined])


@pytest.mark.parametrize("method", [*MAP_LOSSES, *BASELINES])
def test_models_in_float64_take_masks_in_float32(method):
    model, (images, masks, labels) = micro_model().double(), step_inputs()
    one, other = (
        step_losses(model, images.double(), part, labels, SETTINGS.changed(method=method)).total
        for part in (masks, masks.double())
    )
    torch.testing.assert_close(one, other, rtol=1e-12, atol=0)  # their type, too


@pytest.mark.parametrize("term", ["confidence", "label"])
def test_control_is_trained_as_by_maps_that_weigh_next_to_nothing(term):
    """It makes none; on validation images it does, to be looked at."""
    model, made = micro_model(), {}
    for weight in (0.0, 1e-12):
        losses = losses_of(model, weights={"relevance": weight}, class_term=term)
        made[losses.heatmaps is None] = gradients(model, losses.total)
    assert same_gradients(made[True], made[False])
    settings = SETTINGS.changed(weights={"relevance": 0.0})
    shown = step_losses(model, *step_inputs(), settings, train=False)
    assert shown.heatmaps is not None and shown.numbers()["loss_background"] > 0


@pytest.mark.parametrize("target", ["label", "predicted"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_heatmaps_are_gae_of_the_target_and_the_terms_the_protocols(target, protocol):
    model = micro_model()
    images, masks, labels = step_inputs()
    masks = 0.3 * masks  # the protocols differ on fractions (A7)
    settings = SETTINGS.changed(target=target, protocol=protocol)
    losses = step_losses(model, images, masks, labels, settings)
    relevance = gae(model, images, labels if target == "label" else None)
    code = protocol == "published"
    heat = to_heatmap(relevance, (SIZE, SIZE), GRID, normalise=code)
    torch.testing.assert_close(losses.heatmaps.detach(), heat)
    looked = Step(heatmaps=heat, masks=masks)
    background = background_loss(looked, edges_in_both=code)
    foreground = foreground_loss(looked, towards_mask=code)
    wanted = {"background": background, "foreground": foreground}
    torch.testing.assert_close(losses.terms, wanted, rtol=1e-3, atol=0)
    other = gae(model, images, None if target == "label" else labels)
    assert (relevance - other).abs().max() > 1e-6, "label and prediction are the same"


@pytest.mark.parametrize(("protocol", "exact"), [("published", False), ("described", True)])
@pytest.mark.parametrize("method", ["relevance", *BASELINES])
def test_protocol_chooses_the_gradient_unless_told(method, protocol, exact):
    model, found = micro_model(), {}
    for told in (None, True, False):
        options = {"exact_gradient": told}
        losses = losses_of(model, protocol=protocol, method=method, options=options)
        found[told] = gradients(model, losses.total)
        if method != "relevance":
            wanted = exact if told is None else told
            assert losses.terms["background"].requires_grad is wanted
    assert same_gradients(found[None], found[exact])
    assert not same_gradients(found[None], found[not exact])


@pytest.mark.parametrize("name", ["attention", "rollout"])
def test_another_explanation_takes_the_place_of_gae(name):
    model, (images, _, labels) = micro_model(), step_inputs()
    losses = losses_of(model, explanation=name)
    maps, _ = relevance_and_logits(model, images, labels, explanation=name)
    assert torch.equal(losses.heatmaps, to_heatmap(maps, (SIZE, SIZE), GRID))
    assert any(g is not None and g.abs().max() > 0 for g in gradients(model, losses.relevance))


@pytest.mark.parametrize("method", ["relevance", *BASELINES])
def test_class_term_is_that_of_the_label_or_of_the_own_answer(method):
    model = micro_model()
    images, masks, _ = step_inputs()
    wrong = (model(images).argmax(1) + 1) % 40
    settings = SETTINGS.changed(class_term="label", temperature=0.5, target="predicted")
    losses = step_losses(model, images, masks, wrong, settings.changed(method=method))
    torch.testing.assert_close(losses.classification, cross_entropy(model(images) / 0.5, wrong))
    if method == "relevance":
        own = step_losses(model, images, masks, wrong, settings.changed(class_term="confidence"))
        torch.testing.assert_close(own.relevance, losses.relevance)
        assert own.classification < losses.classification


@pytest.mark.parametrize("weight", [0.0, 0.8])
def test_precision_is_that_of_the_model_and_not_of_the_losses(weight):
    plain, rough = (
        losses_of(weights={"relevance": weight}, precision=precision)
        for precision in ("float32", "bfloat16")
    )
    assert rough.logits.dtype == rough.total.dtype == torch.float32
    assert not torch.equal(rough.logits, plain.logits), "the model ran in float32"
    torch.testing.assert_close(rough.classification, plain.classification, rtol=0.05, atol=0)


@pytest.mark.parametrize("method", MAP_LOSSES)
def test_terms_are_of_the_outlined_images_alone_and_the_class_term_of_all(method):
    model, settings = micro_model(), SETTINGS.changed(method=method, class_term="label")
    images, masks, labels = step_inputs()
    for kept in ([0, 1, 0, 1], [0, 0, 0, 0]):
        outlined = torch.tensor(kept).bool()
        losses = step_losses(model, images, masks, labels, settings, outlined=outlined)
        torch.testing.assert_close(losses.classification, cross_entropy(model(images), labels))
        if not outlined.any():
            assert losses.heatmaps is None and not losses.terms and losses.relevance == 0
            continue
        part = (each[outlined] for each in (images, masks, labels))
        alone = step_losses(model, *part, settings)
        assert set(losses.terms) == set(LOSSES[method])
        torch.testing.assert_close(losses.terms, alone.terms)


@pytest.mark.parametrize("method", BASELINES)
def test_baselines_need_all_masks(method):
    outlined = torch.tensor([True, False, True, True])
    settings = SETTINGS.changed(method=method)
    with pytest.raises(ValueError, match=f"step_losses: {method} needs masks of all images"):
        step_losses(micro_model(), *step_inputs(), settings, outlined=outlined)


# The last blocks alone


@pytest.mark.parametrize("exact", [False, True])
def test_training_all_blocks_is_training_all_but_what_comes_before_them(exact):
    """The terms, and the gradient of each weight that is trained, are the same bit for bit."""
    model, found = micro_model(), []
    trained = trained_weights(model, 2)
    for blocks, weights in ((None, list(model.parameters())), (2, trained)):
        settings = SETTINGS.changed(trained_blocks=blocks, options={"exact_gradient": exact})
        with only(model, weights):
            losses = step_losses(model, *step_inputs(), settings)
            slopes = torch.autograd.grad(losses.total, trained)
        found.append([losses.total, losses.heatmaps, *slopes])
    assert all(torch.equal(ours, all_) for all_, ours in zip(*found, strict=True))
    before = {"cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"}
    ids = {id(weight) for weight in trained}
    assert {name for name, each in model.named_parameters() if id(each) not in ids} == before


def test_maps_of_a_run_are_those_of_its_trained_blocks():
    model, (images, _, labels) = micro_model(), step_inputs()
    for blocks, last in ((1, 1), (0, None)):  # a head alone has no map of its own
        losses = losses_of(model, trained_blocks=blocks)
        maps, _ = relevance_and_logits(model, images, labels, last=last)
        torch.testing.assert_close(losses.heatmaps, to_heatmap(maps, (SIZE, SIZE), GRID))


@pytest.mark.parametrize("kind", ["plain", "average", "distilled"])
def test_head_and_norm_are_trained_whatever_they_are_called(build_vit, kind):
    model = build_vit(kind)
    names = {id(weight): name.split(".")[0] for name, weight in model.named_parameters()}
    heads = {name for name in names.values() if name.startswith("head")}
    norm = {"average": "fc_norm"}.get(kind, "norm")
    for blocks, parts in ((0, heads), (1, heads | {norm, "blocks"})):
        assert {names[id(weight)] for weight in trained_weights(model, blocks)} == parts
    with pytest.raises(ValueError, match="trained_blocks: 3 of a model that has 2"):
        make_optimizer(model, SETTINGS.changed(trained_blocks=3))
    headless = build_vit(num_classes=0)
    with pytest.raises(ValueError, match="the head of this VisionTransformer has no weights"):
        trained_weights(headless, 0)


@pytest.mark.parametrize("blocks", [None, 1, 0])
def test_frozen_weights_are_left_out_and_nothing_to_train_is_refused(blocks):
    model, settings = micro_model(), SETTINGS.changed(trained_blocks=blocks)
    all_ = {id(each) for each in trained_weights(model, blocks)}
    model.requires_grad_(False)
    with pytest.raises(ValueError, match=rf"all {len(all_)} weights .* frozen, .* or give"):
        make_optimizer(model, settings)
    model.head.bias.requires_grad_(True)
    (group,) = make_optimizer(model, settings).param_groups
    assert [id(each) for each in group["params"]] == [id(model.head.bias)]
    names = frozen_part(model, blocks)["frozen"]
    assert len(names) == len(all_) - 1 and "head.weight" in names
    assert frozen_part(micro_model(), blocks) == {}


@pytest.mark.parametrize("method", BASELINES)
def test_no_gradient_on_the_background_costs_nothing_and_is_finite(build_vit, images, method):
    """A mask of nothing but object: the norm of zero has slope zero, not NaN."""
    model, settings = build_vit(), FinetuneSettings(lr=1.0, method=method, protocol="described")
    labels = torch.tensor([2, 0, 4])
    losses = step_losses(model, images, torch.ones_like(images[:, :1]), labels, settings)
    found = losses.terms["background"]
    slopes = torch.autograd.grad(found, list(model.parameters()), materialize_grads=True)
    assert found == 0 and not any(slope.any() for slope in slopes)
