"""From user input to verdicts: collect the instances, embed each distinct one once, pool, decide."""

from miv.inference.verdict import Verdict, Verdicts, Witness

__all__ = ["Verdict", "Verdicts", "Witness"]
