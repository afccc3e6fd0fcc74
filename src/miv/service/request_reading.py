"""Read the bodies of requests: JSON of a pydantic model, or a form with files that stay in memory."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from miv.service.json_size import check_json_size
from miv.service.refusals import RefusedRequest, first_problem
from miv.service.running_service import service_of
from miv.service.service_settings import Limits

Body = TypeVar("Body", bound=BaseModel)
Found = TypeVar("Found")
_AT_ONCE = 300_000  # bytes of JSON that are read in about a millisecond, so that a thread would cost more


def media_type(request: Request) -> str:
    """The content type without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_small(request: Request) -> bool:
    """Whether the body is so small that a thread would cost more than it saves."""
    length = request.headers.get("content-length", "")
    return length.isdigit() and int(length) <= _AT_ONCE


async def in_thread(function: Callable[..., Found], *arguments: Any) -> Found:
    """Run a function in a thread, so that other requests go on."""
    return await asyncio.get_running_loop().run_in_executor(None, partial(function, *arguments))


async def read_json(request: Request, body: type[Body]) -> Body:
    """Read the body of a request as JSON; anything else is refused with a message."""
    if media_type(request) != "application/json":
        raise RefusedRequest(415, "The content type is not application/json. Send JSON with that content type.")
    content, limits = await request.body(), service_of(request).limits
    if not is_small(request):
        return await in_thread(parse_json, content, body, limits)
    return parse_json(content, body, limits)


def parse_json(content: bytes, body: type[Body], limits: Limits) -> Body:
    """Parse JSON. NaN, half letters and deep nesting are errors."""
    check_json_size(content, limits)
    try:
        return body.model_validate_json(content)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        status = 400 if problems[0]["type"] == "json_invalid" else 422
        raise RefusedRequest(status, first_problem(list(problems))) from None
