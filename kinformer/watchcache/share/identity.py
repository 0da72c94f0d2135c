"""The server, cluster and user of a process. Only processes that agree in them share a cache.

A follower reads what the holder may read. So the user is compared, as the server names it (SelfSubjectReview).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from kinformer.client.client import Client
from kinformer.client.discovery import KubeSystemProbe
from kinformer.exceptions import APIError
from kinformer.watchcache.share.socket_path import UnreachableError

__all__ = ["Identity"]

_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_BODY = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
_NOT_SERVED = (404, 405, 501)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a client.

    Attributes:
        server: The URL of the server.
        cluster: The uid of the cluster, or "" if the user may not read it.
        user: The name of the user.
        rights: A digest of name, uid and groups, on which the rights depend.
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
        try:
            review = await client.request("POST", _REVIEW, body=_BODY)
        except APIError as error:
            if error.status not in _NOT_SERVED:
                raise
            raise UnreachableError("the server does not tell which user this is (Kubernetes before 1.28)") from None
        document = review if isinstance(review, Mapping) else review.to_dict()
        user = (document.get("status") or {}).get("userInfo") or {}
        name = str(user.get("username") or "")
        told = [name, str(user.get("uid") or ""), sorted(user.get("groups") or ())]
        return cls(
            server=client.server,
            cluster=await KubeSystemProbe(client).uid() or "",
            user=name,
            rights=hashlib.sha256(json.dumps(told).encode()).hexdigest(),
        )

    def params(self) -> dict[str, str]:
        """Return the identity as query parameters."""
        return {"server": self.server, "cluster": self.cluster, "user": self.user, "rights": self.rights}

    @classmethod
    def from_params(cls, params: Mapping[str, str]) -> Self:
        """Return the identity that `params` describes."""
        return cls(**{name: params.get(name, "") for name in ("server", "cluster", "user", "rights")})

    def refusal(self, other: Identity) -> str:
        """Return why `other` may not read what this identity reads, or ""."""
        both_known = self.cluster and other.cluster
        if self.cluster != other.cluster if both_known else self.server != other.server:
            ours, theirs = (self.cluster, other.cluster) if both_known else (self.server, other.server)
            return f"the holder follows another cluster: {ours}, not {theirs}; give each cluster its own path"
        if self.rights != other.rights:
            return (
                f"the holder is the user {self.user!r}, with other groups or another name than {other.user!r}; "
                "give each user its own path"
            )
        return ""
