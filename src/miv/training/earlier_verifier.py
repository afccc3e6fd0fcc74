"""Start training from the weights of an earlier verifier."""

import json
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from miv.data import InstancePool
from miv.data.instance_form import InstanceForm
from miv.decisions.operating_point import OperatingPoint
from miv.errors import MIVError
from miv.io.model_files import hash_of_weights
from miv.models.verifier import Verifier
from miv.poolings.pooling_base import POOLINGS
from miv.training.config import TrainingConfig

# Settings that define a verifier's architecture; with a start, all of them come from it.
_MODEL_SETTINGS = ("pooling", "pooling_options", "heads", "backbone", "backbone_options")
# Options that a saved backbone has only because its weights are in the verifier's file.
_WITHOUT_WEIGHTS = ("config", "pretrained")


@dataclass(frozen=True)
class EarlierVerifier:
    """The verifier that training starts from.

    Args:
        name: the name given by the user.
        verifier: the verifier with its weights.
        weights: hash of the weights, so that a run cannot resume from another start.
    """

    name: str
    verifier: Verifier
    weights: str

    @classmethod
    def read(cls, name: str | Path) -> "EarlierVerifier":
        """Load a run, a verifier folder, a name on the hub, or a verifier that ships with the package."""
        verifier = Verifier.from_pretrained(name).float()
        verifier.operating_point = OperatingPoint.default()  # the old one was calibrated for other weights
        verifier.unlike = None
        return cls(str(name), verifier, hash_of_weights(verifier.state_dict()))

    @classmethod
    def of(cls, given: "str | PathLike[str] | Verifier") -> "EarlierVerifier":
        """Read a verifier by name or folder, or copy one that is in memory."""
        if isinstance(given, str | PathLike):
            return cls.read(os.fspath(given))
        if not isinstance(given, Verifier):
            raise MIVError(
                f"start_from is a {type(given).__name__}. Expected a Verifier, a run, the folder of a verifier, or a "
                "name."
            )
        verifier = deepcopy(given).float()
        verifier.operating_point, verifier.unlike = OperatingPoint.default(), None
        return cls("a verifier in memory", verifier, hash_of_weights(verifier.state_dict()))

    def copy(self) -> Verifier:
        """Return a verifier with the same weights, ready to train."""
        return deepcopy(self.verifier).train()

    def document(self) -> dict[str, str]:
        """What ``run.json`` records about it."""
        return {"name": self.name, "weights": self.weights}

    def adopted(self, config: TrainingConfig, given: Mapping[str, Any] | None = None) -> TrainingConfig:
        """Return the settings with the pooling, backbone and options of this verifier.

        Args:
            config: the settings.
            given: settings chosen by the user, which must match the verifier; by default all that differ from
                their default.
        """
        own = self.verifier.configuration
        if given is None:
            default = TrainingConfig()
            given = {n: getattr(config, n) for n in _MODEL_SETTINGS if getattr(config, n) != getattr(default, n)}
        else:
            self._compare("start", given.get("start"), own["start"])
        pooling_options, backbone_options = dict(own["pooling_options"]), dict(own["backbone_options"])
        known = POOLINGS[own["pooling"]].options
        defaults = {name: option.default for name, option in known.items()}
        for name in ("pooling", "backbone"):
            self._compare(name, given.get(name), own[name])
        heads = pooling_options.get("heads", defaults.get("heads"))
        if "heads" in known:
            self._compare("heads", given.get("heads"), heads)
        for name, value in (given.get("pooling_options") or {}).items():
            self._compare(f"{name} in pooling_options", value, pooling_options.get(name, defaults.get(name)))
        for name, value in (given.get("backbone_options") or {}).items():
            self._compare(f"{name} in backbone_options", value, backbone_options.get(name))
        model = {"pooling": own["pooling"], "pooling_options": pooling_options, "backbone": own["backbone"]}
        model["backbone_options"] = {n: value for n, value in backbone_options.items() if n not in _WITHOUT_WEIGHTS}
        model |= {"heads": heads} if "heads" in known else {}
        # A verifier with the paper's LayerNorm has no map to learn.
        model |= {"start": own["start"], "align_epochs": config.align_epochs if own["start"] == "similar" else 0}
        return config.changed(model)

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
        steps_differ = form.steps is not None and own.steps is not None and form.steps != own.steps
        if form.shape != own.shape or steps_differ:
            raise MIVError(
                f"The images are {_words(form)}, but training starts from {self.name}, which was trained on images "
                f"of {_words(own)}. Build the data with such images, or start from another verifier."
            )


def _words(form: InstanceForm) -> str:
    made = f", made by: {', '.join(form.steps)}" if form.steps else ""
    return f"{form.height} × {form.width} pixels in {'colour' if form.mode == 'RGB' else 'grey'}{made}"
