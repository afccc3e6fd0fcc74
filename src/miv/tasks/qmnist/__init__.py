"""Handwriting verification on QMNIST."""

from miv.tasks.qmnist.qmnist_task import Qmnist

__all__ = ["Qmnist"]
