"""Softens a trained verifier whose answers are too sure, before it is evaluated and saved."""

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from miv.data import ExemplarSet
from miv.io.checked_values import Floats
from miv.models.verifier import Verifier
from miv.poolings.similar import ScaledProduct

_HIGHEST = 5.0  # the largest temperature
_SPREAD = 0.5  # of the logarithm of a temperature, before any bag was seen
_CLEAR = 1.0  # standard errors


def soften(verifier: Verifier, exemplars: ExemplarSet, logit: Floats) -> float | None:
    r"""Divide the logits by a temperature if held-out bags show that they are too large; return the temperature.

    The temperature has the lowest cross-entropy of these bags, with a normal prior for its logarithm:

    .. math:: \min_{T \ge 1} \sum_e L(y_e, \ell_e / T) + \frac{(\log T)^2}{2 \cdot 0.5^2}

    A map and a head that are fitted to a few hundred bags know these, and are too sure of new ones. The temperature is
    never below 1, because nothing makes them too modest, and it is 1 (``None``) unless the gain is clear by a standard
    error. Verdicts at 0.5, AUROC and witnesses do not change.

    Args:
        verifier: changed in place; one without the scale of ``start="similar"`` is left alone.
        exemplars: that nothing was fitted to; with one label, nothing changes.
        logit: ``(E,)`` the verifier's answers to them.
    """
    similarity = verifier.pooling.similarity
    if not isinstance(similarity, ScaledProduct) or not verifier.pooling.learns:
        return None
    if exemplars.label.min() == exemplars.label.max():
        return None
    weight = np.ones(len(exemplars)) if exemplars.weight is None else exemplars.weight / exemplars.weight.mean()
    sign = 1 - 2 * exemplars.label.astype(np.float64)

    def losses(temperature: float) -> Floats:
        return np.asarray(np.logaddexp(0, sign * logit / temperature) * weight)

    def objective(logarithm: float) -> float:
        return float(losses(np.exp(logarithm)).sum() + (logarithm / _SPREAD) ** 2 / 2)

    found = minimize_scalar(objective, bounds=(0.0, np.log(_HIGHEST)), method="bounded")
    temperature = float(np.exp(found.x))
    gain = losses(1.0) - losses(temperature)  # (E,)
    if gain.mean() <= _CLEAR * gain.std() / np.sqrt(len(gain)):
        return None
    with torch.no_grad():
        similarity.scale.div_(temperature)
        similarity.intercept.div_(temperature)
    return temperature
