"""The users of a proxy's requests, known by a token that the server reviews, or by a client certificate.

Reviews are remembered for some seconds, within a bounded memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from aiohttp import web

from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.tasks import Coro
from kinformer.apiserver.status import StatusError, failure, unauthorized
from kinformer.client.client import Client
from kinformer.connection.single_flight import SingleFlight
from kinformer.exceptions import APIError, ConnectError, DecodeError
from kinformer.objects.object import KubeObject

__all__ = ["UNANSWERED", "Caller", "Callers", "Memory", "review"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
S = TypeVar("S")

log = get_logger("kinformer.proxy")

UNANSWERED = (APIError, ConnectError, DecodeError)
_TIMEOUT = 10.0  # seconds for a review
_REMEMBERED = 10.0  # seconds, as a kube-apiserver's own reviews (DelegatingAuthenticationOptions)
_MOST = 8192  # tokens
_QUIET = 60.0  # seconds between two warnings
_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
_AUTHENTICATED = "system:authenticated"


class Memory(Generic[K, V]):
    """Remembers answers by their question, and shares a question that is being asked.

    Args:
        seconds: The time for which an answer is reused. A failure is not remembered.
        most: The most answers. A further one takes the place of the one that was used longest ago.
    """

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._most = most
        self._flights: OrderedDict[K, SingleFlight[V]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of remembered answers."""
        return len(self._flights)

    async def get(self, key: K, ask: Callable[[], Coro[V]]) -> V:
        """Return the answer to a question, which `ask` gets if it is not known."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = SingleFlight(ask, ttl=self._seconds)
            if len(self._flights) > self._most:
                self._flights.popitem(last=False)
        else:
            self._flights.move_to_end(key)
        return await flight.get()


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """A user, as in the UserInfo of authentication.k8s.io.

    `has_token` is False for a user with only a certificate, whose requests cannot be passed on.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    has_token: bool = True
    until: float | None = None  # the end of a certificate, in seconds since the epoch


class Callers:
    """Finds out who sends a request.

    Args:
        client: The client for the reviews.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._salt = secrets.token_bytes(16)  # a memory dump has no tokens, and no hashes that can be looked up
        self._known: Memory[bytes, Caller | None] = Memory(_REMEMBERED, _MOST)
        self._logged = LogOnce(burst=1, every=_QUIET)

    async def identify(self, request: web.BaseRequest) -> Caller:
        """Return the user of a request. A token counts more than a client certificate.

        Raises:
            StatusError: A 401 if the request has no valid credentials, or a 503 if the server cannot be asked.
        """
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme:
            if scheme.lower() != "bearer" or not token.strip() or len(request.headers.getall("Authorization")) > 1:
                raise unauthorized()
            return await self._of_token(token.strip())
        caller = _of_certificate(request.transport)
        if caller is None or (caller.until is not None and caller.until < time.time()):
            raise unauthorized()
        return caller

    def unavailable(self, error: Exception) -> StatusError:
        """Return the 503 for a request that cannot be allowed or refused, because the server does not answer."""
        if self._logged.is_news("review", time.monotonic()):
            log.warning("a review failed, so requests are refused: %s", error, reason=error)
        message = "the proxy cannot ask the server about the rights of this request"
        return failure(503, message, details={"retryAfterSeconds": 1})

    async def _of_token(self, token: str) -> Caller:
        key = hashlib.sha256(self._salt + token.encode()).digest()
        try:
            caller = await self._known.get(key, lambda: self._reviewed(token))
        except UNANSWERED as error:
            raise self.unavailable(error) from None
        if caller is None:
            raise unauthorized()
        return caller

    async def _reviewed(self, token: str) -> Caller | None:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = await review(self._client, _PATH, body, _TokenStatus)
        if not (status.authenticated and status.user.username):
            log.debug("a token is not valid: %s", status.error, reason="unauthorized")
            return None
        user = status.user
        return Caller(user.username, user.uid, user.groups, tuple(sorted(user.extra.items())))


async def review(client: Client, path: str, body: Mapping[str, object], status: type[S]) -> S:
    """Send a review, and return its status as the given type.

    Raises:
        APIError, ConnectError, DecodeError: There is no answer, or an answer of another kind.
    """
    answer = await client.request("POST", path, body=body, timeout=_TIMEOUT)
    found = (answer.to_dict() if isinstance(answer, KubeObject) else answer).get("status")
    try:
        return msgspec.convert(found or {}, status)
    except msgspec.ValidationError as error:
        raise DecodeError(f"POST {path}: the status of the review is malformed: {error}") from None


def _of_certificate(connection: asyncio.Transport | None) -> Caller | None:
    """Return the user of a connection: the common name, with the organizations as groups. TLS has verified it."""
    shown = None if connection is None else connection.get_extra_info("peercert")
    if connection is None or not shown:
        return None
    pairs = [pair for part in shown.get("subject", ()) for pair in part]
    name = next((value for field, value in pairs if field == "commonName"), "")
    if not name:
        return None
    groups = tuple(value for field, value in pairs if field == "organizationName")
    raw = connection.get_extra_info("ssl_object").getpeercert(binary_form=True)
    fingerprint = f"X509SHA256={hashlib.sha256(raw).hexdigest()}"
    extra = (("authentication.kubernetes.io/credential-id", (fingerprint,)),)
    until = float(ssl.cert_time_to_seconds(shown["notAfter"]))
    return Caller(name, "", (*groups, _AUTHENTICATED), extra, has_token=False, until=until)
