"""``GET /metrics`` for Prometheus."""

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from miv.service.refusals import refusals
from miv.service.request_reading import in_thread
from miv.service.running_service import service_of

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **refusals()},
)
async def metrics(request: Request) -> Response:
    """Counts and times of requests, in Prometheus' text format."""
    return Response(await in_thread(service_of(request).metrics.text), media_type=CONTENT_TYPE_LATEST)
