"""Which verifier kept rows belong to: fingerprints of backbone and pooling."""

import hashlib
import json
from typing import TYPE_CHECKING

from miv.io.model_files import add_weights
from miv.registry import options_of

if TYPE_CHECKING:
    from miv.models.verifier import Verifier

_KEPT_SINCE = "0.2.0"  # first version of miv with these kept rows; raise it when a kept form changes


def backbone_fingerprint(verifier: "Verifier") -> str:
    """Equal if equal instances get equal features."""
    form = None if verifier.instances is None else verifier.instances.document()
    return hashlib.sha256(f"{verifier.backbone.fingerprint()} {json.dumps(form)}".encode()).hexdigest()


def verifier_fingerprint(verifier: "Verifier") -> str:
    """Equal if equal exemplars get equal logits. The operating point does not count: it changes no feature."""
    pooling, asking = verifier.pooling, verifier.query_backbone
    made_of = [_KEPT_SINCE, backbone_fingerprint(verifier), type(pooling).__qualname__, options_of(pooling)]
    made_of += [] if asking is None else [asking.fingerprint()]
    digest = hashlib.sha256(json.dumps(made_of, sort_keys=True, default=str).encode())
    add_weights(digest, pooling.state_dict())
    return digest.hexdigest()
