"""A bag whose rows are projected once and stored on disk, so that a further query costs one pass over fewer bytes."""

import hashlib
import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib import format as numpy_format
from numpy.typing import NDArray

from miv.errors import MIVError
from miv.files.arrays import Floats
from miv.files.instances import is_file, is_folder
from miv.files.json import read_json_object, write_json
from miv.files.weights import add_weights
from miv.poolings import Rows
from miv.registry import options_of
from miv.verifier.chunks import NumpyFile
from miv.verifier.network import Verifier

RowType = Literal["float32", "float16", "int8"]
MANIFEST = "kept_bag.json"
_ROWS, _SCALES = "rows.npy", "scales.npy"
_FORMAT = "miv-kept-bag"
_REMEDY = "Store the bag again with Verifier.keep_bag."
_LARGEST = 127
_LARGEST_HALF = 65504.0
_STORED_SINCE = "0.2.0"  # first version of miv with these stored rows; raise it when a stored form changes


def is_stored_bag(source: Any) -> bool:
    """Whether something is a stored bag, or the folder of one."""
    if isinstance(source, str | PathLike):
        return is_file(Path(source) / MANIFEST)
    return isinstance(source, StoredBag)


class StoredBag:
    """The folder of a stored bag; a verifier that it was not made with is an error."""

    def __init__(self, folder: Path, verifier: Verifier) -> None:
        if not is_stored_bag(folder):
            state = "is a folder" if is_folder(folder) else "is a file" if is_file(folder) else "does not exist"
            raise MIVError(f"{folder} {state}. Expected a folder with a {MANIFEST}, which Verifier.keep_bag makes.")
        about = read_json_object(folder / MANIFEST, _REMEDY)
        if about.get("format") != _FORMAT or about.get("format_version") != 1:
            raise MIVError(f'{folder / MANIFEST} has no "format": "{_FORMAT}" of version 1. {_REMEDY}')
        self.folder, self._about = folder, about
        self.check_verifier(verifier)
        self._file = NumpyFile(folder / _ROWS)
        variance = about.get("variance")
        self.variance: Floats | None = None if variance is None else np.array(variance, np.float64)
        self.size, self.width = self._file.shape[0], self._file.shape[1]
        self.all_beyond(verifier)
        self.kind: RowType = about.get("rows", "float32")
        self._scales = NumpyFile(folder / _SCALES) if self.kind == "int8" else None
        if self.size != about.get("size") or self._file.dtype != self.kind or len(self._file.shape) != 2:
            raise MIVError(f"{folder / _ROWS} is not what {MANIFEST} says. {_REMEDY}")
        if self._scales is not None and self._scales.shape != (self.size, 1):
            expected = f"Expected {(self.size, 1)}: one scale per row"
            raise MIVError(f"{folder / _SCALES} is {self._scales.shape}. {expected}. {_REMEDY}")

    def check_verifier(self, verifier: Verifier) -> None:
        """Raise an error unless the rows were made with this verifier."""
        if self._about.get("verifier") != verifier_fingerprint(verifier):
            raise MIVError(f"The bag {self.folder} was stored with another verifier. {_REMEDY}")

    def all_beyond(self, verifier: Verifier) -> bool:
        """Whether all targets are beyond the verifier's limit, which may have been calibrated since."""
        limit = verifier.unlike
        if limit is None:
            return False
        measured = self._about.get("unlike")
        if measured is None or measured["fingerprint"] != limit.fingerprint:
            raise MIVError(
                f"The out-of-distribution limit was calibrated after the bag {self.folder} was stored. {_REMEDY}"
            )
        return bool(measured["least_distance"] > limit.limit)

    def rows(self, first: int = 0, last: int | None = None) -> Iterator[Rows]:
        """The stored rows ``(n, K)`` in chunks; each may be overwritten by the next."""
        scales, at = None, 0
        if self._scales is not None:
            scales = np.concatenate([chunk[:, 0] for chunk in self._scales.chunks(first, last)])
        for stored in self._file.chunks(first, last):
            yield restore_rows(stored, None if scales is None else scales[at : at + len(stored)])
            at += len(stored)


class BagWriter:
    """Writes the rows ``(n, K)`` of a bag one chunk at a time; their number is known at the end."""

    def __init__(self, folder: Path, width: int, kind: RowType) -> None:
        self.folder, self.width, self.kind, self.size = folder, width, kind, 0
        self._rows = (folder / _ROWS).open("wb")
        self._scales = (folder / _SCALES).open("wb") if kind == "int8" else None
        self._write_headers()

    def add(self, rows: Rows) -> None:
        """Append rows ``(n, K)``."""
        stored, scales = store_rows(rows, self.kind)
        self._rows.write(np.ascontiguousarray(stored).data)
        if self._scales is not None and scales is not None:
            self._scales.write(np.ascontiguousarray(scales).data)
        self.size += len(rows)

    def close(self, verifier: Verifier, variance: Floats | None, least_distance: float) -> None:
        """Write the number of rows, and the manifest; ``least_distance`` is that of a target to the training data."""
        self._write_headers()
        for file in (self._rows, self._scales):
            if file is not None:
                file.close()
        limit = verifier.unlike
        document = {
            "format": _FORMAT,
            "format_version": 1,
            "verifier": verifier_fingerprint(verifier),
            "size": self.size,
            "rows": self.kind,
            "variance": None if variance is None else variance.tolist(),
            "unlike": None if limit is None else {"fingerprint": limit.fingerprint, "least_distance": least_distance},
        }
        write_json(self.folder / MANIFEST, document)

    def _write_headers(self) -> None:
        for file, width, kind in ((self._rows, self.width, self.kind), (self._scales, 1, "float32")):
            if file is None:
                continue
            file.seek(0)
            shape = (self.size, width)
            # numpy pads the header so that a longer first axis fits in the same bytes.
            about = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": shape}
            numpy_format.write_array_header_1_0(file, about)


def store_rows(rows: Rows, kind: RowType) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
    r"""Rows ``(N, K)`` as they are stored, and their scales ``(N,)`` if they are whole numbers.

    .. math:: z \approx s \cdot round(z / s), \qquad s = \max_i |z_i| / 127

    >>> stored, scales = store_rows(np.array([[254.0, -127.6], [0.0, 0.0]], np.float32), "int8")
    >>> stored.tolist(), scales.tolist()
    ([[127, -64], [0, 0]], [2.0, 0.0])
    """
    if kind == "float32":
        return rows, None
    if kind == "float16":
        return np.clip(rows, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16), None
    scales = np.abs(rows).max(axis=1) / np.float32(_LARGEST)
    return np.rint(rows / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8), scales


def restore_rows(stored: NDArray[Any], scales: NDArray[np.float32] | None) -> Rows:
    """Rows ``(N, K)`` in single precision."""
    rows = np.asarray(stored, np.float32)
    return rows if scales is None else np.multiply(rows, scales[:, None], out=rows)


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
