"""Two processes make the same gradients, runs and evaluations as one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from safetensors.torch import load_file

from relevit.base.stages import stage_folder
from relevit.config import PipelineParams
from relevit.data.benchmark import imagenet
from relevit.data.cutouts import TEST_SETS
from relevit.data.real.image_set import ImageSet
from relevit.distributed.command import read_params
from relevit.evaluate import sets as answered_sets
from relevit.evaluate.accuracies import nine_sets, skipped_images
from relevit.finetune import loop as finetune
from relevit.finetune import runs
from relevit.models.loading import shipped_weights
from replicas.imagenet import (
    write_imagenet,
    write_imagenet_a,
    write_imagenet_r,
    write_sketch,
    write_v2,
)
from replicas.objectnet import write_objectnet
from replicas.si_score import write_si_score

from .. import distributed_cases as cases
from ..micro_finetuning import RESULT, result, stop

ROOT = Path(__file__).parents[3]
CASES = "tests.unit.distributed_cases"  # from the project's folder, where pytest's names differ
LONGEST = 280  # seconds; a deadlock ends here
LOST = cases.REAL_BATCH + 1  # pictures that cannot be read
SMALL = {"images_per_class": 1, "classes": 2, "epochs": 1, "batch_size": 2,
         "validation_images": 40, "validation_maps": 8}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def launched_folder(tmp_path_factory):
    """Started with the module's first test; the tests below wait for it in `two`."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "project" / "notebooks").mkdir(parents=True)
    params = folder / "project" / "params" / "quick"
    params.mkdir(parents=True)
    originals = {"00_original": {"model": "dinov2-s"}, "02_finetune": {"model": "tiny", **SMALL},
                 "03_robustness": {"model": "tiny"}}  # fmt: skip
    for name, values in originals.items():
        (params / f"{name}.yaml").write_text(yaml.safe_dump({"preset": "quick", **values}))
    for stage in ("00_original", "02_finetune/seed5"):  # what 03_robustness compares
        done = folder / "project" / "outputs" / "quick" / stage
        done.mkdir(parents=True)
        (done / "summary.json").write_text("{}")
        shutil.copy(shipped_weights("tiny"), done / "weights.safetensors")
    write_real_sets(folder / "data")
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", *command, "-m", CASES, str(folder)],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    yield folder, process
    process.kill()
    process.wait()


def write_real_sets(root):
    """Replicas of the nine sets, some pictures of `r` cut off: a whole batch, and one more."""
    for write in (write_imagenet, write_imagenet_a, write_imagenet_r, write_sketch, write_v2):
        write(root, per_class=2)
    write_objectnet(root, per_class=1)
    write_si_score(root, per_class=2)
    params = PipelineParams(preset="rehearsal", seeds=[0], data="imagenet", data_root=str(root))
    with cases.noted(ImageSet, "__getitem__", lambda found, place: found.ids[place]) as ids:
        imagenet(params, "vit-b-cut").draw("r", range(LOST))
    for name in ids:
        path = root / "imagenet-r" / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


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


def same_files(folder, other):
    contents = [{p.name: p.read_bytes() for p in each.iterdir()} for each in (folder, other)]
    return len(contents[0]) == len(TEST_SETS) and contents[0] == contents[1]


@pytest.mark.parametrize("count", cases.COUNTS)
def test_evaluated_sets_are_those_of_one_process(two, tmp_path, count):
    alone, drawn = cases.drawn_sets(tmp_path, count)
    assert len(alone) == count * len(TEST_SETS) == len(drawn)
    for folder in two.processes:
        rows = pd.read_parquet(folder / f"sets{count}.parquet")
        pd.testing.assert_frame_equal(rows, alone, check_exact=True)
    assert same_files(two.folder / f"sets{count}", tmp_path)
    parts = [report[f"drawn{count}"] for report in two.reports]
    assert sorted(chain(*parts)) == sorted(drawn), "each image is drawn by one process"
    assert len(parts[1]) > len(drawn) / 2, "both drew, or the second where there is one batch"


def test_real_sets_are_those_of_one_process_with_the_same_pictures_left_out(two, tmp_path):
    alone, opened = cases.real_sets(two.folder / "data", tmp_path)
    for folder in two.processes:
        rows = pd.read_parquet(folder / "real.parquet")
        pd.testing.assert_frame_equal(rows, alone, check_exact=True)
    assert same_files(two.folder / "real", tmp_path)
    skipped = skipped_images([two.folder / "real"])
    assert skipped == skipped_images([tmp_path]) and len(skipped["r"]) == LOST
    left = alone[alone["dataset"] == "r"]["index"].tolist()
    assert left == list(range(LOST, 8)), "the others keep their numbers"
    parts = [report["opened"] for report in two.reports]
    assert sorted(chain(*parts)) == sorted(opened), "each picture is read by one process"
    assert min(map(len, parts)) > len(opened) / 4


def test_notebook_finds_the_answers_of_the_command(two, monkeypatch):
    assert [report["evaluation"] for report in two.reports] == [0, 0]
    monkeypatch.chdir(two.folder / "project")
    monkeypatch.setattr(answered_sets, "predict", stop)
    given = [text for text in cases.EVALUATION if text != "-p"]
    cfg = read_params(Path("params/quick/03_robustness.yaml"), given)
    for run, weights in runs.compared_weights(cfg).items():
        rows = nine_sets("tiny", weights, stage_folder(cfg) / run, device="cpu",
                         images_per_set=cfg.images_per_set, precision="float32")  # fmt: skip
        assert len(rows) == 40 * len(TEST_SETS)
        assert two.output.count(f"{run}: 360 answers") == 1, "the first process reports alone"


def test_rows_come_in_the_order_of_their_places(two):
    for report in two.reports:
        squares, dtype, refused, said = report["gathered"]
        assert said == [{"": 0}, {"é": 1}]
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
    cfg = read_params(Path("params/quick/02_finetune.yaml"), given)
    folder = two.folder / "project" / "outputs" / "quick" / "02_finetune" / "seed1"
    made = []
    _, history = runs.finetune_at(cfg, 1e-4, shipped_weights("tiny"), folder, made.append)
    assert made == [] and [row["epoch"] for row in history] == [0, 1]
    assert two.output.count("epoch 1: validation loss") == 1, "the first process reports alone"


def test_death_of_one_process_ends_the_other(two):
    assert two.code != 0
    assert f"exitcode  : {cases.DEATH}" in two.output
    assert not (two.folder / "death" / "weights.safetensors").exists()
