"""The app and its addresses, one file per subject.

To add addresses, add a file with a ``router`` and routes like ``@router.post("/v1/things", **documented("things",
ThingAnswer, 404, body=ThingRequest, example={}))``. ``await read_json(request, ThingRequest)`` and ``model_of(request,
name)`` refuse what is wrong with a message.

Raise ``RefusedRequest(status, message)`` or any ``MIVError`` (422) to refuse a request. Work that takes more than a
millisecond goes to a thread: ``await asyncio.to_thread(...)``, or, if it runs the model, ``await model.run(function)``.
"""

import asyncio
import pkgutil
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib import import_module

from fastapi import FastAPI

from miv.service.bodies import add_api_document
from miv.service.errors import add_error_handlers
from miv.service.security import RequestGuard
from miv.service.settings import ServiceSettings
from miv.service.state import RunningService


def create_app(
    settings: ServiceSettings,
    failed: Callable[[Exception], None] = lambda error: None,
    ready: Callable[[float], None] = lambda seconds: None,
) -> FastAPI:
    """Make the app. Its models are loaded in the background once it runs; ``/readyz`` says when they are ready.

    ``failed`` is called with the error if a model cannot be loaded, ``ready`` with the seconds that loading took.
    """
    service = RunningService(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # Few threads: each may hold a large image while it decodes it.
        threads = ThreadPoolExecutor(4, thread_name_prefix="reading")
        asyncio.get_running_loop().set_default_executor(threads)
        service.models.load_in_background(failed, ready)
        yield
        service.stop()

    # The documentation pages of FastAPI load scripts from another machine, so they are off.
    app = FastAPI(title="miv", docs_url=None, redoc_url=None, lifespan=lifespan, redirect_slashes=False)
    app.state.service = service
    add_error_handlers(app)
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        app.include_router(import_module(f"{__name__}.{name}").router)
    add_api_document(app, token=settings.token is not None)
    app.add_middleware(RequestGuard, settings=settings, metrics=service.metrics)
    return app
