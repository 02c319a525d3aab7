"""Whether finetuning changed the answers to a set's images by more than chance."""

from __future__ import annotations

import pandas as pd
from scipy.stats import binomtest

from relevit.evaluate.robustness import paired_changes
from relevit.paper.published import METRICS

LEVEL = 0.05
NOTE = (
    "*: the change against the original is significant at 5 %, by McNemar's exact test of the "
    "images that became right against those that became wrong, pooled over seeds. All seeds see "
    "the same images, so that pooled ones are not independent, and each set is tested alone."
)


def mcnemar_table(predictions: pd.DataFrame) -> pd.DataFrame:
    """McNemar's exact test of each set, original against finetuned, over all seeds together.

    Source: McNemar 1947; the exact test is two-sided and binomial, on the images whose answer
    changed (`scipy.stats.binomtest`). `predictions` as in `relevit.evaluate.robustness`.
    Columns: dataset, metric (top1, top5), corrected, ruined (images times seeds), p_value,
    significant (at LEVEL). Raises: ValueError as `robustness.paired_changes`.
    """
    pairs, rows = paired_changes(predictions), []
    for name, of_set in pairs.groupby("dataset", sort=False, observed=True):
        for metric in METRICS:
            change = of_set[f"change_{metric}_pts"]
            better, worse = int((change > 0).sum()), int((change < 0).sum())
            changed = better + worse
            p = binomtest(better, changed, 0.5).pvalue if changed else 1.0
            rows.append((str(name), metric, better, worse, float(p), p < LEVEL))
    columns = ["dataset", "metric", "corrected", "ruined", "p_value", "significant"]
    return pd.DataFrame(rows, columns=columns)
