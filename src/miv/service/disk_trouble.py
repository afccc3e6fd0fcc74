"""Trouble with the server's disk is no fault of a request: it is answered with 503, without the names of files."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from miv.errors import MIVError
from miv.service.refusals import RefusedRequest

logger = logging.getLogger(__name__)


@contextmanager
def refusing_on_disk_trouble(what: str, done: str) -> Iterator[None]:
    """Refuse the request with 503 if the system fails to read or write in this block; the log says which file.

    Args:
        what: subject of the message, such as "The kept bag".
        done: what could not be done, such as "written".
    """
    try:
        yield
    except (MIVError, OSError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(error, RefusedRequest) or not isinstance(cause, OSError):
            raise
        logger.error("%s could not be %s: %s", what, done, error)
        reason = cause.strerror or type(cause).__name__
        raise RefusedRequest(503, f"{what} could not be {done} on the server: {reason}. Try again later.") from error
