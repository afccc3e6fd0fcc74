"""A Python client of ``miv serve``: the calls of a verifier and of a gallery, answered by another process."""

import base64
import io
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from miv.errors import MIVError, unknown_name
from miv.files.images import Fit
from miv.files.instances import InstanceKind
from miv.verifier.out_of_distribution import OutOfDistribution
from miv.verifier.reading import ALONE, ErrorLocations, as_vectors, check_bags, single_instances, with_folders
from miv.verifier.verdict import BETWEEN, Lazy, Verdict, Witness, WitnessMethod

_PAUSE = 1.0  # seconds, if a busy service does not say how long to wait
_LOST = 2  # times that a request whose connection was lost is sent again


class ServiceError(MIVError):
    """The service refused a request; ``status`` is the HTTP status, such as 422."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} (HTTP {status})")
        self.status = status


def _document(status: int, answer: bytes, url: str) -> Any:
    is_success = 200 <= status < 300
    try:
        document: Any = json.loads(answer) if answer or not is_success else None
        if is_success:
            return document
        message = document["error"]["message"]
    except (ValueError, RecursionError, TypeError, KeyError):
        message = f"{url} did not answer as `miv serve` does. Check the address."
    raise ServiceError(status, message)


def sent_bag(bag: Any, kind: InstanceKind, places: ErrorLocations = ALONE) -> Any:
    """A bag as JSON: a list, an array, a folder, or for texts a .txt file; errors name ``places``."""
    [instances] = with_folders([bag], kind)
    check_bags([None], [instances], kind, places)
    if kind == "features":
        return _vectors(instances, places.bag(0))
    return [_sent(instance, kind, places.member(0, number)) for number, instance in enumerate(instances)]


def sent_query(query: Any, kind: InstanceKind, places: ErrorLocations = ALONE) -> Any:
    """A query as JSON: one instance, or a list of several references; errors name ``places``."""
    instances, several, named = single_instances([query], kind, places)
    if kind == "features":
        sent = _vectors(instances, places.query(0))
    else:
        sent = [_sent(instance, kind, named.query(number)) for number, instance in enumerate(instances)]
    return sent[0] if several is None else sent


def _vectors(vectors: Any, place: str) -> list[list[float]]:
    channels = int(np.prod(np.shape(vectors[0])))
    return as_vectors(vectors, channels, place).astype(np.float64).tolist()


def _sent(instance: Any, kind: InstanceKind, place: str) -> Any:
    if kind == "text":
        if not isinstance(instance, str):
            raise MIVError(f"{place} is a {type(instance).__name__}. Expected a text: this model reads texts.")
        return str(instance)
    if isinstance(instance, str | PathLike):
        path = Path(instance)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise MIVError(f"{place}: could not read {path}: {error.strerror or error}.") from error
        return {"image": base64.b64encode(content).decode(), "name": path.name[:300]}
    if not isinstance(instance, Image.Image):
        pixels = np.asarray(instance)
        if pixels.dtype != np.uint8 or not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)):
            expected = "an image: a file, a Pillow image, or an array (H, W) or (H, W, 3) of uint8"
            raise MIVError(f"{place} is {pixels.dtype} {pixels.shape}. Expected {expected}.")
        instance = Image.fromarray(pixels)
    file = io.BytesIO()
    instance.save(file, "PNG", compress_level=1)
    return {"image": base64.b64encode(file.getvalue()).decode()}


def verdict_of(document: dict[str, Any]) -> Verdict:
    """A verdict as ``Verifier.verify`` returns it; only the instances to show are missing."""
    size, scores, matches = document["size"], _array(document["scores"]), _array(document.get("matches"))
    unlike = document["unlike"]
    return Verdict(
        document["verdict"],
        document["probability"],
        document["threshold"],
        tuple(Witness(witness["index"], witness["score"]) for witness in document["witnesses"]),
        document["witnesses_by"],
        _array(document["shares"]),
        _array(document["attention"]),
        size,
        lazy_scores=None if scores is None else Lazy(lambda *_: scores, 0, 1),
        lower_threshold=document["lower_threshold"],
        lazy_matches=None if matches is None else Lazy(lambda *_: [matches], 0, 1),
        unlike=None if unlike is None else OutOfDistribution.of_document(unlike, size),
        withheld=None if document["reason"] == BETWEEN else document["reason"],
        warnings=tuple(document["warnings"]),
        chance_of_error=document["chance_of_error"],
    )


def _array(numbers: Any) -> NDArray[np.float64] | None:
    return None if numbers is None else np.array(numbers, np.float64)


def _body(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


class RemoteGallery:
    """The bags of a gallery that a service searches; ``Client.gallery`` returns one."""

    def __init__(self, client: "Client", name: str, kind: InstanceKind) -> None:
        self.name, self._client, self._kind = name, client, kind
        self._path = f"/v1/galleries/{quote(name, safe='')}"

    def put(
        self, name: str, bag: Any, *, instance_names: Sequence[str] | None = None, resize: Fit | None = None
    ) -> None:
        """Add a bag as ``Verifier.verify`` takes it, or replace the bag of that name.

        ``instance_names`` are shown for witnesses; by default the files of images, and the texts.
        """
        instances = sent_bag(bag, self._kind)
        if instance_names is not None:
            if len(instance_names) != len(instances) or self._kind == "features":
                counts = f"{len(instances)} instances and {len(instance_names)} instance names"
                raise MIVError(f"There are {counts}. Expected one name per image or text.")
            instances = [
                {**(instance if isinstance(instance, dict) else {"text": instance}), "name": label}
                for instance, label in zip(instances, instance_names, strict=True)
            ]
        self._client.request("PUT", self._bag_path(name), _body(bag=instances, resize=resize))

    def remove(self, name: str) -> None:
        """Remove a bag."""
        self._client.request("DELETE", self._bag_path(name))

    def search(
        self, query: Any, top: int = 10, *, witnesses: WitnessMethod | None = None, resize: Fit | None = None
    ) -> dict[str, Any]:
        """The bags that most likely hold something of the query's class: the document of ``miv gallery search --json``.

        The arguments are those of ``Gallery.search``.
        """
        body = _body(query=sent_query(query, self._kind), top=top, witnesses=witnesses, resize=resize)
        return self._client.request("POST", f"{self._path}/search", body)

    def info(self) -> dict[str, Any]:
        """Counts and sizes, and the names of the first bags."""
        return self._client.request("GET", self._path)

    def __len__(self) -> int:
        return int(self.info()["bags"])

    def _bag_path(self, name: str) -> str:
        return f"{self._path}/bags/{quote(name, safe='')}"


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
        wrong = f"The address of the service is {url!r}. Expected one such as http://localhost:8000."
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:  # an unclosed bracket, or a port that is no port
            raise MIVError(wrong) from error
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise MIVError(wrong)
        self.url, self._timeout, self._patience = url.rstrip("/"), timeout, patience
        self._address, self._base = (host, port), parts.path.rstrip("/")
        self._connection_type = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._headers = {"Accept": "application/json"}
        if token is not None:
            if not token.isascii() or not token.isprintable():
                raise MIVError("The token has odd characters. Expected printable ASCII ones.")
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: list[HTTPConnection] = []  # as many as requests have run at once
        self._models: list[dict[str, Any]] = []

    def models(self) -> list[dict[str, Any]]:
        """The models, with what they take and promise."""
        self._models = self.request("GET", "/v1/models")["models"]
        return self._models

    def verify(self, query: Any, bag: Any, **options: Any) -> Verdict:
        """Does the bag hold something of the query's class, and which of its instances show it?

        The arguments are those of ``Verifier.verify`` and ``verify_many``.
        """
        return self.verify_many([query], [bag], **options)[0]

    def verify_many(
        self,
        queries: Sequence[Any],
        bags: Sequence[Any],
        *,
        model: str | None = None,
        resize: Fit | None = None,
        witnesses: WitnessMethod | None = None,
    ) -> list[Verdict]:
        """Verify many exemplars with one request; ``queries`` and ``bags`` have the same length.

        ``model`` is not needed if the service has one.
        """
        if len(queries) != len(bags):
            raise MIVError(f"There are {len(queries)} queries and {len(bags)} bags. Expected one query per bag.")
        name, kind = self._model(model)
        exemplars = []
        for number, (query, bag) in enumerate(zip(queries, bags, strict=True)):
            places = ALONE if len(bags) == 1 else ErrorLocations([f"Exemplar {number}"])
            exemplars.append({"query": sent_query(query, kind, places), "bag": sent_bag(bag, kind, places)})
        body = _body(model=name, exemplars=exemplars, resize=resize, witnesses=witnesses)
        return [verdict_of(verdict) for verdict in self.request("POST", "/v1/verify", body)["verdicts"]]

    def check(
        self,
        answer: str,
        sources: Mapping[str, str],
        *,
        question: str | None = None,
        model: str | None = None,
        citations: int = 3,
    ) -> dict[str, Any]:
        """Check whether each sentence of an answer is supported by the sources, which are texts by name.

        Returns the document of ``miv check --json``, with a list of ``warnings``; ``citations`` is the maximum number
        per sentence. With the ``question``, answers of a few words are checked together with it.
        """
        texts = [{"name": name, "text": text} for name, text in sources.items()]
        body = _body(model=model, answer=answer, sources=texts, question=question, citations=citations)
        return self.request("POST", "/v1/check", body)

    def galleries(self) -> list[dict[str, Any]]:
        """The galleries, with the model and the counts of each."""
        return self.request("GET", "/v1/galleries")["galleries"]

    def gallery(self, name: str) -> RemoteGallery:
        """An existing gallery."""
        galleries = {gallery["name"]: gallery for gallery in self.galleries()}
        if name not in galleries:
            raise unknown_name("gallery", name, galleries)
        if galleries[name]["problem"] is not None:
            raise MIVError(galleries[name]["problem"])
        return RemoteGallery(self, name, self._model(galleries[name]["model"])[1])

    def create_gallery(self, name: str, *, model: str | None = None) -> RemoteGallery:
        """Create an empty gallery for a model."""
        model, kind = self._model(model)
        body = _body(model=model, name=name)
        self.request("POST", "/v1/galleries", body, repeatable=False)
        return RemoteGallery(self, name, kind)

    def request(self, method: str, path: str, body: Any = None, *, repeatable: bool = True) -> Any:
        """Send any request, such as ``("GET", "/v1/models")``; return the JSON of the answer, ``None`` if it is empty.

        It is sent again if the service is busy or the connection is lost, unless sending it twice does harm.
        """
        content, headers = None, self._headers
        if body is not None:
            try:
                content = json.dumps(body, allow_nan=False).encode()
            except ValueError as error:
                raise MIVError("The request contains NaN or infinity. Expected finite numbers.") from error
            headers = {**headers, "Content-Type": "application/json"}
        until, lost, is_first = time.monotonic() + self._patience, 0, True
        busy = (429, 503) if repeatable else (429,)
        while True:
            connection = self._connection_type(*self._address, timeout=self._timeout)
            if repeatable:  # the service may be closing an idle connection just now
                with suppress(IndexError):
                    connection = self._idle.pop()  # one step, so that two threads never get the same one
            try:
                connection.request(method, f"{self._base}{path}", content, headers)
                response = connection.getresponse()
                answer = response.read()
            except (OSError, HTTPException) as error:
                connection.close()
                if isinstance(error, TimeoutError):
                    seconds = f"{self._timeout:g} seconds"
                    raise MIVError(f"{self.url} did not answer within {seconds}. Send less, or wait longer.") from error
                lost, is_first = lost + 1, False
                if lost > _LOST or not repeatable or isinstance(error, ConnectionRefusedError):
                    reason = error or type(error).__name__
                    raise MIVError(f"Could not reach {self.url}: {reason}. Is `miv serve` running there?") from error
                continue
            self._idle.append(connection)
            if method == "DELETE" and response.status == 404 and not is_first:
                return None  # the earlier request was carried out after all
            wait = response.headers.get("Retry-After", "")
            pause = float(wait) if wait.isascii() and wait.isdigit() else _PAUSE
            if response.status not in busy or time.monotonic() + pause > until:
                return _document(response.status, answer, self.url)
            time.sleep(pause)
            is_first = False

    def close(self) -> None:
        """Close the connections; the next request opens one again."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _model(self, name: str | None) -> tuple[str, InstanceKind]:
        """The name and the kind of a model; the models of a service never change."""
        kinds = {model["name"]: model["kind"] for model in (self._models or self.models())}
        if name is None and len(kinds) != 1:
            raise MIVError(f"The service has {len(kinds)} models. Expected model=, one of {', '.join(kinds)}.")
        chosen = next(iter(kinds)) if name is None else name
        if chosen not in kinds:
            raise unknown_name("model", chosen, kinds)
        return chosen, kinds[chosen]
