"""How a mean over images is written: with its interval."""

from __future__ import annotations

import pandas as pd
import torch

from relevit.evaluate.intervals import PERCENT, mean_interval


def share_told(values: pd.Series) -> str:
    """`54.0 (50.3 to 57.6)`: mean of percents and its 95 % interval, where these have one."""
    mean = f"{values.mean():.1f}"
    if len(values) < 2 or values.isna().any():  # images without a mask
        return mean
    low, high = mean_interval(torch.tensor(values.to_numpy(dtype=float)), PERCENT)
    return f"{mean} ({low:.1f} to {high:.1f})"
