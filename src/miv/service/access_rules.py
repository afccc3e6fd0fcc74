"""Who may ask: the header Host against DNS rebinding, Origin against pages of other sites, and the token."""

import hmac
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from miv.service.refusals import RefusedRequest
from miv.service.service_settings import ServiceSettings

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LONGEST_HOST = 100  # characters that are shown
_NO_TOKEN = frozenset({"/", "/healthz", "/readyz", "/openapi.json", "/favicon.ico"})  # and /page/…


class UnknownHost(RefusedRequest):
    """A request for a name that is not one of this service."""

    def __init__(self, hosts: list[str]) -> None:
        name = host_name(hosts[0]) if len(hosts) == 1 else ""
        given = ", ".join(hosts)[:_LONGEST_HOST]
        todo = f"To be reached so, start the service with --allowed-host {name}." if name else "Expected one name."
        super().__init__(400, f"The header Host is {given!r}, which is not a name of this service. {todo}")


class AccessRules:
    """The rules of one service.

    Args:
        settings: its settings, for the names it is reached by and its token.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._hosts, self._any_address = settings.hosts, settings.listens_everywhere
        self._token = None if settings.token is None else settings.token.encode()

    def check(self, method: str, path: str, headers: Headers) -> None:
        """Refuse a request that is not allowed."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_known(host_name(hosts[0])):
            raise UnknownHost(hosts)
        is_read_by_others = path.startswith("/v1/") and headers.get("sec-fetch-site") == "cross-site"
        if is_read_by_others or (method not in _SAFE and not _is_same_site(headers, hosts[0])):
            raise RefusedRequest(403, "The request comes from a page of another site, which is not allowed.")
        if self._token is None or path in _NO_TOKEN or path.startswith("/page/"):
            return
        given = headers.getlist("authorization")
        kind, _, token = (given[0] if len(given) == 1 else "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(token.strip().encode("latin-1"), self._token):
            raise RefusedRequest(401, "The token is missing or wrong. Send the header Authorization: Bearer TOKEN.")

    def _is_known(self, name: str) -> bool:
        """Whether the service is reached by a name. An address needs no DNS, so nobody can rebind it."""
        return name in self._hosts or (self._any_address and _is_address(name))


def _is_address(name: str) -> bool:
    """Whether a name is an IP address.

    >>> _is_address("192.0.2.2"), _is_address("2001:db8::1"), _is_address("192.0.2.2.example.org")
    (True, True, False)
    """
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_same_site(headers: Headers, host: str) -> bool:
    """Whether a request that changes something comes from our own page, or not from a browser."""
    if headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
        return False
    return all(_host_of(origin) == host.lower() for origin in headers.getlist("origin"))


def host_name(host: str) -> str:
    """The name in a header Host, without its port; empty if it is anything else.

    >>> host_name("LocalHost:8000"), host_name("[::1]:80"), host_name("localhost@evil.org"), host_name("a/b")
    ('localhost', '::1', '', '')
    """
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises for one that is no number
    except ValueError:
        return ""
    is_plain = parts.username is None and not (parts.path or parts.query or parts.fragment) and host.isprintable()
    return parts.hostname or "" if is_plain else ""


def _host_of(origin: str) -> str:
    """Host and port of an origin of the web; empty for ``null`` and other schemes.

    >>> _host_of("https://miv.example.org"), _host_of("null"), _host_of("file://localhost")
    ('miv.example.org', '', '')
    """
    scheme, _, rest = origin.partition("://")
    return rest.lower() if scheme.lower() in {"http", "https"} else ""
