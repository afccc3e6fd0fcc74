"""The page, health and metrics."""

import mimetypes
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from miv.service.errors import RefusedRequest, error_response, error_responses
from miv.service.reading import in_thread
from miv.service.state import service_of

_FOLDER = Path(__file__).parent.parent / "page"
_FILES = {one.relative_to(_FOLDER).as_posix(): one for one in _FOLDER.rglob("*") if one.is_file()}
_TYPES = {".js": "text/javascript", ".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml"}

router = APIRouter()


@router.get("/", include_in_schema=False)
def index() -> Response:
    """The page itself."""
    return page_file("index.html")


@router.get("/page/{name:path}", include_in_schema=False)
def page_file(name: str) -> Response:
    """A file of the page; only the files in its folder exist, so no name leads elsewhere."""
    path = _FILES.get(name)
    if path is None:
        raise RefusedRequest(404, "The page has no such file.")
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    # The browser asks again each time, so that a new version is seen at once.
    return Response(path.read_bytes(), media_type=kind, headers={"Cache-Control": "no-cache"})


@router.get("/favicon.ico", include_in_schema=False)
def favicon(request: Request) -> Response:
    """No icon, and no error in the browser's console."""
    return Response(status_code=204)


class HealthAnswer(BaseModel):
    """The state of the service."""

    status: str


@router.get("/healthz", tags=["health"], responses=error_responses())
async def healthz() -> HealthAnswer:
    """Whether the process runs."""
    return HealthAnswer(status="alive")


@router.get("/readyz", tags=["health"], response_model=HealthAnswer, responses=error_responses(503))
async def readyz(request: Request) -> JSONResponse:
    """Whether all models are loaded and warmed up."""
    if not service_of(request).models.are_ready:
        return error_response(503, "The models are being loaded. Try again in a second.")
    return JSONResponse({"status": "ready"})


@router.get(
    "/metrics",
    tags=["health"],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **error_responses()},
)
async def metrics(request: Request) -> Response:
    """Counts and times of requests, in Prometheus' text format."""
    return Response(await in_thread(service_of(request).metrics.text), media_type=CONTENT_TYPE_LATEST)
