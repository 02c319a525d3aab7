"""Pictures, and widgets. Every function returns a matplotlib figure and shows nothing.

Notebooks write `from relevit import plots` and call `plots.name(...)`. Pictures may import every
room but claims and the pipeline, and nobody imports pictures.
"""

from relevit.plots.curves import (
    METHOD_TITLES,
    confidence_paths,
    error_curves,
    gap_dots,
    loss_curves,
    perturbation_curves,
    rate_curves,
    rationale_curves_figure,
    sensitivity_curves,
)
from relevit.plots.images import (
    captioned_images,
    cut_out,
    cut_steps,
    heatmap_grid,
    image_grid,
    looks_grid,
    map_tile,
    phrase_figure,
    sample_grid,
)
from relevit.plots.intervals import (
    accuracy_bars,
    accuracy_dots,
    added_bars,
    area_bars,
    average_bars,
    causal_dots,
    class_grid,
    dose_response,
    paired_changes,
    pointing_bars,
    score_bars,
    segmentation_bars,
    share_bars,
    word_bars,
    zero_shot_bars,
)
from relevit.plots.lines import (
    before_after,
    depth_curves,
    drift_curves,
    entropy_boxes,
    masking_curves,
    score_boxes,
    shift_curves,
    slope_intervals,
)
from relevit.plots.shaded_text import shaded_html, shaded_methods
from relevit.plots.style import GAIN, INK, LOSS, OBJECT, OURS, panels, set_style
from relevit.plots.tables import attention_rows, change_heatmap, entropy_maps
from relevit.plots.widgets import (
    erasing_explorer,
    explorer_picture,
    habitat_explorer,
    head_explorer,
    method_explorer,
    step_explorer,
)
