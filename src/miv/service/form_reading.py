"""Read a multipart form into memory: files never touch the disk, and their names are not kept."""

from collections.abc import Iterable
from typing import get_args

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from miv.inference.verdict import Asked
from miv.io.image_files import Fit
from miv.service.refusals import RefusedRequest
from miv.service.request_bodies import VerifyForm
from miv.service.service_settings import Limits

_FIELDS = ("model", "witnesses", "heads", "resize")
_WITNESSES = [name for part in get_args(Asked) for name in get_args(part)]
_TRUE, _FALSE = ("true", "1", "on", "yes"), ("false", "0", "off", "no", "")


class _InMemory(MultiPartParser):
    spool_max_size = 1 << 62  # the size of the whole request is limited, so nothing needs to go to disk


async def read_form(request: Request, limits: Limits) -> VerifyForm:
    """Read ``query`` and ``bag`` files and a few short fields; anything else is refused with a message."""
    charset = parse_options_header(request.headers["content-type"])[1].get(b"charset", b"utf-8")
    if charset.lower() not in {b"utf-8", b"utf8"}:  # others decode slowly, or raise errors of their own
        raise RefusedRequest(400, "The form has another charset than utf-8. Leave the charset out.")
    most = limits.references + limits.instances
    parser = _InMemory(
        request.headers, request.stream(), max_files=most, max_fields=2 * len(_FIELDS), max_part_size=1_000
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        status = 413 if "aximum" in error.message else 400
        raise RefusedRequest(status, f"The form cannot be read: {error.message}") from None
    try:
        files: dict[str, list[bytes]] = {"query": [], "bag": []}
        fields: dict[str, str] = {}
        for name, value in form.multi_items():
            if isinstance(value, UploadFile) and name in files:
                files[name].append(await value.read())
            elif isinstance(value, str) and name in _FIELDS and name not in fields:
                fields[name] = value
            else:
                what = "file" if isinstance(value, UploadFile) else "field"
                raise RefusedRequest(
                    422,
                    f"The form has an unknown or repeated {what}. Expected files query and bag, and fields "
                    f"{', '.join(_FIELDS)}, each once.",
                )
    finally:
        await form.close()
    for name, given in files.items():
        if not given:
            raise RefusedRequest(422, f"The form has no file {name}. Expected at least one.")
    return VerifyForm(
        query=files["query"],
        bag=files["bag"],
        model=fields.get("model") or None,
        witnesses=_choice("witnesses", fields.get("witnesses"), _WITNESSES),  # type: ignore[arg-type]
        heads=_choice("heads", fields.get("heads", "false").lower(), (*_TRUE, *_FALSE)) in _TRUE,
        resize=_choice("resize", fields.get("resize"), get_args(Fit)),  # type: ignore[arg-type]
    )


def _choice(name: str, given: str | None, allowed: Iterable[str]) -> str | None:
    if given is not None and given != "" and given not in allowed:
        raise RefusedRequest(422, f"{name} has an unknown value. Expected one of {', '.join(filter(None, allowed))}.")
    return given or None
