"""Finds the objects that admission plugins need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kinformer.apiserver.storage import Stored
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.store.ledger import Ledger

__all__ = ["Lookup"]

Object = dict[str, Any]


class Lookup:
    """Stored objects, by the name of their kind: `scheduling.k8s.io/v1/priorityclasses`."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def type_of(self, kind: str) -> ResourceType:
        """Return the served type of a kind."""
        return self.ledger.registry.find(kind)

    def is_empty(self, kind: str) -> bool:
        """Return True if there is no object of a kind."""
        return not self.ledger.collection(self.type_of(kind)).objects

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return an object, or None."""
        resource = self.type_of(kind)
        stored = self.ledger.collection(resource).get(resource.key(namespace, name))
        return None if stored is None else self.ledger.read(resource, stored)

    def stored(self, kind: str, namespace: str = "") -> Iterator[Stored]:
        """Yield the objects of a kind as they are stored, in the order of their names."""
        yield from self.ledger.collection(self.type_of(kind)).snapshot().within(namespace).items

    def list(self, kind: str, namespace: str = "") -> Iterator[Object]:
        """Yield the objects of a kind, in the order of their names."""
        resource = self.type_of(kind)
        for stored in self.stored(kind, namespace):
            yield self.ledger.read(resource, stored)
