"""Run the app with uvicorn."""

import uvicorn

from miv.service.service_settings import ServiceSettings
from miv.service.web_app import create_app


def run_service(settings: ServiceSettings) -> None:
    """Serve until SIGTERM or Ctrl-C; an error while loading a model ends it."""
    problems: list[Exception] = []

    def failed(error: Exception) -> None:
        problems.append(error)
        server.should_exit = True

    config = uvicorn.Config(
        create_app(settings, failed),
        host=settings.host,
        port=settings.port,
        timeout_graceful_shutdown=settings.stop_seconds,
        server_header=False,
        access_log=False,
    )
    server = uvicorn.Server(config)
    server.run()
    if problems:
        raise problems[0]
