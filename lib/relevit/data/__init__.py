"""Images with masks: the embedded benchmark Habitats, and the papers' data sets.

Habitats is drawn here, the others are read in `data.real`; `data.benchmark` gives either by the
same calls. Imports models (how each wants its pictures), `relevit.base` and `relevit.config`.
Nothing is loaded before it is asked for, so that `relevit doctor` starts at once: import the
modules, as in `from relevit.data import cutouts`.
"""
