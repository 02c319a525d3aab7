"""Pictures, and widgets. Every function returns a matplotlib figure and shows nothing.

Those of `told` return tables in words.

Notebooks write `from reproduction import plots` and call `plots.name(...)`. A file is loaded when a
name of it is first asked for: who draws no boxes waits for no seaborn.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FILES = {
    "curves": (
        "chance_curves confidence_paths error_curves gap_dots "
        "perturbation_curves rate_curves rationale_curves_figure sensitivity_curves"
    ),
    "images": (
        "cut_out cut_steps heatmap_grid image_grid looks_grid "
        "looks_row map_tile maps_grid mask_gallery parts_grid phrase_figure sample_grid "
        "subset_grid "
    ),
    "intervals": (
        "accuracy_bars added_bars arm_changes average_bars causal_dots class_grid "
        "dose_response neighbour_dots paired_changes "
        "pointing_bars score_bars share_bars two_tests word_bars "
        "zero_shot_bars"
    ),
    "lines": (
        "agreement_curves before_after depth_curves drift_curves entropy_boxes heads_beside_flat "
        "masking_curves score_boxes separation_dots shift_curves slope_intervals space_points"
    ),
    "shaded_text": "shaded_html shaded_methods",
    "style": "GAIN INK LOSS OBJECT OURS panels set_style",
    "tables": "attention_rows change_heatmap entropy_maps",
    "widgets": ("erasing_explorer habitat_explorer head_explorer method_explorer step_explorer"),
}
_FILE_OF = {name: file for file, names in _FILES.items() for name in names.split()}
__all__ = list(_FILE_OF)


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FILE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
