"""Whether the process runs, and whether it can answer."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from miv.service.refusals import error_response, refusals
from miv.service.running_service import service_of

router = APIRouter(tags=["health"])


class HealthAnswer(BaseModel):
    """The state of the service."""

    status: str


@router.get("/healthz", responses=refusals())
async def healthz() -> HealthAnswer:
    """Whether the process runs."""
    return HealthAnswer(status="alive")


@router.get("/readyz", response_model=HealthAnswer, responses=refusals(503))
async def readyz(request: Request) -> JSONResponse:
    """Whether all models are loaded and warmed up."""
    if not service_of(request).models.are_ready:
        return error_response(503, "The models are being loaded. Try again in a second.")
    return JSONResponse({"status": "ready"})
