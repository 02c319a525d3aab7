"""`relevit doctor`, on small data roots that look like the real ones."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from habitats.real.catalogue import CATALOGUE
from habitats.real.classes import A_WNIDS, IMAGENET_WNIDS
from relevit_own.cli import main
from replicas.folders import write_folders
from replicas.pictures import picture, save_jpeg
from reproduction.pipeline.doctor import examine, lines

ROOT = Path(__file__).parents[3]
OTHER = next(wnid for wnid in IMAGENET_WNIDS if wnid not in A_WNIDS)

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture
def expect(monkeypatch):
    """Take these numbers for the official ones of ImageNet-A."""

    def change(**numbers) -> None:
        monkeypatch.setitem(CATALOGUE, "a", replace(CATALOGUE["a"], **numbers))

    return change


@pytest.fixture
def root(tmp_path, expect) -> Path:
    """A root with an ImageNet-A of two classes and four pictures, as if that were all."""
    write_folders("a", tmp_path, classes=A_WNIDS[:2])
    expect(images=4, classes=2)
    return tmp_path


def run(capsys, *arguments: object) -> tuple[int, str]:
    code = main(["doctor", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize("key", CATALOGUE)
def test_missing_set_is_told_with_what_to_get_where_and_its_terms(tmp_path, key):
    entry, text = CATALOGUE[key], "\n".join(lines(examine(tmp_path, key)))
    assert text.startswith(f"{key} ({entry.title}): missing\n")
    assert all(words in text for words in (*entry.archives, entry.page, entry.terms))


def test_whole_set_in_words_and_as_json(root, capsys):
    code, text = run(capsys, root, "--set", "a")
    assert code == 0
    assert "a (ImageNet-A): whole\n  found      4 images, 2 classes in imagenet-a\n" in text
    assert text.endswith(f"1 of 1 sets are whole in {root}\n")
    assert "problem" not in text and "get " not in text
    code, text = run(capsys, root, "--set", "a", "r", "--set", "a", "--json")
    report = json.loads(text)
    assert code == 1 and report["whole"] is False and report["data_root"] == str(root)
    first, second = report["sets"]
    assert (first["key"], first["state"], first["images"]) == ("a", "whole", 4)
    assert first["official"] == {"images": 4, "classes": 2, "size_gb": 0.7}
    assert (second["state"], second["page"]) == ("missing", CATALOGUE["r"].page)


def test_lost_and_broken_images_and_lost_classes_are_told(root, capsys, expect):
    lost, broken = sorted((root / "imagenet-a").glob("n*/*.jpg"))
    lost.unlink()
    found = examine(root, "a")
    assert (found.state, found.images, found.classes) == ("incomplete", 3, 2)
    assert found.problems == ("3 images; a whole set has 4: unpack imagenet-a.tar again",)
    expect(images=3, classes=3)
    assert examine(root, "a").problems[0].startswith("2 classes; a whole set has 3")
    expect(images=3, classes=2)
    broken.write_bytes(broken.read_bytes()[:100])
    code, text = run(capsys, root, "--set", "a", "--deep")
    assert code == 1 and "a (ImageNet-A): unreadable\n" in text and broken.name in text


def test_what_the_reader_refuses_is_told_in_its_words(root, capsys):
    save_jpeg(picture(0, 0), root / "imagenet-a" / OTHER / "1.jpg")
    code, text = run(capsys, root, "--set", "a")
    assert code == 1 and "a (ImageNet-A): wrong\n" in text
    assert f"problem    a: {root / 'imagenet-a'} has the folder {OTHER!r}" in text
    assert "move it away, or unpack imagenet-a.tar again" in text, "the remedy comes last"


def test_unknown_set_and_missing_root_are_refused(tmp_path, capsys):
    code, text = run(capsys, tmp_path, "--set", "imagenet")
    assert code == 2 and "'imagenet' is unknown; use some of" in text and "imagenet_train" in text
    code, text = run(capsys, tmp_path / "dta")
    told = (
        f"error: doctor: data root {tmp_path / 'dta'} is no folder; give the one that the archive"
    )
    assert code == 2 and text.startswith(told)
