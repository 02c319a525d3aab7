"""Parameters of 09_text that cannot be met are refused by name."""

from __future__ import annotations

import pytest

from reproduction.config import TextParams

PUBLISHED = {"text_model": "bert-base", "dual_model": "clip-b32"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"zero_shot_images": 39}, "zero_shot_images = 39 .*tiny-dual is tested on 40 classes"),
        ({"captioned_images": 79}, "captioned_images = 79 .*greater than or equal to 80"),
        ({"temperature": 0}, "temperature = 0 .*greater than 0"),
        ({"captioned_things": 1}, "captioned_things = 1 .*needed are 0, or 2 and more"),
        ({"source": "random"}, "source = 'random' .*bert-base and clip-b32 alone.*tiny-dual"),
        (
            {"text_model": "bert-base", "source": "random"},
            "source = 'random' .*alone, and {'dual_model': 'tiny-dual'} is given; leave it out",
        ),
        ({"weights_root": "w"}, "weights_root = 'w' .*tiny-bert.*leave it out"),
        (
            {**PUBLISHED, "source": "random", "weights_root": "w"},
            "weights_root = 'w' .*source = random reads no weights",
        ),
    ],
)
def test_what_cannot_be_met_is_refused(values, message):
    with pytest.raises(ValueError, match=f"09_text.yaml: .*{message}"):
        TextParams.checked(values, "09_text.yaml")


def test_published_models_may_be_random_or_in_a_folder():
    values = {**PUBLISHED, "source": "random", "zero_shot_images": 20}
    assert TextParams.checked(values, "test").zero_shot_images == 20
    assert TextParams.checked({"dual_model": "clip-b32", "weights_root": "w"}, "test")
