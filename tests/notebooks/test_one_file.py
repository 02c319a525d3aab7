"""The paper in one file: it runs, its map is the library's, and relevance leaves the background."""

import runpy
from pathlib import Path

import pytest
import torch

from habitats.cutouts import TEST_SETS
from relevit import gae, load_model
from relevit.maps import record_attention

FILE = runpy.run_path(str(Path(__file__).parents[2] / "notebooks" / "robustvit.py"))
SMALL = ["--model", "tiny", "--per-class", "1", "--epochs", "2", "--test", "8", "--rate", "1e-4"]


def test_the_map_is_that_of_the_library():
    model, images = load_model("tiny").eval(), torch.rand(2, 3, 112, 112)
    with record_attention(model) as tape:
        answers = model(images)
    slopes = torch.autograd.grad(answers[:, 3].sum(), tape.maps)
    ours = FILE["gae"](tape.maps, slopes)
    torch.testing.assert_close(ours, gae(model, images, torch.tensor([3, 3])))


def test_the_whole_runs_and_relevance_leaves_the_background(capsys):
    table = FILE["main"](SMALL)
    assert list(table.index) == ["original", "with relevance", "without"]
    assert set(TEST_SETS) < set(table.columns)
    told = [line.split() for line in capsys.readouterr().out.splitlines() if "background" in line]
    ends = {" ".join(line[:-8]): float(line[-3]) for line in told}
    assert ends["with relevance:"] < ends["without:"]


def test_a_model_that_has_learned_nothing_is_told_what_to_do(capsys):
    with pytest.raises(SystemExit):
        FILE["main"](["--model", "dinov2-s"])
    said = capsys.readouterr().err
    assert "but of dinov2-s8, " in said and "--images 6400" in said
