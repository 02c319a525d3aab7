"""What a model answers and where it looks: the papers' tests of a map and of a model.

`predictions` (by `answering`), `looking`, `perturbation`, `segmentation`, `approximation`, `sis`,
`lean` (on context), k-NN and probes on `frozen_features`; `intervals` is the one interval of all
tables.
"""

from relevit.evaluate import sis
from relevit.evaluate.approximation import approximation_errors, error_table
from relevit.evaluate.frozen_features import class_features, linear_probe
from relevit.evaluate.looking import (
    foreground_iou_pct,
    look,
    look_at_parts,
    look_rows,
    most_moved,
    pointing_table,
    points_at_own,
)
from relevit.evaluate.perturbation import Erasing, accuracy_curves
from relevit.evaluate.predictions import Classifier, accuracy_table, predict
from relevit.evaluate.segmentation import (
    METRICS,
    iou_changes,
    segmentation_rows,
    segmentation_scores,
)
