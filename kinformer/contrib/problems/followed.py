"""The informers in which problems are looked for: those of whole objects that a factory has, or is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kinformer import GroupVersionResource, SharedInformer, SharedInformerFactory
from kinformer.kinds import is_namespaced

__all__ = ["EVENTS", "Followed"]

EVENTS = "v1/events"

_NAMESPACED = (
    EVENTS,  # the first, because their namespaces decide which other informers are taken
    "v1/pods",
    "apps/v1/deployments",
    "apps/v1/statefulsets",
    "apps/v1/daemonsets",
    "apps/v1/replicasets",
    "batch/v1/jobs",
    "v1/persistentvolumeclaims",
)
_CLUSTER = ("v1/nodes", "v1/namespaces", "v1/persistentvolumes", "storage.k8s.io/v1/storageclasses")

# If a status has no times of its own, that of its last write is in managedFields.
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "apps/v1/statefulsets": {"keep_managed_fields": True},
    "apps/v1/daemonsets": {"keep_managed_fields": True},
    EVENTS: {"field_selector": "type=Warning"},
}

Changed = list[tuple[str, SharedInformer]]


class Followed:
    """The informers by resource, one for each.

    Args:
        factory: The factory.
        namespace: Only informers of this namespace, and none of cluster-scoped resources.
        resources: Further resources.

    Attributes:
        informers: The informers by resource, which `update` and `release` change.
    """

    def __init__(
        self, factory: SharedInformerFactory, namespace: str | None, resources: Iterable[str | GroupVersionResource]
    ) -> None:
        self.informers: dict[str, SharedInformer] = {}
        self._factory = factory
        self._namespace = namespace
        self._further = tuple(str(GroupVersionResource.parse(resource)) for resource in resources)
        self._requested: list[SharedInformer] = []

    def update(self) -> tuple[Changed, Changed]:
        """Take the factory's informers of whole objects, and request those that it does not have.

        Return the new and the ended ones.
        """
        present = set(self._factory.informers)
        ended = [(name, informer) for name, informer in self.informers.items() if informer not in present]
        for name, _ in ended:
            del self.informers[name]
        before = set(self.informers)
        self._request()
        for informer in self._whole():
            self.informers.setdefault(informer.name, informer)
        return [(name, informer) for name, informer in self.informers.items() if name not in before], ended

    def _request(self) -> None:
        scoped = {} if self._namespace is None else {"namespace": self._namespace}
        for resource in _NAMESPACED:
            self._take(resource, **scoped, **_OPTIONS.get(resource, {}))
        for resource in self._further:
            self._take(resource, **scoped, keep_managed_fields=True)
        if self._namespace is None:
            for resource in _CLUSTER:
                self._take(resource, namespace=None)

    def _take(self, resource: str, **options: Any) -> None:
        if resource in self.informers:
            return
        informer = next((candidate for candidate in self._whole() if candidate.name == resource), None)
        if informer is None:
            settings: dict[str, Any] = {"fields": None, "metadata_only": False, **options}
            informer = self._factory.for_resource(resource, **settings)
            self._requested.append(informer)
        self.informers[resource] = informer

    def _whole(self) -> list[SharedInformer]:
        """Return the factory's informers of whole objects, of the same namespaces as the Events or of none."""
        if EVENTS not in self.informers:  # they are requested first
            return []
        namespaces, all_scopes = self.informers[EVENTS].namespaces, self._namespace is None
        return [
            informer
            for informer in self._factory.whole_informers
            if informer.namespaces == namespaces or (all_scopes and not is_namespaced(informer.name))
        ]

    async def release(self) -> None:
        """Give the requested informers back."""
        while self._requested:
            await self._factory.release(self._requested.pop())
        self.informers.clear()

    def unread(self) -> dict[str, BaseException]:
        """Return the resources whose first list has failed, with the error of each."""
        errors = {name: source.health().last_error for name, source in self.informers.items() if not source.has_synced}
        return {name: error for name, error in errors.items() if error is not None}
