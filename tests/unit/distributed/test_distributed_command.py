"""Parts of a whole, and the command for several processes: what can be said with one process."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import yaml
from timm.layers import DropPath

from relevit.distributed import launched, part, process_group, share, world
from relevit.distributed.command import backend_for, main, read_params
from relevit.distributed.lockstep import check_images_apart
from relevit.finetune import loop as finetune

from ..micro_finetuning import micro_model, pictures


@pytest.fixture
def params(tmp_path):
    for name, values in (("02_finetune", {"batch_size": 2}), ("03_robustness", {}),
                         ("00_original", {})):  # fmt: skip
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({"preset": "quick", **values}))
    return tmp_path


@pytest.mark.parametrize(("count", "sizes"), [(8, [2, 3, 3]), (2, [0, 1, 1]), (0, [0, 0, 0])])
def test_parts_are_neighbours_and_cover_everything(monkeypatch, count, sizes):
    dealt = []
    for rank in range(3):
        monkeypatch.setattr("relevit.distributed.world", lambda rank=rank: (rank, 3))
        dealt.append(share(range(count)))
    assert [len(places) for places in dealt] == sizes
    assert [place for places in dealt for place in places] == list(range(count))


def test_without_torchrun_there_is_one_process(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with process_group():
        assert world() == (0, 1) and part(5) == slice(0, 5)
        assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("lacking", ["RANK", "LOCAL_RANK"])
def test_half_set_environment_is_refused(monkeypatch, lacking):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv(lacking, "first")
    with pytest.raises(
        ValueError, match=f"'{lacking}': 'first'.*start the processes with torchrun"
    ):
        launched()


def test_augmentation_of_an_image_is_the_same_in_any_part():
    batch = pictures("finetune", 10)
    whole = finetune.augment(batch, np.random.default_rng(5))
    for cut in (1, 4):
        parts = [
            finetune.augment(batch.select(rows), np.random.default_rng(5), skip=rows.start)
            for rows in (range(cut), range(cut, 10))
        ]
        for i in (0, 1):
            assert torch.equal(torch.cat([p[i] for p in parts]), whole[i])


@pytest.mark.parametrize(
    "layer", [torch.nn.BatchNorm2d(3), torch.nn.Dropout(0.1), DropPath(0.1)], ids=str
)
def test_models_that_mix_images_or_draw_numbers_are_refused(layer):
    model = micro_model()
    check_images_apart(model)
    model.blocks[1].drop_path1 = layer
    with pytest.raises(ValueError, match=r"training: blocks\.1\.drop_path1 is .*one process"):
        check_images_apart(model)


def test_one_device_for_two_processes_is_refused(monkeypatch):
    monkeypatch.setattr("relevit.distributed.command.choose_device", torch.device)
    assert backend_for("cuda", 2) == "auto" and backend_for("cuda:1", 1) == "auto"
    assert backend_for("cpu", 2) == "gloo"
    for device in ("cuda:1", "mps"):
        with pytest.raises(ValueError, match=f"device '{device}'.*2 processes; give cuda"):
            backend_for(device, 2)


def test_command_reads_values_as_yaml(params):
    file = params / "02_finetune.yaml"
    cfg = read_params(file, ["seed=3", "lr=1.0e-4", "run=by_two", "weight_background=null"])
    assert (cfg.seed, cfg.lr, cfg.run_name, cfg.weight_background) == (3, 1e-4, "by_two", None)
    assert cfg.batch_size == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("seed", "give name=value, for example -p seed=1"),
        ("=1", "give name=value"),
        ("seed=[", "the value is no YAML"),
        ("sed=1", "02_finetune.yaml -p sed=1: sed = 1 is no parameter"),
        ("lr=1e-4", "write it with a dot"),
    ],
)
def test_command_refuses_in_one_message(params, capsys, given, message):
    file = params / "02_finetune.yaml"
    assert main([str(file), "-p", given]) == 2
    assert message in capsys.readouterr().err


def test_one_model_is_for_evaluations_alone(params, capsys):
    assert main([str(params / "02_finetune.yaml"), "--model", "seed1"]) == 2
    assert "which makes one run; give it with 03_robustness.yaml" in capsys.readouterr().err


def test_command_knows_the_notebooks_by_their_files(params, capsys):
    assert read_params(params / "03_robustness.yaml", ["seeds=[2]"]).seeds == [2]
    assert main([str(params / "00_original.yaml")]) == 2
    assert "give a file named 02_finetune.yaml or 03_robustness.yaml" in capsys.readouterr().err
