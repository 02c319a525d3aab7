"""Networks that answer and have no maps: finetuned and audited from start to end, and explained
never."""

from __future__ import annotations

import json
import shutil

import pytest
import timm
import torch

from relevit.models.loading import open_model
from relevit_own.cli import main
from relevit_own.example import write_example

CLASSES = ("ant", "beetle", "crab")
KINDS = {  # a network of no blocks, of blocks without attention, and with a head no method explains
    "test_resnet": [],
    "test_efficientnet": [],
    "vit_base_patch16_siglip_224": [
        "img_size=32", "patch_size=8", "embed_dim=16", "depth=2", "num_heads=2",
    ],
}  # fmt: skip
QUICK = ["epochs=1", "rates=[1.0e-4]", "images_per_class=3", "validation_maps=4", "looked_at=6"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three classes' drawings with masks."""
    made, data = tmp_path_factory.mktemp("example"), tmp_path_factory.mktemp("data")
    write_example(made, per_class=6, sets=[])
    for kind in ("images", "masks"):
        for name in CLASSES:
            shutil.copytree(made / "data" / kind / name, data / kind / name)
    return data


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_finetuned_and_audited_to_the_end_and_never_explained(data, tmp_path, capsys, name):
    def relevit(*words: object) -> str:
        """What is refused, the last line of it."""
        code, told = main([str(word) for word in words]), capsys.readouterr().err
        assert (code == 2) == ("error: " in told)
        return told.strip().rpartition("\n")[2]

    run, options = tmp_path / "run", dict(each.split("=") for each in KINDS[name])
    network = timm.create_model(name, num_classes=3, **{k: int(v) for k, v in options.items()})
    torch.save(network.state_dict(), tmp_path / "w.pth")
    given = ["--model", name, "--weights", tmp_path / "w.pth", "--new-head", "--data", data]
    given += ["--model-options", *KINDS[name]] if options else []
    given += ["--set", *QUICK, "--against", "label", "--out"]
    assert not relevit("finetune", *given, run, "--cure", "swap")
    assert "no relevance maps" in (run / "report.html").read_text()
    own = open_model(str(run), device="cpu", answers_alone=True)
    assert tuple(own.spec.names) == CLASSES
    images = torch.randn(2, 3, own.spec.image_size, own.spec.image_size)
    theirs = timm.create_model(f"local-dir:{run}", pretrained=True).eval()
    assert torch.equal(own.network(images), theirs(images))
    first, begun = next(iter(network.state_dict().items()))
    assert not torch.equal(own.network.state_dict()[first], begun)
    assert not relevit("audit", "--model", run, "--data", data, "--out", tmp_path / "audit")
    assert json.loads((tmp_path / "audit" / "audit.json").read_text())["maps"] == []
    picture = next((data / "images" / "ant").iterdir())
    assert "has no relevance maps" in relevit("explain", picture, "--model", run)
    refused = relevit("finetune", *given, tmp_path / "no", "--cure", "relevance")
    assert "has no relevance maps" in refused and "the cures label and swap" in refused
    if not options:
        refused = relevit("finetune", *given, tmp_path / "no", "--cure", "swap", "--blocks", 1)
        assert "has no blocks of a Vision Transformer" in refused
