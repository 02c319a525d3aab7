"""Widgets: controls, a picture, and its state in words. A call makes one, and a notebook shows it.

Where no kernel runs, the picture of the first state stands in its place. All are `Explorer`s: set
the `value` of a `control`, read `picture` and `state`.
"""

from reproduction.plots.widgets.erasing import erasing_explorer
from reproduction.plots.widgets.explorer import Explorer
from reproduction.plots.widgets.habitats import habitat_explorer
from reproduction.plots.widgets.heads import head_explorer
from reproduction.plots.widgets.steps import step_explorer
