"""Run the app with uvicorn: in this process, or in several workers that are restarted if they die."""

import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from miv.errors import MIVError
from miv.runtime import Terminated
from miv.service.metrics import SHARED_FOLDER, configure_logs
from miv.service.models import served_names
from miv.service.routes import create_app
from miv.service.settings import ServiceSettings

logger = logging.getLogger(__name__)


def _announce(settings: ServiceSettings, address: str, seconds: float) -> None:
    """Say that the service is ready after so many seconds."""
    words = f"Ready: {', '.join(settings.models)} ({seconds:.1f} s). Open {address} in a browser; Ctrl-C stops it."
    fields = {"address": address, "models": settings.models, "seconds": round(seconds, 1), "words": words}
    logger.info("ready", extra={"fields": fields})


def end_orphaned_worker(supervisor: int) -> None:
    """End this worker as SIGTERM does, when its supervisor was killed: uvicorn's workers would go on alone."""

    def watch() -> None:
        while os.getppid() == supervisor:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)
        shutil.rmtree(os.environ[SHARED_FOLDER], ignore_errors=True)  # its owner cannot any more

    threading.Thread(target=watch, name="supervisor", daemon=True).start()


_ANSWER_SECONDS = 300  # a worker that does not answer its supervisor for so long is killed; starting may take a minute


def run_service(settings: ServiceSettings) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what is running; a model that cannot be loaded is an error."""
    served_names(settings.models)  # a wrong one is an error before anything is opened
    configure_logs(settings.log)
    with _listen(settings.host, settings.port) as listening:
        host = "127.0.0.1" if settings.listens_everywhere else listening.getsockname()[0]
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        logger.info("listening", extra={"fields": {"address": address, "models": settings.models}})
        ready = partial(_announce, settings, address)
        if settings.workers == 1:
            _run_alone(settings, listening, ready)
        else:
            _run_workers(settings, listening, ready)
    logger.info("stopped")


def _run_alone(settings: ServiceSettings, listening: socket.socket, ready: Callable[[float], None]) -> None:
    problems: list[Exception] = []

    def failed(error: Exception) -> None:
        problems.append(error)
        server.should_exit = True

    server = uvicorn.Server(_config(settings, create_app(settings, failed, ready)))
    with suppress(Terminated, KeyboardInterrupt):  # raised by uvicorn after everything has been finished
        server.run(sockets=[listening])
    if problems:
        raise problems[0]


def _run_workers(settings: ServiceSettings, listening: socket.socket, ready: Callable[[float], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="miv-metrics-", ignore_cleanup_errors=True) as folder:
        os.environ[SHARED_FOLDER] = folder
        app = partial(_worker_app, settings, ready, os.getpid())
        supervisor = _Supervisor(_config(settings, app, factory=True, workers=settings.workers), [listening])
        supervisor.run()
        if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
            raise MIVError("A worker could not start. Its message is above.")


class _Supervisor(Multiprocess):
    """Restarts dead workers; also takes them out of the metrics that count only living ones."""

    def keep_subprocess_alive(self) -> None:
        for process in self.processes:  # so that a worker that dies ends the wait for its answer
            process.child_conn.close()
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in before - {process.pid for process in self.processes}:
            logger.warning("worker died", extra={"fields": {"worker": pid}})
            mark_process_dead(pid)


def _worker_app(settings: ServiceSettings, ready: Callable[[float], None], supervisor: int) -> FastAPI:
    configure_logs(settings.log)
    end_orphaned_worker(supervisor)

    def failed(error: Exception) -> None:
        print(f"Error: {error}", file=sys.stderr, flush=True)
        os._exit(STARTUP_FAILURE)  # tells the supervisor not to try again

    def announce(seconds: float) -> None:
        with suppress(FileExistsError):  # another worker did
            Path(os.environ[SHARED_FOLDER], "ready").touch(exist_ok=False)
            ready(seconds)

    return create_app(settings, failed, announce)


def _config(settings: ServiceSettings, app: Any, **options: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=settings.stop_seconds,
        timeout_worker_healthcheck=_ANSWER_SECONDS,
        timeout_keep_alive=10,
        h11_max_incomplete_event_size=32_768,  # of headers
        **options,
    )


def _listen(host: str, port: int) -> socket.socket:
    """A socket that all workers share."""
    try:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        listening = socket.create_server(address, family=family, dualstack_ipv6=both)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MIVError(f"Cannot listen on {host} port {port}: {reason}. Choose another --host or --port.") from error
    listening.set_inheritable(True)
    return listening
