"""The fingerprint of a set: a hash over everything in it but the names of its instances, which are only shown."""

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from miv.data.exemplar_set import ExemplarSet


def fingerprint_of(exemplars: "ExemplarSet") -> str:
    """SHA-256 over the table and the pool."""
    digest = hashlib.sha256(exemplars.pool.fingerprint.encode())
    for array in (exemplars.query, exemplars.bag_ptr, exemplars.bag_index, exemplars.label, exemplars.witness):
        digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
    for strings in (exemplars.group, exemplars.pool.classes):
        _digest_strings(digest, strings)
        digest.update(b"-" if strings is None else b"+")
    # Sets without what follows keep the fingerprint of older versions.
    if exemplars.weight is not None:
        digest.update(exemplars.weight.tobytes())
    if exemplars.query_id is not None:
        digest.update(b"query_id")
        _digest_strings(digest, exemplars.query_id)
    if exemplars.reference_ptr is not None and exemplars.reference_index is not None:
        digest.update(b"references" + exemplars.reference_ptr.tobytes() + exemplars.reference_index.tobytes())
    return digest.hexdigest()


def _digest_strings(digest: Any, strings: NDArray[Any] | None) -> None:
    for text in () if strings is None else strings:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
