"""Signature verification on SigComp2011, and on folders of the same form."""

from miv.tasks.signature.signature_task import Signature

__all__ = ["Signature"]
