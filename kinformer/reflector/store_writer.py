"""The one place that writes to a reflector's store, and knows how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kinformer._runtime.chunks import ChunkedList
from kinformer.exceptions import WatchError
from kinformer.list_watcher import WatchEvent
from kinformer.objects.accessors import resource_version_of
from kinformer.objects.object import UndecodableObject
from kinformer.reflector.errors import StoreFailedError

__all__ = ["ReflectorStore", "StoreWriter"]


class ReflectorStore(Protocol):
    """What a reflector writes to, with plain calls; what one of them raises ends `Reflector.run`.

    A store may also have `bookmark(resource_version)`, told how far the server is without an event, and `known(key)`,
    which gives the object that it holds under a key, or None. One whose `takes_chunks` is true is given a full list as
    `ChunkedList`, which is kinder to the loop, instead of a list. One that has `write(events)` is given events of a
    watch by that, as `(type, object)`, and says how many of them it took; the first of the others then comes by `add`
    or its kin.
    """

    def add(self, obj: Any, /) -> Any:
        """An object that is new to the source."""
        ...

    def update(self, obj: Any, /) -> Any:
        """A newer state of an object."""
        ...

    def delete(self, obj: Any, /) -> Any:
        """The last state of an object that is gone."""
        ...

    def replace(self, items: list[Any], resource_version: str, /) -> Any:
        """All that the source has; the list is the store's to keep."""
        ...

    def resync(self) -> Any:
        """Replay what the store holds to whoever listens to it."""
        ...


class StoreWriter:
    """Writes events and lists to a store.

    Attributes:
        version: The resourceVersion of what was written last; "" before the first list.
        recorded: False while events come in no order, as at the start of a watch at "" or "0": their versions are not
            kept until the first event that is no ADDED, nor what is left of one (client-go, tools/cache/reflector.go,
            `propagateRVFromStart`).
        known: `known` of the store, or None.
    """

    __slots__ = ("_bookmark", "_store", "_takes_chunks", "_write", "known", "recorded", "version")

    def __init__(self, store: ReflectorStore) -> None:
        self._store = store
        self._bookmark = getattr(store, "bookmark", None)
        self._takes_chunks = getattr(store, "takes_chunks", False) is True
        self._write = getattr(store, "write", None)
        self.known = getattr(store, "known", None)
        self.version = ""
        self.recorded = True

    def replace(self, items: ChunkedList[Any] | list[Any], version: str) -> None:
        """Write a full list."""
        try:
            given: Any = items if self._takes_chunks or isinstance(items, list) else list(items.drain())
            self._store.replace(given, version)
        except Exception as error:
            raise StoreFailedError(error) from error
        self.version = version

    def apply(self, events: Sequence[WatchEvent]) -> None:
        """Write events, in order.

        Raises:
            WatchError: An event of an unknown type. What came before it is written.
            StoreFailedError: The store raised.
        """
        store, last, unknown = self._store, None, None
        try:
            taken = self._write(events) if self._write is not None else 0
            if taken:
                last = events[taken - 1][1]
            for kind, obj in events[taken:] if taken else events:
                if kind == "MODIFIED":
                    store.update(obj)
                elif kind == "ADDED":
                    store.add(obj)
                elif kind == "DELETED":
                    store.delete(obj)
                elif kind == "BOOKMARK":
                    if self._bookmark is not None:
                        self._bookmark(resource_version_of(obj))
                else:
                    unknown = kind
                    break
                last = obj
        except Exception as error:
            raise StoreFailedError(error) from error
        if last is not None and (self.recorded or self._ordered_by_now(events)):
            # An object without a version, of a source that has none, leaves it where it is.
            self.version = resource_version_of(last) or self.version
        if unknown is not None:
            raise WatchError(f"an event of the unknown type {unknown!r}")

    def _ordered_by_now(self, events: Sequence[WatchEvent]) -> bool:
        self.recorded = any(kind != "ADDED" and type(obj) is not UndecodableObject for kind, obj in events)
        return self.recorded
