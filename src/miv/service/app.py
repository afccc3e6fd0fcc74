"""The FastAPI app: routes, middleware, errors, the loading of models, and what all routes share."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request

from miv.service.bodies import add_api_document
from miv.service.errors import add_error_handlers
from miv.service.metrics import ServiceMetrics
from miv.service.models import LoadedModel, ServedModels
from miv.service.routes import route_modules
from miv.service.security import RequestGuard
from miv.service.settings import ServiceSettings
from miv.service.storage import BagStore, GalleryRegistry


class RunningService:
    """The state of an app; functions in ``at_stop`` are called when it stops."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings, self.limits = settings, settings.limits
        self.metrics = ServiceMetrics()
        self.models = ServedModels(settings, self.metrics)
        self.at_stop: list[Callable[[], None]] = [self.models.stop]
        self.kept_bags = BagStore(settings.keep, days=settings.keep_days, most_bytes=settings.keep_bytes)
        galleries, most = settings.galleries, settings.gallery_bytes
        self.galleries = None if galleries is None else GalleryRegistry(galleries, most)

    def model_of_kept(self, bags: Iterable[str]) -> str | None:
        """The model that stored bags, given by their ids, were stored for, if it is one and is served."""
        if len(self.models.names) == 1:
            return None  # it need not be named, and the files need not be read
        models = {self.kept_bags.find(bag).model for bag in bags}.intersection(self.models.names)
        return models.pop() if len(models) == 1 else None


def service_of(request: Request) -> RunningService:
    """The service that a request was sent to."""
    service: RunningService = request.app.state.service
    return service


def model_of(request: Request, name: str | None, *, to_check: bool = False) -> LoadedModel:
    """The model that a request names; the log shows it."""
    models = service_of(request).models
    model = models.checking(name) if to_check else models.named(name)
    request.state.model = model.name
    return model


def create_app(
    settings: ServiceSettings,
    failed: Callable[[Exception], None] | None = None,
    ready: Callable[[float], None] | None = None,
) -> FastAPI:
    """Make the app. Its models are loaded in the background once it runs; ``/readyz`` says when they are ready.

    Args:
        settings: settings of the service.
        failed: called with the error if a model cannot be loaded.
        ready: called with the seconds that loading took, once all models are loaded.
    """
    service = RunningService(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # Few threads: each may hold a large image while it decodes it.
        threads = ThreadPoolExecutor(4, thread_name_prefix="reading")
        asyncio.get_running_loop().set_default_executor(threads)
        service.models.load_in_background(failed, ready)
        yield
        for stop in reversed(service.at_stop):
            stop()

    # The documentation pages of FastAPI load scripts from another machine, so they are off.
    app = FastAPI(title="miv", docs_url=None, redoc_url=None, lifespan=lifespan, redirect_slashes=False)
    app.state.service = service
    add_error_handlers(app)
    for module in route_modules():
        app.include_router(module.router)
        if hasattr(module, "prepare"):
            module.prepare(service)
    add_api_document(app, token=settings.token is not None)
    app.add_middleware(RequestGuard, settings=settings, metrics=service.metrics)
    return app
