"""The verifier that a run starts with, if it does not start from an earlier one."""

import torch

from miv.backbones.backbone_base import check_kind
from miv.data import InstancePool
from miv.data.instance_form import InstanceForm
from miv.errors import MIVError
from miv.models.verifier import Verifier
from miv.poolings.pooling_base import POOLINGS
from miv.training.config import TrainingConfig
from miv.training.text_choice import check_pooling
from miv.training.token_start import start_tokens

_DEFAULT_BACKBONES = {"image": "compact_cnn", "features": "features"}


def complete(config: TrainingConfig, pool: InstancePool) -> TrainingConfig:
    """Choose the backbone for the data if the settings do not name one."""
    return config.changed({"backbone": _backbone(config, pool)})


def create_verifier(config: TrainingConfig, pool: InstancePool) -> Verifier:
    """Create the verifier to train, with weights initialised from the seed."""
    torch.manual_seed(config.seed)
    backbone = _backbone(config, pool)
    check_pooling(backbone, config.pooling)
    has_heads = "heads" in POOLINGS[config.pooling].options
    pooling_options = {**({"heads": config.heads} if has_heads else {}), **config.pooling_options}
    channels = None
    if backbone == "features":
        check_kind(pool, "features")
        channels = int(pool.values.shape[1])
    form = InstanceForm.of(pool)
    instances = None if form is None else form.document()
    verifier = Verifier(
        config.pooling,
        backbone,
        channels,
        pooling_options,
        config.backbone_options,
        instances,
        config.start,
        query_backbone=config.query_backbone,
    )
    start_tokens(verifier)
    return verifier


def _backbone(config: TrainingConfig, pool: InstancePool) -> str:
    if config.backbone is not None:
        return config.backbone
    if pool.kind not in _DEFAULT_BACKBONES:
        raise MIVError(f"Instances of kind {pool.kind!r} need a backbone. Add --backbone hf:<name or folder>.")
    return _DEFAULT_BACKBONES[pool.kind]
