"""Pictures, and widgets. Every function returns a matplotlib figure and shows nothing.

Notebooks write `from relevit import plots` and call `plots.name(...)`. Pictures may import every
room but claims and the pipeline, and nobody imports pictures.
"""

from relevit.plots.bars import (
    accuracy_bars,
    accuracy_dots,
    average_bars,
    change_bars,
    change_heatmap,
    class_bars,
    class_grid,
    flow_chart,
    pointing_bars,
    quality_plot,
    relevance_bars,
    share_table,
    size_pictures,
    word_bars,
    zero_shot_bars,
)
from relevit.plots.curves import (
    METHOD_TITLES,
    apart_curves,
    confidence_paths,
    gap_dots,
    gradient_bars,
    joining_curves,
    loss_curves,
    rate_curves,
    rate_dots,
    sensitivity_curves,
    step_sizes,
    training_curve,
)
from relevit.plots.ia_scores import (
    before_after,
    depth_curves,
    entropy_boxes,
    head_curves,
    score_boxes,
    slope_intervals,
    space_curves,
    space_pictures,
)
from relevit.plots.images import (
    Neighbours,
    captioned_images,
    cut_out,
    cut_steps,
    edge_matrix,
    heatmap_grid,
    image_grid,
    looks_grid,
    neighbour_grid,
    phrase_figure,
    subset_grid,
)
from relevit.plots.methods import (
    area_bars,
    error_curves,
    perturbation_curves,
    rationale_curves_figure,
    score_bars,
    seconds_bars,
    segmentation_bars,
    token_curves_figure,
)
from relevit.plots.pretrained import (
    drift_curves,
    entropy_maps,
    finetuning_curves,
    masking_curves,
    pretraining_curves,
    shift_curves,
)
from relevit.plots.shaded_text import attention_rows, shaded_figure, shaded_html
from relevit.plots.style import set_style
from relevit.plots.twins import added_bars, dose_response, share_bars
from relevit.plots.widgets import (
    erasing_explorer,
    explorer_picture,
    habitat_explorer,
    head_explorer,
    method_explorer,
    phrase_explorer,
    step_explorer,
)
from relevit.plots.your_own import map_tile, paired_changes, sample_grid
