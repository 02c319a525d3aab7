"""One's own images and model: from a folder to tables, stopped and gone on with, and refusals."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from PIL import Image

from relevit.base.errors import FailedError
from relevit.finetune.epochs import WEIGHTS
from relevit.finetune.run import MADE, TRACE, Start, read_run
from relevit.masks import AutomaticMasks
from relevit.models.checkpoints import read_tensors, save_weights
from relevit.models.loading import load_model, open_model
from relevit.models.spec import View
from relevit_own import finetune as your_own
from relevit_own import images as own_images
from relevit_own import run_folder as own_folder
from relevit_own.choices import OwnChoices
from relevit_own.example import on_example, write_example
from relevit_own.finetune import NAMES, ORIGINAL
from relevit_own.images import HELD_OUT, divide, numbered
from relevit_own.table import GONE, Table, read_table

WITH, WITHOUT = NAMES["relevance"], NAMES["label"]
SMALL = {
    "own_model": "tiny",
    "cure": "relevance",
    "epochs": 2,
    "images_per_class": 1,
    "rates": [5e-6, 5e-5],
    "validation_maps": 4,
    "test_images": 40,
    "looked_at": 8,
    "shown": 2,
    "precision": "float32",
}
RUN = """
import json, sys
from pathlib import Path
from relevit_own.choices import OwnChoices
from relevit.finetune import epochs
from relevit_own.finetune import finetune_folder
epochs.CHECKPOINT_S = 0.0
finetune_folder(OwnChoices(**json.loads(sys.argv[1])), Path(sys.argv[2]), "cpu")
"""


@pytest.fixture(scope="module")
def example(tmp_path_factory) -> Path:
    return write_example(tmp_path_factory.mktemp("own"), per_class=4, sets=["a"])


@pytest.fixture(scope="module")
def choices(example) -> OwnChoices:
    asked = OwnChoices.checked(SMALL, "test")
    known = on_example(asked, example / "known", per_class=4)
    return but(known, data=str(example / "data"), shifted=[str(example / "a")])


STEPS: list[tuple[str, int, int]] = []  # what `done` has told of its steps


@pytest.fixture(scope="module")
def done(choices, tmp_path_factory) -> your_own.OwnResult:
    out = tmp_path_factory.mktemp("run") / "out"
    return your_own.finetune_folder(choices, out, "cpu", step=lambda *told: STEPS.append(told))


def but(choices: OwnChoices, **others: object) -> OwnChoices:
    return OwnChoices.checked(dict(choices) | others, "test")


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# From start to end


@pytest.mark.slow
def test_every_step_is_told_once(done):
    """Of two rates and the twin, of two epochs with 40 images in batches of 8 each."""
    assert [told[1:] for told in STEPS] == [(step, 30) for step in range(1, 31)]
    names = [f"rate {rate}, cure relevance" for rate in ("5e-06", "5e-05")]
    names.append(f"rate {done.lr:.0e}, cure label")
    whats = [f"{name}, epoch {epoch} of 2" for name in names for epoch in (1, 2)]
    assert [told[0] for told in STEPS] == [what for what in whats for _ in range(5)]


@pytest.mark.slow
def test_what_a_run_leaves(done):
    assert {path.name for path in done.run.out.glob("*.*")} >= {
        "run.json", "log.txt", "weights.safetensors", "audits.json",
        *(f"{name}.parquet" for name in ("rates", "answers", "changes", "lean")),
    }  # fmt: skip
    table = your_own.accuracies(done.answers)
    assert list(table) == [ORIGINAL, WITHOUT, WITH] and list(table.index) == [HELD_OUT, "a"]
    assert table.loc[HELD_OUT, ORIGINAL] > 80 and done.lr in SMALL["rates"]
    assert set(done.rates["folder"]) < {path.name for path in done.run.out.iterdir()}
    rows = pd.read_parquet(done.run.out / "answers.parquet").query("dataset == @HELD_OUT")
    part = done.run.data.test[HELD_OUT]
    known = dict(zip(part.ids, part.labels.tolist(), strict=True))
    assert rows["label"].tolist() == [known[file] for file in rows["file"]]
    assert rows["file"].nunique() == 40


@pytest.mark.slow
def test_each_model_is_audited_on_held_out_images(done):
    def asked(part):
        run = replace(done.run, data=replace(done.run.data, test={HELD_OUT: part}))
        return your_own.audit_all(run, done.models, lines.append)

    lines, data = [], done.run.data
    audits = asked(data.train)
    assert list(audits) == list(done.models)
    for name, found in audits.items():
        right = found.rows.groupby("condition")["right"].mean()
        assert found.audit.gap_pts.value == pytest.approx(100 * (right["same"] - right["other"]))
        assert (found.audit.model, found.audit.images) == (name, 4) and not lines
    assert not asked(data.test[HELD_OUT])
    assert not asked(replace(data.train, rows=data.train.rows.assign(mask=None)))
    assert "no class has two images" in lines[0] and "no held-out image has a mask" in lines[1]


def test_changes_are_paired_image_by_image():
    """Ours mends two images of four and spoils one; the twin mends one of them."""
    wrong = {ORIGINAL: (1, 1, 0, 0), WITHOUT: (0, 1, 0, 0), WITH: (0, 0, 1, 0)}
    answers = pd.concat(
        pd.DataFrame({"model": name, "dataset": "a", "index": range(4), "label_rank": ranks})
        for name, ranks in wrong.items()
    )
    rows = your_own.changes(answers).set_index("change")
    assert rows["change_pts"].to_dict() == {
        f"{WITH} - {ORIGINAL}": 25, f"{WITHOUT} - {ORIGINAL}": 25, f"{WITH} - {WITHOUT}": 0,
    }  # fmt: skip
    assert rows["gained"].tolist() == [2, 1, 1] and rows["lost"].tolist() == [1, 0, 1]
    assert (rows["low_pts"] <= rows["change_pts"]).all()
    assert (rows["change_pts"] <= rows["high_pts"]).all()


def test_pictures_show_what_is_lost_beside_what_is_gained():
    """On `a` ours wins three images alone, on the held-out ones both win one."""
    every, none = (0, 0, 0), (1, 1, 1)  # ranks of the label: 0 is right
    ranks = {
        "held_out": {ORIGINAL: none, WITHOUT: (0, 1, 0), WITH: (1, 0, 0)},
        "a": {ORIGINAL: none, WITHOUT: none, WITH: every},
    }
    answers = pd.concat(
        pd.DataFrame({"model": name, "dataset": part, "index": range(3), "label_rank": each})
        for part, of in ranks.items()
        for name, each in of.items()
    )
    rows = pd.DataFrame({"image": [Path(f"{i}.png") for i in range(3)]})
    parts = {part: Table(part, ("ant",), rows, rows[:0]) for part in ranks}
    run = SimpleNamespace(data=SimpleNamespace(test=parts),
                          choices=SimpleNamespace(test_images=3, seed=0, shown=2))  # fmt: skip
    shown = your_own.OwnRun.shown(run, answers)
    assert shown.name == "held_out" and [path.stem for path in shown.images] == ["0", "1"]
    alone = your_own.OwnRun.shown(run, answers[answers["dataset"] == "a"])
    assert [path.stem for path in alone.images] == ["0", "1"]


@pytest.mark.slow
def test_a_run_is_named_after_all_that_its_numbers_follow_from(done, choices, tmp_path):
    """And after nothing else: not where its images and weights lie, nor what is tested."""

    def inputs(**others):
        asked = but(choices, **others)
        model = open_model("tiny", asked.own_weights, answers_alone=True)
        return your_own.inputs_of(asked, numbered(divide(asked), model, asked), model)

    def copied(name, changed=()):
        folder = shutil.copytree(choices.data, tmp_path / name)
        for path in changed:
            file = folder / path.relative_to(choices.data)
            file.write_bytes(file.read_bytes() + b"?")
        return str(folder)

    row, data = done.run.table()[0], done.run.data
    copy_of = shutil.copy(choices.own_weights, tmp_path / "mine.safetensors")
    moved = inputs(data=copied("moved"), own_weights=str(copy_of), test_images=9, shifted=[])
    assert replace(row, inputs=moved).name == row.name
    network = load_model("tiny", choices.own_weights)
    network.head.bias.data[0] += 1
    save_weights(tmp_path / "other.safetensors", network, "tiny")
    others = [{"own_weights": str(tmp_path / "other.safetensors")}, {"images_per_class": 2}]
    others += [{"validation_images": 30}, {"validation_maps": 5}]
    others += [{"data": copied("one", data.finetuning.images[:1])}]
    others += [{"data": copied("two", data.validation.images[:1])}]
    found = [replace(row, inputs=inputs(**each)) for each in others]
    settings = [{"seed": 1}, {"epochs": 3}, {"batch_size": 7}, {"protocol": "described"}]
    settings += [{"options": {"decay": 0.5}}, {"precision": "bfloat16"}, {"lr": 5.01e-6}]
    settings += [{"weights": {"background": 1.0}}, {"lr": 5.04e-6}]
    found += [replace(row, settings=row.settings.changed(**each)) for each in settings]
    names = [row.name, *(each.name for each in found)]
    assert len(set(names)) == len(names) == 16


def test_what_failed_says_why_and_is_made_again_but_for_what_diverged(
    choices, tmp_path, monkeypatch, capfd
):
    run = your_own.prepare(but(choices, rates=[5e-6], epochs=1), tmp_path / "out", "cpu")
    (row,), finetuned, tried = run.table(), Start.finetuned, []

    def failing(error, *_, **__):
        tried.append(error)
        raise error

    monkeypatch.setattr(Start, "finetuned", partial(failing, RuntimeError("no memory is left")))
    for _ in range(2):
        with pytest.raises(FailedError, match=f"{row.name} has failed: no memory is left"):
            your_own.search(run)
    assert "in failing" in (run.out / row.name / TRACE).read_text() and not capfd.readouterr().err
    monkeypatch.setattr(Start, "finetuned", partial(failing, FloatingPointError("loss is nan")))
    for _ in range(2):
        assert your_own.search(run)["drop_pts"].tolist() == [float("inf")]
    assert len(tried) == 3
    assert read_run(run.out / row.name, or_diverged=True)["failed"] == "diverged: loss is nan"
    monkeypatch.setattr(Start, "finetuned", finetuned)
    assert list(your_own.networks(run, 5e-6)) == [ORIGINAL, WITHOUT]


@pytest.mark.slow
def test_the_twin_differs_in_the_relevance_terms_alone(done):
    ours, twin = (
        json.loads(read_tensors(done.run.out / row.name / WEIGHTS)[1]["identity"])
        for row in done.run.table(done.lr)
        if row.settings.lr == done.lr
    )
    assert (ours["weights"].pop("relevance"), twin["weights"].pop("relevance")) == (0.8, 0.0)
    assert ours == twin
    states = [done.models[name].state_dict() for name in (ORIGINAL, WITHOUT, WITH)]
    assert all(
        not torch.equal(states[i]["head.weight"], states[i - 1]["head.weight"]) for i in range(3)
    )


@pytest.mark.slow
def test_the_model_of_a_run_can_be_opened_and_begun_from(done, choices, tmp_path):
    model = open_model(str(done.run.out), device="cpu")
    assert model.spec.names == done.run.data.classes
    asked = but(choices, own_model=str(done.run.out), own_weights="", head_classes=[])
    begun = your_own.prepare(asked, tmp_path / "out", "cpu").model
    for key, value in done.models[WITH].state_dict().items():
        assert torch.equal(model.network.state_dict()[key], value)
        assert torch.equal(begun.network.state_dict()[key], value)
    with pytest.raises(ValueError, match="has weights of its own; leave others out"):
        your_own.prepare(but(asked, own_weights="mine.pth"), tmp_path / "other", "cpu")


def test_tokens_of_frozen_blocks_are_kept_until_the_run_is_finished(choices, tmp_path, monkeypatch):
    tokens, kept, save = tmp_path / "out" / "tokens", [], your_own.save
    monkeypatch.setattr(your_own, "save", lambda of: (kept.extend(tokens.iterdir()), save(of)))
    asked = but(choices, trained_blocks=2, rates=choices.rates[:1], control=False, epochs=1)
    your_own.finetune_folder(asked, tmp_path / "out", "cpu")
    assert kept and not tokens.exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_it_ends_with_the_same_bytes(done, choices, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-c", RUN, choices.model_dump_json(), str(out)]
    alike = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    process = subprocess.Popen(command, env=alike)
    checkpoint = done.run.table()[0].name + "/checkpoint.pt"
    while process.poll() is None and not (out / checkpoint).exists():
        time.sleep(0.005)
    assert process.poll() is None, "it ended before the moment came"
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run(command, check=True, env=alike)
    ours, theirs = contents(out), contents(done.run.out)
    assert set(ours) == set(theirs)
    for each in (ours, theirs):  # how long it took is beside what it is
        for name in [*each]:
            if name.endswith(f"/{MADE}"):
                each[name] = json.loads(each[name]) | {"seconds": 0}
    assert [name for name in theirs if ours[name] != theirs[name]] == ["log.txt"]
    assert "rate 5e-06, cure relevance: going on from epoch" in ours["log.txt"].decode()


@pytest.mark.slow
def test_without_masks_tokencut_makes_them(example, choices, tmp_path, monkeypatch):
    monkeypatch.setattr(own_images, "FEATURES", "tiny-mae")
    monkeypatch.setattr(own_images, "FEATURE_SIDE", 112)
    data = tmp_path / "no_masks"
    shutil.copytree(example / "data" / "images", data)
    run = your_own.prepare(
        but(choices, data=str(data), shifted=[], validation_maps=16), tmp_path / "out", "cpu"
    )
    assert run.data.masks == "tokencut"
    assert 0 < len(run.images.train) <= 40
    share = run.images.train.masks.float().mean(dim=(1, 2, 3))
    assert bool(((share > 0) & (share < 1)).all()) and len(share) == len(run.data.finetuning)
    assert run.images.found is not None and len(run.images.found) == run.images.maps
    again = read_table(data, run.out / "masks")
    found = {path: mask for path, mask in zip(again.images, again.masks, strict=True) if mask}
    assert found == dict(zip(run.data.finetuning.images, run.data.finetuning.masks, strict=True))


def test_other_images_are_looked_at_where_there_is_no_object(
    example, choices, tmp_path, monkeypatch
):
    """The first of each class has none here, and of one class the second has none, too."""
    data, looked, lines = tmp_path / "no_masks", [], []
    shutil.copytree(example / "data" / "images", data)

    def found(network, spec, images, **refining):
        masks = torch.zeros(len(images), 1, *images.shape[-2:], dtype=torch.bool)
        masks[..., 30:60, 30:60] = True
        if len(looked) == 1:
            masks = ~masks
        if len(looked) == 2:
            masks[3] = ~masks[3]
        looked.append(len(images))
        return AutomaticMasks(masks, masks, torch.ones(len(images), dtype=torch.bool))

    monkeypatch.setattr(own_images, "automatic_masks", found)
    monkeypatch.setattr(own_images, "feature_model", lambda *how: None)
    asked = but(choices, data=str(data), shifted=[])
    run = your_own.prepare(asked, tmp_path / "out", "cpu", say=lines.append)
    assert looked == [4, 40, 40]
    second = run.data.train.rows[run.data.train.rows["label"].duplicated()]
    wanted = second[second["label"] != run.data.classes[3]]
    assert list(run.data.finetuning.ids) == wanted["id"].tolist()
    assert run.images.train.labels.tolist() == run.data.finetuning.labels.tolist()
    assert (run.images.train.masks.sum(dim=(1, 2, 3)) == 30 * 30).all()
    assert "in 41 of 80 it found no object" in "".join(lines)
    assert f"class {run.data.classes[3]} has 0 images to finetune on" in "".join(lines)


@pytest.mark.parametrize(
    ("name", "label", "inside"),
    [
        ("cat/far/1.b.jpg", "cat", "cat/far/1.b.png"),
        ("e\u0301/1.jpg", "\u00e9", "\u00e9/1.png"),
        ("/elsewhere/1.jpg", "cat", "cat/elsewhere/1.png"),
        ("../1.jpg", "n/a", "n/a/1.png"),
        ("1.jpg", "..", "1.png"),
    ],
)
def test_no_mask_lies_outside_of_its_folder(name, label, inside):
    part = Table("birds", (label,), pd.DataFrame(), pd.DataFrame(columns=GONE))
    assert own_folder.mask_path(part, name, label) == Path(inside)


@pytest.mark.parametrize("view", [View(37, 32), View(32, 32), View(32, 32, squash=True)])
@pytest.mark.parametrize("size", [(90, 61), (61, 120), (40, 40)])
def test_masks_of_what_a_model_sees_lie_in_the_whole_picture(tmp_path, view, size):
    rows, columns = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    shapes = torch.stack([(rows - 9) ** 2 + (columns - 14) ** 2 < 49, columns + 2 * rows > 60])
    for name in ("cat/a.b.png", "dog/far/1.jpg"):
        path = tmp_path / "set" / "train" / name
        path.parent.mkdir(parents=True)
        Image.new("RGB", size, (len(name), 0, 0)).save(path)
    part = read_table(tmp_path / "set").of("train")
    found = own_folder.with_mask_files(part, shapes[:, None], view, tmp_path / "masks")
    assert found.masks == tuple(
        tmp_path / "masks" / "train" / name for name in ("cat/a.b.png", "dog/far/1.png")
    )
    assert read_table(tmp_path / "set", tmp_path / "masks").of("train").masks == found.masks
    for place, shape in enumerate(shapes):
        seen = view.mask(found.mask(place))[0]
        assert (seen & shape).sum() > 0.9 * (seen | shape).sum()


@pytest.mark.slow
def test_a_new_head_is_fitted_and_kept(example, choices, tmp_path):
    data = tmp_path / "data"
    for name in ("ant", "cat"):
        for kind in ("images", "masks"):
            shutil.copytree(example / "data" / kind / name, data / kind / name)
    asked = but(choices, data=str(data), shifted=[], own_weights="", head_classes=[])
    with pytest.raises(ValueError, match=r"none of the 40 .*--new-head"):
        your_own.prepare(asked, tmp_path / "refused", "cpu")
    asked = but(asked, new_head=True)
    first = your_own.prepare(asked, tmp_path / "out", "cpu")
    assert first.model.network.head.out_features == 2
    again = your_own.prepare(asked, tmp_path / "out", "cpu")
    assert torch.equal(first.model.network.head.weight, again.model.network.head.weight)
    double = copy.deepcopy(first.model.network).double()
    save_weights(tmp_path / "out" / "original.safetensors", double, first.model.spec.name)
    with pytest.raises(ValueError, match=r"original\.safetensors does not fit .*torch\.float64 in"):
        your_own.prepare(asked, tmp_path / "out", "cpu")


# What each image is for


def test_a_folder_without_parts_is_divided_class_by_class(choices):
    data = divide(choices)
    sizes = [len(part) for part in (data.train, data.validation, data.test[HELD_OUT])]
    assert sizes == [80, 40, 40] and len(data.finetuning) == 40
    assert sorted(data.finetuning.labels.tolist()) == list(range(40))
    files = [set(part.images) for part in (data.train, data.validation, data.test[HELD_OUT])]
    assert not (files[0] & files[1] or files[0] & files[2] or files[1] & files[2])
    assert set(data.finetuning.images) <= files[0]


def test_parts_of_a_folder_are_taken_as_they_are(example, choices, tmp_path):
    for part, places in {"train": (0,), "val": (1,), "test": (2, 3)}.items():
        for kind in ("images", "masks"):
            for folder in (example / "data" / kind).iterdir():
                target = tmp_path / part / kind / folder.name
                target.mkdir(parents=True)
                files = sorted(folder.iterdir())
                for place in places:
                    shutil.copy(files[place], target)
    data = divide(but(choices, data=str(tmp_path)))
    sizes = [len(part) for part in (data.train, data.validation, data.test[HELD_OUT])]
    assert sizes == [40, 40, 80]
    shutil.rmtree(tmp_path / "val")
    data = divide(but(choices, data=str(tmp_path)))
    assert (len(data.train), len(data.validation), len(data.test[HELD_OUT])) == (40, 40, 40)


@pytest.mark.slow
def test_a_rate_is_found_even_where_none_passes_the_rule(done):
    """The lowest, as of all runs; what became infinite is never taken."""
    columns = ["lr", "drop_pts", "rising", "class_loss_before", "class_loss", "class_loss_error"]
    rows = [
        (1e-6, 0.0, True, 0.012, 0.042, 0.01),
        (1e-5, -1.0, True, 0.012, 0.03, 0.0071),
        (1e-4, 9, True, 1, 2, 0.1),
    ]
    table = pd.DataFrame([*rows, (1e-3, float("inf"), True, None, None, None)], columns=columns)
    lr = your_own.chosen_rate(done.run, table)
    assert lr == 1e-6
    assert your_own.about_rate(done.run, table, lr) == (
        "no rate passes the rule (top-1 within 3 points, no rise of the class loss); 1e-06 is the "
        "lowest and is taken: validation top-1 changes by +0.0 points, the class loss from 0.012 "
        "to 0.042 nats (+0.03 ± 0.01), a rise"
    )
    table.loc[0, "rising"] = False
    assert your_own.chosen_rate(done.run, table) == 1e-6
    assert your_own.about_rate(done.run, table, 1e-6) == "rate by the rule: 1e-06"
    with pytest.raises(ValueError, match=r"infinite at each of \[0.001\]; give a lower"):
        your_own.chosen_rate(done.run, table[3:])


# Wrong input


def test_a_folder_with_another_run_is_left_alone_but_for_a_notebooks(choices, tmp_path):
    out, mine = tmp_path / "run", tmp_path / "mine"
    your_own.prepare(choices, out, "cpu")
    (out / "made").mkdir()
    other = but(choices, epochs=3)
    with pytest.raises(ValueError, match=r"holds another run: epochs was 2 and is 3; give another"):
        your_own.prepare(other, out, "cpu")
    your_own.prepare(choices, out, "cpu", replace_other=True)
    assert (out / "made").is_dir(), "the same run goes on"
    your_own.prepare(other, out, "cpu", replace_other=True)
    assert {path.name for path in out.iterdir()} == {"run.json"}
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    for text in ('{"choices": {}}', "[]", "no JSON"):  # of an earlier version, and of others
        (mine / "run.json").write_text(text)
        with pytest.raises(ValueError, match=r"holds another run: its run\.json is of an earlier"):
            your_own.prepare(choices, mine, "cpu")
    (mine / "run.json").unlink()
    with pytest.raises(ValueError, match="is not empty and holds no run"):
        your_own.prepare(choices, mine, "cpu", replace_other=True)


def test_a_head_in_another_order_is_found_out(choices, tmp_path):
    turned = but(choices, head_classes=list(reversed(choices.head_classes)))
    with pytest.raises(ValueError, match=r"right on \d+ of 40 .* give --set head_classes=.*, else"):
        your_own.prepare(turned, tmp_path / "out", "cpu")
    your_own.prepare(choices, tmp_path / "out", "cpu")  # the folder was not taken


def test_what_is_frozen_in_a_given_network_is_said_before_the_work(choices, tmp_path):
    said, network = [], load_model(choices.own_model, choices.own_weights)
    network.blocks.requires_grad_(False)
    run = your_own.prepare(choices, tmp_path / "out", "cpu", said.append, network=network)
    (note,) = (line for line in said if "frozen" in line)
    count = sum(1 for _ in network.parameters())
    blocks = sum(1 for _ in network.blocks.parameters())
    assert f"note: {blocks} of the {count} weights to train stay frozen" in note
    assert note.split("note: ")[1] in run.data.notes
    network.requires_grad_(True)
    (tmp_path / "out" / "made").mkdir()
    with pytest.raises(ValueError, match=r"holds another run: frozen was \['blocks\.0"):
        your_own.prepare(choices, tmp_path / "out", "cpu", network=network)
    network.requires_grad_(False)
    with pytest.raises(ValueError, match=rf"all {count} weights that would be trained are frozen"):
        your_own.prepare(choices, tmp_path / "new", "cpu", network=network)
    assert not (tmp_path / "new").exists()
    assert not any(weight.requires_grad for weight in network.parameters())


def test_images_that_are_left_out_are_told_of_each_set(example, choices, tmp_path):
    sets = [shutil.copytree(example / name, tmp_path / name) for name in ("data", "a")]
    for folder in sets:
        min(folder.rglob("*.jpg")).write_bytes(b"no picture")
    data, shifted = map(str, sets)
    asked = but(choices, data=data, shifted=[shifted], corrupted="skip")
    notes = divide(asked).notes
    assert re.match(r"2 of \d+ files are left out: no picture that Pillow knows; ", notes[0])
    shutil.copy(max((sets[0] / "images" / "ant").iterdir()), sets[1] / "ant" / "same.jpg")
    files = divide(asked).ledger.files.set_index("file")
    assert files.loc["a/ant/same.jpg", "why"].startswith("a copy of another: ")


@pytest.mark.parametrize("changed", ["images", "masks"])
def test_other_pictures_are_another_run_also_of_the_same_size(example, choices, tmp_path, changed):
    data = shutil.copytree(example / "data", tmp_path / "data")
    part = divide(but(choices, data=str(data), shifted=[])).train
    before = own_folder.files_fingerprint(part)
    path = getattr(part, changed)[0]
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert own_folder.files_fingerprint(part) != before


def test_masks_that_are_too_few_are_refused(example, choices, tmp_path):
    masks = tmp_path / "masks"
    shutil.copytree(example / "data" / "masks", masks)
    shutil.rmtree(masks / "ant")
    with pytest.raises(
        ValueError, match=r"1 of the 40 images to finetune on have no mask with an object, ant"
    ):
        divide(but(choices, data=str(example / "data" / "images"), masks=str(masks)))
