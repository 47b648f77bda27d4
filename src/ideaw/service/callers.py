"""Who calls: the owner, who may do everything, or a stranger, who gets coarse answers to one question at a time.

Exact answers (p-values, soft bits, borders) are what an attacker needs to remove or forge a mark step by step; who has
a token, or sits at the machine itself while nobody else can reach it, gets them.
"""

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path

from ideaw.errors import FileError, error_reason
from ideaw.service.refusals import Refusal
from ideaw.service.settings import Settings, literal_address

MIN_TOKEN_CHARACTERS = 16

MAX_REMEMBERED_ADDRESSES = 10_000
"""Addresses whose requests are counted; the one that was idle longest is forgotten first."""

SUBSCRIBER_BITS = 64
"""Of an IPv6 address, those that a subscriber cannot choose."""

STATIC = "/static/"
"""Where the files of the page are, which are everybody's."""

ASKS_REGISTRY = ("/matches/", "/manifests/", "/v1/records/")
"""Where a registry is asked, which is everybody's too; asking it costs work whatever the method."""

STRANGERS_MAY = (
    *("/", "/health", "/openapi.json", "/services/supportedAlgorithms"),
    *("/v1/info", "/v1/sample", "/v1/detect", "/v1/preview", "/v1/verify"),
)
"""Other routes that are open to everybody."""


def read_tokens(path: Path) -> tuple[str, ...]:
    """The bearer tokens in a file, one on each line; lines that begin with # are remarks.

    Raises:
        FileError: it cannot be read, or holds no token, or one that could be guessed.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeDecodeError) as problem:
        raise FileError(f"{path} cannot be read as tokens: {error_reason(problem)}") from problem
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise FileError(f"{path} holds no token; write one on each line")
    if min(map(len, tokens)) < MIN_TOKEN_CHARACTERS:
        raise FileError(f"{path} holds a token of less than {MIN_TOKEN_CHARACTERS} characters; make longer ones")
    return tokens


class Callers:
    """Tells the owner from strangers, and how often a stranger may ask."""

    def __init__(self, settings: Settings) -> None:
        self._private = settings.is_private
        self._tokens = [_digest(token) for token in settings.tokens]
        self._buckets = Buckets(settings.limits.stranger_requests_per_minute)

    def is_owner(self, address: str, path: str, authorization: str | None, costs_work: bool) -> bool:
        """Whether a caller may do everything; strangers may come in too, where they are allowed.

        Args:
            address: where the request comes from.
            path: where it goes.
            authorization: its header of that name.
            costs_work: whether it asks for more than something that lies ready.

        Raises:
            Refusal: the token is not one of ours, or a stranger has no business there, or comes too often.
        """
        if self._private or (authorization is not None and self._knows(authorization)):
            return True
        if costs_work or authorization is not None:
            self._buckets.take(subscriber(address))
        if authorization is not None:
            raise _unknown("this token is not known here")
        if not _is_open(path):
            if self._tokens:
                raise _unknown("this needs a token: Authorization: Bearer …")
            line = "this is open to owners only, and the service was started without --token-file"
            raise Refusal(HTTPStatus.FORBIDDEN, line)
        return False

    def _knows(self, authorization: str) -> bool:
        """Whether the header holds a token of ours; takes as long whichever it is, and none."""
        scheme, _, token = authorization.partition(" ")
        given = _digest(token.strip())
        return scheme.lower() == "bearer" and sum(hmac.compare_digest(given, known) for known in self._tokens) > 0


def _is_open(path: str) -> bool:
    """Whether strangers may go there."""
    return path in STRANGERS_MAY or path.startswith((STATIC, *ASKS_REGISTRY))


def subscriber(address: str) -> str:
    """Whose address it is, as far as it tells: of IPv6 a subscriber has a whole network, of which a rate is counted."""
    literal = literal_address(address)
    if not isinstance(literal, IPv6Address):
        return address
    if literal.ipv4_mapped:
        return str(literal.ipv4_mapped)
    return str(IPv6Network((literal, SUBSCRIBER_BITS), strict=False))


class Buckets:
    """A bucket of tokens for each address, as large as a minute's worth, which fills up again steadily."""

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute, self._clock = per_minute, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str) -> None:
        """Take one out; raise a `Refusal` if there is none."""
        now, most = self._clock(), max(1.0, self._per_minute)
        level, then = self._levels.pop(address, (most, now))
        level = min(most, level + (now - then) * self._per_minute / 60)
        allowed = level >= 1
        self._levels[address] = (level - 1 if allowed else level, now)
        if len(self._levels) > MAX_REMEMBERED_ADDRESSES:
            self._levels.popitem(last=False)
        if not allowed:
            wait = str(1 + int((1 - level) * 60 / self._per_minute))
            line = f"more than {self._per_minute:g} requests in a minute; wait {wait} s"
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, line, {"Retry-After": wait})


def _unknown(line: str) -> Refusal:
    return Refusal(HTTPStatus.UNAUTHORIZED, line, {"WWW-Authenticate": "Bearer"})


def _digest(token: str) -> bytes:
    """Of equal length for all tokens, so that a comparison tells nothing about theirs."""
    return hashlib.sha256(token.encode()).digest()
