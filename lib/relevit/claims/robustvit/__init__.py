"""Verdicts on RobustViT's claims beyond the main table, by CRITERIA fixed before the runs.

The main table's (RV-01 to 04, 06, 09, 19, 20) are in `relevit.claims.verdicts`; those on the maps
alone
(RV-08, 39, 40) in `relevit.claims.attribution`. Numbers shown are percentage points unless they
name another unit, with ± standard deviation over seeds, or ± standard error over images where
there are no seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pandas as pd

from relevit.claims import attribution as claims_attribution
from relevit.claims.attribution.scores import NOT_HERE
from relevit.claims.models import criteria_for, in_roles, named, own_names
from relevit.claims.robustvit import ablations, comparison, others
from relevit.claims.robustvit import images as single_images
from relevit.claims.robustvit.comparison import baselines_behind
from relevit.claims.robustvit.criteria import (
    CRITERIA,
    MASKED,
    OUTSIDE,
    REAL_CRITERIA,
    REAL_OUTSIDE,
    ROLES,
    SCHEMAS,
)
from relevit.claims.robustvit.images import changed_images
from relevit.claims.tables import Lacking, ResultTables, check_tables
from relevit.claims.verdicts import Verdict
from relevit.data.benchmark import CUTOUTS, Benchmark

__all__ = [
    "CRITERIA",
    "OUTSIDE",
    "ROLES",
    "SCHEMAS",
    "SOURCES",
    "baselines_behind",
    "changed_images",
    "read_tables",
    "robustvit_criteria",
    "robustvit_verdicts",
]

METHODS, OF_METHODS = "methods_perturbation", "RV-43"  # a table of Beyond Intuition's models
# Notebook -> the tables it writes as NAME.parquet. `changed_images` is made from
# 03_robustness/predictions.parquet by the function of that name.
SOURCES = {
    "00_start": ("looks",),
    "01_masks": ("quality",),
    "02_baselines": ("rates",),
    "03_robustness": ("object_size",),
    "03_comparison": ("accuracies",),
    "04_segmentation": ("finetuned_images",),
    "06_faithfulness": ("methods_perturbation",),
    "08_ablations": ("ablations", "sensitivity"),
    "09_sis": ("sis",),
    "10_knn": ("knn",),
}

_RULES: dict[str, Callable[[str, Mapping[str, pd.DataFrame]], Verdict]] = {
    "RV-05": comparison.baselines_fall_behind,
    "RV-07": comparison.automatic_masks,
    "RV-10": ablations.background_costs,
    "RV-11": ablations.background_helps,
    "RV-12": ablations.class_term_needless,
    "RV-13": ablations.class_term_crucial,
    "RV-14": ablations.labels_or_confidence,
    "RV-15": ablations.class_term_crucial,
    "RV-16": ablations.three_images_suffice,
    "RV-17": ablations.less_data,
    "RV-18": ablations.every_amount_helps,
    "RV-21": others.baselines_hard_to_fit,
    "RV-22": single_images.classes_vary,
    "RV-23": single_images.small_objects_gain,
    "RV-26": others.subsets_exist,
    "RV-27": single_images.looks_away,
    "RV-28": single_images.maps_improve_with_answers,
    "RV-29": ablations.gae_is_needed,
    "RV-30": ablations.top5_agrees,
    "RV-31": comparison.dino_probe_worst,
    "RV-32": comparison.dino_above_supervised,
    "RV-33": comparison.ours_beats_dino,
    "RV-34": comparison.ours_on_dino,
    "RV-35": comparison.finetuning_hurts_dino,
    "RV-36": others.knn_gains,
    "RV-37": others.knn_gains_everywhere,
    "RV-38": others.ten_neighbours_better,
    "RV-41": single_images.background_more_common,
    "RV-42": ablations.without_labels,
    "RV-43": others.input_gradients_unfaithful,
}


def robustvit_verdicts(
    tables: Mapping[str, pd.DataFrame], images: Benchmark = CUTOUTS
) -> list[Verdict]:
    """Judge the claims of CRITERIA, in that order.

    `tables` has any of the names in SCHEMAS, each with the columns given there (others are
    ignored). Seeds or sets that a failed run lacks are left out; a claim whose tables, columns or
    runs are not there at all is 'not testable here', and the reason says what is missing. Tables
    of the paper's own models are judged on these (ROLES). `images` are the preset's: with
    ImageNet RV-24 is judged.
    Raises: ValueError for an unknown name, a repeated row or a number that is not finite.
    """
    usable = check_tables(tables, SCHEMAS, "robustvit_verdicts", MASKED)
    names = own_names(usable, ROLES)
    of_methods = own_names(usable, claims_attribution.ROLES)
    placed = {
        name: in_roles({name: table}, of_methods if name == METHODS else names)[name]
        for name, table in usable.items()
    }
    usable = ResultTables(placed, usable.reasons)
    verdicts = [_verdict(claim, usable, images) for claim in CRITERIA]
    return [
        named([verdict], of_methods if verdict.id == OF_METHODS else names)[0]
        for verdict in verdicts
    ]


def robustvit_criteria(
    tables: Mapping[str, pd.DataFrame], images: Benchmark = CUTOUTS
) -> dict[str, str]:
    """CRITERIA, with the names of the paper's models where the tables are about these."""
    found = criteria_for(CRITERIA, own_names(tables, ROLES))
    return found | REAL_CRITERIA if images.of_the_papers else found


def read_tables(folders: Mapping[str, Path], sources: Mapping[str, Iterable[str]] = SOURCES):
    """The tables that the stages have written: name -> table. A missing file is left out.

    `folders` gives the stage folder of each notebook; `sources` its tables, as in SOURCES.
    """
    paths = [
        folders[notebook] / f"{name}.parquet"
        for notebook, names in sources.items()
        if notebook in folders
        for name in names
    ]
    return {path.stem: pd.read_parquet(path) for path in paths if path.is_file()}


def _verdict(claim: str, tables: ResultTables, images: Benchmark) -> Verdict:
    outside = REAL_OUTSIDE if images.of_the_papers else OUTSIDE
    if claim in outside:
        number = single_images.most_harmed(tables, images) if claim == "RV-24" else ""
        return Verdict(claim, NOT_HERE, number, outside[claim])
    try:
        if claim == "RV-24":
            return single_images.harmed_as_published(claim, tables, images)
        return _RULES[claim](claim, tables)
    except Lacking as lacking:
        return Verdict(claim, NOT_HERE, "", str(lacking))
