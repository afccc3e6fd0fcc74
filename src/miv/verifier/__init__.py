"""From user input to verdicts: the verifier, its files, and what turns its logits into answers."""

from typing import TYPE_CHECKING

from miv.registry import lazy_exports

if TYPE_CHECKING:
    from miv.verifier.decisions import OperatingPoint as OperatingPoint
    from miv.verifier.network import Verification as Verification, Verifier as Verifier
    from miv.verifier.references import ReferenceRule as ReferenceRule
    from miv.verifier.verdict import Verdict as Verdict, Verdicts as Verdicts, Witness as Witness

_HOMES = {
    "OperatingPoint": "miv.verifier.decisions",
    "ReferenceRule": "miv.verifier.references",
    "Verdict": "miv.verifier.verdict",
    "Verdicts": "miv.verifier.verdict",
    "Verification": "miv.verifier.network",
    "Verifier": "miv.verifier.network",
    "Witness": "miv.verifier.verdict",
}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
