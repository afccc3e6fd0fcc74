"""Logs: one line of JSON per event on standard error. Never the content of a request, a file name or a token."""

import json
import logging
import sys
import traceback
import warnings
from datetime import UTC, datetime
from typing import Any

from miv.errors import MIVWarning, are_warnings_heard

REQUESTS = logging.getLogger("miv.service.requests")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON; an exception as its type and the places in the code, without its words."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
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


def configure_logs() -> None:
    """Send all logs and warnings of this process to standard error, one line of JSON each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = [], True
    logging.getLogger("uvicorn.access").disabled = True
    warnings.showwarning = _log_warning


def _log_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Log a warning once, without where.

    The words of other libraries may quote the request, and so may those of ours that are in the answer already.
    """
    fields = {"warning": category.__name__}
    if issubclass(category, MIVWarning) and not are_warnings_heard():
        fields["words"] = str(message)
    logging.getLogger("miv.service").warning("warning", extra={"fields": fields})


def log_request(fields: dict[str, Any]) -> None:
    """Log one answered request."""
    REQUESTS.info("request", extra={"fields": fields})
