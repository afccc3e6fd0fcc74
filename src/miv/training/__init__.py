"""Training: two stages on Lightning, each instance embedded once, and runs that can be stopped and resumed."""

from miv.training.config import TrainingConfig

__all__ = ["TrainingConfig"]
