"""Parameters of the notebooks: each notebook's own cell, checked before any work starts."""

from __future__ import annotations

from reproduction.params.cells import FINETUNED, params_of, take
