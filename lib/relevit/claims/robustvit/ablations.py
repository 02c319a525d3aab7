"""Claims on the parts of the method, and on how much data it needs."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from relevit.claims.attribution.scores import NOT_HERE
from relevit.claims.robustvit import criteria as fixed
from relevit.claims.robustvit.by_seed import (
    Tables,
    by_set,
    changes,
    clear,
    first_model,
    gains,
    noisy,
    paired,
    shifted,
    small_loss,
    text,
)
from relevit.claims.tables import Lacking, need
from relevit.claims.verdicts import EPS, MIN_SEEDS, SLIGHT_PTS, Verdict, judge
from relevit.data.cutouts import SHIFTED_SETS

# The variants of Table 4, and those of supplement Table 8.
TABLE4 = ("no_background", "no_foreground", "no_classification", "ground_truth")
REPLACED = ("attention", "rollout")
NO_LABELS = "predicted_target"
NOISY = "the std over seeds could hide a loss: run more seeds"
VACUOUS = "the {} does not gain on the shifted sets here ({}), so there is nothing to lose"

Variant = Callable[..., pd.DataFrame]


def _variants(tables: Tables) -> tuple[Variant, str]:
    """Changes of a variant by seed and set, and the model's name."""
    table = need(tables, "ablations")
    model = first_model(table)

    def of(name: str, metric: str = "top1") -> pd.DataFrame:
        return changes(table, metric, model=model, variant=name)

    return of, model


def _unless_noisy(
    claim: str, parts: dict[str, bool], number: str, seeds: int, *small: pd.Series
) -> Verdict:
    if seeds >= MIN_SEEDS and all(parts.values()) and noisy(*small):
        return Verdict(claim, NOT_HERE, number, NOISY)
    return judge(claim, parts, number, seeds)


def background_costs(claim: str, tables: Tables) -> Verdict:
    """RV-10."""
    of, model = _variants(tables)
    full, without = of("full")["val"], of("no_background")["val"]
    seeds = min(len(full), len(without))
    number = f"{model}, val: full {text(full)}, without L_bg {text(without)}"
    if seeds >= MIN_SEEDS and full.mean() >= -EPS:
        return Verdict(claim, NOT_HERE, number, "the full method loses nothing on val here")
    parts = {
        "intact without L_bg": bool(without.mean() >= -fixed.INTACT_PTS - EPS),
        "L_bg is most of the loss": bool(without.mean() > full.mean() / 2 + EPS),
    }
    return judge(claim, parts, number, seeds)


def background_helps(claim: str, tables: Tables) -> Verdict:
    """RV-11."""
    of, model = _variants(tables)
    full = of("full")
    costs = {name: shifted(paired(full, of(name))) for name in TABLE4[:2]}
    background, foreground = costs.values()
    parts = {
        "without L_bg clearly less": clear(background),
        "L_bg matters more than L_fg": bool(background.mean() > foreground.mean() + EPS),
    }
    shown = (f"{name} {text(-cost)}" for name, cost in costs.items())
    number = f"{model}, shifted average against the full method: {', '.join(shown)}"
    return judge(claim, parts, number, min(len(background), len(foreground)))


def class_term_needless(claim: str, tables: Tables) -> Verdict:
    """RV-12."""
    of, model = _variants(tables)
    full = of("full")
    difference = paired(of("no_classification"), full)
    others = difference[[s for s in SHIFTED_SETS if s != "a"]].mean(axis=1)
    parts = {
        "robust without the class term": small_loss(others),
        "val without the class term": small_loss(difference["val"]),
    }
    number = (
        f"{model}, without against full: val {text(difference['val'])}, six sets {text(others)}"
    )
    if len(difference) >= MIN_SEEDS and not gains(full):
        return Verdict(claim, NOT_HERE, number, VACUOUS.format("full method", text(shifted(full))))
    return _unless_noisy(claim, parts, number, len(difference), others, difference["val"])


def class_term_crucial(claim: str, tables: Tables) -> Verdict:
    """RV-13 and RV-15, which differ in what they call a loss."""
    of, model = _variants(tables)
    full, without = of("full")["val"], of("no_classification")["val"]
    limit = fixed.MODEST_PTS if claim == "RV-13" else fixed.PLUNGE_PTS
    parts = {f"falls by more than {limit:g} points without": bool(without.mean() < -limit - EPS)}
    if claim == "RV-13":
        parts["by less with it"] = bool(full.mean() > -limit + EPS)
    number = f"{model}, val: without the class term {text(without)}, full {text(full)}"
    return judge(claim, parts, number, min(len(full), len(without)))


def labels_or_confidence(claim: str, tables: Tables) -> Verdict:
    """RV-14."""
    of, model = _variants(tables)
    difference = paired(of("full"), of("ground_truth"))
    better = int((difference[list(SHIFTED_SETS)].mean() > EPS).sum())
    parts = {
        "labels keep val better": bool(difference["val"].mean() < -EPS),
        "confidence better on four of seven sets": better > len(SHIFTED_SETS) / 2,
    }
    number = (
        f"{model}, confidence minus labels: val {text(difference['val'])}, shifted average "
        f"{text(shifted(difference))}, better on {better} of 7 sets"
    )
    return judge(claim, parts, number, len(difference))


def gae_is_needed(claim: str, tables: Tables) -> Verdict:
    """RV-29."""
    of, model = _variants(tables)
    full, parts, texts, seeds = of("full"), {}, [], []
    for name in REPLACED:
        lead = paired(full, of(name))
        parts |= {f"above {name} on {s}": bool(lead[s].mean() > EPS) for s in SHIFTED_SETS}
        texts.append(f"{name} {by_set(lead, SHIFTED_SETS)}")
        seeds.append(len(lead))
    number = f"{model}, full minus variant: {'; '.join(texts)}"
    return judge(claim, parts, number, min(seeds))


def top5_agrees(claim: str, tables: Tables) -> Verdict:
    """RV-30."""
    of, model = _variants(tables)
    run = set(need(tables, "ablations")["variant"].astype(str))
    parts, texts, seeds = {}, [], []
    for name in (*TABLE4, *REPLACED):
        if name not in run:
            continue
        gaps = [shifted(paired(of(name, m), of("full", m))) for m in ("top1", "top5")]
        texts.append(f"{name} {text(gaps[0])} / {text(gaps[1])}")
        seeds.append(len(gaps[0]))
        if all(abs(gap.mean()) > EPS for gap in gaps):
            parts[f"{name} same sign"] = bool((gaps[0].mean() > 0) == (gaps[1].mean() > 0))
    if not parts:
        raise Lacking("no variant that differs from the full method: run some of Table 4")
    number = f"{model}, shifted average against full, top-1 / top-5: {', '.join(texts)}"
    return judge(claim, parts, number, min(seeds))


def without_labels(claim: str, tables: Tables) -> Verdict:
    """RV-42."""
    of, model = _variants(tables)
    gain = shifted(of(NO_LABELS))
    parts = {"gains without labels": clear(gain)}
    return judge(claim, parts, f"{model}, shifted average {text(gain)}", len(gain))


Settings = dict[tuple[int, int], pd.DataFrame]


def _settings(tables: Tables) -> tuple[Settings, str]:
    """Changes of each (images a class, classes), by seed and set, and the model."""
    table = need(tables, "sensitivity")
    model = first_model(table)
    table = table[table["model"].astype(str) == model]
    pairs = table[["images_per_class", "classes"]].drop_duplicates()
    found = {}
    for n, c in sorted(pairs.itertuples(index=False, name=None)):
        found[int(n), int(c)] = changes(table, images_per_class=n, classes=c)
    return found, model


def _base(settings: Settings) -> tuple[int, int]:
    """Three images of every class of A, or the next number above."""
    most = max(c for _, c in settings)
    enough = [n for n, c in settings if c == most and n >= fixed.IMAGES]
    if not enough:
        raise Lacking(f"no run with at least {fixed.IMAGES} images of each of {most} classes")
    return min(enough), most


def three_images_suffice(claim: str, tables: Tables) -> Verdict:
    """RV-16."""
    settings, model = _settings(tables)
    base = _base(settings)
    ours = settings[base]
    others = {
        pair: shifted(paired(ours, other)) for pair, other in settings.items() if pair != base
    }
    if not any(n > base[0] for n, _ in settings):
        raise Lacking(f"no run with more than {base[0]} images a class: run one")
    parts = {f"{_name(pair)} is not much better": small_loss(gap) for pair, gap in others.items()}
    parts["gains on the shifted sets"] = gains(ours)
    parts |= {f"{s} kept": bool(ours[s].mean() >= -SLIGHT_PTS - EPS) for s in fixed.KINDS}
    shown = ", ".join(f"{_name(pair)} {text(shifted(s))}" for pair, s in settings.items())
    number = f"{model}, shifted average: {shown}; {_name(base)}: {by_set(ours, fixed.KINDS)}"
    return _unless_noisy(claim, parts, number, min(map(len, others.values())), *others.values())


def less_data(claim: str, tables: Tables) -> Verdict:
    """RV-17."""
    settings, model = _settings(tables)
    base = _base(settings)
    most = base[1]
    few = [pair for pair in settings if pair[1] == most and pair[0] <= fixed.FEW_IMAGES]
    narrow = [pair for pair in settings if pair[1] <= most / 2 and (pair[0], most) in settings]
    if not few or not narrow:
        wanted = f"at most {fixed.FEW_IMAGES} images a class, and at most half of the classes"
        raise Lacking(f"needs runs with {wanted}: run both")
    against = {max(few): base} | {pair: (pair[0], most) for pair in narrow}
    gaps = {
        f"{_name(pair)} against {_name(other)}": shifted(paired(settings[pair], settings[other]))
        for pair, other in against.items()
    }
    parts = {f"{name} does not lose much": small_loss(gap) for name, gap in gaps.items()}
    shown = ", ".join(f"{name} {text(gap)}" for name, gap in gaps.items())
    number = f"{model}, shifted average, images × classes: {shown}"
    seeds = min(map(len, gaps.values()))
    empty = [pair for pair in against.values() if not gains(settings[pair])]
    if seeds >= MIN_SEEDS and empty:
        run = f"run with more data, {_name(empty[0])},"
        gain = text(shifted(settings[empty[0]]))
        return Verdict(claim, NOT_HERE, number, VACUOUS.format(run, gain))
    return _unless_noisy(claim, parts, number, seeds, *gaps.values())


def every_amount_helps(claim: str, tables: Tables) -> Verdict:
    """RV-18."""
    settings, model = _settings(tables)
    parts = {}
    for pair, change in settings.items():
        parts[f"{_name(pair)} gains"] = clear(shifted(change))
        for s in fixed.KINDS:
            kept = change[s].mean() >= -fixed.MODEST_PTS - EPS
            parts[f"{_name(pair)} keeps {s}"] = bool(kept)
    shown = (
        f"{_name(pair)} {text(shifted(s))} ({by_set(s, fixed.KINDS)})"
        for pair, s in settings.items()
    )
    number = f"{model}, shifted average: {', '.join(shown)}"
    return judge(claim, parts, number, min(map(len, settings.values())))


def _name(pair: tuple[int, int]) -> str:
    return f"{pair[0]} × {pair[1]}"
