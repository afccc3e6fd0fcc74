"""``miv serve``: verifiers over HTTP, a page for people who never open a terminal, and a Python client.

``create_app(settings)`` makes the FastAPI app. A file of ``miv.service.routes`` adds addresses by itself: see there.
``Client`` calls a service, and needs none of the libraries that serve.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from miv.service.client import Client, RemoteGallery, ServiceError
    from miv.service.routes import create_app as create_app
    from miv.service.settings import Limits, ServiceSettings

_HOMES = {
    "Client": "client",
    "Limits": "settings",
    "RemoteGallery": "client",
    "ServiceError": "client",
    "ServiceSettings": "settings",
    "create_app": "routes",
}
__all__ = ["Client", "Limits", "RemoteGallery", "ServiceError", "ServiceSettings", "create_app"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the client works without FastAPI."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
