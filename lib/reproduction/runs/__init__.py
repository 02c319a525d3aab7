"""Finetuning runs: which there are, each made once, and what came of them.

`grids` says which runs a notebook asks for, `run` is one from its record to its answers, and
`effects` holds them against each other. What `run` has is here by its name.
"""

from reproduction.runs.run import (
    MADE,
    ORIGINAL,
    ROOM,
    FailedError,
    Row,
    classifiers,
    finetune_at,
    finetuned_classes,
    images_to_crop,
    judged,
    kept_epoch,
    make,
    make_missing,
    needs,
    of_labels,
    once,
    origin_weights,
    own_model,
    rate,
    rates_of_own,
    read,
    shared_out,
    start_of,
    training_images,
    weights_of,
)
