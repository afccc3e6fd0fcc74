"""Which models are served, what a request may hold, and samples to try a model with."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from miv import __version__
from miv.service.bodies import ModelsAnswer, SampleAnswer
from miv.service.errors import RefusedRequest, error_responses
from miv.service.models import LoadedModel
from miv.service.reading import in_thread
from miv.service.samples import samples_for
from miv.service.state import model_of, service_of

router = APIRouter()


@router.get("/v1/models", tags=["models"], response_model=ModelsAnswer, responses=error_responses(503))
async def models(request: Request) -> JSONResponse:
    """All models with what they take and promise, and the limits of requests."""
    service = service_of(request)
    return JSONResponse(
        {
            "models": [_described(model) for model in service.models],
            "limits": service.limits.document(),
            "galleries": service.settings.galleries is not None,
            "version": __version__,
        }
    )


def _described(model: LoadedModel) -> dict[str, Any]:
    verifier, point = model.verifier, model.verifier.operating_point
    form, configuration = verifier.instances, verifier.configuration
    pooling = configuration["pooling"]
    return {
        "name": model.name,
        "about": model.about,
        "kind": model.kind,
        "image": None if form is None else {"height": form.height, "width": form.width, "mode": form.mode},
        "channels": verifier.backbone.channels if model.kind == "features" else None,
        "pooling": pooling if isinstance(pooling, str) else type(verifier.pooling).__name__,
        "heads": getattr(verifier.pooling, "heads", 1) if verifier.pooling.has_attention else None,
        "calibrated": not point.is_default,
        "threshold": point.threshold,
        "lower_threshold": point.lower_threshold,
        "promise": _promise(model),
        "can_check": model.can_check,
        "samples": [{"id": one.id, "title": one.title, "use": one.use} for one in samples_for(verifier)],
    }


def _promise(model: LoadedModel) -> str | None:
    """The goal of the operating point and the errors measured on validation data, in words."""
    point = model.verifier.operating_point
    if point.is_default:
        return None
    words = [point.goal]
    for title, key in (("false accepts", "false_accept_rate"), ("false rejects", "false_reject_rate")):
        rate = point.measured.get(key)
        if isinstance(rate, dict) and isinstance(rate.get("at_most"), float):
            words.append(f"{title} at most {rate['at_most']:.1%}")
    confidence = point.measured.get("confidence")
    if len(words) > 1 and isinstance(confidence, float):
        words[-1] += f", with {confidence:.0%} confidence, on data like that of its calibration"
    return "; ".join(words)


@router.get(
    "/v1/samples/{sample}", tags=["samples"], response_model=SampleAnswer, responses=error_responses(404, 422, 503)
)
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
