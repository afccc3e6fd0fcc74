"""A learning rate that does not destroy what a pretrained encoder knows."""

from miv.backbones.backbone_names import is_pretrained
from miv.training.config import TrainingConfig

# What encoders are usually fine-tuned with under AdamW (Devlin et al. 2019: 2e-5 to 5e-5).
SAFE_RATE = 2e-5


def settle_backbone_rate(config: TrainingConfig, *, is_trained: bool = False) -> TrainingConfig:
    """Put a rate, or one for all, in the place of ``auto``, so that a run records what it was trained with.

    Args:
        config: the settings, with a backbone.
        is_trained: whether its weights come from an earlier verifier.

    >>> settings = TrainingConfig(backbone="hf:minilm", backbone_learning_rate="auto", learning_rates=((0, 1e-3),))
    >>> settle_backbone_rate(settings).backbone_learning_rate
    2e-05
    >>> settle_backbone_rate(settings.changed({"backbone": "compact_cnn"})).backbone_learning_rate is None
    True
    """
    if config.backbone_learning_rate != "auto":
        return config
    # A network that was from nothing in its own training is pretrained in the next, if its kind ever is.
    options = {} if is_trained else config.backbone_options
    rate = min(SAFE_RATE, config.learning_rates[0][1]) if is_pretrained(config.backbone or "", options) else None
    return config.changed({"backbone_learning_rate": rate})
