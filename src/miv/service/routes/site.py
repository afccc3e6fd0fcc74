"""The page, health, metrics, the served models, and samples to try a model with."""

import asyncio
import base64
import io
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from numpy.typing import NDArray
from PIL import Image
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from miv import __version__
from miv.service.bodies import ModelsAnswer, SampleAnswer, documented
from miv.service.errors import RefusedRequest, error_response
from miv.service.models import LoadedModel
from miv.service.state import model_of, service_of
from miv.tasks.digits_twin import Hands
from miv.verifier.network import Verifier

_FILES = {path.name: path for path in (Path(__file__).parent.parent / "page").iterdir()}
_TYPES = {".js": "text/javascript", ".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml"}

router = APIRouter()


@router.get("/", include_in_schema=False)
@router.get("/page/{name:path}", include_in_schema=False)
def page_file(name: str = "index.html") -> Response:
    """The page or one of its files; only the files in its folder exist, so no name leads elsewhere."""
    if name not in _FILES:
        raise RefusedRequest(404, "The page has no such file.")
    # The browser asks again each time, so that a new version is seen at once.
    return FileResponse(_FILES[name], media_type=_TYPES[_FILES[name].suffix], headers={"Cache-Control": "no-cache"})


class HealthAnswer(BaseModel):
    """The state of the service."""

    status: str


@router.get("/healthz", **documented("health", HealthAnswer))
async def healthz() -> JSONResponse:
    """Whether the process runs."""
    return JSONResponse({"status": "alive"})


@router.get("/readyz", **documented("health", HealthAnswer, 503))
async def readyz(request: Request) -> JSONResponse:
    """Whether all models are loaded."""
    if not service_of(request).models.are_ready:
        return error_response(503, "The models are being loaded. Try again in a second.")
    return JSONResponse({"status": "ready"})


@router.get("/metrics", response_class=PlainTextResponse, **documented("health", None))
async def metrics(request: Request) -> Response:
    """Counts and times of requests, in Prometheus' text format."""
    return Response(await asyncio.to_thread(service_of(request).metrics.text), media_type=CONTENT_TYPE_LATEST)


@router.get("/v1/models", **documented("models", ModelsAnswer, 503))
async def models(request: Request) -> JSONResponse:
    """All models with what they take and promise, and the limits of requests."""
    service = service_of(request)
    return JSONResponse(
        {
            "models": [_described(model) for model in service.models],
            "limits": asdict(service.limits),
            "galleries": service.settings.galleries is not None,
            "version": __version__,
        }
    )


def _described(model: LoadedModel) -> dict[str, Any]:
    verifier, point = model.verifier, model.verifier.operating_point
    form, pooling = verifier.instances, verifier.configuration["pooling"]
    return {
        "name": model.name,
        "about": model.about,
        "kind": model.kind,
        "image": None if form is None else {"height": form.height, "width": form.width, "mode": form.mode},
        "channels": verifier.backbone.channels if model.kind == "features" else None,
        "pooling": pooling if isinstance(pooling, str) else type(verifier.pooling).__name__,
        "heads": getattr(verifier.pooling, "heads", 1) if verifier.pooling.has_attention else None,
        "calibrated": not point.is_default,
        "threshold": point.threshold,
        "lower_threshold": point.lower_threshold,
        "promise": _promise(model),
        "can_check": model.can_check,
        "samples": [{"id": sample.id, "title": sample.title, "use": sample.use} for sample in _samples(verifier)],
    }


def _promise(model: LoadedModel) -> str | None:
    """The goal of the operating point and the errors measured on validation data, in words."""
    point = model.verifier.operating_point
    if point.is_default:
        return None
    words = [point.goal]
    for error in ("false accept", "false reject"):
        rate = point.measured.get(f"{error.replace(' ', '_')}_rate")
        if isinstance(rate, dict) and isinstance(rate.get("at_most"), float):
            words.append(f"{error}s at most {rate['at_most']:.1%}")
    confidence = point.measured.get("confidence")
    if len(words) > 1 and isinstance(confidence, float):
        words[-1] += f", with {confidence:.0%} confidence, on data like that of its calibration"
    return "; ".join(words)


@router.get("/v1/samples/{sample}", **documented("samples", SampleAnswer, 404, 422, 503))
async def sample(
    request: Request, sample: str, model: Annotated[str | None, Query(description="A name from /v1/models.")] = None
) -> JSONResponse:
    """A query and a bag, or an answer and its sources, made for trying a model."""
    served = model_of(request, model)
    known = {sample.id: sample for sample in _samples(served.verifier)}
    if sample not in known:
        raise RefusedRequest(404, f"There is no such sample. Known: {', '.join(known)}.")
    content = await asyncio.to_thread(known[sample].make, served.verifier)
    return JSONResponse({"title": known[sample].title, "kind": served.kind, **content})


class _Sample(NamedTuple):
    """A sample; ``make`` returns its query and bag, or its answer and sources, as JSON takes them."""

    id: str
    title: str
    make: Callable[[Verifier], dict[str, Any]]
    use: Literal["verify", "check"] = "verify"


_LARGEST_DIGIT = 40  # pixels


def _samples(verifier: Verifier) -> tuple[_Sample, ...]:
    """The samples of the kind that a verifier takes; of images, there are only digits, which are small."""
    form = verifier.instances
    is_large = form is not None and max(form.height, form.width) > _LARGEST_DIGIT
    return () if is_large else _SAMPLES[verifier.backbone.kind]


def _digits(witnesses: int, references: int, verifier: Verifier) -> dict[str, Any]:
    rng = np.random.default_rng(10)
    hands = Hands.draw(8, rng)
    # The same digit throughout, as in the task of the shipped model; the first writer is the query's.
    writer = np.concatenate([np.zeros(references + witnesses, int), 1 + np.arange(12 - witnesses) % 7])
    images = hands.write(writer, np.full(len(writer), 4), 1.0, rng)
    return _exemplar([_picture(image, verifier) for image in images], references, rng)


def _vectors(witnesses: int, verifier: Verifier) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    query = rng.standard_normal(verifier.backbone.channels)
    near = query + 0.1 * rng.standard_normal((witnesses, len(query)))
    far = rng.standard_normal((12 - witnesses, len(query)))
    return _exemplar(np.concatenate([query[None], near, far]).round(4).tolist(), 1, rng)


def _exemplar(instances: list[Any], references: int, rng: np.random.Generator) -> dict[str, Any]:
    """The first instances are the query; the others, in another order, the bag."""
    query, rest = instances[:references], instances[references:]
    bag = [rest[place] for place in rng.permutation(len(rest))]
    return {"query": query[0] if references == 1 else query, "bag": bag}


def _picture(image: NDArray[np.uint8], verifier: Verifier) -> dict[str, str]:
    """A PNG file in base64, of the size and mode of the verifier's images."""
    picture, form = Image.fromarray(image), verifier.instances
    if form is not None:
        picture = picture.convert(form.mode).resize((form.width, form.height))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return {"image": base64.b64encode(file.getvalue()).decode()}


_SOURCES = {
    "harbour.txt": "Aldmere is a small town on the north coast. Its harbour was built between 1838 and 1842. The "
    "lighthouse at the end of the pier is 31 metres high. It was switched to electric light in 1926. Most of the "
    "fishing boats left after the railway closed in 1964.",
    "festival.txt": "The herring festival of Aldmere takes place on the first weekend of September. It began in 1951 "
    "as a market for fishermen. About eight thousand visitors came last year. The town hall sells tickets from June. "
    "The orchestra of the school plays on both evenings.",
}
_CHECKED = {
    "answer": "The harbour of Aldmere was built between 1838 and 1842. Its lighthouse is 31 metres high. The herring "
    "festival has been held since 1951. The castle above the town belongs to a duke.",
    "sources": [{"name": name, "text": text} for name, text in _SOURCES.items()],
}
_SENTENCES = [part.strip(" .") + "." for text in _SOURCES.values() for part in text.split(". ")]
_SUPPORTED = {"query": "The lighthouse of Aldmere got electric light in the 1920s.", "bag": _SENTENCES}
_UNSUPPORTED = {"query": "The castle of Aldmere belongs to a duke.", "bag": _SENTENCES}
_SAMPLES: dict[str, tuple[_Sample, ...]] = {
    "image": (
        _Sample("digits-present", "Digits: three by the writer of the query", partial(_digits, 3, 1)),
        _Sample("digits-absent", "Digits: none by the writer of the query", partial(_digits, 0, 1)),
        _Sample("digits-references", "Digits: three references of one writer", partial(_digits, 3, 3)),
    ),
    "text": (
        _Sample("claim-supported", "A claim with its evidence", lambda _: _SUPPORTED),
        _Sample("claim-unsupported", "A claim without its evidence", lambda _: _UNSUPPORTED),
        _Sample("answer", "An answer and its sources", lambda _: _CHECKED, "check"),
    ),
    "features": (
        _Sample("vectors-present", "Vectors: two near the query", partial(_vectors, 2)),
        _Sample("vectors-absent", "Vectors: none near the query", partial(_vectors, 0)),
    ),
}
