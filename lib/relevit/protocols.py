"""Where a paper's text and its published code part: each difference is an option, named here once.

The defaults of a formula are the text's. `PUBLISHED` says what the code does otherwise, `DESCRIBED`
what the text leaves open or a default does not say; both by the function that takes the option.
Ids are rows of docs/differences.md. Formulas know options, never protocols.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

Protocol = Literal["published", "described"]
Options = dict[str, Any]

PUBLISHED: dict[str, Options] = {
    # RobustViT Sec. 4: masks by TokenCut. The component of the seed (B18) is a default: the text
    # takes it over from TokenCut's. 01_masks has `bias` as a parameter of its own.
    "key_features": {"bias": "kept"},  # B14
    "refine": {
        "second_piece": True,  # B19
        "fall_back": False,  # B17
        "smallest_share": 520 / 224**2,  # B15
    },
    # Beyond Intuition Sec. 4.2: CLIP.
    "prompt": {"fitting": False},  # "a photo of a ant"
    "zero_shot_perturbation": {"shares_pct": range(10, 101, 10), "rule": "measured"},  # E7
}

DESCRIBED: dict[str, Options] = {}

PROTOCOLS = {"published": PUBLISHED, "described": DESCRIBED}


def check_protocol(protocol: str) -> None:
    """Raise ValueError unless `protocol` is one of PROTOCOLS."""
    if protocol not in get_args(Protocol):
        raise ValueError(
            f"protocol {protocol!r} is unknown; use 'published' (what the papers' code does) "
            "or 'described' (what their text says)"
        )


def options(protocol: str, name: str) -> Options:
    """What `protocol` asks of the function `name`, as keyword arguments; {} for its defaults.

    Raises: ValueError for an unknown protocol.
    """
    check_protocol(protocol)
    return dict(PROTOCOLS[protocol].get(name, {}))
