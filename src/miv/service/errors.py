"""Errors of the service: a status and a message in one form, ``{"error": {"status", "message"}}``."""

import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from miv.errors import MIVError
from miv.verifier.reading import USE_RESIZE

_HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    413: {"Connection": "close"},  # the rest of the body is not read
    429: {"Retry-After": "1"},
    503: {"Retry-After": "1"},
}
_LONGEST = 600  # characters of a message


class RefusedRequest(MIVError):  # noqa: N818 - named after what happens
    """A request that is not carried out, with the HTTP status of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def error_response(status: int, message: str) -> JSONResponse:
    """The answer to a refused request."""
    text = message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…"
    return JSONResponse({"error": {"status": status, "message": text}}, status, _HEADERS.get(status))


def add_error_handlers(app: FastAPI) -> None:
    """Answer every error in one form; none shows a traceback."""

    @app.exception_handler(MIVError)
    def refused(request: Request, error: MIVError) -> JSONResponse:
        message = str(error).replace(USE_RESIZE, "send the field `resize`: `stretch`, `crop` or `pad`")
        return error_response(error.status if isinstance(error, RefusedRequest) else 422, message)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(422, first_problem(list(error.errors())))

    @app.exception_handler(HTTPException)
    def other(request: Request, error: HTTPException) -> JSONResponse:
        response = error_response(error.status_code, f"{error.detail}: see /openapi.json for the addresses.")
        response.headers.update(error.headers or {})
        return response


def first_problem(problems: list[Any]) -> str:
    """The first problem that pydantic found, in words."""
    first = problems[0]
    # Branches of unions mean nothing to a reader; they are named after types.
    parts = [str(part) for part in first["loc"] if not re.search(r"^[A-Z]|\[|^(str|body)$", str(part))]
    return f"{'.'.join(parts) or 'The body'}: {first['msg']}. See /openapi.json for what is expected."
