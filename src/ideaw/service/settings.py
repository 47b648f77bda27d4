"""What `ideaw serve` is started with: where it listens, whom it trusts, and how much it takes on.

Limits are there so that no request, nor any number of them, can take the machine down; each has a clear answer.
"""

import ipaddress
from dataclasses import dataclass, field, fields
from math import inf
from pathlib import Path

from ideaw.errors import IdeawError
from ideaw.keys import Key

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8017


@dataclass(frozen=True)
class Limits:
    """How much is taken on.

    Attributes:
        bytes: of one request's body.
        seconds: of audio in one file.
        values: samples times channels that are decoded into memory or to plain PCM at once, for `compare`, `attack` and
            `preview`.
        job_seconds: that one job may run.
        waiting: jobs that wait for a worker; more are refused for the moment.
        held_bytes: of all requests' bodies and answers that are on the disk at the same time.
        uploads: requests whose bodies arrive at the same time.
        patience_seconds: that a client may take to send a request's head, or be silent in its body or while it reads.
        bytes_per_second: with which a body has to arrive, once `patience_seconds` have passed, and answers be read.
        stop_seconds: that running requests get when the service is stopped.
        stranger_requests_per_minute: that one address of strangers may make; as many may come at once.
    """

    bytes: int = 200_000_000
    seconds: float = 900.0
    values: int = 30_000_000
    job_seconds: float = 120.0
    waiting: int = 64
    held_bytes: int = 4_000_000_000
    uploads: int = 256
    patience_seconds: float = 10.0
    bytes_per_second: float = 16_000.0
    stop_seconds: float = 30.0
    stranger_requests_per_minute: float = 30.0

    def __post_init__(self) -> None:
        """Raise `IdeawError` for what is no limit."""
        for limit in fields(self):
            if not 0 <= getattr(self, limit.name) < inf:
                raise IdeawError(f"{getattr(self, limit.name)} is no limit for {limit.name}; give a number")


@dataclass(frozen=True)
class Settings:
    """How the service runs.

    Attributes:
        host, port: where it listens.
        model: name of a packaged model or path of a folder; None for the default.
        keys: where a request brings none, marks are made with the first and looked for with all; none: the public key.
        key_name: what answers call them.
        tokens: bearer tokens of those who may do everything.
        names: host names under which the service is known, besides addresses and localhost.
        proxies: addresses of reverse proxies whose `X-Forwarded-For` is believed.
        registry: URL of the registry of the ids that are resolved, verified and allotted; None: none are.
        sign: PEM files of the certificate that signs manifests, and of its key; None: nothing is signed.
        trusted: PEM file of authorities whose signatures are trusted; None: none is.
        workers: processes that do the work.
        min_check_bits: bits of proof that a message was made with its key, without which it is not told.
        limits: how much is taken on.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    model: str | None = None
    keys: tuple[Key, ...] = field(default=(), repr=False)
    key_name: str | None = None
    tokens: tuple[str, ...] = field(default=(), repr=False)
    names: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    registry: str | None = field(default=None, repr=False)
    sign: tuple[Path, Path] | None = field(default=None, repr=False)
    trusted: Path | None = None
    workers: int = 2
    min_check_bits: int = 0
    limits: Limits = Limits()

    @property
    def is_private(self) -> bool:
        """Whether only programs of this machine can call, so that a caller without a token may do everything."""
        return is_loopback(self.host) and not (self.tokens or self.names or self.proxies)


def is_loopback(host: str) -> bool:
    """Whether a host name or an address means this machine alone."""
    address = literal_address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def literal_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that is written there; None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
