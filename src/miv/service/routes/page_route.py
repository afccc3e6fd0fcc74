"""The page: static files of the package, found by name in a list made at the start."""

import mimetypes
from pathlib import Path

from fastapi import APIRouter, Request, Response

from miv.service.refusals import RefusedRequest

_FOLDER = Path(__file__).parent.parent / "page"
_FILES = {one.relative_to(_FOLDER).as_posix(): one for one in _FOLDER.rglob("*") if one.is_file()}
_TYPES = {".js": "text/javascript", ".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml"}

router = APIRouter(include_in_schema=False)


@router.get("/")
def index() -> Response:
    """The page itself."""
    return page_file("index.html")


@router.get("/page/{name:path}")
def page_file(name: str) -> Response:
    """A file of the page; only the files in its folder exist, so no name leads elsewhere."""
    path = _FILES.get(name)
    if path is None:
        raise RefusedRequest(404, "The page has no such file.")
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    # The browser asks again each time, so that a new version is seen at once.
    return Response(path.read_bytes(), media_type=kind, headers={"Cache-Control": "no-cache"})


@router.get("/favicon.ico")
def favicon(request: Request) -> Response:
    """No icon, and no error in the browser's console."""
    return Response(status_code=204)
