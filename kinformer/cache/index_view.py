"""The read side of an informer's cache."""

from __future__ import annotations

from typing import Generic

from kinformer._runtime.typevars import ObjectT
from kinformer.cache.indexer import Indexer

__all__ = ["IndexView"]


class IndexView(Generic[ObjectT]):
    """The reads of an `Indexer` and none of its writes: an informer's cache has one writer.

    Every read returns a snapshot, may be called from any thread, and may be kept across awaits.
    The methods are the indexer's own, so that a read costs no extra call.
    """

    __slots__ = (
        "_indexer",
        "any_key",
        "by_index",
        "get",
        "get_by_key",
        "in_namespace",
        "index",
        "index_keys",
        "index_values",
        "list",
        "list_keys",
        "sample",
        "select",
    )

    def __init__(self, indexer: Indexer[ObjectT]) -> None:
        self._indexer = indexer
        self.any_key = indexer.any_key
        self.get = indexer.get
        self.get_by_key = indexer.get_by_key
        self.list = indexer.list
        self.list_keys = indexer.list_keys
        self.in_namespace = indexer.in_namespace
        self.index = indexer.index
        self.by_index = indexer.by_index
        self.index_keys = indexer.index_keys
        self.index_values = indexer.index_values
        self.sample = indexer.sample
        self.select = indexer.select

    def __len__(self) -> int:
        return len(self._indexer)
