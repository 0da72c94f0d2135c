"""The stored objects of one resource, as a backend of reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from kinformer.apiserver.accept import Accepted, negotiate
from kinformer.apiserver.line_queue import Watcher
from kinformer.apiserver.options import EXACT, Options
from kinformer.apiserver.reads import Read
from kinformer.apiserver.response import ResponseWriter
from kinformer.apiserver.storage import Storage, Stored, StoredCollection
from kinformer.apiserver.stream import WatchResponse
from kinformer.testing.api.filters import ResourceFilter
from kinformer.testing.faults import Faults
from kinformer.testing.http.call import HTTPCall
from kinformer.testing.http.struck_stream import StruckStream
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.store.forms import StoredCodec
from kinformer.testing.store.ledger import Ledger

__all__ = ["StoredResource"]


class StoredResource:
    """The objects of one resource (see `kinformer.apiserver.reads.ReadBackend`).

    Args:
        resource: The resource.
        ledger: Has the objects.
        call: The request that is answered.
        faults: The faults that strike watches.
        rewind: Goes back in time by some revisions.
    """

    def __init__(
        self, resource: ResourceType, ledger: Ledger, call: HTTPCall, faults: Faults, rewind: Callable[[int], None]
    ) -> None:
        self._resource = resource
        self._ledger = ledger
        self._call = call
        self._faults = faults
        self._rewind = rewind
        self.group = resource.group
        self.features = call.features
        self.storage: Storage = ledger.storage
        self.collection: StoredCollection = ledger.collection(resource)

    def accept(self, read: Read) -> Accepted:
        """Return the form of the response. Raises a 406 `StatusError`."""
        return negotiate(
            read.headers,
            collection=read.verb != "get",
            watch=read.verb == "watch",
            builtin=self._resource.builtin,
            drops=self.features.drop_managed_fields,
        )

    def codec(self, wanted: Accepted) -> StoredCodec:
        """Return what encodes the objects."""
        return StoredCodec(self._resource, drop=wanted.drop)

    def select(self, namespace: str, options: Options) -> ResourceFilter:
        """Return the filter of a request. Raises a 400 `StatusError`."""
        return ResourceFilter(self._resource, namespace, options)

    def get(self, namespace: str, name: str) -> Stored:
        """Return one object. Raises a 404 `StatusError`."""
        return self._ledger.stored(self._resource, namespace, name)

    async def prove(self, options: Options) -> Options:
        """Return the options, as of an earlier revision if the cache is to lag behind."""
        if not self._call.behind or options.revision != 0:
            return options
        past = max(self.storage.revision - self._call.behind, self.collection.undoable, 1)
        return (
            replace(options, revision=None, as_of=past)
            if options.watch
            else replace(options, revision=past, match=EXACT)
        )

    @asynccontextmanager
    async def opened(self, watcher: Watcher[bytes], options: Options) -> AsyncIterator[None]:
        """Open a watcher, and close it at exit."""
        try:
            await watcher.open()
            yield
        finally:
            watcher.close()

    def stream(self, response: ResponseWriter, watcher: Watcher[bytes], media: str, *, compress: bool) -> WatchResponse:
        """Return what sends a watch, with faults."""
        return StruckStream(
            self._call.response,
            watcher,
            self._faults,
            self._call.info,
            floor=lambda: max(self.collection.floor, self.storage.revision),
            rewind=self._rewind,
            media=media,
            compress=compress,
        )
