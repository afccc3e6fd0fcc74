"""Read and validate a verifier's ``config.json`` and ``model.safetensors``."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from miv.errors import MIVError
from miv.files.atomic import bring_back, finish_replacing, make_ordinary, sha256_of
from miv.files.json import RUN_NAME, VERIFIER_NAME, check_shape, read_json_object

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.safetensors"
FORMAT = "miv-verifier"
FORMAT_VERSION = 1
_FLOATS = {torch.float64, torch.float32, torch.bfloat16, torch.float16}
_MOST_UNSAVED_BYTES = 100_000_000
_CHECKSUM = "sha256"  # in the metadata of the file


def find_verifier(folder: Path) -> Path:
    """The verifier folder: the final verifier of a ``miv train`` run, or the folder itself."""
    if not (folder / RUN_NAME).is_file():
        finish_replacing(folder)
        return folder
    bring_back(folder / VERIFIER_NAME)
    if not (folder / VERIFIER_NAME).is_dir():
        raise MIVError(f"{folder} is an unfinished run. Use miv train … --resume, or load checkpoints/<stage>/best.")
    finish_replacing(folder / VERIFIER_NAME)
    return folder / VERIFIER_NAME


def read_config(path: Path) -> dict[str, Any]:
    """Read and check a verifier's configuration, without the two keys for the file format."""
    config = read_json_object(
        path, f"Expected a folder made by Verifier.save_pretrained, with {CONFIG_NAME} and {WEIGHTS_NAME}."
    )
    if config.pop("format", None) != FORMAT:
        raise MIVError(f'{path} has no "format": "{FORMAT}". It belongs to another kind of model.')
    version = config.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise MIVError(f"{path} has format_version {version!r}. Expected {FORMAT_VERSION}. Update miv.")
    check_shape(config, {"pooling_options?": dict, "backbone_options?": dict}, str(path), "Copy it again.")
    return {"start": "paper", **config}  # older verifiers do not store it


def read_weights(path: Path, outline: nn.Module) -> dict[str, Tensor]:
    """Return the weights of a safetensors file that exactly matches ``outline``, a module on the meta device."""
    if not path.is_file():
        raise MIVError(f"{path} is missing. Weights are read from {WEIGHTS_NAME} only, never from pickle files.")
    weights = load_weights(path)
    expected = outline.state_dict()
    dtype = next((tensor.dtype for tensor in weights.values() if tensor.is_floating_point()), torch.float32)
    for place, module in outline.named_modules():
        for added in getattr(module, "added_later", ()):  # older files lack these weights: there they are 0
            name = f"{place}.{added}"
            weights.setdefault(name, torch.zeros(expected[name].shape, dtype=dtype))
    _check_fit(path, weights, expected)
    unsaved = sum(buffer.nbytes for name, buffer in outline.named_buffers() if name not in weights)
    if unsaved > sum(tensor.nbytes for tensor in weights.values()) + _MOST_UNSAVED_BYTES:
        raise MIVError(f"{path}: {CONFIG_NAME} needs {unsaved:,} bytes besides the weights. It is damaged.")
    # Copy to torch's own memory, which is aligned, unlike the file's: otherwise sums differ in the last bit.
    return {name: tensor.clone() for name, tensor in weights.items()}


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write a safetensors file with a checksum of its tensors."""
    contiguous = {name: tensor.contiguous() for name, tensor in weights.items()}
    # The only entry: several would be written in another order by each process.
    save_file(contiguous, path, metadata={_CHECKSUM: hash_of_weights(contiguous)})
    make_ordinary(path)


def load_weights(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file; other values than those that were saved are an error."""
    try:
        with safe_open(path, framework="pt") as file:
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
            checksum = (file.metadata() or {}).get(_CHECKSUM)
    except (SafetensorError, OSError, ValueError) as error:
        raise MIVError(f"{path} is not a complete safetensors file ({error}). Copy it again.") from error
    if checksum is not None and checksum != hash_of_weights(weights):  # older files, and those of others, have none
        raise MIVError(f"{path} is damaged: its checksum is of other weights. Copy it again, or train again.")
    return weights


def hash_of_file(path: Path) -> str:
    """SHA-256 of a file; of a safetensors file, with its header sorted: its order differs between processes."""
    if path.suffix != ".safetensors":
        return sha256_of(path)
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def hash_of_weights(weights: Mapping[str, Tensor]) -> str:
    """SHA-256 over the names, dtypes, shapes and values of weights."""
    digest = hashlib.sha256()
    add_weights(digest, weights)
    return digest.hexdigest()


def add_weights(digest: "hashlib._Hash", weights: Mapping[str, Tensor]) -> None:
    """Add the names, dtypes, shapes and values of weights to a hash."""
    for name, tensor in sorted(weights.items()):
        if name.endswith("similarity.prior") and not tensor.any():
            continue  # older verifiers have no such weight, and galleries made with them have to fit
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)


def _check_fit(path: Path, weights: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    missing, surplus = sorted(expected.keys() - weights.keys()), sorted(weights.keys() - expected.keys())
    if missing or surplus:
        raise MIVError(
            f"{path} does not match {CONFIG_NAME}: missing {missing[:3] or 'nothing'}, unexpected "
            f"{surplus[:3] or 'nothing'}. Both files must come from the same save."
        )
    dtypes = {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()}
    if len(dtypes) != 1 or not dtypes <= _FLOATS:
        stored, known = (", ".join(sorted(map(str, some))) for some in (dtypes, _FLOATS))
        raise MIVError(f"{path} has weights of {stored}. Expected one dtype among {known}.")
    for name, tensor in weights.items():
        wanted = expected[name]
        if tensor.shape != wanted.shape or tensor.is_floating_point() != wanted.is_floating_point():
            raise MIVError(
                f"{path}: {name} is {tensor.dtype} {tuple(tensor.shape)}. "
                f"Expected {wanted.dtype} {tuple(wanted.shape)}, as {CONFIG_NAME} says."
            )
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise MIVError(f"{path}: {name} has NaN or infinite values. Training failed; train again.")
