"""The server, cluster and user of a process. Only processes that agree in them share a cache.

A follower reads what the holder may read. So the user is compared, as the server names it (SelfSubjectReview).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from kinformer.client.client import Client
from kinformer.connection.discovery import KubeSystemProbe
from kinformer.exceptions import APIError, KinformerError
from kinformer.watchcache.share.socket_path import UnreachableError

__all__ = ["Account", "IdentityCheck"]

_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_BODY = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
_NOT_SERVED = (404, 405, 501)
_OF_THE_TOKEN = "authentication.kubernetes.io/credential-id"  # differs after each renewal of a token of the same user
_LOOK = 5.0  # seconds between two looks at the credentials
_ASK = 600.0  # seconds after which the server is asked again, although nothing is known to have changed
_AGAIN = 10.0  # seconds from one question to the next, at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The identity of a client: the server that it reaches, the cluster behind it, and the user there.

    Attributes:
        server: The URL of the server.
        cluster: The uid of the cluster, or "" if the user may not read it.
        user: The name of the user.
        rights: A digest of name, uid, groups and extra fields, on which the rights depend.
    """

    server: str
    cluster: str
    user: str
    rights: str

    @classmethod
    async def of(cls, client: Client) -> Self:
        """Ask the server for the identity of a client.

        Raises:
            UnreachableError: The server does not tell who the user is.
            APIError, ConnectError, DecodeError: A request failed.
        """
        cluster = await KubeSystemProbe(client).uid() or ""
        try:
            # The last one on this connection, so that a follower has none at the server.
            review, _ = await client._probe(_REVIEW, body=_BODY, Connection="close")
        except APIError as error:
            if error.status not in _NOT_SERVED:
                raise
            raise UnreachableError("the server does not tell which user this is (Kubernetes before 1.28)") from None
        document = review if isinstance(review, Mapping) else review.to_dict()
        user = (document.get("status") or {}).get("userInfo") or {}
        name = str(user.get("username") or "")
        extra = {field: sorted(values) for field, values in (user.get("extra") or {}).items() if field != _OF_THE_TOKEN}
        told = [name, str(user.get("uid") or ""), sorted(user.get("groups") or ()), extra]
        return cls(
            server=client.server,
            cluster=cluster,
            user=name,
            rights=hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest(),
        )

    def params(self) -> dict[str, str]:
        """Return the identity as query parameters."""
        return {"server": self.server, "cluster": self.cluster, "user": self.user, "rights": self.rights}

    @classmethod
    def from_params(cls, params: Mapping[str, str]) -> Self:
        """Return the identity that `params` describes."""
        return cls(**{name: params.get(name, "") for name in ("server", "cluster", "user", "rights")})

    def refusal(self, other: Account) -> str:
        """Return why `other` may not read what this identity reads, or ""."""
        both_known = self.cluster and other.cluster
        if self.cluster != other.cluster if both_known else self.server != other.server:
            ours, theirs = (self.cluster, other.cluster) if both_known else (self.server, other.server)
            return f"the holder follows another cluster: {ours}, not {theirs}; give each cluster its own path"
        if self.rights != other.rights:
            return (
                f"the holder is the user {self.user!r}, with another name, other groups or extra fields than "
                f"{other.user!r}; give each user its own path"
            )
        return ""


class IdentityCheck:
    """Asks who a client is, and again whenever that may have changed: its credentials may name another user by now.

    Args:
        client: The client.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._credentials = ""  # a digest of those at the last answer
        self._asked = 0.0  # the time of the last question
        self._doubted = asyncio.Event()

    def doubt(self) -> None:
        """Ask soon, because the server has refused a request."""
        self._doubted.set()

    async def ask(self) -> Account:
        """Return the identity. Raises as `Account.of` does, and ConfigError if a credential cannot be loaded."""
        self._asked = asyncio.get_running_loop().time()
        self._doubted.clear()
        credentials = await self._present()
        account = await Account.of(self._client)
        self._credentials = credentials
        return account

    async def changed(self, known: Account) -> Account:
        """Wait until the identity is another one than `known`, and return it. While the server cannot tell, it stays.

        A user with other groups or extra fields counts as another one.
        """
        now = asyncio.get_running_loop().time
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await self._doubted.wait()
            try:
                if not (self._doubted.is_set() or now() - self._asked >= _ASK or await self._have_changed()):
                    continue
                await asyncio.sleep(max(0.0, self._asked + _AGAIN - now()))
                account = await self.ask()
            except (KinformerError, OSError, UnreachableError):
                self._doubted.set()
                continue
            if account.refusal(known):
                return account

    async def _have_changed(self) -> bool:
        return await self._present() != self._credentials

    async def _present(self) -> str:
        """Return a digest of the credentials that the next request has."""
        credential = self._client._known().credential
        told = repr((await credential.authorization(), credential.identity))
        return hashlib.sha256(told.encode()).hexdigest()
