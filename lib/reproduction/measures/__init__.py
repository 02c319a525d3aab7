"""What the papers measure of a model, and the tables that are made of it.

The nine `sets` and their `accuracies`, what finetuning changed (`robustness`, `class_changes`),
what one way adds to another (`paired`), the tests of maps (`methods`, `causal`), k-NN, context and
corruptions; where the original looks (`first_looks`), and how good masks are (`mask_tables`).
"""

from reproduction.measures import causal, class_changes, knn, robustness
from reproduction.measures.causal import (
    causal_of_maps,
    causal_scores,
    causal_table,
    draw_scenes,
    joined,
    known_maps,
    outside_pct,
    pair_gaps,
    part_masses,
    part_worths,
    shares_pct,
    worth_maps,
    worths_table,
)
from reproduction.measures.first_looks import (
    least_on_object,
    look_at_answers,
    look_at_sets,
    look_table,
)
from reproduction.measures.mask_tables import mask_qualities, mask_table
from reproduction.measures.methods import (
    IN_WORDS,
    ablation_maps,
    ablation_table,
    area_by_image,
    area_table,
    area_tables,
    chance_maps,
    curves_of,
    finetuning_changes,
    gae_tests,
    leads,
    maps_of_both,
    outlining_maps,
    pair_maps,
    perturb,
    perturb_by_label,
    right_answers,
    segmentation_by_image,
    segmentation_table,
    shared_maps,
    single_differences,
    tables_of_runs,
)
from reproduction.measures.sets import answer_sets, draw_picked, load_classifier, skipped_images
