"""The users of a proxy's requests, known by a token that the server reviews, or by a client certificate."""

from __future__ import annotations

import hashlib
import secrets
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from kinformer._runtime.logs import get_logger
from kinformer.client.client import Client
from kinformer.exceptions import APIError, ConnectError, DecodeError
from kinformer.objects.object import KubeObject
from kinformer.serving.status import StatusError, failure, unauthorized
from kinformer.watchcache.proxy.memory import Memory

__all__ = ["UNANSWERED", "Caller", "Callers", "review", "unavailable"]

log = get_logger("kinformer.proxy")

UNANSWERED = (APIError, ConnectError, DecodeError)
_TIMEOUT = 10.0  # seconds for a review
_REMEMBERED = 10.0  # seconds, as a kube-apiserver's own reviews (DelegatingAuthenticationOptions)
_MOST = 8192  # tokens
_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
_AUTHENTICATED = "system:authenticated"


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

    async def _of_token(self, token: str) -> Caller:
        key = hashlib.sha256(self._salt + token.encode()).digest()
        try:
            caller = await self._known.get(key, lambda: self._reviewed(token))
        except UNANSWERED as error:
            raise unavailable(error) from None
        if caller is None:
            raise unauthorized()
        return caller

    async def _reviewed(self, token: str) -> Caller | None:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = await review(self._client, _PATH, body)
        user = status.get("user")
        if status.get("authenticated") is not True or not isinstance(user, Mapping):
            log.debug("a token is not valid: %s", status.get("error", ""), reason="unauthorized")
            return None
        extra = tuple(sorted((name, tuple(values)) for name, values in (user.get("extra") or {}).items()))
        return Caller(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups") or ()), extra)


async def review(client: Client, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Send a review, and return its status.

    Raises:
        APIError, ConnectError, DecodeError: There is no answer.
    """
    answer = await client.request("POST", path, body=body, timeout=_TIMEOUT)
    status = (answer.to_dict() if isinstance(answer, KubeObject) else answer).get("status")
    return status if isinstance(status, Mapping) else {}


def _of_certificate(connection: Any) -> Caller | None:
    """Return the user of a connection: the common name, with the organizations as groups. TLS has verified it."""
    shown = connection.get_extra_info("peercert") if connection is not None else None
    if not shown:
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


def unavailable(error: Exception) -> StatusError:
    """Return the 503 for a request that cannot be allowed or refused, because the server does not answer."""
    log.warning("a review failed, so requests are refused: %s", error, reason=error)
    return failure(
        503, "the proxy cannot ask the server about the rights of this request", details={"retryAfterSeconds": 1}
    )
