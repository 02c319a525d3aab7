"""Wrong input to the pipeline is refused before any work, with one line that says what to do."""

import subprocess
from unittest.mock import Mock

import pytest
from papermill.engines import NBClientEngine

from reproduction.pipeline import make
from reproduction.pipeline import run as pipeline
from reproduction.pipeline.engine import LocalEngine

from .projects import PRESET, edit, run

SOON_S = 10  # for what is refused before any work


@pytest.fixture
def only_plan(project, monkeypatch) -> None:
    """Go to the project's folder, where no stage may be run."""
    monkeypatch.chdir(project)
    call = pipeline.snakemake

    def plan(preset: str, *options: str, **kwargs) -> subprocess.CompletedProcess:
        assert "--dry-run" in options, "the stages would be run"
        return call(preset, *options, **kwargs)

    monkeypatch.setattr(pipeline, "snakemake", plan)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("00_start", {"imges_per_set": 40}, "imges_per_set = 40 is no parameter; allowed are"),
        ("02_finetune", {"preset": PRESET}, "take it out here, or change it there"),
        ("02_finetune", {"output_root": "results"}, "output_root = 'results'"),
        ("02_finetune", {"masks": "tokencut"}, "masks = 'tokencut', but the preset's own runs"),
        ("02_finetune", {"method": "rrr"}, "method = 'rrr', but the preset's own runs"),
        ("02_finetune", {"lr": 1.0e-5}, "lr = 1e-05, but the preset's own runs"),
        ("04a_cures", {"compared_model": "tiny-mae"}, "has not both our method and a bas"),
        ("05_ablations", {"variants": ["ground_truth"]}, "'ground_truth' is 'full': leave it out"),
        ("common", {"benchmark": {"data": "habitats", "home_share": 0.5}},
         "source = 'shipped', but common has other images: the shipped models have"),
        ("common", {"model": "dinov2-s"},
         "source = 'shipped', but for data 'habitats' of common there are shipped"),
        ("05_ablations", {"compared_model": "dinov2-s"},
         "compared_model = ['dinov2-s'], but for data 'habitats' of common there are"),
        ("common", {"benchmark": {"original_images": 400}},
         "benchmark.original_images = 400, but that is of worlds of 04_cures"),
        ("pipeline", {"seed": 0}, "seed = 0"),
        ("pipeline", {"disk_mb": 10**9}, "disk: "),
        ("pipeline", {"sweep": [{"models": ["dinov2-s"], "seeds": [0]}]}, "there are ship"),
        ("pipeline", {"sweep": [{"models": ["deit-b"], "seeds": [0]}]}, "dinov2-s8, tiny, "),
        ("common", {"benchmark": {"data": "imagenet", "data_root": "data"}, "model": "vit-b"},
         "pipeline: sweep = ['tiny'], "),
        ("pipeline", {"sweep": [{"models": ["tiny"], "masks": ["tokencut"], "seeds": [5]}]},
         "sweep.0.seeds = [5] with masks tokencut, but 01_masks makes masks for seeds [0]"),
        ("pipeline", {"sweep": [{"models": ["tiny-mae"], "methods": ["rrr"], "seeds": [0]}]},
         "compared_model = 'tiny', but sweep in pipeline has not both our method and a"),
        ("pipeline", {"sweep": [{"models": ["tiny"], "s": 0, "seeds": [0]}]}, "sweep.0.s = 0"),
        ("08_iav", {"reference": "mini-mae"}, "it is not among models; name one of them"),
        ("99_report", {"device": "cuda:99"}, "99_report: device 'cuda:99'"),
    ],
)  # fmt: skip
def test_wrong_value_is_refused(project, only_plan, capsys, name, values, words):
    edit(project, name, **values)
    assert pipeline.main([PRESET]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert len(message.splitlines()) == 1
    assert words in message
    if name != "pipeline" or "disk_mb" not in values:
        assert f"{PRESET}.yaml: " in message
    assert not (project / "outputs").exists()


def test_a_notebook_of_another_kernel_is_refused_and_by_hand_runs_here(
    project, only_plan, monkeypatch, capsys
):
    """As an editor saves it that has this environment under a name of its own."""
    path = project / "notebooks" / "08_iav.ipynb"
    text = path.read_text().replace('"name": "python3"', '"name": "relevit-env"')
    path.unlink()
    path.write_text(text)
    assert pipeline.main([PRESET]) == 2
    told = f"{path} was saved under the kernel 'relevit-env'; save it again under Python 3"
    assert told in capsys.readouterr().err
    ran = Mock()
    monkeypatch.setattr(NBClientEngine, "execute_managed_notebook", ran)
    LocalEngine.execute_managed_notebook("notebook", "relevit-env")
    assert ran.call_args.args == ("notebook", "python3")


def test_room_is_asked_for_where_the_results_will_lie(project, only_plan, monkeypatch):
    """Which may be another disk than the project's."""
    asked = []
    monkeypatch.setattr(pipeline, "need_disk_space", lambda folder, _: asked.append(folder))
    pipeline.check(PRESET)
    assert asked == [project / "outputs" / PRESET]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([PRESET], "02_finetune: temperature = '3e-6' (str)"),
        (["smalest"], "preset 'smalest' is unknown; use one of ['controls', 'controls_things', "),
        (["params/../quick"], "preset 'params/../quick' is unknown"),  # another's lock
        ([PRESET, "03_robustnes"], "'03_robustnes' is no stage of "),
        ([PRESET, "-j", "0"], "--jobs = 0; a whole number above 0 is needed"),
    ],
)
def test_a_refusal_is_one_line_soon(project, arguments, words):
    if arguments == [PRESET]:
        edit(project, "02_finetune", temperature="3e-6")
    ended = run(project, *arguments)
    (line,) = ended.err.splitlines()
    assert ended.code == 2 and words in line and ended.seconds < SOON_S
    assert not (project / "outputs").exists() and not (project / ".snakemake").exists()


def test_unknown_run_is_refused_with_those_close_to_it(project, monkeypatch, capsys):
    monkeypatch.chdir(project)
    assert make.main([PRESET, "tiny.gradmask.described"]) == 2
    message = capsys.readouterr().err
    assert "is no run of " in message and "those close to it are tiny." in message
