"""Leases over HTTP: one of them, or all of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kinformer._runtime.fence import unfenced
from kinformer.exceptions import DecodeError, NotFoundError
from kinformer.leaderelection.lease import Lease

__all__ = ["LeaseClient", "Requester"]

_GROUP = "/apis/coordination.k8s.io/v1"


class Requester(Protocol):
    """What a `Client` is here: something that makes requests."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        timeout: float = ...,
    ) -> Any: ...


class LeaseClient:
    """The Leases of one namespace. No call needs a right; each has a limit in seconds, and raises as `Client.request`.

    Args:
        client: What makes the requests.
        namespace: Where the Leases are.
    """

    def __init__(self, client: Requester, namespace: str) -> None:
        self._client = client
        self._path = f"{_GROUP}/namespaces/{namespace}/leases"

    async def get(self, name: str, limit: float) -> Lease | None:
        """As the server has it now (a read from etcd, no cache); None where there is none."""
        try:
            return await self._call("GET", f"{self._path}/{name}", None, limit)
        except NotFoundError:
            return None

    async def create(self, document: Mapping[str, Any], limit: float) -> Lease:
        """AlreadyExistsError if somebody was faster."""
        return await self._call("POST", self._path, document, limit)

    async def update(self, document: Mapping[str, Any], limit: float) -> Lease:
        """ConflictError if it is no longer at the resourceVersion in the document."""
        return await self._call("PUT", f"{self._path}/{document['metadata']['name']}", document, limit)

    async def list(self, label_selector: str, limit: float) -> list[Lease]:
        """All that the selector chooses, as the server has them now."""
        with unfenced():
            params = {"labelSelector": label_selector}
            answer = await self._client.request("GET", self._path, params=params, timeout=max(0.0, limit))
        items = answer.get("items")
        if not isinstance(items, list):
            raise DecodeError(f"GET {self._path}: a list without items")
        return [Lease.of(item) for item in items]

    async def delete(self, lease: Lease, limit: float) -> None:
        """ConflictError if it is no longer at the resourceVersion that `lease` has."""
        body = {"preconditions": {"resourceVersion": lease.resource_version}}
        with unfenced():
            path = f"{self._path}/{lease.name}"
            await self._client.request("DELETE", path, body=body, timeout=max(0.0, limit))

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None, limit: float) -> Lease:
        with unfenced():
            answer = await self._client.request(method, path, body=body, timeout=max(0.0, limit))
        document = answer.to_dict() if hasattr(answer, "to_dict") else answer
        lease = Lease.of(document)
        if not lease.resource_version:
            raise DecodeError(f"{method} {path}: the answer is no Lease")
        return lease
