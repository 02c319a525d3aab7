"""Where a paper's text and its published code part: each difference is an option, named here once.

The defaults of a formula are the text's. `PUBLISHED` says what the code does otherwise, `DESCRIBED`
what the text says and a default does not; both by the function that takes the option. What is not
named is the same in both. Ids are rows of docs/differences.md. Formulas know options, never
protocols.
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

# Each row of docs/differences.md: the options that it is (`function.option`, or of a class of
# settings), or why there is none.
DIFFERENCES: dict[str, str] = {
    # RobustViT: relevance map and loss
    "A1": "FinetuneOptions.normalise",
    "A2": "FinetuneOptions.exact_gradient, observe.exact_gradient",
    "A3": "Code and text agree: the identity is of all tokens.",
    "A4": "Code and text agree: clamped, then averaged.",
    "A5": "FinetuneSettings.target",
    "A6": "FinetuneOptions.towards_mask, foreground_loss.towards_mask",
    "A7": "FinetuneOptions.edges_in_both, background_loss.edges_in_both",
    "A8": "FinetuneSettings.temperature, confidence_loss.temperature",
    "A9": "Eq. 4 as printed and the code agree: the current model's arg-max.",
    "A10": "The text names no optimiser; AdamW on all parameters in both.",
    "A11": "FinetuneOptions.decay",
    "A12": "FinetuneSettings.epochs, FinetuneSettings.batch_size",
    "A13": "FinetuneSettings.keep",
    "A14": "A fault of the script; ours runs on any device.",
    "A15": "A run of ours draws from its seed alone and can be repeated.",
    "A16": "Seed 0 leaves the order of classes alone in both.",
    # RobustViT: data, evaluation, baselines
    "B1": "Names are sorted, as the order of a disk cannot be repeated.",
    "B2": "read_imagenet_s.merged",
    "B3": "The text says nothing; what was left open is background in both.",
    "B4": "View.squash, View.crop",
    "B5": "model_spec.pixels",
    "B6": "BenchmarkParams.ways",
    "B7": "read_objectnet.answers, read_objectnet.border",
    "B8": "FinetuneOptions.mean_square",
    "B9": "FinetuneOptions.exact_gradient",
    "B10": "FinetuneOptions.exact_gradient",
    "B11": "FinetuneOptions.sum_over_batch, FinetuneOptions.least_probability",
    "B12": "FinetuneSettings.weights, FinetuneSettings.lr",
    "B13": "The three methods are to differ in their losses alone (F11).",
    "B14": "key_features.bias",
    "B15": "refine.smallest_share",
    "B16": "The scripts do not run against TokenCut as it is now.",
    "B17": "refine.fall_back",
    "B18": "tokencut.component",
    "B19": "refine.second_piece",
    "B20": "The segmentation test's differences are rows E1 to E4.",
    "B21": "There is no code that could differ from the text.",
    "B22": "Two versions of a paper differ, and no code.",
    "B23": "FinetuneSettings.class_term",
    # Beyond Intuition: methods
    "C1": "ga.mean_first",
    "C2": "ga.start_block",
    "C3": "head_wise.start_block, token_wise.start_block",
    "C4": "The code follows Eq. 16, and Eq. 18 is a misprint.",
    "C5": "head_wise.inner",
    "C6": "Each image is explained as if alone; a mean over images is no method.",
    "C7": "token_wise.after_norm",
    "C8": "The text leaves it open; the plain mean over heads in both.",
    "C9": "integral.steps, integral.rule",
    "C10": "integral.baseline",
    "C11": "The class's logit in both; a loss would turn the sign (F8).",
    "C12": "The text leaves it open; clamped before the mean over heads in both.",
    "C13": "It has no effect: perception is never negative.",
    "C14": "head_wise.feedback, token_wise.feedback",
    "C15": "rollout.start_block, rollout.normalise",
    "C16": "transformer_attribution.start_block",
    "C17": "Every method explains the model that is given, with its own eps.",
    "C18": "Relevance.plain",
    "C19": "raw_attention.scale, gradcam.scale",
    # Beyond Intuition: other models
    "D1": "A sum is a mean but for its scale.",
    "D2": "raw_attention.mean_over, gradcam.weigh",
    "D3": "gradcam.weigh",
    "D4": "Every method explains the model that is given, in its own order.",
    "D5": "observe.pooling, Relevance.interleaved",
    "D6": "model_spec.pixels",
    "D7": "Edits that a script needs to run at all; ours takes any model and method.",
    "D8": "ga.start_block, head_wise.start_block, token_wise.start_block",
    "D9": "integral.baseline",
    "D10": "token_perturbation_rows.clamp",
    "D11": "head_wise.start_block, token_wise.start_block",
    "D12": "token_wise.after_attention",
    "D13": "There is no code that could differ from the text.",
    # Evaluation
    "E1": "Code and text agree: cut at the mean, totals of the whole set.",
    "E2": "segmentation_rows.both_channels",
    "E3": "segmentation_rows.f1_by_row",
    "E4": "View.squash, View.mask_pixels",
    "E5": "Erasing.unit",
    "E6": "auc_weights.whole, auc_weights.trapezoids",
    "E7": "Erasing.fill, auc_weights.end_at_zero",
    "E8": "Erasing.directions",
    "E9": "The label decides in both, whichever class is explained.",
    "E10": "The published list of images is of a folder's order; ours are drawn by seed.",
    "E11": "Each map is scaled alone, as the script does at batch 1.",
    # Found while building
    "F1": "Relevance.mean_shares",
    "F2": "Both classes are in the rows of the test: the explained and the highest.",
    "F3": "gradcam.weigh",
    "F4": "read_newsgroups.bare",
    "F5": "TextParams.lr, TextParams.epochs, TextParams.weight_decay",
    "F6": "integral.steps, integral.rule",
    "F7": "A share of a sum of both signs is none: without the sign in both.",
    "F8": "A loss has the other sign, and the clamp would keep what speaks against.",
    "F9": "All tests see one square, so that their clean accuracies are the same.",
    "F10": "Masks are of what a model sees; the next file of a class is no sample.",
    "F11": "The three methods are to differ in their losses alone.",
    "F12": "auc_weights.whole, auc_weights.end_at_zero",
    "F13": "observe.pooling",
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
