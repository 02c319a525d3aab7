"""Two processes make the same gradients, runs and evaluations as one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from safetensors.torch import load_file
from timm.layers import DropPath

from relevit import finetune, runs
from relevit.distributed import launched, part, process_group, share, world
from relevit.distributed.finetuning import backend_for, main, run_params
from relevit.distributed.lockstep import check_images_apart
from relevit.evaluate import evaluate_sets, predict
from relevit.models import shipped_weights

from . import distributed_cases as cases
from .micro_finetuning import RESULT, SIZE, SPEC, micro_model, pictures, result, stop

ROOT = Path(__file__).parents[2]
CASES = "tests.unit.distributed_cases"  # from the project's folder, where pytest's names differ
LONGEST = 280  # seconds; a deadlock ends here
SMALL = {"images_per_class": 1, "classes": 2, "epochs": 1, "batch_size": 2,
         "validation_images": 40, "validation_maps": 8}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def launched_folder(tmp_path_factory):
    """Started with the module's first test; the tests below wait for it in `two`."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "project" / "notebooks").mkdir(parents=True)
    params = folder / "project" / "params" / "quick"
    params.mkdir(parents=True)
    originals = {"00_original": {"model": "dinov2-s"}, "02_finetune": {"model": "tiny", **SMALL}}
    for name, values in originals.items():
        (params / f"{name}.yaml").write_text(yaml.safe_dump({"preset": "quick", **values}))
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", *command, "-m", CASES, str(folder)],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    yield folder, process
    process.kill()
    process.wait()


class Two:
    """What the two processes left behind."""

    def __init__(self, folder, code, output):
        self.folder, self.code, self.output = folder, code, output
        self.processes = [folder / f"process{rank}" for rank in (0, 1)]
        self.reports = [json.loads((p / "report.json").read_text()) for p in self.processes]


@pytest.fixture(scope="module")
def two(launched_folder):
    folder, process = launched_folder
    output = process.communicate(timeout=LONGEST)[0]
    assert (folder / "process1" / "report.json").is_file(), output[-5000:]
    return Two(folder, process.returncode, output)


# Parts and one process: nothing here needs two


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
    monkeypatch.setattr("relevit.distributed.finetuning.choose_device", torch.device)
    assert backend_for("cuda", 2) == "auto" and backend_for("cuda:1", 1) == "auto"
    assert backend_for("cpu", 2) == "gloo"
    for device in ("cuda:1", "mps"):
        with pytest.raises(ValueError, match=f"device '{device}'.*2 processes; give cuda"):
            backend_for(device, 2)


def test_command_reads_values_as_yaml(launched_folder):
    file = launched_folder[0] / "project" / "params" / "quick" / "02_finetune.yaml"
    cfg = run_params(file, ["seed=3", "lr=1.0e-4", "run=by_two", "weight_background=null"])
    assert (cfg.seed, cfg.lr, cfg.run_name, cfg.weight_background) == (3, 1e-4, "by_two", None)
    assert cfg.batch_size == SMALL["batch_size"]


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
def test_command_refuses_in_one_message(launched_folder, capsys, given, message):
    file = launched_folder[0] / "project" / "params" / "quick" / "02_finetune.yaml"
    assert main([str(file), "-p", given]) == 2
    assert message in capsys.readouterr().err


# Two processes


def test_both_took_part(two):
    assert [r["world"] for r in two.reports] == [[0, 2], [1, 2]]


@pytest.mark.parametrize("name", cases.STEPS)
def test_step_has_the_gradient_and_the_losses_of_one_process(two, name):
    gradients, losses = cases.one_step(*cases.STEPS[name])
    assert "unreached" not in gradients and len(gradients) > 10
    largest = max(g.abs().max() for g in gradients.values())
    assert largest > 1e-3
    for folder, report in zip(two.processes, two.reports, strict=True):
        found = load_file(folder / f"{name}.safetensors")
        assert found.keys() == gradients.keys()
        for key, gradient in gradients.items():
            torch.testing.assert_close(found[key], gradient, rtol=1e-6, atol=1e-9 * largest)
        assert report[name] == pytest.approx(losses, rel=1e-6)


def test_run_has_the_log_and_the_weights_of_one_process(two, tmp_path):
    history, model = cases.whole_run(tmp_path)
    state = model.state_dict()
    assert torch.equal(state["unreached"], torch.ones(3)), "one process does not decay it either"
    for folder, report in zip(two.processes, two.reports, strict=True):
        assert len(report["history"]) == 3
        for ours, alone in zip(report["history"], history, strict=True):
            assert ours == pytest.approx(alone, rel=1e-6)
        found = load_file(folder / "run.safetensors")
        for key, weights in state.items():
            torch.testing.assert_close(found[key], weights, rtol=1e-6, atol=1e-8)
    assert sorted(path.name for path in (two.folder / "run").iterdir()) == sorted(RESULT)


def test_interrupted_run_ends_with_the_same_bytes(two):
    first, second = (report["interrupted"] for report in two.reports)
    assert first == ["Stop: after the first epoch", [2]]
    assert second == [
        "RuntimeError: training: the first process stopped: after the first epoch", []
    ]  # fmt: skip
    assert result(two.folder / "interrupted") == result(two.folder / "run")


@pytest.mark.parametrize("count", cases.COUNTS)
def test_predictions_are_those_of_one_process(two, count):
    batches = cases.cutouts.batches("val", count, cases.BATCH, size=SIZE)
    alone = predict(micro_model(), SPEC, batches)
    for folder in two.processes:
        rows = pd.read_parquet(folder / f"predictions{count}.parquet")
        pd.testing.assert_frame_equal(rows, alone, check_exact=True)
    drawn = [set(report[f"drawn{count}"]) for report in two.reports]
    assert not drawn[0] & drawn[1], "each image is opened by one process"


def test_evaluated_sets_are_those_of_one_process(two, tmp_path):
    alone = evaluate_sets(
        micro_model(), SPEC, tmp_path,
        images_per_set=cases.SET_IMAGES, precision="float32", identity="micro",
    )  # fmt: skip
    for folder in two.processes:
        rows = pd.read_parquet(folder / "sets.parquet")
        pd.testing.assert_frame_equal(rows, alone, check_exact=True)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {p.name: p.read_bytes() for p in (two.folder / "sets").iterdir()} == files


def test_rows_come_in_the_order_of_their_places(two):
    for report in two.reports:
        squares, dtype, refused = report["gathered"]
        assert squares == [0, 1, 4, 9, 16, 25, 36] and dtype == "int16"
        assert refused.startswith("all_rows: 2 rows of 2 processes have the places [0, 0]")


def test_only_the_first_writes_and_its_error_ends_all(two):
    first, second = (report["guarded"] for report in two.reports)
    assert first == ["written", "OSError: the disk is full"]
    assert second[1].startswith("RuntimeError: distributed: the first process failed")
    assert second[1].endswith("the disk is full") and second[0] == "written"


def test_notebook_finds_the_run_of_the_command_finished(two, monkeypatch):
    assert [report["command"] for report in two.reports] == [0, 0]
    monkeypatch.chdir(two.folder / "project")
    monkeypatch.setattr(finetune, "_train_step", stop)
    given = [text for text in cases.COMMAND if text != "-p"]
    cfg = run_params(Path("params/quick/02_finetune.yaml"), given)
    folder = two.folder / "project" / "outputs" / "quick" / "02_finetune" / "seed1"
    made = []
    _, history = runs.finetune_at(cfg, 1e-4, shipped_weights("tiny"), folder, made.append)
    assert made == [] and [row["epoch"] for row in history] == [0, 1]
    assert two.output.count("epoch 1: validation loss") == 1, "the first process reports alone"


def test_death_of_one_process_ends_the_other(two):
    assert two.code != 0
    assert f"exitcode  : {cases.DEATH}" in two.output
    assert not (two.folder / "death" / "weights.safetensors").exists()
