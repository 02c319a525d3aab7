"""Prompts: what they say."""

import pytest

from habitats.prompts import prompt


@pytest.mark.parametrize(
    ("name", "fitting", "published"),
    [
        ("ant", "an ant", "a ant"),
        ("scissors", "scissors", "a scissors"),
        ("lady-beetle", "a lady beetle", "a lady-beetle"),
        ("American chameleon", "an American chameleon", "a American chameleon"),
        ("European gallinule", "a European gallinule", "a European gallinule"),
        ("unicycle", "a unicycle", "a unicycle"),
    ],
)
def test_prompts(name, fitting, published):
    assert prompt(name) == f"a photo of {fitting}"
    assert prompt(name, fitting=False) == f"a photo of {published}"
