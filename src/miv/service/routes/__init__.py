"""The addresses of the service, one file per subject.

To add addresses, add a file to this folder with a ``router``; nothing else changes::

    router = APIRouter()

    @router.post("/v1/things", responses=error_responses(413, 415, 422, 503), openapi_extra=json_body(ThingRequest, {}))
    async def make_thing(request: Request) -> JSONResponse:
        asked = await read_json(request, ThingRequest)        # 4xx with a message for anything else
        model = service_of(request).models.named(asked.model)  # 404, or 503 while it is loaded
        ...

If the file also has ``prepare(service)``, it is called once when the app is made, before any request; a function given
to ``service.at_stop`` is called when the app stops. Raise ``RefusedRequest(status, message)`` or any ``MIVError`` (422)
to refuse a request. Work that takes more than about a millisecond goes to a thread: ``await in_thread(function, ...)``
of ``miv.service.reading``, or, if it runs the model, ``await model.run(function)``.
"""

import pkgutil
from importlib import import_module
from types import ModuleType


def route_modules() -> list[ModuleType]:
    """All files of this folder, in the order of their names."""
    names = sorted(one.name for one in pkgutil.iter_modules(__path__))
    return [import_module(f"{__name__}.{name}") for name in names]
