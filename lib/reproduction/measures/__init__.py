"""What the papers measure of a model, and the tables that are made of it.

The nine `sets` and their `accuracies`, what finetuning changed (`robustness`, `class_changes`),
what one way adds to another (`paired`), the tests of maps (`methods`, `causal`), k-NN, context and
corruptions.
"""

from reproduction.measures import causal, class_changes, knn, robustness
from reproduction.measures.causal import (
    causal_scores,
    causal_table,
    draw_scenes,
    outside_pct,
    pair_gaps,
    part_masses,
    part_worths,
    worth_maps,
)
from reproduction.measures.methods import (
    ablation_maps,
    ablation_table,
    area_table,
    leads,
    outlining_maps,
    pair_maps,
    perturb,
    perturb_by_label,
    right_answers,
    segmentation_table,
    shared_maps,
    single_differences,
)
from reproduction.measures.sets import answer_sets, load_classifier, skipped_images
