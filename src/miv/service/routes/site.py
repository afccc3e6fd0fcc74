"""The page, health, metrics, the served models, and samples to try a model with."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from miv import __version__
from miv.service.bodies import ModelsAnswer, SampleAnswer, documented
from miv.service.errors import RefusedRequest, error_response
from miv.service.models import LoadedModel
from miv.service.state import model_of, service_of

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


@router.get("/healthz", **documented("health", dict[str, str]))
async def healthz() -> JSONResponse:
    """Whether the process runs."""
    return JSONResponse({"status": "alive"})


@router.get("/readyz", **documented("health", dict[str, str], 503))
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
        "samples": [{name: sample[name] for name in ("id", "title", "use")} for sample in model.samples],
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
    """A query and a bag, or an answer and its sources, that belong to a model."""
    served = model_of(request, model)
    known = {one["id"]: one for one in served.samples}
    if sample not in known:
        raise RefusedRequest(404, f"The model {served.name} has no such sample. Known: {', '.join(known) or 'none'}.")
    content = {name: value for name, value in known[sample].items() if name not in ("id", "use")}
    return JSONResponse({"kind": served.kind, **content})
