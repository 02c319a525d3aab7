"""What a model answers and where it looks: the papers' tests, each a module, and their tables.

Predictions come first (`predictions`, with the second look of `bfloat16` inside), then the nine
sets, tables of accuracies, and what finetuning changed (`robustness`, `class_changes`). Imports
attribution and masks, data, models and what lies below; never finetuning or pictures.
"""

from relevit.evaluate import class_changes, knn, robustness, sis
from relevit.evaluate.frozen_features import class_features, linear_probe
from relevit.evaluate.looking import background_swap, look, look_at_parts, look_rows
from relevit.evaluate.predictions import Classifier, accuracy_table, make_classifier, predict
from relevit.evaluate.sets import answer_sets, load_classifier, skipped_images

__all__ = [
    "Classifier",
    "accuracy_table",
    "answer_sets",
    "background_swap",
    "class_changes",
    "class_features",
    "knn",
    "linear_probe",
    "load_classifier",
    "look",
    "look_at_parts",
    "look_rows",
    "make_classifier",
    "predict",
    "robustness",
    "sis",
    "skipped_images",
]
