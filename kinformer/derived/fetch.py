"""Fetch: the reads of a derived collection's function, each of which is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from kinformer.cache.lister import Selector
from kinformer.derived.reads import ALL, KEY, OWNER, OWNER_INDEX, Read, ReadRecord, by_index
from kinformer.informer.collection import Collection
from kinformer.objects.selectors import LabelSelector

if TYPE_CHECKING:
    from kinformer.derived.tap import Tap

__all__ = ["Fetch", "NotReady"]

T = TypeVar("T")


class NotReady(BaseException):
    """Ends a run of a function that has read an incomplete collection. It runs again when the collection is complete.

    Not an `Exception`, so that a function that catches exceptions does not catch this.
    """

    def __init__(self, tap: Tap) -> None:
        super().__init__(f"{tap.source.name} is not complete yet")
        self.tap = tap


class Fetch:
    """Reads other collections for one run of a derived collection's function.

    Reads are recorded: the function runs again when the objects found change, or when a new object would be found.

    Args:
        reads: The record.
        tap_of: Returns the tap of a collection, or None if its cluster has left a fleet.
    """

    def __init__(self, reads: ReadRecord, tap_of: Callable[[Collection], Tap | None]) -> None:
        self.read: list[Read] | None = None
        self._reads = reads
        self._tap_of = tap_of

    @overload
    def __call__(self, collection: Collection[T], /, *, key: str) -> T | None: ...
    @overload
    def __call__(
        self,
        collection: Collection[T],
        /,
        *,
        index: tuple[str, str] | None = None,
        selector: Selector | None = None,
        owner: str | None = None,
        namespace: str | None = None,
    ) -> list[T]: ...
    def __call__(
        self,
        collection: Collection,
        /,
        *,
        key: str | None = None,
        index: tuple[str, str] | None = None,
        selector: Selector | None = None,
        owner: str | None = None,
        namespace: str | None = None,
    ) -> Any:
        """Return the current objects of a collection, and run the function again when they change.

        Args:
            collection: An informer or a derived collection, of the same event loop. If it is not complete, or not even
                entered, the run ends here, and the function runs again once it is complete. If its cluster has left a
                fleet, it has no objects.
            key: Return the object with this key, or None.
            index: Return the objects that have a value in an index: `("spec.nodeName", "node-1")`.
            selector: Return the objects whose labels match.
            owner: Return the objects with an owner reference to this uid.
            namespace: Return only objects of this namespace. Alone or with a selector.

        Raises:
            TypeError: More than one of these is given, except for a selector with a namespace.
            IndexNotFoundError: The collection has no such index.
            SelectorError: The selector does not parse.
            RuntimeError: The run of the function that this `fetch` belongs to has ended.
        """
        if self.read is None:
            raise RuntimeError("fetch() was called after the run of the function that it belongs to")
        if key is not None and index is None and owner is None and selector is None and namespace is None:
            tap = self._tap_of(collection)
            if tap is None:
                return None
            self.read.append((tap.number, KEY, key))
            if not tap.is_ready:
                raise NotReady(tap)
            return tap.source.indexer.get_by_key(key)
        selects = selector is not None or namespace is not None
        parsed = LabelSelector.parse(selector) if selects else None
        if (key is not None) + (index is not None) + (owner is not None) + selects > 1:
            raise TypeError("fetch(): pass one of key=, index=, owner= and selector= (which may have a namespace=)")
        tap = self._tap_of(collection)
        if tap is None:
            return []
        number, indexer = tap.number, tap.source.indexer
        if index is not None:
            self.read.append((number, by_index(index[0]), index[1]))
        elif owner is not None:
            self.read.append((number, OWNER, owner))
            tap.index_owners()
        elif parsed is not None:
            self.read.append(self._reads.selector(number, parsed, namespace or ""))
        else:
            self.read.append((number, ALL, ""))
        if not tap.is_ready:
            raise NotReady(tap)
        if index is not None:
            return indexer.by_index(*index)
        if owner is not None:
            return indexer.by_index(OWNER_INDEX, owner)
        if parsed is not None:
            return indexer.select(parsed.matches, namespace or None)
        return indexer.list()
