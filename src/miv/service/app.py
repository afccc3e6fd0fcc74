"""The FastAPI app: routes, middleware, errors and the loading of models."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI

from miv.service.bodies import add_api_document
from miv.service.errors import add_error_handlers
from miv.service.routes import route_modules
from miv.service.security import RequestGuard
from miv.service.settings import ServiceSettings
from miv.service.state import RunningService


def create_app(
    settings: ServiceSettings,
    failed: Callable[[Exception], None] | None = None,
    ready: Callable[[float], None] | None = None,
) -> FastAPI:
    """Make the app. Its models are loaded in the background once it runs; ``/readyz`` says when they are ready.

    Args:
        settings: settings of the service.
        failed: called with the error if a model cannot be loaded; by default the error is kept, and every request
            that needs the model is refused.
        ready: called with the seconds that loading took, once all models are loaded.
    """
    service = RunningService(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # Few threads: each may hold a large image while it decodes it.
        threads = ThreadPoolExecutor(4, thread_name_prefix="reading")
        asyncio.get_running_loop().set_default_executor(threads)
        service.models.load_in_background(failed or service.models.keep_failure, ready)
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
    app.add_middleware(RequestGuard, service=service)
    return app
