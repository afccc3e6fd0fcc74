"""``/v1/galleries``: the galleries of ``miv gallery`` over the network: create, add, replace, remove, search."""

from collections.abc import Sequence
from functools import partial
from typing import Any
from unicodedata import category

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.convertors import PathConvertor, register_url_convertor

from miv.service.api_document import json_body
from miv.service.exemplar_reading import InstanceReader, is_several
from miv.service.gallery_shelf import GalleryShelf
from miv.service.loaded_models import LoadedModel
from miv.service.refusals import RefusedRequest, refusals
from miv.service.request_bodies import ImageInstance, TextInstance
from miv.service.request_reading import in_thread, read_json
from miv.service.running_service import model_of, service_of
from miv.service.storage_bodies import (
    GalleriesAnswer,
    GalleryAnswer,
    ListedGallery,
    NewGalleryRequest,
    PutBagAnswer,
    PutBagRequest,
    SearchAnswer,
    SearchRequest,
)
from miv.service.verifying_together import bytes_of


class _Anything(PathConvertor):
    """Slashes and line breaks too; ``path`` would cut off a line break at the end, and so name another bag."""

    regex = "(?s:.*)"


register_url_convertor("anything", _Anything())
router = APIRouter(prefix="/v1/galleries", tags=["galleries"])
_LONGEST_TEXT = 200  # characters of a text that serve as its name, as in `miv gallery add`


@router.get("", response_model=GalleriesAnswer, responses=refusals(404, 503))
async def galleries(request: Request) -> JSONResponse:
    """All galleries, with the model that searches each."""
    shelf, models = await _shelf_and_models(request)
    found = await in_thread(shelf.all_listed, models)
    return JSONResponse({"galleries": found})


@router.post(
    "",
    status_code=201,
    response_model=ListedGallery,
    responses=refusals(404, 409, 413, 415, 422, 503),
    openapi_extra=json_body(NewGalleryRequest, {"name": "letters", "model": "miv/digits"}),
)
async def create(request: Request) -> JSONResponse:
    """Create an empty gallery for a model."""
    asked = await read_json(request, NewGalleryRequest)
    shelf, models = await _shelf_and_models(request)
    model = model_of(request, asked.model)
    await in_thread(shelf.create, asked.name, model)
    return JSONResponse(await in_thread(shelf.listed, asked.name, models), 201)


@router.get("/{gallery}", response_model=GalleryAnswer, responses=refusals(404, 409, 503))
async def describe(request: Request, gallery: str) -> JSONResponse:
    """Counts and sizes of a gallery, and the names of its first 1,000 bags."""
    shelf, model = await _shelf_and_model(request, gallery)
    return JSONResponse(await model.run(partial(shelf.described, gallery, model)))


@router.put(
    "/{gallery}/bags/{bag:anything}",
    response_model=PutBagAnswer,
    responses=refusals(404, 409, 413, 415, 422, 503),
    openapi_extra=json_body(PutBagRequest, {"bag": [[0.2, 0.8], [0.9, 0.1]]}),
)
async def put(request: Request, gallery: str, bag: str) -> JSONResponse:
    """Add a bag, or replace the bag of that name."""
    shelf, model = await _shelf_and_model(request, gallery)
    asked = await read_json(request, PutBagRequest)
    if any(category(letter) == "Cc" for letter in bag):
        raise RefusedRequest(422, f"The name of a bag is {bag[:80]!r}. Expected no line breaks or control characters.")
    instances, size = await in_thread(_read, asked.bag, "The bag", model, request, asked.resize)
    work = partial(shelf.put, gallery, bag, instances, _names(asked.bag), model)
    bags = await model.run(work, size)
    return JSONResponse({"name": bag, "size": len(instances), "bags": bags})


@router.delete("/{gallery}/bags/{bag:anything}", status_code=204, responses=refusals(404, 409, 422, 503))
async def remove(request: Request, gallery: str, bag: str) -> Response:
    """Remove a bag."""
    shelf, model = await _shelf_and_model(request, gallery)
    await model.run(partial(shelf.remove, gallery, bag, model))
    return Response(status_code=204)


@router.post(
    "/{gallery}/search",
    response_model=SearchAnswer,
    responses=refusals(404, 409, 413, 415, 422, 503),
    openapi_extra=json_body(SearchRequest, {"query": [0.1, 0.9], "top": 3}),
)
async def search(request: Request, gallery: str) -> JSONResponse:
    """The bags that most likely hold something of the query's class."""
    shelf, model = await _shelf_and_model(request, gallery)
    asked = await read_json(request, SearchRequest)
    several = is_several(asked.query)
    given = asked.query if several else [asked.query]
    read, size = await in_thread(_read, given, "The query", model, request, asked.resize)
    options = {"top": asked.top, "witnesses": asked.witnesses}
    work = partial(shelf.search, gallery, read if several else read[0], model, **options)
    return JSONResponse(await model.run(work, size))


async def _shelf_and_models(request: Request) -> tuple[GalleryShelf, dict[str, LoadedModel]]:
    service = service_of(request)
    if service.galleries is None:
        raise RefusedRequest(404, "This service has no galleries. Start it with --galleries FOLDER.")
    models = list(service.models)
    # The first time, all weights are hashed.
    return service.galleries, await in_thread(lambda: {model.fingerprint: model for model in reversed(models)})


async def _shelf_and_model(request: Request, gallery: str) -> tuple[GalleryShelf, LoadedModel]:
    shelf, models = await _shelf_and_models(request)
    made_by = await in_thread(shelf.model_of, gallery, models)
    return shelf, model_of(request, made_by.name)


def _read(given: Sequence[Any], place: str, model: LoadedModel, request: Request, resize: Any) -> tuple[list[Any], int]:
    """Instances as a gallery takes them: arrays of images in the model's form, texts, or vectors; and their bytes."""
    limits = service_of(request).limits
    reader = InstanceReader(model.verifier, limits, resize)
    rows = reader.rows(given, place, limits.references if place == "The query" else limits.instances)
    pool = reader.pool()
    return [pool.values[row] for row in rows], bytes_of(pool)


def _names(bag: Sequence[Any]) -> list[str]:
    """Names of instances to show with hits: as given, or the first words of a text."""
    return [_name(one) for one in bag]


def _name(one: Any) -> str:
    if isinstance(one, ImageInstance | TextInstance) and one.name:
        return one.name
    text = one.text if isinstance(one, TextInstance) else one
    return text[:_LONGEST_TEXT] if isinstance(text, str) else ""
