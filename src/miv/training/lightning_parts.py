"""The parts of Lightning used for training, imported in one place; if it is missing, the error says what to install."""

from miv.errors import needs_extra

with needs_extra("train", "Training", "Lightning"):
    from lightning.fabric.plugins.environments.lightning import LightningEnvironment
    from lightning.fabric.utilities.exceptions import MisconfigurationException
    from lightning.fabric.utilities.rank_zero import rank_zero_only
    from lightning.pytorch import LightningDataModule, LightningModule, Trainer
    from lightning.pytorch.accelerators import AcceleratorRegistry
    from lightning.pytorch.callbacks import Callback, Checkpoint
    from lightning.pytorch.loggers import Logger, TensorBoardLogger
    from lightning.pytorch.strategies import DDPStrategy

with needs_extra("train", "Training", "TensorBoard"):  # the logger would fail only after the run has begun
    import tensorboard as tensorboard

__all__ = [
    "AcceleratorRegistry",
    "Callback",
    "Checkpoint",
    "DDPStrategy",
    "LightningDataModule",
    "LightningEnvironment",
    "LightningModule",
    "Logger",
    "MisconfigurationException",
    "TensorBoardLogger",
    "Trainer",
    "rank_zero_only",
]
