"""Pictures, and widgets. Every function returns a matplotlib figure and shows nothing.

Notebooks write `from reproduction import plots` and call `plots.name(...)`. What seaborn draws is a
statement in their cells, which `drawn` shows in this style. A file is loaded when a name of it is
first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FILES = {
    "images": (
        "cut_out cut_steps heatmap_grid image_grid looks_grid "
        "looks_row maps_grid mask_gallery parts_grid phrase_figure scene_figure "
        "subset_grid "
    ),
    "shaded_text": "shaded_html shaded_methods",
    "shared": (
        "KINDS added_bars dose_response family_curves model_lines model_scales "
        "paired_changes perturbation_curves rate_curves score_bars"
    ),
    "style": (
        "CHANGE CLASS_COLOURS CONTROL FAINT GAIN INK LOSS MEANINGS METHODS OBJECT ORIGINAL OURS "
        "PALE_OBJECT PROPS PROTOCOLS REST SHADES drawn method_colour named panels set_style "
        "subplots"
    ),
    "widgets": ("erasing_explorer habitat_explorer head_explorer step_explorer"),
}
_FILE_OF = {name: file for file, names in _FILES.items() for name in names.split()}
__all__ = list(_FILE_OF)


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FILE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
