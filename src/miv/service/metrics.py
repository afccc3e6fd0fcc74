"""Metrics for Prometheus, and logs, which never hold the content of a request or a token."""

import json
import logging
import os
import sys
import traceback
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess
from prometheus_client.process_collector import ProcessCollector

from miv.errors import MIVWarning, are_warnings_collected
from miv.files.atomic import readable_disk_errors

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServiceMetrics:
    """The counters of one app."""

    def __init__(self) -> None:
        self._is_shared = bool(os.environ.get(SHARED_FOLDER))
        self._registry = registry = CollectorRegistry()
        if not self._is_shared:
            ProcessCollector(registry=registry)
        per_route: dict[str, Any] = {"labelnames": ("route",), "registry": registry}
        per_model: dict[str, Any] = {"labelnames": ("model",), "registry": registry}
        batches = (1, 2, 4, 8, 16, 32, 64, 128)
        self.requests = Counter("miv_requests", "Answered requests.", ("method", "route", "status"), registry=registry)
        self.seconds = Histogram("miv_request_seconds", "Time per request.", buckets=_SECONDS, **per_route)
        self.received = Counter("miv_received_bytes", "Bytes of requests.", **per_route)
        self.exemplars = Counter("miv_exemplars", "Verified exemplars.", **per_model)
        self.batches = Histogram("miv_batch_requests", "Requests verified together.", buckets=batches, **per_model)
        self.waiting = Gauge("miv_waiting_requests", "Waiting requests.", multiprocess_mode="livesum", **per_model)
        self.ready = Gauge("miv_models_ready", "Loaded models.", multiprocess_mode="livemin", registry=registry)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format, summed over the workers."""
        if not self._is_shared:
            return generate_latest(self._registry)
        summed = CollectorRegistry()
        multiprocess.MultiProcessCollector(summed)
        return generate_latest(summed)


REQUESTS = logging.getLogger("miv.service.requests")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON; an exception as its type and the places in the code, without its words."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": record.process,
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            # The words of an exception may quote the request.
            line["exception"] = record.exc_info[0].__name__
            line["places"] = [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(record.exc_info[2])]
        return json.dumps(line)


class HumanLines(logging.Formatter):
    """Formats a record in words."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        if record.levelno < logging.WARNING:
            return str(fields["words"])
        line = json.loads(JsonLines().format(record))
        details = ", ".join(f"{name} {line[name]}" for name in (*fields, "exception", "places") if name in line)
        return f"{record.levelname.capitalize()}: {line['event']}{f' ({details})' if details else ''}"


def configure_logs(file: Path | None) -> None:
    """Write all logs and warnings of this process to a file, or to standard error for "-", one line of JSON each.

    Without a file, standard error gets what a person should know, in words: that the service is ready, and trouble.
    """
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if file is None:
        handler.setFormatter(HumanLines())
        handler.addFilter(lambda record: record.levelno >= logging.WARNING or "words" in getattr(record, "fields", {}))
    else:
        if str(file) != "-":
            with readable_disk_errors(file):
                handler = logging.FileHandler(file)
        handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    warnings.showwarning = _log_warning


def _log_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Log a warning; the words of other libraries, and of ours that are in the answer, may quote the request."""
    fields = {"warning": category.__name__}
    if issubclass(category, MIVWarning) and not are_warnings_collected():
        fields["words"] = str(message)
    logging.getLogger("miv.service").warning("warning", extra={"fields": fields})
