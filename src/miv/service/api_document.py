"""The OpenAPI document: bodies that are read by hand, the token, and nothing from other machines."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from miv import __version__

_BODIES: dict[str, type[BaseModel]] = {}
_REFERENCE = "#/components/schemas/{model}"
_ABOUT = "Multiple instance verification: does a bag hold something of the query's class, and which instances show it?"
OPEN = ("/healthz", "/readyz")  # documented addresses that need no token


def json_body(body: type[BaseModel], example: Any, form: type[BaseModel] | None = None) -> dict[str, Any]:
    """``openapi_extra=`` of a route that reads its body with ``read_json``; ``form`` documents a multipart form."""
    _BODIES.update({one.__name__: one for one in (body, form) if one is not None})
    content: dict[str, Any] = {"application/json": {"schema": _reference(body), "example": example}}
    if form is not None:
        content["multipart/form-data"] = {"schema": _reference(form)}
    return {"requestBody": {"required": True, "content": content}}


def add_api_document(app: FastAPI, *, token: bool) -> None:
    """Make ``/openapi.json`` complete."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title="miv", version=__version__, description=_ABOUT, routes=app.routes)
            _, bodies = models_json_schema([(one, "validation") for one in _BODIES.values()], ref_template=_REFERENCE)
            components = made.setdefault("components", {})
            components["schemas"] = {**bodies.get("$defs", {}), **components.get("schemas", {})}
            if token:
                components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
                for path, methods in made["paths"].items():
                    for operation in methods.values():
                        operation["security"] = [] if path in OPEN else [{"token": []}]
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # as FastAPI's own documentation does it


def _reference(body: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(model=body.__name__)}
