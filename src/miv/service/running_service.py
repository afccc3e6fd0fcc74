"""What all routes share: settings, models, and what other files of the service add."""

from collections.abc import Callable

from fastapi import Request

from miv.service.arriving_body import ArrivingBytes
from miv.service.loaded_models import LoadedModel, ServedModels
from miv.service.refusals import RefusedRequest
from miv.service.service_metrics import ServiceMetrics
from miv.service.service_settings import ServiceSettings
from miv.service.verifying_together import Features


class RunningService:
    """The state of an app.

    Args:
        settings: its settings.

    ``kept_features`` returns the features ``(N, C)`` of a bag that the service keeps, given its id and the model that
    asks; the file that keeps bags sets it. Functions in ``at_stop`` are called when the app stops.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings, self.limits = settings, settings.limits
        self.metrics = ServiceMetrics()
        self.arriving = ArrivingBytes(settings.limits.bytes_in_all)
        self.models = ServedModels(settings, self.metrics)
        self.at_stop: list[Callable[[], None]] = [self.models.stop]
        self.kept_features: Callable[[str, LoadedModel], Features] = _keeps_none


def service_of(request: Request) -> RunningService:
    """The service that a request was sent to."""
    service: RunningService = request.app.state.service
    return service


def model_of(request: Request, name: str | None) -> LoadedModel:
    """The model that a request names; the log shows it."""
    model = service_of(request).models.named(name)
    request.state.model = model.name
    return model


def _keeps_none(bag: str, model: LoadedModel) -> Features:
    raise RefusedRequest(404, "This service keeps no bags. Send the instances of the bag.")
