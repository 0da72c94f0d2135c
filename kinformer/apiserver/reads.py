"""GET, LIST and WATCH of one resource, from the request to the response."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import NamedTuple, Protocol

from kinformer.apiserver.accept import Accepted, check_kind
from kinformer.apiserver.line_queue import Watcher
from kinformer.apiserver.options import Options, ReadFeatures, read_options, read_version
from kinformer.apiserver.pages import chunks, read_page, wait_for_revision
from kinformer.apiserver.response import ResponseWriter
from kinformer.apiserver.selecting.filters import Selector
from kinformer.apiserver.status import bad_request
from kinformer.apiserver.storage import Storage, Stored, StoredCollection
from kinformer.apiserver.stream import WatchResponse
from kinformer.apiserver.views import Codec, FormView
from kinformer.objects.units import duration_seconds

__all__ = ["Read", "ReadBackend", "check_timeout", "respond"]


class ReadBackend(Protocol):
    """The objects of one resource, and what decides about answers besides the request."""

    @property
    def group(self) -> str: ...
    @property
    def features(self) -> ReadFeatures: ...
    @property
    def storage(self) -> Storage: ...
    @property
    def collection(self) -> StoredCollection: ...

    def accept(self, read: Read, /) -> Accepted:
        """Return the form of the response. Raises a 406 `StatusError`, or another exception to decline."""
        ...

    def codec(self, wanted: Accepted, /) -> Codec:
        """Return what encodes the objects."""
        ...

    def select(self, namespace: str, options: Options, /) -> Selector:
        """Return the filter of a request. Raises a `StatusError`, or another exception to decline."""
        ...

    def get(self, namespace: str, name: str, /) -> Stored:
        """Return one object. Raises a 404 `StatusError`."""
        ...

    async def prove(self, options: Options, /) -> Options:
        """Return once a request can be answered with the objects, or with those of the options that are returned."""
        ...

    def opened(self, watcher: Watcher[bytes], options: Options, /) -> AbstractAsyncContextManager[None]:
        """Open a watcher, and close it at exit."""
        ...

    def stream(self, response: ResponseWriter, watcher: Watcher[bytes], media: str, *, compress: bool) -> WatchResponse:
        """Return what sends a watch."""
        ...


class Read(NamedTuple):
    """A request.

    Attributes:
        verb: "get", "list" or "watch".
        namespace, name: As in the path, or "".
        params, headers: The query and the header fields.
        prefixed: True for the deprecated path of a watch, which may have a name too.
    """

    verb: str
    namespace: str
    name: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    prefixed: bool = False


async def respond(backend: ReadBackend, read: Read, response: ResponseWriter) -> None:
    """Answer a request.

    Raises:
        StatusError: The request fails. Nothing has been sent.
    """
    collection, watch = read.verb != "get", read.verb == "watch"
    wanted = backend.accept(read)
    codec = backend.codec(wanted)
    view = FormView(codec, wanted, read.params.get("includeObject", ""))
    if not watch:
        kind = codec.list_kind if collection else codec.kind
        go = f"{backend.group.partition('.')[0] or 'core'}.{kind}"
        check_kind(wanted, collection=collection, builtin=codec.builtin, kind=go)
    if watch:
        await _watch(backend, read, response, view, wanted)
    elif collection:
        await _list(backend, read, response, view, wanted)
    else:
        await _get(backend, read, response, view, wanted)


async def _get(backend: ReadBackend, read: Read, response: ResponseWriter, view: FormView, wanted: Accepted) -> None:
    version = read.params.get("resourceVersion", "")
    revision = read_version(version) if version else None
    await backend.prove(Options(revision=revision))
    await wait_for_revision(backend.storage, revision or 0)
    await response.send_encoded(view.body(backend.get(read.namespace, read.name)), wanted.media)


async def _list(backend: ReadBackend, read: Read, response: ResponseWriter, view: FormView, wanted: Accepted) -> None:
    options = read_options(read.params, features=backend.features)
    selected = backend.select(read.namespace, options)
    options = await backend.prove(options)
    page = await read_page(backend.storage, backend.collection, selected, options)
    if view.form == "table":
        await response.send_encoded(view.table(page.items, page.metadata()), wanted.media)
    else:
        await response.send_pieces(chunks(view, page), wanted)


async def _watch(backend: ReadBackend, read: Read, response: ResponseWriter, view: FormView, wanted: Accepted) -> None:
    options = read_options(read.params, forced_watch=True, features=backend.features)
    if read.prefixed and read.name:
        terms = [term for term in (options.field_selector, f"metadata.name={read.name}") if term]
        options = replace(options, field_selector=",".join(terms))
    selected = backend.select(read.namespace, options)
    options = await backend.prove(options)
    watcher = Watcher(backend.storage, backend.collection, view, selected, options)
    compress = backend.features.compress_watches and _streams_a_list(options)
    stream = backend.stream(response, watcher, wanted.media, compress=compress)
    await stream.start()
    if wanted.kind == "PartialObjectMetadataList":  # no event can be converted to it, so the first one ends the stream
        await response.finish()
        return
    async with backend.opened(watcher, options):
        await stream.run()


def _streams_a_list(options: Options) -> bool:
    """Return True if a watch begins with all objects and a bookmark, by request or by promotion."""
    initial = options.initial_events or (options.initial_events is None and not options.revision)
    return bool(initial and options.bookmarks)


def check_timeout(params: Mapping[str, str]) -> None:
    """Refuse a `timeout` that is no duration (apiserver/pkg/endpoints/filters/request_deadline.go).

    Raises:
        StatusError: A 400.
    """
    try:
        duration_seconds(params.get("timeout") or "0")
    except ValueError as error:
        raise bad_request(f"invalid timeout specified in the request URL - {error}") from None
