"""How a logit becomes an answer: scaling, threshold, and the rule for witnesses. `calibration` fits them."""

from miv.decisions.operating_point import OperatingPoint

__all__ = ["OperatingPoint"]
