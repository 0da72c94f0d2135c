"""Answers HTTP requests from a watch cache, or leaves them to the server."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from aiohttp import ClientConnectionError

from kinformer.apiserver.accept import JSON, PROTOBUF, Accepted, negotiate
from kinformer.apiserver.line_queue import Watcher
from kinformer.apiserver.options import USUAL, ContinueToken, Options, boolean_of
from kinformer.apiserver.reads import Read, check_timeout, respond
from kinformer.apiserver.response import ResponseWriter
from kinformer.apiserver.selecting.filters import Selector
from kinformer.apiserver.status import StatusError, not_found
from kinformer.apiserver.storage import Storage, Stored, StoredCollection
from kinformer.apiserver.stream import WatchResponse
from kinformer.kinds.builtin import builtin_kind
from kinformer.kinds.columns import kind_table
from kinformer.watchcache.cached_resource import CachedResource
from kinformer.watchcache.requests import PARAMETERS, answers, select
from kinformer.watchcache.views import JSONCodec

__all__ = ["respond_from"]

_NOT_ACCEPTABLE = 406


class _LeftToServer(Exception):
    """Only the server can answer."""


class _CachedBackend:
    """The objects of a watch cache (see `kinformer.apiserver.reads.ReadBackend`)."""

    def __init__(self, cache: CachedResource) -> None:
        self._cache = cache
        self.group = cache.resource.group
        self.features = USUAL
        builtin = bool(builtin_kind(cache.resource))
        table = kind_table(cache.resource.group, cache.kind) if builtin else None
        self._codec = JSONCodec(cache.resource.api_version, cache.kind, builtin=builtin, table=table)

    @property
    def storage(self) -> Storage:
        """The objects with their history."""
        return self._cache.storage

    @property
    def collection(self) -> StoredCollection:
        """The objects."""
        return self._cache.feed.objects

    def accept(self, read: Read) -> Accepted:
        """Return the form of the response.

        JSON is sent to clients that prefer protobuf if they accept the same form as JSON, as client-go does.
        """
        collection, watch, builtin = read.verb != "get", read.verb == "watch", self._codec.builtin
        try:
            accepted = negotiate(read.headers, collection=collection, watch=watch, builtin=builtin)
            if accepted.media == PROTOBUF:
                as_json = negotiate(read.headers, collection=collection, watch=watch, builtin=builtin, media=(JSON,))
                accepted = as_json if as_json == accepted._replace(media=JSON) else accepted
        except StatusError as error:
            if error.code == _NOT_ACCEPTABLE:  # perhaps the server has another media type
                raise _LeftToServer from error
            raise
        if accepted.media != JSON or (accepted.form == "table" and not self._codec.has_table):
            raise _LeftToServer
        return accepted

    def codec(self, wanted: Accepted) -> JSONCodec:
        """Return what encodes the objects."""
        return self._codec

    def select(self, namespace: str, options: Options) -> Selector:
        """Return the filter of a request."""
        cache, fields = self._cache, options.field_selector
        if not answers(cache.resource, fields):
            raise _LeftToServer
        if "metadata.namespace" in fields and not (namespace or cache.is_namespaced):
            raise _LeftToServer  # which refuses it for some resources of the cluster
        return select(cache.resource, namespace, options)

    def get(self, namespace: str, name: str) -> Stored:
        """Return one object. Raises a 404 `StatusError`."""
        stored = self.collection.get(f"{namespace}/{name}" if namespace else name)
        if stored is None:
            raise not_found(self._cache.resource.group, self._cache.resource.resource, name)
        return stored

    async def prove(self, options: Options) -> Options:
        """Return once the objects are as new as the options ask for."""
        if options.token:  # perhaps of a page of the server, which knows older and newer versions
            revision = ContinueToken.decode(options.token).revision
            if not self.collection.undoable <= revision <= self.storage.revision:
                raise _LeftToServer
        elif self._cache.needs_proof(options) and not await self._cache.proved(options.revision or 0):
            raise _LeftToServer
        return options

    def opened(self, watcher: Watcher[bytes], options: Options) -> AbstractAsyncContextManager[None]:
        """Open a watcher, and close it at exit."""
        return self._cache.opened(watcher, options)

    def stream(self, response: ResponseWriter, watcher: Watcher[bytes], media: str, *, compress: bool) -> WatchResponse:
        """Return what sends a watch."""
        return WatchResponse(response, watcher, media=media, compress=compress)


async def respond_from(
    cache: CachedResource, response: ResponseWriter, params: Mapping[str, str], namespace: str, name: str
) -> bool:
    """Answer the request of a response, or return False if only the server can. See `WatchCache.respond`."""
    request = response.request
    if cache.namespace and namespace != cache.namespace:
        return False
    if request.method != "GET" or not PARAMETERS.issuperset(params) or not await cache.ready():
        return False
    verb = "get" if name else "watch" if boolean_of(params, "watch") else "list"
    try:
        if verb != "watch":
            check_timeout(params)
        await respond(_CachedBackend(cache), Read(verb, namespace, name, params, request.headers), response)
    except _LeftToServer:
        return False
    except StatusError as error:
        await response.send_error(error)
    except (ConnectionResetError, ClientConnectionError):
        pass  # the client has gone
    return True
