"""Pictures, and one widget. Every function returns a matplotlib figure and shows nothing.

Notebooks write `from relevit import plots` and call `plots.name(...)`. Pictures may import every
room but claims and the pipeline, and nobody imports pictures.
"""

from relevit.plots.attribution import (
    area_bars,
    error_curves,
    perturbation_curves,
    seconds_bars,
    segmentation_bars,
)
from relevit.plots.baselines import METHOD_TITLES, apart_curves, gap_dots, rate_dots, step_sizes
from relevit.plots.basics import (
    accuracy_bars,
    change_bars,
    class_bars,
    flow_chart,
    gradient_bars,
    heatmap_grid,
    image_grid,
    loss_curves,
    rate_curves,
    relevance_bars,
    set_style,
    share_table,
    training_curve,
)
from relevit.plots.classes import class_grid, size_pictures
from relevit.plots.clip import (
    captioned_images,
    joining_curves,
    phrase_figure,
    pointing_bars,
    word_bars,
    zero_shot_bars,
)
from relevit.plots.iav import (
    before_after,
    depth_curves,
    entropy_boxes,
    head_curves,
    score_boxes,
    slope_intervals,
    space_curves,
    space_pictures,
)
from relevit.plots.knn import Neighbours, accuracy_dots, neighbour_grid
from relevit.plots.masks import cut_out, cut_steps, edge_matrix, quality_plot
from relevit.plots.pretraining import (
    drift_curves,
    entropy_maps,
    finetuning_curves,
    masking_curves,
    pretraining_curves,
    shift_curves,
)
from relevit.plots.sis import confidence_paths, subset_grid
from relevit.plots.sweep import average_bars, change_heatmap, sensitivity_curves
from relevit.plots.text import (
    rationale_curves_figure,
    shaded_figure,
    shaded_html,
    token_curves_figure,
)
from relevit.plots.text_scores import attention_rows, score_bars
from relevit.plots.widgets import explorer_picture, head_explorer

__all__ = [
    "METHOD_TITLES",
    "Neighbours",
    "accuracy_bars",
    "accuracy_dots",
    "apart_curves",
    "area_bars",
    "attention_rows",
    "average_bars",
    "before_after",
    "captioned_images",
    "change_bars",
    "change_heatmap",
    "class_bars",
    "class_grid",
    "confidence_paths",
    "cut_out",
    "cut_steps",
    "depth_curves",
    "drift_curves",
    "edge_matrix",
    "entropy_boxes",
    "entropy_maps",
    "error_curves",
    "explorer_picture",
    "finetuning_curves",
    "flow_chart",
    "gap_dots",
    "gradient_bars",
    "head_curves",
    "head_explorer",
    "heatmap_grid",
    "image_grid",
    "joining_curves",
    "loss_curves",
    "masking_curves",
    "neighbour_grid",
    "perturbation_curves",
    "phrase_figure",
    "pointing_bars",
    "pretraining_curves",
    "quality_plot",
    "rate_curves",
    "rate_dots",
    "rationale_curves_figure",
    "relevance_bars",
    "score_bars",
    "score_boxes",
    "seconds_bars",
    "segmentation_bars",
    "sensitivity_curves",
    "set_style",
    "shaded_figure",
    "shaded_html",
    "share_table",
    "shift_curves",
    "size_pictures",
    "slope_intervals",
    "space_curves",
    "space_pictures",
    "step_sizes",
    "subset_grid",
    "token_curves_figure",
    "training_curve",
    "word_bars",
    "zero_shot_bars",
]
