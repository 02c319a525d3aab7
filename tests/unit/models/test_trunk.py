"""Tokens of frozen blocks from files: the same to the bit, and never those of something else."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from timm.layers import DropPath

from relevit.finetune.run import Start
from relevit.models import trunk
from relevit.models.trunk import Frozen, kept_tokens, open_trunk

from ..micro_finetuning import SETTINGS, SPEC, micro_model, pictures, run, weights

LABELS = {"class_term": "label", "weights": {"relevance": 0.0}}
MAPS = ("gae", "readout", "legrad", "attention", "attn_lrp")
ARMS = {name: {"explanation": name} for name in MAPS} | {"label": LABELS}
ARMS = {name: changes | {"trained_blocks": 1} for name, changes in ARMS.items()}
ARMS |= {"swap": ARMS["label"] | {"augmentation": "swap"}, "head": LABELS | {"trained_blocks": 0}}


def finetuned(folder, kept, precision="float32", **changes):
    """Weights and log of a run, and how often the first block has run in it."""
    settings = SETTINGS.changed(epochs=2, precision=precision, **changes)
    frozen = Frozen(kept, settings.trained_blocks) if kept else None
    model, shown, ran = micro_model(), pictures("validation", 6), []
    start = Start(model, SPEC, shown, shown, 6, 4, {})
    handle = model.blocks[0].attn.register_forward_pre_hook(lambda *_: ran.append(1))
    figures = partial(start.figures, frozen=frozen)
    history = run(folder, settings, model=model, validate=figures, kept=kept)
    handle.remove()
    return (weights(model).tolist(), history), len(ran)


def files(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("arm", "precision"),
    [*((arm, "float32") for arm in ARMS), ("gae", "bfloat16"), ("attn_lrp", "bfloat16")],
)
def test_a_run_on_kept_tokens_is_the_same_to_the_bit(arm, precision, tmp_path):
    plain, _ = finetuned(tmp_path / "plain", None, precision, **ARMS[arm])
    first, ran = finetuned(tmp_path / "first", tmp_path / "kept", precision, **ARMS[arm])
    made = files(tmp_path / "kept")
    again, ran_again = finetuned(tmp_path / "again", tmp_path / "kept", precision, **ARMS[arm])
    assert first == again == plain
    maps = 3 if arm == "head" else 0  # of all blocks, after each epoch
    assert ran_again == maps < ran
    assert files(tmp_path / "kept") == made


def test_arms_share_their_tokens(tmp_path):
    made, precisions = None, ("float32", "bfloat16")
    for arm in ("gae", "readout", "attention", "label"):
        for precision in precisions:
            where = tmp_path / f"{arm} {precision}"
            _, ran = finetuned(where, tmp_path / "kept", precision, **ARMS[arm])
            assert made is None or (ran, files(tmp_path / "kept")) == (0, made), where
        made = files(tmp_path / "kept")


@pytest.fixture
def network():
    return micro_model().eval()


def images(name="finetune"):
    return SPEC.normalise(pictures(name, 4).images)


def answered(network, kept, shown):
    with torch.no_grad(), kept_tokens(open_trunk(network, Frozen(kept, 1)), shown):
        return network(shown)


def test_other_weights_or_images_are_never_answered_from_a_file(network, tmp_path):
    answered(network, tmp_path, images())
    with torch.no_grad():
        network.blocks[0].mlp.fc1.bias[0] += 1
        assert torch.equal(answered(network, tmp_path, images()), network(images()))
        other = images("validation")
        assert torch.equal(answered(network, tmp_path, other), network(other))
        network.blocks[1].mlp.fc1.bias[0] += 1  # which is trained
        assert torch.equal(answered(network, tmp_path, other), network(other))
    assert len(files(tmp_path)) == 3


def test_a_damaged_file_is_made_again(network, tmp_path):
    expected = answered(network, tmp_path, images())
    [path] = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in (whole[:-4] + b"half", whole[:50], b"", b"nothing of the kind"):
        path.write_bytes(damaged)
        assert torch.equal(answered(network, tmp_path, images()), expected)
        assert path.read_bytes() == whole


def test_a_disk_without_room_is_told_once_and_left_alone(network, tmp_path, monkeypatch):
    monkeypatch.setattr(trunk, "FREE_MB", 10**9)
    kept = open_trunk(network, Frozen(tmp_path, 1))
    text = r"0\.0 MB of 4 images are not kept: "
    with pytest.warns(UserWarning, match=text) as told:  # noqa: PT031
        for _ in range(2):
            with torch.no_grad(), kept_tokens(kept, images()):
                network(images())
    assert len(told) == 1 and not files(tmp_path)


def test_a_network_is_left_as_it_was(network, tmp_path):
    own = network.blocks[0].forward = network.blocks[0].forward  # as tools put one in its place
    for _ in range(2):
        answered(network, tmp_path, images())
    assert vars(network.blocks[0])["forward"] is own
    assert not any(part._forward_pre_hooks for part in network.modules())


def test_no_trunk_where_tokens_differ_or_none_are_frozen(network, tmp_path):
    assert open_trunk(network, Frozen(tmp_path, None)) is None
    assert open_trunk(network, Frozen(tmp_path, 2)) is None
    network.blocks[1].drop_path1 = DropPath(0.1)  # which is trained
    assert open_trunk(network, Frozen(tmp_path, 1)) is not None
    network.blocks[0].drop_path1 = DropPath(0.1)
    assert open_trunk(network, Frozen(tmp_path, 1)) is None
