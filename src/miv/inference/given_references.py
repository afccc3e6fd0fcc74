"""Queries that users give as several references."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from miv.data import csr
from miv.errors import MIVError
from miv.files.instances import InstanceKind
from miv.inference.given_instances import GivenPlaces


def single_instances(
    queries: Any, kind: InstanceKind, places: GivenPlaces
) -> tuple[Any, NDArray[np.int64] | None, GivenPlaces]:
    """Return the instances of all queries, the borders ``(E + 1,)`` between their references, and their places.

    A list is several references: of image files, images or texts, or of vectors. If every query is one instance,
    everything is returned as it was given, with ``None`` for the borders.

    >>> instances, ptr, places = single_instances([["a", "b"], "c"], "text", GivenPlaces())
    >>> instances, ptr.tolist(), places.query(1), places.query(2)
    (['a', 'b', 'c'], [0, 2, 3], 'Query 0, reference 1', 'Query 1')
    """
    if kind == "features" and getattr(queries, "ndim", 0) == 2:  # the usual array (E, C), not to be looked at in parts
        return queries, None, places
    several = [_is_several(one, kind) for one in queries]
    if not any(several):
        return queries, None, places
    asked = [list(one) if many else [one] for one, many in zip(queries, several, strict=True)]
    for number, references in enumerate(asked):
        if not references:
            raise MIVError(f"{places.query(number)} has no references. Expected at least one.")
    ptr = csr.borders([len(references) for references in asked])
    names = [
        places.query(number) + (f", reference {place}" if len(references) > 1 else "")
        for number, references in enumerate(asked)
        for place in range(len(references))
    ]
    return [one for references in asked for one in references], ptr, ReferencePlaces(names, places)


class ReferencePlaces(GivenPlaces):
    """Names of single references in error messages, and of exemplars and bags as before."""

    def __init__(self, names: list[str], places: GivenPlaces) -> None:
        super().__init__()
        self._names, self._places = names, places

    @property
    def are_named(self) -> bool:
        """Whether references have names: always."""
        return True

    def query(self, exemplar: int) -> str:
        """Return the name of a reference."""
        return self._names[exemplar]

    def bag(self, exemplar: int) -> str:
        """Return the name of a bag."""
        return self._places.bag(exemplar)

    def exemplar(self, exemplar: int) -> str:
        """Return the name of an exemplar."""
        return self._places.exemplar(exemplar)


def _is_several(query: Any, kind: InstanceKind) -> bool:
    if kind != "features":
        return isinstance(query, list | tuple)
    if isinstance(query, np.ndarray | Tensor):
        return query.ndim == 2
    return isinstance(query, list | tuple) and len(query) > 0 and _is_vector(query[0])


def _is_vector(one: Any) -> bool:
    return isinstance(one, list | tuple) or (isinstance(one, np.ndarray | Tensor) and one.ndim > 0)
