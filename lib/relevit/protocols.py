"""Where a paper's text and its published code part: each difference is an option, named here once.

The defaults of a formula are the text's. `PUBLISHED` says what the code does otherwise, `DESCRIBED`
what the text says and a default does not; both by the function that takes the option. What is not
named is the same in both. Ids are rows of docs/differences.md, and docs/differences.yaml has the
option of each. Formulas know options, never protocols.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

Protocol = Literal["published", "described"]
Options = dict[str, Any]

PUBLISHED: dict[str, Options] = {
    # How the papers' models see pictures; neither text says it.
    "model_spec": {"pixels": "half"},  # B5, D6
    # RobustViT Sec. 4: its images. In both alike: what is cropped (B4) and the classes that answer
    # (B6) are parameters of a preset; gtsegs' own resizing (E4) is the default of `read_gtsegs`.
    # Orders are sorted, as a disk's cannot be repeated (B1).
    "View.mask": {"mask_pixels": "soft"},  # A7
    "read_objectnet": {"answers": "first", "border": 0},  # B7
    # RobustViT Sec. 3 and its baselines (App. C, D): a run of finetuning.
    "finetune": {
        "normalise": True,  # A1
        "exact_gradient": False,  # A2, B9, B10
        "towards_mask": True,  # A6
        "edges_in_both": True,  # A7
        "decay": 0.85,  # A11
        "mean_square": True,  # B8
        "least_probability": 1e-11,  # B11
        "sum_over_batch": True,  # B11
    },
    # RobustViT Sec. 4: masks by TokenCut. 01_masks has `bias` as a parameter of its own.
    "key_features": {"bias": "kept"},  # B14
    "tokencut": {"component": True},  # B18; a default, as TokenCut's own text has it
    "refine": {
        "second_piece": True,  # B19
        "fall_back": False,  # B17
        "smallest_share": 520 / 224**2,  # B15
    },
    # Beyond Intuition Sec. 4.2: BERT.
    "read_newsgroups": {"bare": True},  # F4
    "token_perturbation_rows": {"clamp": True},  # D10
    "rationale_f1": {"counted": "word"},  # whole words, negative values being 0
    # Beyond Intuition Sec. 4.2: CLIP.
    "prompt": {"fitting": False},  # "a photo of a ant"
    "zero_shot_perturbation": {
        "shares_pct": range(10, 101, 10),  # E7
        "trapezoids": True,  # E6
        "whole": True,  # E6
    },
    # Attribution methods. First blocks are of 12; on a shallower model it is the same share.
    "raw_attention": {"mean_over": "keys", "scale": True},  # D2, C19
    "rollout": {"start_block": 2, "normalise": True},  # C15
    "gradcam": {"weigh": "queries", "scale": True},  # D3, D2, C19
    "ga": {"start_block": 2, "mean_first": True},  # C2, C1
    "lrp": {"mean_shares": False, "interleaved": False},  # F1, D5
    "partial_lrp": {"mean_shares": False, "interleaved": False},  # F1, D5
    "transformer_attribution": {
        "start_block": 2,  # C16
        "mean_shares": False,  # F1
        "interleaved": False,  # D5
    },
    "head_wise": {"start_block": 4, "inner": False},  # C3, C5
    "token_wise": {"start_block": 7, "after_norm": True},  # C3, C7
    "path": {"steps": 20, "rule": "riemann", "baseline": "zero"},  # C9, C10, D9
    # The tests of maps. What is erased (E5) and its colour (E7) the texts leave open: `Erasing`.
    "auc_weights": {"trapezoids": True, "whole": True, "end_at_zero": True},  # E6
    "outlining": {"ga": {"start_block": 1}},  # C2: maps that are others in the segmentation test
    "segmentation_rows": {"both_channels": True, "f1_by_row": True},  # E2, E3
}

DESCRIBED: dict[str, Options] = {
    "finetune": {"normalise": False, "exact_gradient": True, "decay": 1.0}  # A1, A2, A11
}

# What the published code does otherwise again for a family of models, or for one.
PUBLISHED_OF: dict[str, dict[str, Options]] = {
    "deit-b": {"confidence_loss": {"temperature": 0.65}},  # A8
    "deit-s": {"confidence_loss": {"temperature": 0.55}},  # A8
    "bert": {
        "rollout": {"start_block": 1},  # D8
        "gradcam": {"weigh": "map"},  # F3
        "ga": {"start_block": 12, "mean_first": False},  # D8, C1
        "transformer_attribution": {"start_block": 12},  # D8
        "head_wise": {"start_block": 12},  # D8
        "token_wise": {"start_block": 9},  # D8
    },
    "clip": {
        "rollout": {"start_block": 1},  # D11
        "transformer_attribution": {"start_block": 1},  # D11
        "ga": {"start_block": 12, "mean_first": False},  # D11, C1
        "head_wise": {"start_block": 12},  # D11
        "token_wise": {"start_block": 12, "after_attention": True},  # D11, D12
    },
    # Its head reads class token and mean; these four read the class token alone (D5).
    "dino": {
        name: {"pooling": "class_token"} for name in ("raw_attention", "rollout", "gradcam", "ga")
    },
}


def check_protocol(protocol: str) -> None:
    """Raise ValueError unless `protocol` is `published` or `described`."""
    if protocol not in get_args(Protocol):
        raise ValueError(
            f"protocol {protocol!r} is unknown; use 'published' (what the papers' code does) "
            "or 'described' (what their text says)"
        )


def options(protocol: str, name: str, family: str = "") -> Options:
    """What `protocol` asks of the function `name`, as keyword arguments; {} for its defaults.

    `family` is that of the model, where the published code has rules of its own for some.
    Raises: ValueError for an unknown protocol.
    """
    check_protocol(protocol)
    if protocol == "described":
        return dict(DESCRIBED.get(name, {}))
    return PUBLISHED.get(name, {}) | PUBLISHED_OF.get(family, {}).get(name, {})
