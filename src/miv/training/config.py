"""Training settings: one dataclass, from a preset, a file and flags, each overriding the one before."""

import json
import math
import re
import tomllib
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from miv.errors import MIVError, unknown_name
from miv.files.json import read_json_object

AUTO = "auto"  # the preset that chooses settings for the data, see miv.training.auto

Names = tuple[str, ...]
LearningRates = tuple[tuple[int, float], ...]  # pairs of a first epoch (counted from 0) and its learning rate
_RATES = ("learning_rates", "frozen_learning_rates", "contrast_learning_rates")


@dataclass(frozen=True)
class TrainingConfig:
    """Training settings.

    Args:
        pooling: pooling name, see `miv poolings`.
        pooling_options: options of the pooling, such as --pooling-options heads=4,norm=post.
        start: similar (a cosine of normalised features, fitted to train and a candidate for the best epoch), or
            paper (the authors' LayerNorm and weights with random signs).
        recipe: how the verifier is fitted to frozen features: select (the best of the recipes on held-out bags), epochs
            (gradient descent, from the selected recipe with the start similar), paper (the same from the start paper),
            or the name of one recipe.
        recipes: comma-separated names of the recipes to select from; default: all.
        without: comma-separated names of recipes to leave out.
        standard_errors: how many standard errors of its held-out loss a simpler recipe may be above the best one.
        heads: number of attention heads, unless pooling_options sets it.
        backbone: compact_cnn, hog, features or hf:<name or folder>; default: chosen for the instances.
        backbone_options: options of the backbone, such as size=large.
        batch_size: number of exemplars per step.
        optimiser: rmsprop (as in Keras), or adamw.
        weight_decay: weight decay of adamw, for matrices and convolutions.
        pull: how strongly adamw pulls weights toward their start, for 1,000 exemplars that share no instance; half as
            many make it four times as strong.
        learning_rates: one rate, or pairs of first epoch and rate, such as --learning-rates 0:1e-4,5:5e-5.
        frozen_learning_rates: learning rates of the frozen stage, if different.
        backbone_learning_rate: highest learning rate of the backbone, in the stages contrast and all. "same" uses one
            rate for everything; "auto" uses 2e-5 for a pretrained encoder (hf:) and one rate otherwise.
        trainable_layers: number of last layers of a transformer encoder (hf:) to train; default: all.
        schedule: steps (the rates in learning_rates), or one_cycle (up to the first rate and down to 0).
        max_epochs: maximum number of epochs per stage.
        select_by: keep the epoch with the best validation accuracy (as in the paper), or the best auroc.
        patience: number of epochs without improvement after which a stage ends.
        frozen_stage: whether to train everything but the backbone first.
        frozen_patience: patience of the frozen stage.
        frozen_max_epochs: maximum number of epochs of the frozen stage, if different from max_epochs.
        contrast_epochs: number of epochs of an earlier stage in which the backbone learns to find a query's bag among
            others; 0 skips it.
        contrast_batch_size: number of positive exemplars per step of the contrast stage.
        contrast_learning_rates: learning rates of the contrast stage, if different.
        full_stage: whether to train everything in a last stage.
        augmentation: none, or affine: small random shifts, turns and scalings of images while the backbone learns.
        seed: random seed.
    """

    pooling: str = "cap_dba_l2"
    pooling_options: dict[str, Any] = field(default_factory=dict)
    start: Literal["similar", "paper"] = "paper"
    recipe: str = "epochs"
    recipes: Names = ()
    without: Names = ()
    standard_errors: float = 0.5
    heads: int = 2
    backbone: str | None = None
    backbone_options: dict[str, Any] = field(default_factory=dict)
    batch_size: int = 256
    optimiser: Literal["rmsprop", "adamw"] = "rmsprop"
    weight_decay: float = 0.0
    pull: float = 0.0
    learning_rates: LearningRates = ((0, 1e-4),)
    frozen_learning_rates: LearningRates = ()
    backbone_learning_rate: float | Literal["auto", "same"] | None = None
    trainable_layers: int | None = None
    schedule: Literal["steps", "one_cycle"] = "steps"
    max_epochs: int = 500
    select_by: Literal["accuracy", "auroc"] = "accuracy"
    patience: int = 10
    frozen_stage: bool = True
    frozen_patience: int = 2
    frozen_max_epochs: int | None = None
    contrast_epochs: int = 0
    contrast_batch_size: int = 64
    contrast_learning_rates: LearningRates = ()
    full_stage: bool = True
    augmentation: Literal["none", "affine"] = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        types = get_type_hints(type(self))
        for one in fields(self):
            value = _checked(one.name, getattr(self, one.name), types[one.name])
            object.__setattr__(self, one.name, value)
        if self.backbone_learning_rate == "same":  # the spelling in flags and files; None internally
            object.__setattr__(self, "backbone_learning_rate", None)
        for name, smallest in _LEAST.items():
            given = getattr(self, name)
            if given is not None and given < smallest:
                raise MIVError(f"{name} is {given}. Expected {smallest} or more.")
        if self.seed >= 2**63:
            raise MIVError(f"seed is {self.seed}. Expected {2**63 - 1} or less.")
        if not self.frozen_stage and not self.full_stage:
            raise MIVError("frozen_stage and full_stage are both false, so nothing is trained. Expected one or both.")
        rate = self.backbone_learning_rate
        if isinstance(rate, float) and not 0 < rate < 10:
            raise MIVError(f"backbone_learning_rate is {rate}. Expected a rate above 0, such as 2e-5, or auto or same.")
        for name in _RATES:
            rates = getattr(self, name)
            epochs, is_missing = [epoch for epoch, _ in rates], name != "learning_rates" and not rates
            are_sorted = epochs[:1] == [0] and epochs == sorted(set(epochs))
            if not is_missing and not (are_sorted and all(0 < rate < 10 for _, rate in rates)):
                expected = "epochs increasing from 0 with rates above 0, as 0:1e-4,5:5e-5"
                raise MIVError(f"{name} is {rates}. Expected {expected}.")

    def changed(self, changes: dict[str, Any], where: str = "") -> "TrainingConfig":
        """Return the settings with some changed; the error for an unknown name suggests the nearest one."""
        known = [one.name for one in fields(self)]
        for name in changes:
            if name not in known:
                raise unknown_name(f"setting{where}", name, known)
        try:
            return replace(self, **changes)
        except MIVError as error:
            raise MIVError(f"{error}{f' (given{where})' if where else ''}") from error

    def changes(self) -> dict[str, Any]:
        """The settings that differ from their defaults."""
        default = vars(TrainingConfig())
        return {name: value for name, value in vars(self).items() if value != default[name]}

    def document(self) -> dict[str, Any]:
        """The settings as plain JSON values."""
        lists = {name: [list(pair) for pair in getattr(self, name)] for name in _RATES}
        return {**asdict(self), **lists, "recipes": list(self.recipes), "without": list(self.without)}

    def for_stage(self, name: str) -> "TrainingConfig":
        """The settings with the learning rates, maximum epochs and batches of a stage."""
        if name == "frozen":
            rates, epochs = self.frozen_learning_rates or self.learning_rates, self.frozen_max_epochs or self.max_epochs
            return replace(self, backbone_learning_rate=None, learning_rates=rates, max_epochs=epochs)
        if name == "contrast":
            rates = self.contrast_learning_rates or self.learning_rates
            if isinstance(self.backbone_learning_rate, float):  # only the backbone learns here
                factor = self.backbone_learning_rate / rates[0][1]
                rates = tuple((epoch, rate * factor) for epoch, rate in rates)
            epochs, size = self.contrast_epochs, self.contrast_batch_size
            return replace(self, backbone_learning_rate=None, learning_rates=rates, max_epochs=epochs, batch_size=size)
        return self


def read_settings(path: Path) -> dict[str, Any]:
    """Read settings from a ``.toml`` file, or from the ``config.json`` of a run, without those that no longer exist.

    In a ``.toml`` file a name may be spelled like the flag, ``max-epochs``, and a value as text, ``"0:1e-4,5:5e-5"``.
    """
    if path.suffix == ".json":
        written = read_json_object(path, "Expected the config.json of a run, or a .toml file of settings.")
        return {name: value for name, value in written.items() if name not in _REMOVED}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MIVError(f"Could not read {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise MIVError(f"{path} is not TOML: {error}.") from error
    named = {name.replace("-", "_"): value for name, value in found.items()}
    return {name: parse_setting(name, value) if isinstance(value, str) else value for name, value in named.items()}


def parse_setting(name: str, text: str) -> Any:
    """Convert the text of a flag to the type of the setting.

    >>> parse_setting("learning_rates", "0:1e-3,5:5e-4")
    ((0, 0.001), (5, 0.0005))
    >>> parse_setting("pooling_options", "heads=4,norm=post")
    {'heads': 4, 'norm': 'post'}
    """
    if name == "backbone_learning_rate":
        try:
            return float(text)
        except ValueError:
            return text  # a word; the settings check it
    if name.endswith("learning_rates"):
        try:
            pairs = [pair.split(":") if ":" in pair else ["0", pair] for pair in text.split(",")]
            return tuple((int(epoch), float(rate)) for epoch, rate in pairs)
        except ValueError as error:
            raise MIVError(f"{name} is {text!r}. Expected epoch:rate pairs, such as 0:1e-4,5:5e-5.") from error
    if name.endswith("_options"):
        return parse_options(re.split(r",(?=\s*[A-Za-z_]\w*=)", text), name)  # not at commas within a list
    return text


def parse_options(texts: list[str], where: str) -> dict[str, Any]:
    """Read ``key=value`` texts; values that look like numbers, true or false are converted.

    >>> parse_options(["size=large", "heads=4", "projection=True"], "an option")
    {'size': 'large', 'heads': 4, 'projection': True}
    """
    options = {}
    for text in texts:
        key, equals, value = text.strip().partition("=")
        if not key or not equals:
            raise MIVError(f"{where} is {text!r}. Expected key=value, such as heads=4.")
        try:
            options[key] = json.loads(value.lower() if value in ("True", "False") else value)
        except ValueError:
            options[key] = value
    return options


def _checked(name: str, value: Any, wanted: Any) -> Any:
    """Convert the value to the type of the setting, or raise an error that says what was expected."""
    words: list[str] = []  # allowed besides a number
    if get_origin(wanted) in (Union, UnionType):
        wanted, *others = [part for part in get_args(wanted) if part is not type(None)]
        words = [word for part in others for word in get_args(part)]
        if value is None or value in words:
            return value
    wanted, expected = get_origin(wanted) or wanted, get_args(wanted)
    if wanted is Literal:
        if value not in expected:
            raise unknown_name(f"{name} named", str(value), expected)
        return value
    if wanted is tuple and expected[0] is str:
        names = value.replace(",", " ").split() if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not all(isinstance(each, str) for each in names):
            raise MIVError(f"{name} is {value!r}. Expected names, such as nearest,cap.")
        return tuple(names)
    if wanted is tuple:
        is_rate = isinstance(value, (int, float)) and not isinstance(value, bool)
        pairs = [(0, value)] if is_rate else value if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
            raise MIVError(f"{name} is {value!r}. Expected pairs of an epoch and a rate, as [[0, 1e-4], [5, 5e-5]].")
        return tuple((_checked(name, epoch, int), _checked(name, rate, float)) for epoch, rate in pairs)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 10**308 else math.inf
    if name == "backbone" and callable(value):  # a module or its class, as Verifier takes it
        raise MIVError(
            'backbone is a module. A run needs its name: register the class with @miv.register_backbone("my_backbone") '
            'and pass backbone="my_backbone"; or train a verifier with it: start_from=Verifier(backbone=module).'
        )
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise MIVError(f"{name} is {value!r}. Expected {_WORDS[wanted]}{', or ' * bool(words)}{' or '.join(words)}.")
    if wanted is float and not math.isfinite(value):
        raise MIVError(f"{name} is {value}. Expected a finite number.")
    return _as_json(name, value) if wanted is dict else value


def _as_json(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options as stored in ``config.json``, with tuples as lists, so that a run recognises its own settings."""
    try:
        as_written: dict[str, Any] = json.loads(json.dumps(options, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise MIVError(f"{name} is {options!r}. Expected numbers, strings, true, false and lists of these.") from error
    return as_written


# Settings of runs of 0.1 that have no effect any more.
_OLD = "align_epochs align_learning_rate bucket contrast_temperature grouping precision query_backbone warmup"
_REMOVED = frozenset(_OLD.split())
_COUNTS = "heads batch_size max_epochs patience frozen_patience frozen_max_epochs trainable_layers"
_LEAST = {
    **dict.fromkeys(_COUNTS.split(), 1),
    **dict.fromkeys(("seed", "weight_decay", "contrast_epochs", "pull", "standard_errors"), 0),
    "contrast_batch_size": 2,
}
_WORDS = {int: "a whole number", float: "a number", str: "a string", bool: "true or false", dict: "key = value pairs"}
