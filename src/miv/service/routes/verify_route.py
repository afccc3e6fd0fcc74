"""``POST /v1/verify``: exemplars as JSON, or one exemplar of image files as a form."""

from functools import cache
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from miv.service.answer_bodies import VerifyAnswer
from miv.service.api_document import json_body
from miv.service.exemplar_reading import read_exemplars
from miv.service.form_reading import read_form
from miv.service.loaded_models import LoadedModel
from miv.service.refusals import refusals
from miv.service.request_bodies import VERIFY_EXAMPLE, KeptBag, VerifyForm, VerifyRequest
from miv.service.request_reading import in_thread, is_small, media_type, read_json
from miv.service.running_service import RunningService, model_of, service_of
from miv.service.verifying_together import ReadRequest

router = APIRouter(prefix="/v1/verify", tags=["verify"])


@router.post(
    "",
    response_model=VerifyAnswer,
    responses=refusals(404, 413, 415, 422, 503),
    openapi_extra=json_body(VerifyRequest, VERIFY_EXAMPLE, VerifyForm),
)
async def verify(request: Request) -> JSONResponse:
    """Does each bag hold something of its query's class, and which of its instances show it?"""
    service = service_of(request)
    asked: VerifyRequest | VerifyForm
    if media_type(request) == "multipart/form-data":
        asked = await read_form(request, service.limits)
    else:
        asked = await read_json(request, VerifyRequest)
    kept, name = _kept(asked), asked.model
    if kept and name is None:
        name = await in_thread(service.model_of_kept, kept)
    model = model_of(request, name)
    if model.kind == "features" and is_small(request) and not kept:
        read = _read(asked, model, service)
    else:  # decoding images and reading kept bags takes a while, in which other requests go on
        read = await in_thread(_read, asked, model, service)
    verdicts = await model.run(read, read.bytes)
    service.metrics.exemplars.labels(model.name).inc(len(verdicts))
    return JSONResponse({"model": model.name, "verdicts": verdicts})


def _kept(asked: VerifyRequest | VerifyForm) -> list[str]:
    """The ids of the kept bags that are asked."""
    exemplars = asked.exemplars if isinstance(asked, VerifyRequest) else []
    return [one.bag.kept for one in exemplars if isinstance(one.bag, KeptBag)]


def _read(asked: VerifyRequest | VerifyForm, model: LoadedModel, service: RunningService) -> ReadRequest:
    kept = cache(lambda bag: service.kept_features(bag, model))  # a bag that is named again is read once

    def bag_of(bag: Any) -> Any:
        return kept(bag.kept) if isinstance(bag, KeptBag) else bag

    if isinstance(asked, VerifyForm):
        exemplars: list[Any] = [(asked.query[0] if len(asked.query) == 1 else asked.query, asked.bag)]
    else:
        exemplars = [(one.query, bag_of(one.bag)) for one in asked.exemplars]
    return read_exemplars(
        model.verifier,
        service.limits,
        exemplars,
        witnesses=asked.witnesses,
        heads=asked.heads,
        resize=asked.resize,
    )
