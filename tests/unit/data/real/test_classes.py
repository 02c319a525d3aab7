"""ImageNet's classes, and the choice of those to finetune on."""

import hashlib

import pytest

from habitats.real.classes import IMAGENET_S_WNIDS, IMAGENET_WNIDS, MERGED, split_classes

# Of the authors' list of 919 categories, sorted, one a line and no line break at the end.
PUBLISHED = "b2ee89cf2d5def583dcea806b8cc99def3d9bb7355ae981fc4c986c6d8dec1da"


def test_imagenet_s_has_the_published_categories():
    assert len(IMAGENET_S_WNIDS) == 919
    digest = hashlib.sha256("\n".join(IMAGENET_S_WNIDS).encode()).hexdigest()
    assert digest == PUBLISHED
    assert set(MERGED.values()) < set(IMAGENET_S_WNIDS) and not set(MERGED) & set(IMAGENET_S_WNIDS)


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_500_classes_are_finetuned_and_the_other_414_validate(seed):
    train, rest = split_classes(seed=seed)
    assert (len(train), len(rest)) == (500, 414)
    assert list(train) == sorted(train) and list(rest) == sorted(rest)
    tags = set(MERGED) | set(MERGED.values())
    assert len(tags) == 10 and set(train) | set(rest) == set(IMAGENET_S_WNIDS) - tags


def test_sorted_classes_put_every_animal_into_finetuning_and_a_draw_does_not():
    animals = set(IMAGENET_WNIDS[:398])
    train, rest = split_classes()
    assert animals < set(train) and not animals & set(rest)
    drawn = split_classes(seed=0)[0]
    assert 180 < len(animals & set(drawn)) < 260  # 218 expected
    assert drawn == split_classes(seed=0)[0] != split_classes(seed=1)[0]
    assert split_classes(3)[0] == ("n01440764", "n01443537", "n01484850")
