"""The files of a verifier: save it, load it from a folder, the package or the model hub."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from miv.backbones import Backbone, ModuleBackbone
from miv.backbones.base import counting_modules
from miv.backbones.names import name_of
from miv.backbones.pairs import JUDGE_FILES, JUDGE_SETTINGS, Judge, read_judge_config
from miv.errors import MIVError, unknown_name
from miv.files.atomic import files_together
from miv.files.cache import folders_near, hub_answers
from miv.files.instances import is_folder
from miv.files.json import read_json_object, write_json
from miv.files.weights import (
    CONFIG_NAME,
    WEIGHTS_NAME,
    add_weights,
    find_verifier,
    read_config,
    read_weights,
    save_weights,
)
from miv.poolings import POOLINGS, Pooling
from miv.registry import import_modules, options_of
from miv.verifier.decisions import OPERATING_POINT_NAME, OperatingPoint
from miv.verifier.network import Verifier
from miv.verifier.out_of_distribution import LIMIT_NAME, OutOfDistributionLimit

_FOLDER = Path(__file__).parent / "shipped_verifiers"
_CHECK = "out_of_distribution"  # SHA-256 of what the file holds
_STARTS = frozenset({"normal_", "uniform_", "fill_", "zero_", "copy_", "mul_"})


@contextmanager
def saving_to(folder: Path, verifier: Verifier, options: dict[str, Any]) -> Iterator[Path]:
    """Yield a temporary folder whose files replace those of a verifier in ``folder``, all or none of them."""
    if "\0" in str(folder):
        raise MIVError(f"The folder {str(folder)!r} has a NUL character in its name. Choose another name.")
    if folder.exists() and not folder.is_dir():
        raise MIVError(f"{folder} is a file. Expected a folder to save the verifier in; choose another name.")
    check_can_be_saved(verifier.backbone, verifier.pooling, verifier.configuration)
    if modules := _own_modules(verifier):
        options.setdefault("config", {**verifier.configuration, "modules": modules})
    if options.get("push_to_hub"):
        options.setdefault("repo_id", folder.name)  # not the name of the temporary folder
    # An existing operating point and limit belong to the previous verifier.
    others = [OPERATING_POINT_NAME, LIMIT_NAME, JUDGE_SETTINGS]
    with files_together(folder, keep=["README.md"], remove=others) as temporary:
        yield temporary


def write_files(verifier: Verifier, folder: Path) -> None:
    """Write everything but ``config.json``: weights, files of the backbones, operating point and limit."""
    judge = judge_folder(verifier)
    if judge is not None:
        for name in JUDGE_FILES:
            if (judge / name).is_file():
                shutil.copyfile(judge / name, folder / name)
    else:
        save_weights(folder / WEIGHTS_NAME, verifier.state_dict())
        verifier.backbone.save_files(folder)
    if verifier.operating_point != OperatingPoint.default():
        verifier.operating_point.save(folder)
    if verifier.unlike is not None:
        verifier.unlike.save(folder)


def judge_folder(verifier: Verifier) -> Path | None:
    """The folder of a judge whose small files, with its thresholds, hold all of a verifier; ``None`` after training."""
    folder = verifier.backbone.folder if isinstance(verifier.backbone, Judge) else None
    if folder is None:
        return None
    as_loaded = Verifier("nearest", "judge", backbone_options={"folder": str(folder)})
    return folder if verifier_fingerprint(verifier) == verifier_fingerprint(as_loaded) else None


def save_decisions(folder: Path, point: OperatingPoint, limit: OutOfDistributionLimit | None) -> None:
    """Replace the operating point and the out-of-distribution check of a saved verifier, both or none of them."""
    config = read_json_object(folder / CONFIG_NAME, "")
    with files_together(folder, remove=[LIMIT_NAME]) as temporary:
        point.save(temporary)
        if limit is not None:
            limit.save(temporary)
        write_json(
            temporary / CONFIG_NAME,
            {name: value for name, value in config.items() if name != _CHECK} | check_entry(limit),
        )


def check_entry(limit: OutOfDistributionLimit | None) -> dict[str, Any]:
    """The entry in ``config.json`` by which the loss of a verifier's check is noticed."""
    return {} if limit is None else {_CHECK: limit.fingerprint}


def load_verifier(
    make: type[Verifier], source: str, device: str | torch.device | None, options: dict[str, Any]
) -> Verifier:
    """Load a verifier; see ``Verifier.from_pretrained``."""
    wanted = checked_device(device)
    name = source if is_folder(source) else str(shipped_folder(source) or source)
    is_local = is_folder(name)
    if is_local and options:
        raise MIVError(f"{name!r} is a folder, which takes no option {', '.join(options)}. Omit it.")
    folder = find_verifier(Path(name)) if is_local else download(name, (CONFIG_NAME, WEIGHTS_NAME), **options)
    if read_judge_config(folder) is not None:
        if not is_local:
            download_if_there(name, JUDGE_SETTINGS, **options)
        verifier, fingerprint = make("nearest", "judge", backbone_options={"folder": str(folder)}), None
    else:
        verifier, fingerprint = _of_configuration(make, folder)
        if not is_local and verifier.backbone.files:
            download(name, verifier.backbone.files, **options)
        verifier.backbone.load_files(folder)
    if not is_local:
        download_if_there(name, OPERATING_POINT_NAME, **options)
        download_if_there(name, LIMIT_NAME, **options)
    verifier.operating_point = OperatingPoint.load(folder)
    verifier.unlike = OutOfDistributionLimit.load(folder, verifier.backbone.channels, fingerprint)
    verifier.loaded_from = source
    return verifier.to(wanted).eval()


def _of_configuration(make: type[Verifier], folder: Path) -> tuple[Verifier, str | None]:
    """The verifier that a folder describes, with its weights, and the fingerprint of its out-of-distribution check."""
    config = read_config(folder / CONFIG_NAME)
    hint = _import_recorded(config.pop("modules", []))
    fingerprint = config.pop(_CHECK, None)
    try:
        # The meta device holds shapes without memory: a huge size in the file costs nothing.
        with outlining(), counting_modules("It"):
            outline = make(**config)
    except (MIVError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise MIVError(f"{folder / CONFIG_NAME} does not describe a verifier: {error}{hint}") from error
    weights = read_weights(folder / WEIGHTS_NAME, outline)
    # Create it again on a real device, now that its size matches the file: what a module computes on creation and
    # does not save (positions, frequencies) would be lost on the meta device.
    with torch.random.fork_rng(devices=[]):
        verifier = make(**config)
    verifier.load_state_dict(weights, assign=True)
    verifier.backbone.unfreeze()  # assigned tensors lose requires_grad
    return verifier, fingerprint


TRUST = "MIV_IMPORT_RECORDED"
"""The environment variable that lets the file of a verifier say which modules to import, if it is 1."""


def _import_recorded(recorded: object) -> str:
    """Import the modules that a file names only if the user allows it; return what to say if its parts are unknown."""
    if not isinstance(recorded, list) or not all(isinstance(name, str) for name in recorded):
        raise MIVError(f"modules is {str(recorded)[:80]}. Expected a list of names of modules.")
    names = [name for name in recorded if name not in sys.modules]
    if os.environ.get(TRUST) == "1":
        import_modules(names)
    if not names:
        return ""
    remedy = (
        f"If you trust this code, pass --import, or set MIV_IMPORT={','.join(names)}, or {TRUST}=1 for all verifiers."
    )
    return f" Its own parts are in {', '.join(names)}, which is not imported. {remedy}"


def _own_modules(verifier: Verifier) -> list[str]:
    """The modules outside of miv that define the backbone and the pooling."""
    backbone = verifier.backbone
    parts = (backbone.module if isinstance(backbone, ModuleBackbone) else backbone, verifier.pooling)
    modules = {type(part).__module__ for part in parts}
    return sorted(name for name in modules if name.split(".")[0] not in ("miv", "torch", "builtins", "__main__"))


_STORED_SINCE = "0.2.0"  # first version of miv with these rows in galleries; raise it when a stored form changes


def backbone_fingerprint(verifier: Verifier) -> str:
    """Equal if equal instances get equal features."""
    form = None if verifier.instances is None else verifier.instances.document()
    return hashlib.sha256(f"{verifier.backbone.fingerprint()} {json.dumps(form)}".encode()).hexdigest()


def verifier_fingerprint(verifier: Verifier) -> str:
    """Equal if equal exemplars get equal logits. The operating point does not count: it changes no feature."""
    pooling = verifier.pooling
    made_of = [_STORED_SINCE, backbone_fingerprint(verifier), type(pooling).__qualname__, options_of(pooling)]
    digest = hashlib.sha256(json.dumps(made_of, sort_keys=True, default=str).encode())
    add_weights(digest, pooling.state_dict())
    return digest.hexdigest()


def check_can_be_saved(backbone: Backbone, pooling: Pooling, config: dict[str, Any]) -> None:
    """Raise an error for parts that could not be loaded again: no registered name, or options that are not JSON."""
    module = backbone.module if isinstance(backbone, ModuleBackbone) else backbone
    parts: list[tuple[str, nn.Module, str | None]] = [
        ("backbone", module, name_of(backbone)),
        ("pooling", pooling, POOLINGS.name_of(type(pooling))),
    ]
    for what, part, name in parts:
        called = type(part).__name__
        if name is None:
            raise MIVError(
                f"The {what} is a {called}, which has no name, so a saved verifier could not be loaded. Write "
                f'@miv.register_{what}("my_{what}") above the class, and create it again.'
            )
        if options_of(part) is None:
            raise MIVError(f"The {what} was created before its class {called} was registered. Create it again.")
        for option, value in config[f"{what}_options"].items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise MIVError(
                    f"The option {option} of {called} is a {type(value).__name__}, which config.json cannot hold. "
                    "Expected numbers, texts, true, false, and lists or dictionaries of these."
                ) from error


def _fetch(name: str, file: str, options: dict[str, Any]) -> Path:
    if not options.get("local_files_only"):
        options = {**options, "local_files_only": not hub_answers(name, options)}
    return Path(hf_hub_download(name, file, **options))


def download(name: str, files: tuple[str, ...], **options: Any) -> Path:
    """Fetch files of a verifier on the hub, or from its local cache, and return their folder."""
    path = Path(name)
    if len(path.parts) > 1 and is_folder(path.parts[0]):  # runs/nope next to runs/cap is not a hub name
        raise MIVError(f"There is no folder {name!r}. Expected a run, or the folder of a verifier.{folders_near(path)}")
    try:
        paths = [_fetch(name, file, options) for file in files]
    except HFValidationError as error:
        raise MIVError(
            f"There is no folder {name!r}, and it is not the name of a model on the hub (owner/name)."
        ) from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise MIVError(
            f"There is no folder {name!r}, and the hub has no such verifier to load: {_reason(error)}."
        ) from error
    return paths[0].parent


def download_if_there(name: str, file: str, **options: Any) -> None:
    """Fetch an optional file, after the files that ``download`` fetched."""
    try:
        _fetch(name, file, options)
    except EntryNotFoundError:  # the verifier does not have it
        return
    except (HfHubHTTPError, OSError) as error:
        raise MIVError(f"Could not load {file} of {name!r} from the hub: {_reason(error)}. Try again.") from error


def _reason(error: Exception) -> str:
    if isinstance(error, RepositoryNotFoundError):
        return "it does not exist, or it is private"
    if isinstance(error, LocalEntryNotFoundError):
        return "it is not in the local cache, and the hub could not be reached"
    return str(error).strip().split("\n")[0].rstrip(".")


def shipped_folder(name: str) -> Path | None:
    """The folder of an included verifier, or ``None`` if the name does not begin with ``miv/``.

    >>> shipped_folder("someone/digits") is None
    True
    >>> shipped_folder("miv/digit")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    miv.errors.MIVError: There is no verifier in the package 'miv/digit'. Did you mean 'miv/digits'? Known: ...
    """
    if not name.startswith("miv/"):
        return None
    known = {f"miv/{folder.name}": folder for folder in sorted(_FOLDER.iterdir()) if folder.is_dir()}
    if name not in known:
        raise unknown_name("verifier in the package", name, known)
    return known[name]


def checked_device(name: str | torch.device | None) -> torch.device:
    """Return the device with this name; raise an error if it is invalid or not on this machine.

    >>> checked_device(None), checked_device("cpu")
    (device(type='cpu'), device(type='cpu'))
    """
    try:
        device = torch.device(name or "cpu")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:  # torch raises different types for different mistakes
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise MIVError(
            f"device is {str(name)!r}, which is not available: {reason}. Expected a device of this machine, such "
            "as cpu, cuda or mps."
        ) from error
    return device


@contextmanager
def outlining() -> Iterator[None]:
    """Make modules on the meta device and skip their starting weights, some of which import torch's compiler."""
    with torch.device("meta"), _NoStartingWeights():
        yield


class _NoStartingWeights(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        target = options.get("out", options.get("tensor", args[0] if args else None))
        is_init = getattr(func, "__module__", None) == "torch.nn.init"
        sets_values = is_init or func is torch.eye or getattr(func, "__name__", None) in _STARTS
        if sets_values and isinstance(target, Tensor) and target.is_meta:
            return target
        if func is torch.eye and "out" not in options:
            return torch.empty(args if len(args) == 2 else args * 2, **options)
        return func(*args, **options)
