"""The models that IAV compares: rows of the table of runs, with every epoch, and their pictures."""

from __future__ import annotations

from dataclasses import replace

import pytest
import timm
import torch

from habitats.cutouts import CUTOUTS, Cutouts
from relevit.data.batch import Batch
from relevit.models.checkpoints import read_tensors
from relevit.models.registry import MODELS
from replicas.cifar import CLASSES as CIFAR10
from replicas.cifar import write_cifar
from reproduction import runs
from reproduction.heads import compared
from reproduction.heads.compared import compared_runs, finetuned, pictures_to_explain
from reproduction.params.cells import params_of
from reproduction.runs import grids
from reproduction.training import pretrained

from ..micro_iav import PAIR, SIZE, backbone_file, micro_models, params, write_backbones

pytestmark = pytest.mark.usefixtures("no_network", "micro")

HEAD = {"head.weight", "head.bias"}


@pytest.fixture(scope="module")
def micro():
    with micro_models():
        yield


@pytest.fixture(scope="module")
def made(micro, tmp_path_factory):
    """Both runs of two models."""
    cfg = params(tmp_path_factory.mktemp("outputs"))
    write_backbones(cfg)
    runs.make_missing(grids.of(cfg)["run"], "cpu")
    return cfg, compared_runs(cfg)


def iav_params(**values):
    return params_of("08_iav")(models=PAIR, **values)


def same(model, tensors):
    return {key for key, value in model.state_dict().items() if torch.equal(value, tensors[key])}


# Which runs


def test_models_of_a_seed_learn_from_the_same_drawn_pictures(tmp_path):
    cfg = params(tmp_path, model_seeds=[0, 1], models=["mini-mae", "mini-deit"])
    (one, checks), (same, _), (other, others) = (
        pretrained.training_pictures(row.params) for row in runs.classifiers(cfg)[:3]
    )
    assert one is same and checks is others
    first, second = (pictures.read(range(8)).images for pictures in (one, other))
    assert not torch.equal(first, second), "another seed draws others"


def test_a_notebook_s_runs_are_named_after_what_makes_them(tmp_path):
    cfg = params(tmp_path, model_seeds=[3, 0], models=["mini-mae", "mini-deit"])
    found = compared_runs(cfg)
    named = [(run.params.model, run.params.seed) for run in found]
    assert named == [("mini-mae", 3), ("mini-mae", 0), ("mini-deit", 3), ("mini-deit", 0)]
    assert {run.name for run in found} == {run.name for run in grids.of(cfg)["run"]}
    assert len({run.folder for run in found}) == 4
    assert found[0].folder.parent == tmp_path / "quick" / "runs"
    assert found[1].name.startswith("mini-mae.") and ".seed0-" in found[1].name
    shown_less = cfg.model_copy(update={"images": 40, "seed": 5, "device": "cpu", "draws": 9})
    assert [run.name for run in compared_runs(shown_less)] == [run.name for run in found]
    slower = cfg.model_copy(update={"lr": 5.0e-4})
    assert "lr_0.0005" in compared_runs(slower)[0].name


# Finetuning


def test_every_epoch_is_found_again(made):
    cfg, found = made
    for run in found:
        models = [finetuned(run, epoch) for epoch in range(cfg.epochs + 1)]
        assert not any(model.training for model in models)
        backbone = read_tensors(backbone_file(cfg, run.params.model))[0]
        before = models[0].state_dict()
        assert all(torch.equal(before[key], value.float()) for key, value in backbone.items())
        last = read_tensors(runs.weights_of(run))[0]
        assert same(finetuned(run), last) == same(models[2], last) == set(last)
        assert "blocks.0.attn.qkv.weight" not in same(models[1], last)
        assert "blocks.0.attn.qkv.weight" not in same(models[1], before)


def test_a_notebook_reads_what_is_made_and_says_what_makes_it(made, tmp_path):
    _, (run, _) = made
    assert runs.read(run)["lr"] == run.params.lr and not runs.needs(run)
    with pytest.raises(
        FileNotFoundError, match=r"is not made yet; .* reproduction\.pipeline quick"
    ):
        finetuned(compared_runs(params(tmp_path))[0])


# Pictures


@pytest.mark.parametrize(("count", "classes"), [(10, 5), (19, 9), (20, 10), (100, 10)])
def test_each_class_to_explain_has_at_least_two_pictures(count, classes):
    pictures = pictures_to_explain(iav_params(images=count))
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
    runs.make_missing([run], "cpu")
    assert pretrained.learned_classes(run.params) == tuple(CIFAR10)
    model = finetuned(run)
    assert model.num_classes == 10
    images = pretrained.test_pictures(cfg, 3, SIZE)
    with torch.no_grad():
        logits = model(compared.spec_of(run).normalise(images.read(range(3)).images))
    assert tuple(logits.shape) == (3, 10)


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
    runs.make(run, "cpu")
    with pytest.raises(runs.FailedError, match=r"weights has no dino-b\.safetensors"):
        runs.read(run)
    for seed in (1, 2):
        torch.manual_seed(seed)
        trained = create(MODELS["dino-b"].timm_name, num_classes=0, **small)
        torch.save(trained.state_dict(), weights / "dino-b.pth")
        if seed == 2:
            with pytest.raises(FileNotFoundError, match="was made from another original"):
                runs.read(run)
        runs.make_missing([run], "cpu")
        assert not runs.read(run)["failed"]
    model = finetuned(run, 0)
    assert set(model.state_dict()) - set(trained.state_dict()) == HEAD
    assert all(torch.equal(model.state_dict()[key], v) for key, v in trained.state_dict().items())
    assert finetuned(run).num_classes == 10


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

    found = compared.outlined_to_explain(Real(), 3, 4)
    assert found.labels.tolist() == found.images[:, 0, 0, 0].tolist() == [0, 3, 4]
    assert found.masks.all()
    ours = compared.outlined_to_explain(CUTOUTS, 3, 32)
    assert torch.equal(ours.images, compared.drawn_to_explain(CUTOUTS, 3, 32).images)
