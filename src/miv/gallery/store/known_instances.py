"""Which instances a gallery has, by the hash of their content."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miv.gallery.store.arrow_files import HASH_BYTES
from miv.gallery.store.snapshot import Snapshot


class KnownInstances:
    """Finds the number of an instance; those in the snapshot are sorted once, later ones are in a dict."""

    def __init__(self, snapshot: Snapshot) -> None:
        hashes = np.concatenate([np.zeros(0, f"S{HASH_BYTES}"), *(one.hashes for one in snapshot.segments)])
        self._order = np.argsort(hashes, kind="stable")
        self._sorted: NDArray[Any] = hashes[self._order]
        self._later: dict[bytes, int] = {}
        self._count = len(hashes)

    def __len__(self) -> int:
        return self._count

    def add(self, digests: Sequence[bytes]) -> None:
        """Note instances that were committed, in their order."""
        for digest in digests:
            self._later.setdefault(digest, self._count)
            self._count += 1

    def rows(self, digests: Sequence[bytes]) -> NDArray[np.int64]:
        """The number of each instance, or -1."""
        found = np.array([self._later.get(digest, -1) for digest in digests], np.int64)
        if len(self._sorted):
            wanted = np.frombuffer(b"".join(digests), self._sorted.dtype)
            place = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
            is_there = self._sorted[place] == wanted
            found[is_there] = self._order[place[is_there]]
        return found

    def rows_with(self, next_ones: Sequence[bytes], digests: Sequence[bytes]) -> NDArray[np.int64]:
        """The number of each instance, if ``next_ones`` are committed next."""
        found = self.rows(digests)
        following = {digest: self._count + place for place, digest in enumerate(next_ones)}
        return np.array(
            [following.get(digest, -1) if row < 0 else row for digest, row in zip(digests, found, strict=True)],
            np.int64,
        )
