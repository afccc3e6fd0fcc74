"""Softens a trained verifier whose answers are too sure, before it is evaluated and saved."""

from dataclasses import replace

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from miv.data import ExemplarSet, csr
from miv.decisions.reference_rule import SHARPEST
from miv.io.checked_values import Floats
from miv.models.verifier import Verifier
from miv.poolings.similar import ScaledProduct

_HIGHEST = 5.0  # temperature
_SPREAD = 0.5  # of the logarithm of a temperature, before any bag was seen
_CLEAR = 1.0  # standard errors
_FEWEST = 30  # exemplars: eight honest ones look too sure by a standard error in one of five draws


def can_soften(verifier: Verifier, exemplars: ExemplarSet) -> bool:
    """Whether the verifier has the scale of ``start="similar"`` and learns, and the exemplars are enough to tell."""
    learns = isinstance(verifier.pooling.similarity, ScaledProduct) and verifier.pooling.learns
    return learns and len(exemplars) >= _FEWEST and bool(exemplars.label.min() < exemplars.label.max())


def soften(verifier: Verifier, exemplars: ExemplarSet, logit: Floats) -> float | None:
    r"""Divide the logits by a temperature if held-out bags show that they are too large; return the temperature.

    The temperature has the lowest cross-entropy of these bags, with a normal prior for its logarithm:

    .. math:: \min_{T \ge 1} \sum_e L(y_e, \ell_e / T) + \frac{(\log T)^2}{2 \cdot 0.5^2}

    A map and a head that are fitted to a few hundred bags know these, and are too sure of new ones. The temperature is
    never below 1, because nothing makes them too modest, and it is 1 (``None``) unless the gain is clear. Verdicts at
    0.5, AUROC, attention and the ranks of witnesses do not change. The rule that combines references gets the sharpness
    that gives the same verdicts as before.

    Args:
        verifier: changed in place; see ``can_soften``.
        exemplars: ``E`` exemplars that nothing was fitted to.
        logit: ``(R,)`` the verifier's answers to each of their references.
    """
    similarity = verifier.pooling.similarity
    if not isinstance(similarity, ScaledProduct) or not can_soften(verifier, exemplars):
        return None
    ptr = exemplars.all_references[0]
    owner = csr.owners(ptr)  # (R,)
    weight = np.ones(len(exemplars)) if exemplars.weight is None else exemplars.weight / exemplars.weight.mean()
    weight = (weight / np.diff(ptr))[owner]  # (R,)
    sign = 1 - 2 * exemplars.label[owner].astype(np.float64)  # (R,)

    def losses(temperature: float) -> Floats:
        each = np.logaddexp(0, sign * logit / temperature) * weight  # (R,)
        return np.asarray(np.bincount(owner, each), np.float64)  # (E,)

    def objective(logarithm: float) -> float:
        return float(losses(np.exp(logarithm)).sum() + (logarithm / _SPREAD) ** 2 / 2)

    found = minimize_scalar(objective, bounds=(0.0, np.log(_HIGHEST)), method="bounded")
    temperature = float(np.exp(found.x))
    gain = losses(1.0) - losses(temperature)  # (E,)
    if not gain.mean() > _CLEAR * gain.std() / np.sqrt(len(gain)):
        return None
    with torch.no_grad():
        similarity.scale.div_(temperature)
        similarity.intercept.div_(temperature)
    rule = verifier.reference_rule
    verifier.set_reference_rule(replace(rule, sharpness=min(rule.sharpness * temperature, SHARPEST)))
    return temperature
