"""Which models are served, and what a request may hold."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from miv import __version__
from miv.service.answer_bodies import ModelsAnswer
from miv.service.loaded_models import LoadedModel
from miv.service.refusals import refusals
from miv.service.running_service import service_of
from miv.service.sample_exemplars import samples_for

router = APIRouter(prefix="/v1/models", tags=["models"])


@router.get("", response_model=ModelsAnswer, responses=refusals(503))
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
