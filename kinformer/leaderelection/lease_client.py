"""Reads and writes Leases over HTTP: a single Lease, or all of a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kinformer._runtime.fence import unfenced
from kinformer._runtime.logs import cluster_of
from kinformer._runtime.request_context import urgent
from kinformer.exceptions import DecodeError, NotFoundError
from kinformer.leaderelection.lease import Lease, LeaseDocument
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject

__all__ = ["LeaseClient", "Requester"]

_LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")


class Requester(Protocol):
    """The part of a `Client` that sends requests."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, object] | None = None,
        params: Mapping[str, str] | None = None,
        timeout: float = ...,
    ) -> Mapping[str, object]:
        """Send one request. See `Client.request`."""
        ...


class LeaseClient:
    """The Leases of one namespace.

    The requests need no valid lead (`unfenced`), and are sent immediately and without retries (`urgent`), because an
    election has deadlines and its own retries. Each takes a timeout in seconds, and raises the same errors as
    `Client.request`.

    Args:
        client: The client for the requests.
        namespace: The namespace of the Leases.

    Raises:
        ConfigError: The namespace is not a segment of a path.
    """

    def __init__(self, client: Requester, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._path = _LEASES.path(namespace)

    @property
    def cluster(self) -> str:
        """The name of the client's cluster in a fleet, for the log. Otherwise ""."""
        return cluster_of(self._client)

    def path(self, name: str) -> str:
        """Return the path of a Lease. Raises ConfigError if its name is not a segment of a path."""
        return _LEASES.path(self._namespace, name)

    async def get(self, name: str, timeout: float) -> Lease | None:
        """Return the current Lease (from etcd, not from a cache), or None if there is none."""
        try:
            return await self._request_lease("GET", self.path(name), None, timeout)
        except NotFoundError:
            return None

    async def create(self, document: LeaseDocument, timeout: float) -> Lease:
        """Create a Lease. Raises AlreadyExistsError if another process was faster."""
        return await self._request_lease("POST", self._path, document, timeout)

    async def update(self, document: LeaseDocument, timeout: float) -> Lease:
        """Replace a Lease. Raises ConflictError if it is no longer at the resourceVersion in the document."""
        return await self._request_lease("PUT", self.path(document.name), document, timeout)

    async def list(self, timeout: float) -> list[Lease]:
        """Return all current Leases of the namespace (from etcd, not from a cache)."""
        with unfenced(), urgent():
            response = await self._client.request("GET", self._path, timeout=max(0.0, timeout))
        items = response.get("items")
        if not isinstance(items, list):
            raise DecodeError(f"GET {self._path}: expected a list of Leases, the response has no items")
        return [Lease.from_json(item) for item in items]

    async def _request_lease(self, method: str, path: str, document: LeaseDocument | None, timeout: float) -> Lease:
        body = None if document is None else document.body
        with unfenced(), urgent():
            response = await self._client.request(method, path, body=body, timeout=max(0.0, timeout))
        lease = Lease.from_json(response.to_dict() if isinstance(response, KubeObject) else response)
        if not lease.resource_version:
            raise DecodeError(f"{method} {path}: expected a Lease, the response has no metadata.resourceVersion")
        return lease
