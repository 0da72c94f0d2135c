"""The state passed to checks: the objects in the API server."""

from __future__ import annotations

from typing import Any

from kinformer.testing.explore.server import ExploredServer

__all__ = ["ClusterState"]

Object = dict[str, Any]


class ClusterState:
    """The present state of the cluster. The returned dicts are shared and must not be changed."""

    def __init__(self, server: ExploredServer) -> None:
        self._server = server
        self._lists: dict[tuple[str, str | None], tuple[int, list[Object]]] = {}

    def list(self, resource: str, namespace: str | None = None) -> list[Object]:
        """Return all objects of a resource, such as ``"apps/v1/deployments"``, in the order of their keys."""
        if self._is_lost(resource):
            return []
        revision = self._server.revision_of(self._server.find(resource))
        cached = self._lists.get((resource, namespace))
        if cached is None or cached[0] != revision:
            cached = self._lists[resource, namespace] = (revision, self._server.list(resource, namespace))
        return cached[1]

    def get(self, resource: str, key: str) -> Object | None:
        """Return the object with a key, ``"namespace/name"`` or ``"name"``, or None."""
        if self._is_lost(resource):
            return None
        namespace, _, name = key.rpartition("/")
        return self._server.get(resource, namespace, name)

    def _is_lost(self, resource: str) -> bool:
        """Return True if a fault has deleted the definition, and no object with a finalizer keeps it."""
        return resource in self._server.lost and not self._server.serves(resource)
