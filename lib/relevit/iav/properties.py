"""One number a run, or a run and map, out of the long tables of 07_pretraining and 07_iav."""

from __future__ import annotations

import pandas as pd

ORIGINAL = "original"
RUN = ["model", "seed"]


def run_properties(
    models: pd.DataFrame, shift: pd.DataFrame, entropy: pd.DataFrame, slopes: pd.DataFrame
) -> tuple[pd.DataFrame, pd.Series]:
    """What could tell the kinds apart, one row a run, and each run's kind.

    Source: IAV Sec. VI, which names these four. Columns: `accuracy_pct` (validation top-1 after
    the last epoch), `robustness_pct` (mean top-1 over all corruptions and levels),
    `entropy_nats` (mean over images, layers and heads), `iav_slope` (change of the mean IA-score
    with SmoothGrad over the depth). Runs that lack one of them are left out.
    """
    last = models[models["epoch"] == models["epoch"].max()].set_index(RUN)
    harder = shift[shift["corruption"] != "none"]
    smooth = slopes[slopes["map"] == "smoothgrad"].set_index(RUN)
    table = pd.DataFrame(
        {
            "accuracy_pct": last["validation_top1_pct"],
            "robustness_pct": harder.groupby(RUN)["top1_pct"].mean(),
            "entropy_nats": entropy.groupby(RUN)["entropy"].mean(),
            "iav_slope": smooth["slope"],
        }
    ).dropna()
    return table, last["kind"].reindex(table.index)


def change_after(robustvit: pd.DataFrame) -> pd.DataFrame:
    """What RobustViT's finetuning does to the heads, one row a map.

    `robustvit` has the columns run, map, image, layer, head, score; the run `original` is the
    model before. Columns: map, before (mean score over images and heads), change (mean over
    finetuned runs), change_std (over them, sample), heads, rising (heads whose mean over images
    is higher in every run). Raises: ValueError without the original or without another run.
    """
    means = robustvit.groupby(["map", "run", "layer", "head"], sort=False)["score"].mean()
    runs = set(robustvit["run"])
    if ORIGINAL not in runs or len(runs) < 2:
        raise ValueError(
            f"change_after: runs {sorted(runs)}; needed are {ORIGINAL!r} and at least one other"
        )
    rows = []
    for name, part in means.groupby("map", sort=False):
        wide = part.droplevel("map").unstack("run")
        gains = wide.drop(columns=ORIGINAL).sub(wide[ORIGINAL], axis=0)
        by_run = gains.mean()
        rows.append(
            (
                name,
                wide[ORIGINAL].mean(),
                by_run.mean(),
                by_run.std(),
                len(wide),
                int((gains > 0).all(axis=1).sum()),
            )
        )
    columns = ["map", "before", "change", "change_std", "heads", "rising"]
    return pd.DataFrame(rows, columns=columns)
