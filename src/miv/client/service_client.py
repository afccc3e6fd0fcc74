"""``Client``: verify, check, keep bags and search galleries through ``miv serve``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from miv.client.http_connection import ServiceConnection, ServiceError
from miv.client.received_verdicts import verdict_of
from miv.client.remote_gallery import RemoteGallery
from miv.client.sent_instances import sent_bag, sent_query
from miv.errors import MIVError, unknown_name
from miv.inference.given_instances import ALONE, GivenPlaces
from miv.inference.verdict import Asked, Verdict
from miv.io.image_files import Fit
from miv.io.instance_files import InstanceKind


@dataclass(frozen=True)
class RemoteBag:
    """A bag that the service keeps; give it to ``Client.verify`` instead of the instances.

    Args:
        id: its name at the service.
        model: the model that it was kept for.
        size: number of instances.
        created: when, in UTC.
        expires: when the service removes it at the latest.
    """

    id: str
    model: str
    size: int
    created: str
    expires: str


class Client:
    """A service that ``miv serve`` runs.

    Args:
        url: its address.
        token: its token, if it asks for one.
        timeout: seconds to wait for an answer.
        patience: seconds to go on trying while the service is busy; it says how long to wait.

    Threads may share a client. ``with Client(...) as client:`` closes its connections at the end.
    """

    def __init__(
        self, url: str = "http://localhost:8000", token: str | None = None, *, timeout: float = 60, patience: float = 30
    ) -> None:
        self._connection = ServiceConnection(url, token, timeout, patience)
        self._models: list[dict[str, Any]] | None = None

    def models(self) -> list[dict[str, Any]]:
        """The models, with what they take and promise."""
        found: list[dict[str, Any]] = self._connection.request("GET", "/v1/models")["models"]
        self._models = found
        return found

    def verify(
        self,
        query: Any,
        bag: Any,
        *,
        model: str | None = None,
        resize: Fit | None = None,
        witnesses: Asked | None = None,
    ) -> Verdict:
        """Does the bag hold something of the query's class, and which of its instances show it?

        Args:
            query: as ``Verifier.verify`` takes it: an image file, a Pillow image, an array, a text or a vector; a list
                of them is several references.
            bag: as ``Verifier.verify`` takes it, or a ``RemoteBag``.
            model: name of a model; not needed if the service has one, or for a ``RemoteBag``.
            resize: as for ``Verifier.verify``.
            witnesses: as for ``Verifier.verify``.
        """
        return self.verify_many([query], [bag], model=model, resize=resize, witnesses=witnesses)[0]

    def verify_many(
        self,
        queries: Sequence[Any],
        bags: Sequence[Any],
        *,
        model: str | None = None,
        resize: Fit | None = None,
        witnesses: Asked | None = None,
    ) -> list[Verdict]:
        """Verify many exemplars with one request; ``queries`` and ``bags`` have the same length."""
        if len(queries) != len(bags):
            raise MIVError(f"There are {len(queries)} queries and {len(bags)} bags. Expected one query per bag.")
        kept_for = {bag.model for bag in bags if isinstance(bag, RemoteBag)}
        name, kind = self._model(kept_for.pop() if model is None and len(kept_for) == 1 else model)
        exemplars = []
        for number, (query, bag) in enumerate(zip(queries, bags, strict=True)):
            places = ALONE if len(bags) == 1 else GivenPlaces([f"Exemplar {number}"])
            exemplars.append({"query": sent_query(query, kind, places), "bag": _bag(bag, kind, places)})
        answer = self.request(
            "POST", "/v1/verify", _body(name, exemplars=exemplars, resize=resize, witnesses=witnesses)
        )
        return [verdict_of(one) for one in answer["verdicts"]]

    def check(
        self, answer: str, sources: Mapping[str, str], *, model: str | None = None, citations: int = 3
    ) -> dict[str, Any]:
        """Check whether each sentence of an answer is backed by the sources.

        Returns the document of ``miv check --json``, with a list of ``warnings``.

        Args:
            answer: the text to check.
            sources: texts by name.
            model: name of a model that can check; not needed if the service has one of them.
            citations: maximum number of citations per sentence.
        """
        given = [{"name": name, "text": text} for name, text in sources.items()]
        body = _body(model, answer=answer, sources=given, citations=citations)
        found: dict[str, Any] = self.request("POST", "/v1/check", body)
        return found

    def keep(self, bag: Any, *, model: str | None = None, resize: Fit | None = None) -> RemoteBag:
        """Let the service keep the features of a bag, so that further queries need not send and embed it again."""
        name, kind = self._model(model)
        body = _body(name, bag=sent_bag(bag, kind), resize=resize)
        return RemoteBag(**self._connection.request("POST", "/v1/bags", body, repeatable=False))

    def is_kept(self, bag: RemoteBag) -> bool:
        """Whether the service still has a bag."""
        try:
            self.request("GET", f"/v1/bags/{bag.id}")
        except ServiceError as error:
            if error.status == 404:
                return False
            raise
        return True

    def forget(self, bag: RemoteBag) -> None:
        """Remove a kept bag from the service."""
        self._connection.request("DELETE", f"/v1/bags/{bag.id}", repeatable=False)

    def galleries(self) -> list[dict[str, Any]]:
        """The galleries, with the model and the counts of each."""
        found: list[dict[str, Any]] = self.request("GET", "/v1/galleries")["galleries"]
        return found

    def gallery(self, name: str) -> RemoteGallery:
        """An existing gallery."""
        found = {one["name"]: one for one in self.galleries()}
        if name not in found:
            raise unknown_name("gallery", name, found)
        if found[name]["problem"] is not None:
            raise MIVError(found[name]["problem"])
        return RemoteGallery(self._connection, name, self._model(found[name]["model"])[1])

    def create_gallery(self, name: str, *, model: str | None = None) -> RemoteGallery:
        """Create an empty gallery for a model."""
        name_of_model, kind = self._model(model)
        body = _body(name_of_model, name=name)
        self._connection.request("POST", "/v1/galleries", body, repeatable=False, again_when_busy=False)
        return RemoteGallery(self._connection, name, kind)

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send any request, such as ``("GET", "/v1/models")``, and return the JSON of the answer as plain values."""
        return self._connection.request(method, path, body)

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._connection.url!r})"

    def _model(self, name: str | None) -> tuple[str, InstanceKind]:
        """The name and the kind of a model; the models of a service never change."""
        kinds = {one["name"]: one["kind"] for one in (self._models or self.models())}
        if name is None and len(kinds) != 1:
            raise MIVError(f"The service has {len(kinds)} models. Expected model=, one of {', '.join(kinds)}.")
        chosen = next(iter(kinds)) if name is None else name
        if chosen not in kinds:
            raise unknown_name("model", chosen, kinds)
        return chosen, kinds[chosen]


def _bag(bag: Any, kind: InstanceKind, places: GivenPlaces) -> Any:
    return {"kept": bag.id} if isinstance(bag, RemoteBag) else sent_bag(bag, kind, places)


def _body(model: str | None, **given: Any) -> dict[str, Any]:
    return {name: value for name, value in {"model": model, **given}.items() if value is not None}
