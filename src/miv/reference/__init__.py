"""The plain alternatives to a verifier, scored on the same features: what a training has to beat."""

from miv.reference.plain_figures import Figures, Reference
from miv.reference.scoring import METHODS, reference

__all__ = ["METHODS", "Figures", "Reference", "reference"]
