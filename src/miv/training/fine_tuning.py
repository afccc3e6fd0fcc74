"""A learning rate that preserves what a pretrained encoder knows."""

from miv.backbones.backbone_names import is_pretrained
from miv.training.config import TrainingConfig

# Usual rate for fine-tuning encoders with AdamW (Devlin et al. 2019: 2e-5 to 5e-5).
SAFE_RATE = 2e-5


def settle_backbone_rate(config: TrainingConfig, *, is_trained: bool = False) -> TrainingConfig:
    """Replace ``auto`` with the actual rate, so that a run records what it was trained with.

    Args:
        config: settings with a backbone.
        is_trained: whether its weights come from an earlier verifier.

    >>> settings = TrainingConfig(backbone="hf:minilm", backbone_learning_rate="auto", learning_rates=((0, 1e-3),))
    >>> settle_backbone_rate(settings).backbone_learning_rate
    2e-05
    >>> settle_backbone_rate(settings.changed({"backbone": "compact_cnn"})).backbone_learning_rate is None
    True
    """
    if config.backbone_learning_rate != "auto":
        return config
    # A network trained from scratch counts as pretrained in the next run, if its kind can be pretrained.
    options = {} if is_trained else config.backbone_options
    rate = min(SAFE_RATE, config.learning_rates[0][1]) if is_pretrained(config.backbone or "", options) else None
    return config.changed({"backbone_learning_rate": rate})
