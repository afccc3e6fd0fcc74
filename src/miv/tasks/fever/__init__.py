"""Fact verification: FEVER, its development set, and claims in JSON lines."""

from miv.tasks.fever.claims_task import Claims
from miv.tasks.fever.evidence_task import Evidence
from miv.tasks.fever.fever_dev_task import FeverDev
from miv.tasks.fever.fever_task import Fever

__all__ = ["Claims", "Evidence", "Fever", "FeverDev"]
