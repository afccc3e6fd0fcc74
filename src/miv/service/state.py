"""What all routes share: settings, models and galleries."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fastapi import Request

from miv.runtime import available_cores, pausing
from miv.service.batching import NobodyWaits
from miv.service.galleries import GalleryRegistry
from miv.service.metrics import ServiceMetrics
from miv.service.models import LoadedModel, ServedModels
from miv.service.settings import ServiceSettings

Result = TypeVar("Result")


class RunningService:
    """The state of an app."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings, self.limits = settings, settings.limits
        self.metrics = ServiceMetrics()
        self.models = ServedModels(settings, self.metrics)
        galleries = settings.galleries
        self.galleries = None if galleries is None else GalleryRegistry(galleries, settings.gallery_bytes)
        # Large bodies and images are read apart, so that small ones never wait for them.
        self._large = ThreadPoolExecutor(max(1, available_cores() // 2), thread_name_prefix="large")

    def stop(self) -> None:
        self._large.shutdown(wait=False, cancel_futures=True)
        self.models.stop()

    async def in_thread(self, function: Callable[[], Result], *, is_large: bool = False) -> Result:
        """Run a function in a thread; it ends at its next pause if the request ends before it."""
        ended = threading.Event()

        def check() -> None:
            if ended.is_set():
                raise NobodyWaits

        def run() -> Result:
            with pausing(check):
                return function()

        try:
            return await asyncio.get_running_loop().run_in_executor(self._large if is_large else None, run)
        finally:
            ended.set()


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
