"""Made tables with which claims hold, by `stage/stem`, and ways to change them."""

from __future__ import annotations

from functools import cache

from relevit.claims import criteria, judge
from relevit.evaluate import accuracies, class_changes, leads

from . import heads, maps, runs

# Tables whose maker is not called as they are.
MAKERS = {
    "02_finetune/rates": runs.learning_rates,
    "04_cures/rates": runs.rates,
    "03_robustness/class_variation": lambda **options: class_changes.class_variation(
        runs.changed_images(**options)
    ),
    "05_ablations/agreement": lambda **options: accuracies.agreement(runs.ablations(**options)),
    "07_segmentation/leads": lambda **options: leads(maps.methods_perturbation(**options)),
    "08_iav/heads": heads.numbers,
}
MAKERS = {
    name: getattr(module, name.split("/")[1])
    for name in criteria().tables()
    for module in (maps, runs, heads)
    if hasattr(module, name.split("/")[1])
} | MAKERS


@cache
def table(name):
    """A made table, shared: copy it before a change."""
    return MAKERS[name]()


def verdict(claim, tables=None):
    """One claim alone, on its own made tables: some of these, or others, change."""
    needed = {name: table(name) for name in criteria().tables(claim)}
    return judge(needed | (tables or {}), only=[claim])[0]


def other(name, *args, **options):
    """{name: the table made otherwise}."""
    return {name: MAKERS[name](*args, **options)}


def _chosen(name, where):
    return table(name).eval(where, engine="python")


def changed(name, where, **columns):
    """{name: the table with something added to the numbers of some rows}."""
    copy = table(name).copy()
    for column, add in columns.items():
        copy.loc[_chosen(name, where), column] += add
    return {name: copy}


def without(name, where):
    """{name: the table without some rows}."""
    return {name: table(name)[~_chosen(name, where)]}
