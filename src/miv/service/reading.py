"""From the body of a request to instances that a verifier takes. Only pictures of a gallery are opened as files."""

import base64
import binascii
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from PIL import Image, ImageOps
from pydantic import BaseModel, ValidationError

from miv.data import InstancePool
from miv.errors import MIVError
from miv.files.images import Fit, check_pixels
from miv.runtime import pause
from miv.service.batching import ReadExemplar, ReadRequest, Rows
from miv.service.bodies import ImageInstance, Instance, TextInstance, VerifyRequest
from miv.service.errors import RefusedRequest, first_problem
from miv.service.models import LoadedModel
from miv.service.settings import Limits
from miv.service.state import service_of
from miv.verifier.engine import witnesses_by
from miv.verifier.explain import instances_pooled
from miv.verifier.network import Verifier
from miv.verifier.verifying import bag_reader, paired

_SPARE = 100_000  # parts that cost a few milliseconds, so that the parser explains what is wrong with them
_STRINGS = 6  # per instance or exemplar: the keys and values of an image with a name, and a few more


def check_json_size(content: bytes, limits: Limits) -> None:
    """Refuse JSON with more parts than the limits allow before it is parsed: a byte can become a hundred in memory."""
    parts = limits.instances_in_all + 3 * limits.exemplars + _SPARE
    commas, quotes = limits.numbers_in_all + 2 * parts, 2 * _STRINGS * parts
    brackets = content.count(b"[") + content.count(b"{")
    if brackets <= parts and content.count(b",") <= commas and content.count(b'"') <= quotes:
        return
    content = content.replace(rb"\\", b"").replace(rb"\"", b"")  # without escapes, each quote begins or ends a string
    if content.count(b'"') <= quotes:
        outside = b"".join(content.split(b'"')[::2])
        if outside.count(b"[") + outside.count(b"{") <= parts:
            if outside.count(b",") > commas:
                raise RefusedRequest(413, f"The request has more than {limits.numbers_in_all:,} numbers. Divide it.")
            return
    raise RefusedRequest(413, f"The request has far more than {limits.instances_in_all:,} instances. Divide it.")


Body = TypeVar("Body", bound=BaseModel)
Result = TypeVar("Result")
_LARGE_BODY, _LARGE_PIXELS = 1_000_000, 4_000_000  # bytes, and pixels of a request, that take some tenths of a second


async def read_json(request: Request, body: type[Body]) -> Body:
    """Read the body of a request as JSON; anything else is refused with a message."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedRequest(415, "The content type is not application/json. Send JSON with that content type.")
    content, service = await request.body(), service_of(request)

    def parsed() -> Body:
        check_json_size(content, service.limits)
        try:
            return body.model_validate_json(content)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            status = 400 if problems[0]["type"] == "json_invalid" else 422
            raise RefusedRequest(status, first_problem(list(problems))) from None

    return await service.in_thread(parsed, is_large=len(content) > _LARGE_BODY)


_LONGEST_NAME = 80  # characters of a name in an error
SHORT_POOLED, _SHORT_EMBEDDED = 50_000, 64  # instances per short request: some tenths of a second


async def read_instances(
    request: Request, model: LoadedModel, given: Sequence[Instance], read: Callable[[], Result]
) -> Result:
    """Call a function that reads instances; their pixels are counted before it starts."""
    service = service_of(request)
    most = service.limits.pixels  # of one image; the reader names a larger one
    is_image = model.kind == "image"
    pixels = await service.in_thread(lambda: sum(min(most, _pixels(one)) for one in given)) if is_image else 0
    _check_most(pixels, service.limits.pixels_in_all, "The request", "pixels in all images")
    return await service.in_thread(read, is_large=pixels > _LARGE_PIXELS)


def _pixels(one: Instance) -> int:
    """The pixels of an image by its header; 0 for anything that is not an image, which the reader explains."""
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        if isinstance(one, ImageInstance):
            with Image.open(io.BytesIO(_decoded(one.image, "")), formats=list(FORMATS)) as image:
                return image.width * image.height
    return 0


class InstanceReader:
    """Collects the instances of one request, each distinct image and text once."""

    def __init__(
        self, verifier: Verifier, limits: Limits, resize: Fit | None = None, *, in_pairs: bool = False
    ) -> None:
        self._verifier, self._limits = verifier, limits
        self.kind = verifier.backbone.kind
        self._reader = bag_reader(verifier, resize, in_pairs=in_pairs)
        self._count = 0

    def rows(self, given: Sequence[Instance], place: str, most: int) -> Rows:
        """Read instances; return their rows in the pool. ``place`` names them in errors."""
        _check_most(len(given), most, place, "instances")
        self._count += len(given)
        _check_most(self._count, self._limits.instances_in_all, "The request", "instances")
        if self.kind == "features":
            return self._vector_rows(given, place)
        return np.array([self._row(one, _named(one, place, n, len(given))) for n, one in enumerate(given)])

    def pool(self) -> InstancePool:
        pool = self._reader.take_new()
        assert pool is not None  # noqa: S101 - bodies have at least one instance
        return pool

    def _vector_rows(self, given: Sequence[Instance], place: str) -> Rows:
        for number, one in enumerate(given):
            if not isinstance(one, list):
                raise self._other_kind(one, f"{place}, instance {number}")
            _check_most(len(one), self._limits.numbers, f"{place}, instance {number}", "numbers")
        with np.errstate(over="ignore"):  # too large for float32: infinite, which is refused with a message
            return self._reader.add_all(given, place)

    def _row(self, one: Instance, place: str) -> int:
        if self.kind == "text":
            text = one.text if isinstance(one, TextInstance) else one
            if not isinstance(text, str):
                raise self._other_kind(one, place)
            _check_most(len(text), self._limits.characters, place, "characters")
            return self._reader.add(text, place)
        if not isinstance(one, ImageInstance):
            raise self._other_kind(one, place)
        content = _decoded(one.image, place)
        if not content:
            raise MIVError(f"{place} is empty (0 bytes). Expected the content of an image file.")
        with image_of_bytes(content, place, self._limits.pixels) as image:
            pause()
            return self._reader.add(image, place)

    def _other_kind(self, one: Any, place: str) -> MIVError:
        given = "a vector" if isinstance(one, list) else "a text" if isinstance(one, str | TextInstance) else "an image"
        forms = {"image": 'an image, {"image": "<base64>"}', "text": "a text", "features": "a list of numbers"}
        return MIVError(f"{place} is {given}. Expected what this model takes: {forms[self.kind]}.")


def read_exemplars(verifier: Verifier, limits: Limits, asked: VerifyRequest) -> ReadRequest:
    """Convert the exemplars of a request; each query is an instance or a list of references."""
    _check_most(len(asked.exemplars), limits.exemplars, "The request", "exemplars")
    by = witnesses_by(verifier, asked.witnesses)
    reader, converted = InstanceReader(verifier, limits, asked.resize, in_pairs=True), []
    for number, exemplar in enumerate(asked.exemplars):
        of = "" if len(asked.exemplars) == 1 else f"Exemplar {number}: "
        query: Any = exemplar.query
        bag: Any = exemplar.bag
        several = is_several(query)
        if verifier.backbone.reads_pairs:
            several, (query, bag) = False, _paired(verifier, limits, query, bag, of)
        rows = reader.rows(query if several else [query], f"{of}the query".capitalize(), limits.references)
        members = reader.rows(bag, f"{of}the bag".capitalize(), limits.instances)
        converted.append(ReadExemplar(rows, several, members))
    pooled = sum(instances_pooled(by, len(one.bag), len(one.query)) for one in converted)
    if pooled > limits.pooled:
        remedy = "choose attention or none, or send smaller bags or fewer exemplars."
        most = f"Expected at most {limits.pooled:,}: {remedy}"
        raise RefusedRequest(413, f"Witnesses by {by} would pool {pooled:,} instances. {most}")
    pool = reader.pool()
    is_long_to_embed = len(pool) > _SHORT_EMBEDDED and not verifier.backbone.is_identity
    return ReadRequest(pool, converted, by, asked.heads, pooled > SHORT_POOLED or is_long_to_embed)


def _paired(verifier: Verifier, limits: Limits, query: Any, bag: Any, of: str) -> tuple[str, list[str]]:
    """What a backbone of pairs reads, of an exemplar that is checked."""
    texts = InstanceReader(verifier, limits, in_pairs=True)
    asked = texts.rows(query if is_several(query) else [query], f"{of}the query".capitalize(), 1)
    rows = texts.rows(bag, f"{of}the bag".capitalize(), limits.instances)
    values = texts.pool().values
    _, [pair], [members] = paired(verifier.backbone, values[asked].tolist(), [values[rows].tolist()])
    return pair, members


def _check_most(count: int, most: int, place: str, unit: str) -> None:
    if count > most:
        raise RefusedRequest(413, f"{place} has {count:,} {unit}. Expected at most {most:,}.")


def is_several(query: Any) -> bool:
    """Whether a query is a list of references, not one instance; a vector is a list of numbers."""
    return isinstance(query, list) and not isinstance(query[0], float | int)


def _named(one: Instance, place: str, number: int, count: int) -> str:
    """How errors name an instance: by its number, and by the name that the sender gave it."""
    location = place if count == 1 else f"{place}, instance {number}"
    name = one.name if isinstance(one, ImageInstance | TextInstance) else None
    if not name:
        return location
    return f"{location} ({name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + '…'})"


def _decoded(text: str, place: str) -> bytes:
    """The content of an image file from base64, also from a data URL, as a browser makes it."""
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MIVError(f"{place}: the image is not base64. Encode the bytes of the image file.") from None


# An uploaded image: one of a few raster formats by its content, checked before anything is decoded.

FORMATS = {
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "JPEG": (b"\xff\xd8\xff",),
    "GIF": (b"GIF87a", b"GIF89a"),
    "WEBP": (b"RIFF",),
    "BMP": (b"BM",),
    "TIFF": (b"II*\x00", b"MM\x00*"),
    "PPM": (b"P1", b"P2", b"P3", b"P4", b"P5", b"P6"),
}
"""Formats by the bytes that a file begins with. Each is opened by its own decoder only."""

_HEAD, _TAIL = 1024, 66_000  # where other programs look for a PDF or a page, and for the index of a ZIP archive
_OTHERS = (b"%pdf-", b"<svg", b"<html", b"<script", b"<?php", b"<!doctype")


@contextmanager
def image_of_bytes(content: bytes, place: str, pixels: int) -> Iterator[Image.Image]:
    """Open an image of at most so many pixels; any failure, also later while it is decoded, names the ``place``."""
    kind = next((name for name, begins in FORMATS.items() if content.startswith(begins)), None)
    if kind is None:
        raise MIVError(f"{place} is not an image that can be read. Expected one of {', '.join(FORMATS)}.")
    if _holds_more(content):
        raise MIVError(f"{place} holds more than a {kind} image. Save the picture again as a plain image.")
    try:
        with Image.open(io.BytesIO(content), formats=[kind]) as image:
            if image.width * image.height > pixels:
                size = f"{image.width:,} × {image.height:,} pixels"
                raise MIVError(f"{place} has {size}. Expected at most {pixels:,}; make it smaller.")
            if kind == "PNG":
                check_pixels(io.BytesIO(content))
            yield image
    except MIVError:
        raise
    except Image.DecompressionBombError as error:
        raise MIVError(f"{place} has far too many pixels. Expected at most {pixels:,}; make it smaller.") from error
    except Exception as error:  # Pillow's decoders raise many types on damaged files
        raise MIVError(f"{place}: the image is unreadable, truncated or damaged. Replace it.") from error


_SIDE = 192  # pixels of a thumbnail


def thumbnail(name: str, folder: Path, pixels: int) -> str | None:
    """An image file in a folder, made small, as a data URI; ``None`` for any other name."""
    with suppress(MIVError, OSError, ValueError):
        path = Path(name).resolve()
        if path.is_relative_to(folder) and path.is_file():
            with image_of_bytes(path.read_bytes(), name, pixels) as image:
                image.draft(None, (_SIDE, _SIDE))  # a large JPEG is decoded at a fraction of its size
                kind, file = "JPEG" if image.format == "JPEG" else "PNG", io.BytesIO()
                small = ImageOps.exif_transpose(image)
                small.thumbnail((_SIDE, _SIDE))
                small.save(file, kind)
            return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
    return None


def _holds_more(content: bytes) -> bool:
    """Whether a file is a polyglot: an image that other programs would read as an archive, a document or a page."""
    end = content[-_TAIL:]
    return b"PK\x05\x06" in end or any(word in part.lower() for word in _OTHERS for part in (content[:_HEAD], end))
