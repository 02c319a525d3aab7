"""What a model answers and where it looks: the papers' tests, each a module, and their tables.

Predictions come first (`predictions`, with the second look of `bfloat16` inside), then the nine
sets, tables of accuracies, what finetuning changed (`robustness`, `class_changes`) and what one way
adds to another (`paired`). May import attribution, losses, masks and what lies below them; never
finetuning or pictures.
"""

from relevit.evaluate import causal, class_changes, knn, robustness, sis
from relevit.evaluate.approximation import approximation_errors, error_table
from relevit.evaluate.causal import (
    causal_scores,
    causal_table,
    draw_scenes,
    outside_pct,
    pair_gaps,
    part_masses,
    part_worths,
    worth_maps,
)
from relevit.evaluate.frozen_features import class_features, linear_probe
from relevit.evaluate.looking import (
    foreground_iou_pct,
    look,
    look_at_parts,
    look_rows,
    pointing_table,
)
from relevit.evaluate.methods import (
    ablation_maps,
    ablation_table,
    area_table,
    leads,
    outlining_maps,
    perturb,
    perturb_by_label,
    right_answers,
    segmentation_table,
    shared_maps,
)
from relevit.evaluate.perturbation import Erasing, accuracy_curves
from relevit.evaluate.predictions import accuracy_table, make_classifier, predict
from relevit.evaluate.segmentation import (
    METRICS,
    iou_changes,
    segmentation_rows,
    segmentation_scores,
)
from relevit.evaluate.sets import answer_sets, load_classifier, skipped_images
