"""One selection for all recipes: held-out logits, and the simplest recipe not clearly worse than the best."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from miv.data import csr
from miv.errors import MIVError
from miv.evaluation import witness_metrics
from miv.evaluation.metrics import auroc_influence, weighted_auroc
from miv.files.arrays import Floats, Integers, Labels
from miv.training.fits import BagData, logistic
from miv.training.recipes import RECIPES, Form

FOLDS = 3
ENOUGH = 1_000  # exemplars of validation that decide alone
_MOST, _MOST_NUMBERS = 1_000, 1 << 27  # exemplars of train for cross-validation, and numbers in their targets
Variant = tuple[str, str]  # a recipe and one of its variants


@dataclass(frozen=True)
class Row:
    """A recipe's best variant on held-out exemplars."""

    recipe: str
    variant: str
    words: str
    auroc: float
    error: float  # standard error of the AUROC
    loss: float  # cross-entropy after calibration
    i_ap: float | None  # None: no witnesses are known
    seconds: float


@dataclass(frozen=True, eq=False)
class Selection:
    """The chosen form, and what it was chosen by."""

    form: Form
    recipe: str
    rows: list[Row]
    logit: Floats  # (E,) held out, of the chosen recipe
    label: Labels  # (E,)
    weight: Floats  # (E,)
    forced: bool = False

    def document(self) -> dict[str, Any]:
        """The table for ``run.json``."""
        rows = [{name: None if value != value else value for name, value in asdict(row).items()} for row in self.rows]
        return {"chosen": self.recipe, "forced": self.forced, "held_out": len(self.label), "rows": rows}


@dataclass(frozen=True, eq=False)
class _Part:
    """Bags to fit to and others to judge by."""

    fitted: BagData
    held_out: BagData
    weight: Floats  # (E,) of the held-out exemplars
    is_validation: bool = False
    forms: dict[Variant, Form] = field(default_factory=dict)


def select(
    train: BagData,
    validation: BagData | None,
    recipes: Sequence[str],
    seed: int,
    forced: str | None = None,
    standard_errors: float = 0.5,
) -> Selection:
    """Fit recipes on folds of train, judge them on what is held out, and fit the chosen one on all of train.

    Validation joins in as one more held-out part, and decides alone if it has at least 1,000 exemplars. A recipe is
    judged by its best variant; one that builds on others starts from the best of them. If nothing can be held out, the
    first recipe is taken. ``forced`` names the recipe to take whatever the figures; else it is the simplest whose loss
    exceeds the lowest by at most so many ``standard_errors`` of the difference.
    """
    parts = _parts(train, validation, np.random.default_rng([seed, 41]))
    label, weight, group = _held_out(parts)
    losses: dict[Variant, Floats] = {}
    logits: dict[Variant, Floats] = {}
    best: dict[str, Variant] = {}
    bases: dict[str, Variant | None] = {}
    rows: list[Row] = []
    for name in recipes if parts else []:
        recipe, began = RECIPES[name].make(), time.monotonic()
        allowed = [key for key in losses if key[0] in recipe.builds_on]
        base = min(allowed, key=lambda key: losses[key].sum(), default=None)
        similarity: dict[Variant, list[Floats]] = {}
        for part in parts:
            for variant, form in recipe.fit(part.fitted, Form() if base is None else part.forms[base], seed).items():
                part.forms[name, variant] = form
                logit, each = form.logits(part.held_out)
                logits.setdefault((name, variant), np.zeros(0))
                logits[name, variant] = np.append(logits[name, variant], part.held_out.per_exemplar(logit))
                similarity.setdefault((name, variant), []).append(each)
        if not similarity:
            continue
        losses |= {variant: _calibrated_losses(logits[variant], label, weight) for variant in similarity}
        best[name], bases[name] = min(similarity, key=lambda key: losses[key].sum()), base
        figures = _figures(logits[best[name]], losses[best[name]], label, weight)
        ranking = _ranking(parts, similarity[best[name]])
        seconds = round(time.monotonic() - began, 2)
        rows.append(Row(*best[name], RECIPES[name].summary, *figures, ranking, seconds))
    if not best:
        names = [forced] if forced else recipes
        forms = ((name, form) for name in names for form in RECIPES[name].make().fit(train, Form(), seed).values())
        chosen, form = next(forms, ("nearest", Form().scaled(train)))
        _check_forced(forced, chosen)
        return Selection(form, chosen, [], np.zeros(0), np.zeros(0, np.int8), np.zeros(0))
    top = losses[min(best.values(), key=lambda key: losses[key].sum())]
    is_close = (name for name in best if _errors_above(losses[best[name]], top, weight, group) <= standard_errors)
    chosen = next(is_close)
    # A nearly equal recipe has a tiny error of the difference: a simpler one that fits better comes first all the same.
    chosen = next(name for name in best if losses[best[name]].sum() <= losses[best[chosen]].sum())
    chosen = forced if forced in best else chosen
    _check_forced(forced, chosen)
    form = parts[0].forms[best[chosen]] if parts[0].fitted is train else _refitted(best[chosen], bases, train, seed)
    return Selection(form, chosen, rows, logits[best[chosen]], label, weight, forced is not None)


def _check_forced(forced: str | None, chosen: str) -> None:
    if forced not in (None, chosen):
        raise MIVError(f"The recipe {forced} cannot be fitted to these bags. Choose another, such as {chosen}.")


def _parts(train: BagData, validation: BagData | None, random: np.random.Generator) -> list[_Part]:
    """Validation first, if there is one with both labels, then the folds of train."""
    parts: list[_Part] = []
    if not train.can_learn:
        return parts
    if validation is not None and validation.can_learn:
        parts.append(_Part(train, validation, validation.weight_of_exemplars, True))
        if len(validation.first) >= ENOUGH:
            return parts
    some = train.sample(_MOST, _MOST_NUMBERS // train.units.shape[1], random)
    names, place = np.unique(some.group, return_inverse=True)
    fold = (random.permutation(len(names)) % FOLDS)[place]
    divided = [_fold(some, fold == number) for number in range(FOLDS)] if len(names) >= FOLDS else []
    if all(part.fitted.can_learn and part.held_out.can_learn for part in divided):
        weighted = [part.held_out.label[part.held_out.first][part.weight > 0] for part in divided]
        if len(np.unique(np.concatenate([*weighted, []]))) == 2:
            parts += divided
        elif not parts:  # bags of known instances are better than nothing
            parts = [_Part(part.fitted, part.held_out, part.held_out.weight_of_exemplars) for part in divided]
    return parts


def _fold(some: BagData, is_held_out: np.ndarray) -> _Part:
    """A held-out exemplar counts by the share of its instances that are not among those fitted to."""
    fitted, held_out = some.subset(~is_held_out), some.subset(is_held_out)
    seen = np.zeros(len(some.units), bool)
    seen[some.query[~is_held_out]] = True
    seen[some.target[~is_held_out[some.owner]]] = True
    known = csr.bag_sums(seen[some.target].astype(np.float64), some.ptr) + seen[some.query]
    new = (1 - known / (np.diff(some.ptr) + 1))[is_held_out]
    return _Part(fitted, held_out, held_out.weight_of_exemplars * new[held_out.first])


def _held_out(parts: Sequence[_Part]) -> tuple[Labels, Floats, Integers]:
    """Labels, weights and groups ``(E,)`` of all held-out exemplars; groups of validation are others than of train."""
    if not parts:
        return np.zeros(0, np.int8), np.zeros(0), np.zeros(0, np.int64)
    label = np.concatenate([part.held_out.label[part.held_out.first] for part in parts])
    groups = [part.held_out.group[part.held_out.first] for part in parts]
    groups = [-1 - group if part.is_validation else group for part, group in zip(parts, groups, strict=True)]
    return label, np.concatenate([part.weight for part in parts]), np.concatenate(groups)


def _calibrated_losses(logit: Floats, label: Labels, weight: Floats) -> Floats:
    """``(E,)`` weighted cross-entropy after a logistic regression on the logits: the temperature comes later."""
    slope, intercept = logistic(logit, label, weight)
    return np.asarray(np.logaddexp(0, (1 - 2 * label.astype(np.float64)) * (slope * logit + intercept)) * weight)


def _errors_above(losses: Floats, best: Floats, weight: Floats, group: Integers) -> float:
    """By how many standard errors over groups the loss exceeds the best."""
    difference = losses - best
    mean = difference.sum() / weight.sum()
    of_groups = np.bincount(np.unique(group, return_inverse=True)[1], difference - mean * weight)
    error = float(np.linalg.norm(of_groups) / weight.sum())
    return float(mean / error) if error else math.copysign(math.inf, mean) if mean else 0.0


def _figures(logit: Floats, losses: Floats, label: Labels, weight: Floats) -> tuple[float, float, float]:
    """AUROC, its standard error, and the mean loss."""
    counted = weight > 0
    error = float(np.linalg.norm(auroc_influence(label[counted], logit[counted])))
    return weighted_auroc(label, logit, weight), error, float(losses.sum() / weight.sum())


def _ranking(parts: Sequence[_Part], similarity: Sequence[Floats]) -> float | None:
    """The mean i-AP of the parts with known witnesses; of validation alone, if it has them."""
    of_parts: dict[bool, list[float]] = {True: [], False: []}
    for part, each in zip(parts, similarity, strict=True):
        data = part.held_out
        if data.witness is not None and part.weight.any():
            i_ap = witness_metrics(data.ptr, data.witness, each, data.label)["i_ap"]
            of_parts[part.is_validation] += [] if np.isnan(i_ap) else [float(i_ap)]
    values = of_parts[True] or of_parts[False]
    return float(np.mean(values)) if values else None


def _refitted(variant: Variant, bases: dict[str, Variant | None], train: BagData, seed: int) -> Form:
    """A variant and all that it builds on, fitted to all of train."""
    base = bases[variant[0]]
    start = Form() if base is None else _refitted(base, bases, train, seed)
    return RECIPES[variant[0]].make().fit(train, start, seed)[variant[1]]
