"""Widgets: controls, a picture, and its state in words. A call makes one, and a notebook shows it.

Where no kernel runs, the picture of the first state stands in its place. All are `Explorer`s: set a
control's `value`, read `picture` and `state`.
"""

from reproduction.plots.widgets.erasing import ErasingExplorer as erasing_explorer
from reproduction.plots.widgets.explorer import Explorer
from reproduction.plots.widgets.habitats import HabitatExplorer as habitat_explorer
from reproduction.plots.widgets.heads import HeadExplorer as head_explorer
from reproduction.plots.widgets.heads import method_explorer
from reproduction.plots.widgets.steps import StepExplorer as step_explorer
