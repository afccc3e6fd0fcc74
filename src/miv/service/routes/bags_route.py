"""``/v1/bags``: keep the features of a bag, so that further queries need not send and embed it again."""

import threading
from contextlib import suppress

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from miv.errors import MIVError
from miv.service.api_document import json_body
from miv.service.exemplar_reading import InstanceReader
from miv.service.refusals import refusals
from miv.service.request_reading import in_thread, read_json
from miv.service.running_service import RunningService, model_of, service_of
from miv.service.storage_bodies import KeepRequest, KeptBagAnswer

router = APIRouter(prefix="/v1/bags", tags=["kept bags"])
_TIDY_SECONDS = 600.0  # old bags go even if nobody keeps new ones
_EXAMPLE = {"model": "runs/vectors", "bag": [[0.2, 0.8], [0.9, 0.1]]}


def prepare(service: RunningService) -> None:
    """Keep the folder tidy while the app runs."""
    ended = threading.Event()

    def tidy() -> None:
        while True:
            with suppress(MIVError):  # logged; the next round tries again
                service.kept_bags.tidy()
            if ended.wait(_TIDY_SECONDS):
                return

    threading.Thread(target=tidy, name="kept bags", daemon=True).start()
    service.at_stop.append(ended.set)


@router.post(
    "",
    status_code=201,
    response_model=KeptBagAnswer,
    responses=refusals(404, 413, 415, 422, 503),
    openapi_extra=json_body(KeepRequest, _EXAMPLE),
)
async def keep(request: Request) -> JSONResponse:
    """Keep a bag as features; the uploads themselves are not kept."""
    service = service_of(request)
    asked = await read_json(request, KeepRequest)
    model = model_of(request, asked.model)
    reader = InstanceReader(model.verifier, service.limits, asked.resize)
    rows = await in_thread(reader.rows, asked.bag, "The bag", service.limits.instances)
    features = await model.embed(reader.pool())
    kept = await in_thread(lambda: service.kept_bags.keep(features[rows], model.backbone_fingerprint, model.name))
    return JSONResponse(kept.document(), 201)


@router.get("/{id}", response_model=KeptBagAnswer, responses=refusals(404, 503))
async def describe(request: Request, id: str) -> JSONResponse:  # noqa: A002 - the name in the address
    """Whether a bag is still kept."""
    found = await in_thread(service_of(request).kept_bags.find, id)
    return JSONResponse(found.document())


@router.delete("/{id}", status_code=204, responses=refusals(404, 503))
async def forget(request: Request, id: str) -> Response:  # noqa: A002
    """Remove a kept bag."""
    await in_thread(service_of(request).kept_bags.remove, id)
    return Response(status_code=204)
