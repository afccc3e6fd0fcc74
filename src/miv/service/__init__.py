"""``miv serve``: verifiers over HTTP, and a page for people who never open a terminal.

``create_app(settings)`` makes the FastAPI app. A file of ``miv.service.routes`` adds addresses by itself: see there.
"""

from miv.service.service_settings import Limits, ServiceSettings
from miv.service.web_app import create_app

__all__ = ["Limits", "ServiceSettings", "create_app"]
