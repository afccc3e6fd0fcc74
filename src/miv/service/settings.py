"""Settings of the service: models, address, token, and every limit with its default."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from miv.errors import MIVError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound
_SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Limits:
    """What one request may hold, and how much may wait. Requests beyond a limit are answered with 413, 422 or 503."""

    bytes: int = 32_000_000  # of a request
    bytes_in_all: int = 256_000_000  # of all requests of a worker that are not answered yet
    exemplars: int = 256  # per request
    instances: int = 2_000  # per bag
    references: int = 50  # per query
    instances_in_all: int = 5_000  # per request
    characters: int = 100_000  # per text
    numbers: int = 65_536  # per vector
    numbers_in_all: int = 4_000_000  # per request
    pixels: int = 25_000_000  # per image
    pixels_in_all: int = 250_000_000  # of all images of a request
    seconds: float = 30.0  # per request, waiting included
    waiting_requests: int = 128  # per model
    waiting_bytes: int = 400_000_000  # in memory, per model: a bag of 2,000 images of 224 × 224 pixels fits
    pooled: int = 2_000_000  # instances pooled for one request; leave-one-out pools a bag many times
    together: int = 4_096  # instances verified together
    citations: int = 20  # per sentence of a check
    pairs: int = 200_000  # sentences of an answer times source sentences, per check

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise MIVError(f"The limit {name} is {value}. Expected a number above 0.")


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of ``miv serve``."""

    models: tuple[str, ...]  # names or folders of verifiers
    host: str = "127.0.0.1"
    port: int = 8000  # 0 chooses a free one
    token: str | None = field(default=None, repr=False)  # requests must carry it; None only on this machine
    allowed_hosts: tuple[str, ...] = ()  # further names in the header Host
    workers: int = 1  # processes
    threads: int = 0  # of each worker; 0 divides the processor among the workers
    batching: bool = True  # verify waiting requests together
    limits: Limits = field(default_factory=Limits)
    galleries: Path | None = None  # folder with the galleries to serve
    gallery_bytes: int = 10_000_000_000  # of all galleries in that folder
    pictures: Path | None = None  # image files in this folder that galleries name may be shown with hits
    stop_seconds: int = 30  # graceful shutdown timeout
    log: Path | None = None  # file for lines of JSON, "-" for standard error; None prints words for people there

    def __post_init__(self) -> None:
        if not self.models:
            raise MIVError("There are no models. Expected at least one, such as miv/digits.")
        if not 1 <= self.workers <= 256 or not 0 <= self.threads <= 1024 or not 0 <= self.port <= 65535:
            numbers = f"workers is {self.workers}, threads {self.threads} and port {self.port}"
            raise MIVError(f"{numbers}. Expected 1 to 256 workers, up to 1024 threads, and a port up to 65535.")
        if self.token is None and self.host not in LOOPBACK:
            remedy = "Give --token-file FILE (or the environment variable MIV_TOKEN), or listen on 127.0.0.1."
            raise MIVError(f"Other machines can reach the address {self.host}, and there is no token. {remedy}")
        token = "-" * _SHORTEST_TOKEN if self.token is None else self.token
        if not token.isascii() or not token.isprintable() or len(token) < _SHORTEST_TOKEN:  # which is never shown
            expected = f"Expected one line of at least {_SHORTEST_TOKEN} printable ASCII characters"
            remedy = "such as `openssl rand -hex 24` makes"
            raise MIVError(f"The token has {len(token)} characters, or odd ones. {expected}, {remedy}.")

    @property
    def hosts(self) -> frozenset[str]:
        """The names that the header Host may have, without port, in lower case."""
        own = () if self.listens_everywhere else (self.host,)
        return frozenset(name.lower() for name in (*LOOPBACK, *own, *self.allowed_hosts))

    @property
    def listens_everywhere(self) -> bool:
        """Whether the service is reached by every address of this machine."""
        return self.host in _WILDCARDS
