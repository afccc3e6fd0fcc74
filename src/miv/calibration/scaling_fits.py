"""Fit scalings to labels, and choose one by its log loss on held-out exemplars."""

from dataclasses import dataclass

import numpy as np

from miv.calibration.query_clusters import folds_of
from miv.decisions.scalings import SCALINGS, Identity, Isotonic, Platt, Scaling, Temperature
from miv.errors import unknown_name
from miv.io.checked_values import Floats, Integers, Labels

_FOLDS = 5
_LEAST_PROBABILITY = 1e-15  # a logit of 40 gives a probability of 1, which could have an infinite log loss


@dataclass(frozen=True, eq=False)
class ScalingChoice:
    """A fitted scaling, and the log loss of all candidates.

    Args:
        scaling: fitted to all exemplars.
        held_out: ``(E,)`` probabilities, each from a scaling of the same kind fitted to other exemplars.
        log_loss: mean held-out log loss by name of scaling.
    """

    scaling: Scaling
    held_out: Floats
    log_loss: dict[str, float]


def choose_scaling(
    logit: Floats,
    label: Labels,
    name: str = "auto",
    seed: int = 0,
    cluster: Integers | None = None,
    words: str = "queries",
) -> ScalingChoice:
    """Fit a scaling by name, or with ``auto`` the simplest one with a cross-validated log loss near the lowest.

    Near means within one standard error of the difference, so that chance does not favour the most flexible. The order
    from simple to flexible is none, temperature, platt, isotonic. Exemplars of the same ``cluster`` ``(E,)`` are in
    the same fold; without it, all are independent. ``words`` names the clusters in errors.
    """
    if name != "auto" and name not in SCALINGS:
        raise unknown_name("scaling", name, ["auto", *SCALINGS])
    cluster = np.arange(len(label)) if cluster is None else cluster
    folds = folds_of(label, cluster, _FOLDS, seed, words)
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
    if name == Temperature.name:
        slope, _ = _fit_sigmoid(logit, label, with_offset=False)
        return Temperature(1 / slope)
    if name == Platt.name:
        slope, offset = _fit_sigmoid(logit, label, with_offset=True)
        return Platt(slope, offset)
    return _fit_isotonic(logit, label) if name == Isotonic.name else Identity()


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
    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=bounds)
    return float(np.exp(found.x[0])), float(found.x[1])


def _fit_isotonic(logit: Floats, label: Labels) -> Isotonic:
    """Centred isotonic regression (Oron and Flournoy 2017), which has no flat stretches, unlike the plain one.

    Each stretch becomes one point at its mean logit, with straight lines between the points. No probability is 0
    or 1; from the first and last point the line continues to the ends of the data, halving the distance to 0 or 1.
    """
    from sklearn.isotonic import IsotonicRegression

    least = 1 / (len(label) + 2)
    fitted = IsotonicRegression(y_min=least, y_max=1 - least).fit(logit, label).predict(logit)
    levels, stretch = np.unique(fitted, return_inverse=True)  # (K,), (E,)
    centres = np.bincount(stretch, logit) / np.bincount(stretch)  # (K,)
    rising = np.concatenate([[True], centres[1:] > np.maximum.accumulate(centres)[:-1]])  # rounding may make two equal
    points = list(zip(centres[rising].tolist(), levels[rising].tolist(), strict=True))
    if logit.min() < points[0][0]:
        points.insert(0, (float(logit.min()), points[0][1] / 2))
    if logit.max() > points[-1][0]:
        points.append((float(logit.max()), (1 + points[-1][1]) / 2))
    return Isotonic(*zip(*points, strict=True))
