"""What a calibration fits: a scaling by its held-out log loss, witness rules, and the remaining calibration error."""

import math
from dataclasses import dataclass

import numpy as np

from miv.backbones.cache import embed_instances
from miv.data import ExemplarSet, csr
from miv.errors import MIVError, unknown_name
from miv.evaluation.clusters import clusters_of, folds_of
from miv.evaluation.metrics import auroc_error, weighted_auroc
from miv.evaluation.predicting import Predictions, embedded_exemplars
from miv.files.arrays import Floats, Integers, Labels, Mask, Vectors
from miv.runtime import Progress
from miv.verifier.decisions import ConformalRule, witness_score
from miv.verifier.engine import reference_logits
from miv.verifier.network import Verifier
from miv.verifier.references import ReferenceRule
from miv.verifier.scalings import SCALINGS, Identity, Platt, Scaling, Temperature

_FOLDS = 5
_LEAST_PROBABILITY = 1e-15  # a logit of 40 gives a probability of 1, which could have an infinite log loss


@dataclass(frozen=True, eq=False)
class ScalingChoice:
    """A fitted scaling, and the log loss of all candidates."""

    scaling: Scaling  # fitted to all exemplars
    held_out: Floats  # (E,) probabilities, each from a scaling of the same kind fitted to other exemplars
    log_loss: dict[str, float]  # mean held-out log loss by name of scaling


def choose_scaling(
    logit: Floats, label: Labels, name: str = "auto", cluster: Integers | None = None, words: str = "queries"
) -> ScalingChoice:
    """Fit a scaling by name, or with ``auto`` the simplest one with a cross-validated log loss near the lowest.

    Near means within one standard error of the difference, so that chance does not favour the most flexible. The order
    from simple to flexible is none, temperature, platt. Exemplars of the same ``cluster`` ``(E,)`` are in the same
    fold; without it, all are independent. ``words`` names the clusters in errors.
    """
    if name != "auto" and name not in SCALINGS:
        raise unknown_name("scaling", name, ["auto", *SCALINGS])
    cluster = np.arange(len(label)) if cluster is None else cluster
    folds = folds_of(label, cluster, _FOLDS, words)
    held_out: dict[str, Floats] = {}
    for candidate in SCALINGS:
        held_out[candidate] = np.zeros(len(logit))
        for fold in np.unique(folds):
            outside = folds == fold
            fitted = fit_scaling(candidate, logit[~outside], label[~outside])
            held_out[candidate][outside] = fitted.probability(logit[outside])
    losses = {candidate: _log_losses(label, probability) for candidate, probability in held_out.items()}
    chosen = _simplest_near_best(losses, cluster) if name == "auto" else name
    means = {candidate: float(of_exemplars.mean()) for candidate, of_exemplars in losses.items()}
    return ScalingChoice(fit_scaling(chosen, logit, label), held_out[chosen], means)


def _simplest_near_best(losses: dict[str, Floats], cluster: Integers) -> str:
    best = min(losses.values(), key=lambda of_exemplars: float(of_exemplars.mean()))
    for candidate, of_exemplars in losses.items():  # from simple to flexible
        worse = of_exemplars - best  # (E,)
        of_clusters = np.bincount(cluster, worse - worse.mean())
        if worse.sum() <= np.sqrt((of_clusters**2).sum()):
            return candidate
    raise AssertionError("the best is near itself")


def fit_scaling(name: str, logit: Floats, label: Labels) -> Scaling:
    """Fit a scaling by name to logits and labels ``(E,)``."""
    if name == Identity.name:
        return Identity()
    slope, offset = _fit_sigmoid(logit, label, with_offset=name == Platt.name)
    return Platt(slope, offset) if name == Platt.name else Temperature(1 / slope)


def _log_losses(label: Labels, probability: Floats) -> Floats:
    """Negative log probability of the true label, ``(E,)``."""
    of_truth = np.where(label == 1, probability, 1 - probability)
    return np.asarray(-np.log(np.maximum(of_truth, _LEAST_PROBABILITY)))


def _fit_sigmoid(logit: Floats, label: Labels, *, with_offset: bool) -> tuple[float, float]:
    r"""Minimise the log loss of :math:`\sigma(e^u z + b)` over ``u`` and, optionally, ``b``.

    The slope is an exponential, so the order never changes. The targets are Platt's, slightly off 0 and 1: if the
    classes do not overlap, plain labels would need an infinite slope.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    positives = int((label == 1).sum())
    target = np.where(label == 1, (positives + 1) / (positives + 2), 1 / (len(label) - positives + 2))

    def loss(parameters: Floats) -> tuple[float, Floats]:
        slope = np.exp(parameters[0])
        z = slope * logit + parameters[1]
        error = (expit(z) - target) / len(z)  # gradient of the mean log loss with respect to z
        value = float((np.logaddexp(0, z) - target * z).mean())
        return value, np.array([slope * (error @ logit), error.sum() if with_offset else 0.0])

    bounds = [(-10.0, 10.0), (-100.0, 100.0) if with_offset else (0.0, 0.0)]
    slope, offset = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=bounds).x
    return float(np.exp(slope)), float(offset)


# Is the score a probability?

BINS = 15


def expected_calibration_error(label: Labels, probability: Floats) -> float:
    r"""Return :math:`\sum_b \frac{n_b}{E} |\bar y_b - \bar p_b|` over 15 bins of equal width (Guo et al. 2017).

    >>> expected_calibration_error(np.array([1, 1, 0, 0]), np.array([0.9, 0.9, 0.1, 0.1])).__round__(3)
    0.1
    """
    place = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(place, label - probability, BINS)
    return float(np.abs(gaps).sum() / len(label))


# Fit a witness rule with a guarantee to known witnesses.


class TooFewWitnessesError(MIVError):
    """There are too few known witnesses for a guarantee."""


def fit_witness_rule(predictions: Predictions, probability: Floats, epsilon: float) -> ConformalRule:
    r"""Find the highest threshold with few enough witnesses of positive exemplars below it.

    Witnesses of one bag depend on each other, and so do bags of the same query. The guarantee assumes exchangeable
    queries, by conformal risk control (Angelopoulos et al. 2024): with :math:`W` witnesses in total, and at most
    :math:`w` per query (per bag, if queries are unknown), :math:`m` may be missed, where

    .. math:: m + (1 - \varepsilon) \, w \le \varepsilon \, W .

    Then, on average over calibration and new data, at most a share :math:`\varepsilon` of new witnesses is missed.
    The method needs a bound :math:`w` known in advance; here it is the highest count in the data, so queries with more
    witnesses are not covered. With one witness per query, this is split conformal prediction with the usual
    finite-sample correction. Half as many witnesses must be enough too: a rule as low as the lowest witness marks
    nearly everything.
    """
    p = predictions
    if p.attention is None or p.witness is None:
        raise MIVError("The predictions lack attention or witnesses. Calibrating a witness rule needs both.")
    true = csr.to_rows(p.label == 1, p.ptr) & p.witness
    query = np.arange(len(p)) if p.query is None else clusters_of(p, "query")
    most = max(1, int(np.bincount(csr.to_rows(query, p.ptr), true, minlength=1).max()))
    scores = witness_score(probability, p.attention, p.ptr)[true]
    if not 0 < epsilon < 1:
        raise MIVError(f"epsilon is {epsilon:g}. Expected a share of witnesses between 0 and 1, such as 0.1.")
    # Round first: 0.1 · 29 − 0.9 · 1 is 2.0000000000000004 or 1.9999999999999998, but should be 2.
    missed = math.floor(round(epsilon * len(scores) - (1 - epsilon) * most, 9))
    if math.floor(round(epsilon * len(scores) / 2 - (1 - epsilon) * most, 9)) < 0:
        needed = math.ceil(round(2 * (1 - epsilon) * most / epsilon, 9))
        together = "in one bag" if p.query is None else "of one query"
        raise TooFewWitnessesError(
            f"{100 * (1 - epsilon):.4g}% coverage cannot be guaranteed with {len(scores):,} known witnesses, "
            f"up to {most} {together}. Expected at least {needed:,}. Add data, or increase --epsilon."
        )
    return ConformalRule(float(np.partition(scores, missed)[missed]), epsilon)


def shares_of_bags(predictions: Predictions, decided: Mask) -> dict[str, float | None]:
    """The share of a positive bag of two or more that the sets ``decided`` ``(T,)`` mark, and the true share."""
    sizes = predictions.bag_sizes
    of = (predictions.label == 1) & (sizes > 1)
    masks = {"marked": decided, "true": np.asarray(predictions.witness)}
    by_bag = {name: (csr.bag_sums(mask, predictions.ptr) / sizes)[of] for name, mask in masks.items()}
    return {name: float(shares.mean()) if len(shares) else None for name, shares in by_bag.items()}


# How the logits of several references of a query are combined.

_ENOUGH = 200  # exemplars; with fewer, the AUROC of two rules differs by chance
SHARPNESS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 256.0)  # the mean of the logits to, nearly, their maximum
MEAN_SHARE = (0.0, 0.25, 0.5, 0.75, 1.0)


def fit_reference_rule(
    verifier: Verifier, exemplars: ExemplarSet, features: Vectors | None = None, progress: Progress | None = None
) -> ReferenceRule | None:
    """Set the rule with the highest AUROC; return it, or ``None`` if no query has several references.

    The grid contains the mean logit, the mean feature and nearly the max logit. With few exemplars, the verifier's rule
    stays unless another is better by more than a standard error of the difference.
    """
    if not exemplars.has_references or exemplars.label.min() == exemplars.label.max():
        return None
    if features is None:
        features = embed_instances(verifier.backbone, exemplars.pool, exemplars.used, progress)
    logit, of_mean = reference_logits(verifier, embedded_exemplars(exemplars, features), progress)
    own = verifier.reference_rule
    unit = getattr(verifier.operating_point.scaling, "temperature", 1.0)  # of the logits
    rules = [own, *(ReferenceRule(sharp / unit, share) for sharp in SHARPNESS for share in MEAN_SHARE)]
    scores = [rule.of_ragged(logit, of_mean, exemplars.all_references[0]) for rule in rules]
    aurocs = [weighted_auroc(exemplars.label, score, exemplars.weight) for score in scores]
    best = int(np.argmax(aurocs))
    needed = 0.0 if len(exemplars) >= _ENOUGH else auroc_error(exemplars.label, scores[best], scores[0])
    verifier.set_reference_rule(rules[best] if aurocs[best] - aurocs[0] > needed else own)
    return verifier.reference_rule
