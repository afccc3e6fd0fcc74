"""Instances as ``Verifier.verify`` takes them, to the JSON that the service takes."""

import base64
import io
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from miv.errors import MIVError
from miv.inference.given_instances import ALONE, GivenPlaces, as_vectors, check_bags, with_folders
from miv.inference.given_references import single_instances
from miv.io.image_files import read_image
from miv.io.instance_files import InstanceKind

_MOST_BYTES = 32_000_000  # of a file; a service takes no more by default
_NETPBM = (b"P1", b"P2", b"P3", b"P4", b"P5", b"P6")  # which no browser sends, so the service does not read it


def sent_bag(bag: Any, kind: InstanceKind, places: GivenPlaces = ALONE) -> list[Any]:
    """A bag: a list, an array, a folder, or for texts a .txt file; ``places`` names it in errors."""
    [instances] = with_folders([bag], kind)
    check_bags([None], [instances], kind, places)
    if kind == "features":
        return _vectors(instances, places.bag(0))
    return [_sent(one, kind, places.member(0, number)) for number, one in enumerate(instances)]


def sent_query(query: Any, kind: InstanceKind, places: GivenPlaces = ALONE) -> Any:
    """A query: one instance, or a list of several references; ``places`` names it in errors."""
    instances, several, named = single_instances([query], kind, places)
    if kind == "features":
        found = _vectors(instances, places.query(0))
    else:
        found = [_sent(one, kind, named.query(number)) for number, one in enumerate(instances)]
    return found[0] if several is None else found


def _vectors(given: Any, place: str) -> list[list[float]]:
    channels = int(np.prod(np.shape(given[0])))
    vectors = as_vectors(given, channels, place)
    return vectors.astype(np.float64).tolist()


def _sent(one: Any, kind: InstanceKind, place: str) -> Any:
    if kind == "text":
        if not isinstance(one, str):
            raise MIVError(f"{place} is a {type(one).__name__}. Expected a text: this model reads texts.")
        return str(one)
    if isinstance(one, str | PathLike):
        return {"image": _base64(_file(Path(one), place)), "name": Path(one).name[:300]}
    if isinstance(one, Image.Image):
        return {"image": _base64(_png(one))}
    pixels = np.asarray(one)
    if pixels.dtype != np.uint8 or not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)):
        raise MIVError(
            f"{place} is {pixels.dtype} {pixels.shape}. Expected an image: a file, a Pillow image, or an array "
            "(H, W) or (H, W, 3) of uint8."
        )
    return {"image": _base64(_png(Image.fromarray(pixels)))}


def _file(path: Path, place: str) -> bytes:
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise MIVError(f"{place}: {path} has {size:,} bytes. Expected at most {_MOST_BYTES:,}.")
        content = path.read_bytes()
    except OSError as error:
        raise MIVError(f"{place}: could not read {path}: {error.strerror or error}.") from error
    return _png(Image.fromarray(read_image(path, colour=True))) if content[:2] in _NETPBM else content


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
