"""The papers' own numbers, as data: tables, hyperparameters and claims."""

from relevit.paper.published import *  # noqa: F403
