"""A gallery of a service."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from miv.client.http_connection import ServiceConnection
from miv.client.sent_instances import sent_bag, sent_query
from miv.errors import MIVError
from miv.inference.verdict import Asked
from miv.io.image_files import Fit
from miv.io.instance_files import InstanceKind


class RemoteGallery:
    """The bags of a gallery that a service searches; ``Client.gallery`` returns one.

    Args:
        connection: to the service.
        name: of the gallery.
        kind: what the instances of its model are.
    """

    def __init__(self, connection: ServiceConnection, name: str, kind: InstanceKind) -> None:
        self.name, self._connection, self._kind = name, connection, kind
        self._path = f"/v1/galleries/{quote(name, safe='')}"

    def put(
        self, name: str, bag: Any, *, instance_names: Sequence[str] | None = None, resize: Fit | None = None
    ) -> None:
        """Add a bag, or replace the bag of that name.

        Args:
            name: of the bag.
            bag: a bag as ``Verifier.verify`` takes it.
            instance_names: names to show for witnesses; by default the files of images, and the texts.
            resize: as for ``Verifier.verify``.
        """
        instances = sent_bag(bag, self._kind)
        if instance_names is not None:
            if len(instance_names) != len(instances) or self._kind == "features":
                raise MIVError(
                    f"There are {len(instances)} instances and {len(instance_names)} instance names. Expected one name "
                    "per image or text."
                )
            instances = [_named(one, name) for one, name in zip(instances, instance_names, strict=True)]
        self._connection.request("PUT", f"{self._path}/bags/{_quoted(name)}", _body(bag=instances, resize=resize))

    def remove(self, name: str) -> None:
        """Remove a bag."""
        self._connection.request("DELETE", f"{self._path}/bags/{_quoted(name)}", repeatable=False)

    def search(
        self,
        query: Any,
        top: int = 10,
        *,
        prefilter: bool = False,
        witnesses: Asked | None = None,
        resize: Fit | None = None,
    ) -> dict[str, Any]:
        """The bags that most likely hold something of the query's class: the document of ``miv gallery search --json``.

        The arguments are those of ``Gallery.search``; ``prefilter`` is of services of earlier versions.
        """
        body = _body(query=sent_query(query, self._kind), top=top, prefilter=prefilter or None)
        body |= _body(witnesses=witnesses, resize=resize)
        found: dict[str, Any] = self._connection.request("POST", f"{self._path}/search", body)
        return found

    def info(self) -> dict[str, Any]:
        """Counts and sizes, and the names of the first bags."""
        found: dict[str, Any] = self._connection.request("GET", self._path)
        return found

    def __len__(self) -> int:
        return int(self.info()["bags"])

    def __repr__(self) -> str:
        return f"RemoteGallery({self._connection.url!r}, {self.name!r})"


def _body(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _named(one: Any, name: str) -> dict[str, Any]:
    return {**one, "name": name} if isinstance(one, dict) else {"text": one, "name": name}


def _quoted(name: str) -> str:
    return quote(name, safe="")
