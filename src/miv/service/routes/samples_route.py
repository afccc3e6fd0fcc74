"""``GET /v1/samples/{id}``: exemplars to try a model with."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from miv.service.answer_bodies import SampleAnswer
from miv.service.refusals import RefusedRequest, refusals
from miv.service.request_reading import in_thread
from miv.service.running_service import model_of
from miv.service.sample_exemplars import samples_for

router = APIRouter(prefix="/v1/samples", tags=["samples"])


@router.get("/{sample}", response_model=SampleAnswer, responses=refusals(404, 422, 503))
async def sample(
    request: Request, sample: str, model: Annotated[str | None, Query(description="A name from /v1/models.")] = None
) -> JSONResponse:
    """A query and a bag, or an answer and its sources, made for trying a model."""
    served = model_of(request, model)
    known = {one.id: one for one in samples_for(served.verifier)}
    if sample not in known:
        raise RefusedRequest(404, f"There is no such sample. Known: {', '.join(known)}.")
    made = await in_thread(known[sample].make, served.verifier)
    return JSONResponse({"title": known[sample].title, "kind": served.kind, **made})
