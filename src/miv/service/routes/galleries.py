"""``/v1/galleries``: what the service stores."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import category

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.convertors import PathConvertor, register_url_convertor

from miv.gallery import Hits
from miv.runtime import pause
from miv.service.batching import bytes_of
from miv.service.bodies import (
    GalleriesAnswer,
    GalleryAnswer,
    ImageInstance,
    ListedGallery,
    NewGalleryRequest,
    PutBagAnswer,
    PutBagRequest,
    SearchAnswer,
    SearchRequest,
    TextInstance,
    documented,
)
from miv.service.errors import RefusedRequest
from miv.service.galleries import GalleryRegistry
from miv.service.models import LoadedModel
from miv.service.reading import SHORT_POOLED, InstanceReader, is_several, read_instances, read_json, thumbnail
from miv.service.state import model_of, service_of
from miv.verifier.explain import instances_pooled

router = APIRouter()
_PUT_EXAMPLE = {"bag": [[0.2, 0.8], [0.9, 0.1]]}
_NEW_EXAMPLE = {"name": "letters", "model": "miv/digits"}


class _Anything(PathConvertor):
    """Slashes and line breaks too; ``path`` would cut off a line break at the end, and so name another bag."""

    regex = "(?s:.*)"


register_url_convertor("anything", _Anything())
_PICTURED = 10  # hits
_LONGEST_TEXT = 200  # characters of a text that serve as its name, as in `miv gallery add`


@router.get("/v1/galleries", **documented("galleries", GalleriesAnswer, 404, 503))
async def galleries(request: Request) -> JSONResponse:
    """All galleries, with the model that searches each."""
    registry, models = await _registry_and_models(request)
    found = await asyncio.to_thread(registry.all_listed, models)
    return JSONResponse({"galleries": found})


@router.post(
    "/v1/galleries",
    status_code=201,
    **documented("galleries", ListedGallery, 404, 409, body=NewGalleryRequest, example=_NEW_EXAMPLE),
)
async def create(request: Request) -> JSONResponse:
    """Create an empty gallery for a model."""
    asked = await read_json(request, NewGalleryRequest)
    registry, models = await _registry_and_models(request)
    model = model_of(request, asked.model)
    await asyncio.to_thread(registry.create, asked.name, model)
    return JSONResponse(await asyncio.to_thread(registry.listed, asked.name, models), 201)


@router.get("/v1/galleries/{gallery}", **documented("galleries", GalleryAnswer, 404, 409, 503))
async def describe_gallery(request: Request, gallery: str) -> JSONResponse:
    """Counts and sizes of a gallery, and the names of its first 1,000 bags."""
    registry, model, _ = await _registry_and_model(request, gallery)
    return JSONResponse(await model.run(partial(registry.described, gallery, model)))


@router.put(
    "/v1/galleries/{gallery}/bags/{bag:anything}",
    **documented("galleries", PutBagAnswer, 404, 409, body=PutBagRequest, example=_PUT_EXAMPLE),
)
async def put(request: Request, gallery: str, bag: str) -> JSONResponse:
    """Add a bag, or replace the bag of that name."""
    registry, model, _ = await _registry_and_model(request, gallery)
    asked = await read_json(request, PutBagRequest)
    if any(category(letter) == "Cc" for letter in bag):
        raise RefusedRequest(422, f"The name of a bag is {bag[:80]!r}. Expected no line breaks or control characters.")
    instances, size = await _read(asked.bag, "The bag", model, request, asked.resize)
    work = partial(registry.put, gallery, bag, instances, list(map(_name, asked.bag)), model)
    bags = await model.run(work, size, is_long=True)
    return JSONResponse({"name": bag, "size": len(instances), "bags": bags})


@router.delete(
    "/v1/galleries/{gallery}/bags/{bag:anything}", status_code=204, **documented("galleries", None, 404, 409, 422, 503)
)
async def remove(request: Request, gallery: str, bag: str) -> Response:
    """Remove a bag."""
    registry, model, _ = await _registry_and_model(request, gallery)
    await model.run(partial(registry.remove, gallery, bag, model), is_long=True)
    return Response(status_code=204)


@router.post(
    "/v1/galleries/{gallery}/search",
    **documented("galleries", SearchAnswer, 404, 409, body=SearchRequest, example={"query": [0.1, 0.9], "top": 3}),
)
async def search(request: Request, gallery: str) -> JSONResponse:
    """The bags that most likely hold something of the query's class."""
    registry, model, members = await _registry_and_model(request, gallery)
    asked = await read_json(request, SearchRequest)
    several = is_several(asked.query)
    given: Any = asked.query if several else [asked.query]
    read, size = await _read(given, "The query", model, request, asked.resize)
    most = service_of(request).limits.pooled
    options = {"top": asked.top, "witnesses": asked.witnesses, "most_pooled": most}
    work = partial(registry.search, gallery, read if several else read[0], model, **options)
    by = asked.witnesses or model.verifier.operating_point.witnesses_by or "leave_one_out"
    pooled = instances_pooled(by, members, len(read))  # at most that many
    hits = await model.run(work, size, is_long=pooled > SHORT_POOLED)
    answer = {"model": model.name, **hits.document()}
    service = service_of(request)
    if asked.pictures and service.settings.pictures is not None:
        show = partial(_show, hits, answer["hits"], service.settings.pictures.resolve(), service.limits.pixels)
        await service.in_thread(show, is_large=True)
    return JSONResponse(answer)


def _show(hits: Hits, documents: list[dict[str, Any]], folder: Path, pixels: int) -> None:
    """Add pictures of their instances to the documents of the first hits."""
    for hit, document in zip(hits[:_PICTURED], documents, strict=False):
        document["shown"] = []
        for place, name, is_witness in hit.shown():
            pause()
            picture = thumbnail(name, folder, pixels)
            document["shown"].append({"index": place, "name": name, "is_witness": is_witness, "picture": picture})


async def _registry_and_models(request: Request) -> tuple[GalleryRegistry, dict[str, LoadedModel]]:
    service = service_of(request)
    if service.galleries is None:
        raise RefusedRequest(404, "This service has no galleries. Start it with --galleries FOLDER.")
    models = list(service.models)
    # The first time, all weights are hashed.
    return service.galleries, await asyncio.to_thread(lambda: {model.fingerprint: model for model in reversed(models)})


async def _registry_and_model(request: Request, gallery: str) -> tuple[GalleryRegistry, LoadedModel, int]:
    """The galleries, and the model and the members of one."""
    registry, models = await _registry_and_models(request)
    made_by, manifest = await asyncio.to_thread(registry.model_of, gallery, models)
    return registry, model_of(request, made_by.name), sum(segment.members for segment in manifest.segments)


async def _read(
    given: Sequence[Any], place: str, model: LoadedModel, request: Request, resize: Any
) -> tuple[list[Any], int]:
    """Instances as a gallery takes them: arrays of images in the model's form, texts, or vectors; and their bytes."""
    limits = service_of(request).limits
    reader = InstanceReader(model.verifier, limits, resize)
    most = limits.references if place == "The query" else limits.instances
    rows = await read_instances(request, model, given, lambda: reader.rows(given, place, most))
    pool = reader.pool()
    return [pool.values[row] for row in rows], bytes_of(pool)


def _name(one: Any) -> str:
    """The name of an instance to show with hits: as given, or the first words of a text."""
    if isinstance(one, ImageInstance | TextInstance) and one.name:
        return one.name
    text = one.text if isinstance(one, TextInstance) else one
    return text[:_LONGEST_TEXT] if isinstance(text, str) else ""
