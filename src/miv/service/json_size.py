"""Refuse JSON of too many parts before it is parsed: a byte of text can become a hundred bytes of objects."""

from miv.service.refusals import RefusedRequest
from miv.service.service_settings import Limits

_SPARE = 100_000  # parts that cost a few milliseconds, so that the parser explains what is wrong with them
_STRINGS = 6  # per instance or exemplar: the keys and values of an image with a name, and a few more


def check_json_size(content: bytes, limits: Limits) -> None:
    """Refuse more lists, objects, strings or numbers than the limits allow. Signs inside strings do not count."""
    parts = limits.instances_in_all + 3 * limits.exemplars + _SPARE
    quotes = 2 * _STRINGS * parts
    if content.count(b'"') > quotes:
        content = _without_escapes(content)
        if content.count(b'"') > quotes:
            raise _too_many(limits)
    if _count(content, b"[", b"{") > parts and _count(_without_strings(content), b"[", b"{") > parts:
        raise _too_many(limits)
    commas = limits.numbers_in_all + 2 * parts
    if content.count(b",") > commas and _without_strings(content).count(b",") > commas:
        most = limits.numbers_in_all
        raise RefusedRequest(413, f"The request has more than {most:,} numbers. Divide it.")


def _count(content: bytes, *signs: bytes) -> int:
    return sum(map(content.count, signs))


def _without_escapes(content: bytes) -> bytes:
    return content.replace(rb"\\", b"").replace(rb"\"", b"")


def _without_strings(content: bytes) -> bytes:
    """What is outside of the quotes."""
    return b"".join(_without_escapes(content).split(b'"')[::2])


def _too_many(limits: Limits) -> RefusedRequest:
    most = limits.instances_in_all
    return RefusedRequest(413, f"The request has far more than {most:,} instances. Divide it.")
