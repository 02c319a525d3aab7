"""Finetunings of the IAV study: made once, found again, every epoch of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import timm
import torch

from habitats.cutouts import CUTOUTS, Cutouts
from habitats.drawings import CLASSES
from relevit.data.batch import Batch
from relevit.models.checkpoints import read_tensors
from relevit.models.registry import MODELS
from replicas.cifar import CLASSES as CIFAR10
from replicas.cifar import write_cifar
from reproduction.config import IavParams
from reproduction.heads import runs
from reproduction.heads.runs import compared_runs, finetune_run, pictures_to_explain

from ..micro_iav import PAIR, SIZE, backbone_file, micro_models, params, write_backbones

pytestmark = pytest.mark.usefixtures("no_network", "micro")

HEAD = {"head.weight", "head.bias"}


@pytest.fixture(scope="module")
def micro():
    with micro_models():
        yield


@pytest.fixture(scope="module")
def made(micro, tmp_path_factory):
    """Both runs of two models: parameters, runs, logs."""
    cfg = params(tmp_path_factory.mktemp("outputs"))
    write_backbones(cfg)
    finetuned = compared_runs(cfg)
    return cfg, finetuned, [finetune_run(cfg, run) for run in finetuned]


def iav_params(**values):
    return IavParams(models=PAIR, **values)


def count_epochs(cfg, run):
    """Epochs that asking for the run trains, its start included."""
    rows = []
    finetune_run(cfg, run, rows.append)
    return len(rows)


def same(model, tensors):
    return {key for key, value in model.state_dict().items() if torch.equal(value, tensors[key])}


# Which runs


def test_models_of_a_seed_learn_from_the_same_drawn_pictures(tmp_path):
    cfg = params(tmp_path, model_seeds=[0, 1], models=["mini-mae", "mini-deit"])
    rows = {(run.model, run.seed): run for run in compared_runs(cfg)}
    (one, checks), (same, _), (other, others) = (
        runs._training_pictures(cfg, rows[key])
        for key in (("mini-mae", 0), ("mini-deit", 0), ("mini-mae", 1))
    )
    assert one is same and checks is others
    first, second = (pictures.read(range(8)).images for pictures in (one, other))
    assert not torch.equal(first, second), "another seed draws others"


def test_every_model_with_every_seed_models_first(tmp_path):
    found = compared_runs(params(tmp_path, model_seeds=[3, 0], models=["mini-mae", "mini-deit"]))
    names = [(run.model, run.seed) for run in found]
    assert names == [("mini-mae", 3), ("mini-mae", 0), ("mini-deit", 3), ("mini-deit", 0)]
    assert found[1].folder == tmp_path / "quick" / "08_iav" / "mini-mae.seed0"
    assert all(run.classes == CLASSES for run in found)
    assert len({run.folder for run in found}) == 4


# Finetuning


def test_every_epoch_is_found_again(made):
    cfg, finetuned, _ = made
    for run in finetuned:
        models = [run.load(epoch, "cpu") for epoch in range(cfg.epochs + 1)]
        assert not any(model.training for model in models)
        backbone = read_tensors(backbone_file(cfg, run.model))[0]
        before = models[0].state_dict()
        assert all(torch.equal(before[key], value.float()) for key, value in backbone.items())
        last = read_tensors(run.folder / "weights.safetensors")[0]
        assert same(models[2], last) == set(last)
        assert "blocks.0.attn.qkv.weight" not in same(models[1], last)
        assert "blocks.0.attn.qkv.weight" not in same(models[1], before)


# Pictures


@pytest.mark.parametrize(("count", "classes"), [(10, 5), (19, 9), (20, 10), (100, 10)])
def test_each_class_to_explain_has_at_least_two_pictures(count, classes):
    pictures = pictures_to_explain(iav_params(images=count), 32)
    labels, sizes = pictures.labels.unique(return_counts=True)
    assert labels.tolist() == list(range(0, 4 * classes, 4))
    assert sizes.min() >= 2 and sizes.max() - sizes.min() <= 1 and sizes.sum() == count
    assert len(pictures.labels[:classes].unique()) == classes, "in turn"


# CIFAR-10


@pytest.fixture(scope="module")
def data_root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_cifar("cifar10", folder, per_class=1)
    return str(folder)


def test_mini_models_can_be_finetuned_on_cifar10(tmp_path, data_root):
    cfg = params(tmp_path, data="cifar10", data_root=data_root)
    write_backbones(cfg)
    run = compared_runs(cfg)[0]
    assert run.classes == tuple(CIFAR10)
    history = finetune_run(cfg, run)
    assert [row["epoch"] for row in history] == [0, 1, 2]
    model = run.load(2, "cpu")
    assert model.num_classes == 10
    images = runs.test_pictures(cfg, 3, SIZE)
    with torch.no_grad():
        logits = model(run.spec.normalise(images.read(range(3)).images))
    assert tuple(logits.shape) == (3, 10)
    assert count_epochs(cfg, run) == 0
    assert compared_runs(iav_params(data="cifar10", data_root=data_root))[0].classes == run.classes


# The paper's models


def test_a_model_of_the_hub_is_finetuned_from_its_file(tmp_path, data_root, monkeypatch):
    create, small = timm.create_model, {"img_size": 32, "embed_dim": 16, "depth": 2, "num_heads": 2}
    monkeypatch.setattr(
        timm, "create_model", lambda *args, **named: create(*args, **(small | named))
    )
    monkeypatch.setitem(MODELS, "dino-b", replace(MODELS["dino-b"], image_size=32))
    weights = tmp_path / "weights"
    weights.mkdir()
    values = {"data": "cifar10", "data_root": data_root, "weights_root": str(weights)}
    cfg = params(tmp_path, models=["deit-b", "dino-b"], **values)
    run = compared_runs(cfg)[-1]
    with pytest.raises(FileNotFoundError, match=r"weights has no dino-b\.safetensors"):
        finetune_run(cfg, run)
    for seed in (1, 2):
        torch.manual_seed(seed)
        trained = create(MODELS["dino-b"].timm_name, num_classes=0, **small)
        torch.save(trained.state_dict(), weights / "dino-b.pth")
        assert [count_epochs(cfg, run) for _ in range(2)] == [3, 0], "other weights, another run"
    model = run.load(0, "cpu")
    assert set(model.state_dict()) - set(trained.state_dict()) == HEAD
    assert all(torch.equal(model.state_dict()[key], v) for key, v in trained.state_dict().items())
    assert run.load(2, "cpu").num_classes == 10


def test_pictures_of_a_real_set_have_a_mask_and_a_class():
    def draw(set_name, places):
        assert set_name == "gtsegs"
        count = len(places)
        masks = torch.ones(count, 1, 4, 4, dtype=torch.bool)
        masks[1] = False
        labels = torch.arange(count)
        labels[2] = -1
        images = torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 4, 4)
        return Batch(images, masks, labels, torch.full((count,), -1))

    class Real(Cutouts):
        outlined, composable = "gtsegs", False

        def batches(self, set_name, count, batch_size, **options):
            return iter([draw(set_name, range(count))])

    found = runs.outlined_to_explain(Real(), 3, 4)
    assert found.labels.tolist() == found.images[:, 0, 0, 0].tolist() == [0, 3, 4]
    assert found.masks.all()
    ours = runs.outlined_to_explain(CUTOUTS, 3, 32)
    assert torch.equal(ours.images, runs.drawn_to_explain(runs.CUTOUTS, 3, 32).images)
