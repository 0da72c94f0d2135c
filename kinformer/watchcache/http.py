"""Answers HTTP requests from a watch cache."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable

import anyio.to_thread
from aiohttp import ClientConnectionError, HttpVersion11, web

from kinformer.apiserver.options import Options, boolean_of, read_options, read_version
from kinformer.apiserver.pages import GZIP_LEVEL, accepts_gzip, chunks, opening, read_page, wait_for_revision
from kinformer.apiserver.selecting.filters import Filter
from kinformer.apiserver.status import StatusError, not_found
from kinformer.apiserver.watcher import Watcher
from kinformer.kinds.builtin import builtin_kind
from kinformer.objects.paths.printing import go_json
from kinformer.watchcache.cached_resource import CachedResource, proves_later
from kinformer.watchcache.requests import PARAMETERS, answers, asks_for_metadata, select
from kinformer.watchcache.views import JSONView

__all__ = ["respond"]

_GZIP = 16 + zlib.MAX_WBITS  # writes gzip's header and sum
_LOOK = 5.0  # seconds between two looks whether the client of a silent watch has gone


async def respond(cache: CachedResource, request: web.Request, namespace: str, name: str) -> web.StreamResponse | None:
    """Implement `WatchCache.respond`."""
    params = request.query
    if cache.namespace and namespace != cache.namespace:
        return None
    watch = not name and boolean_of(params, "watch")
    partial = asks_for_metadata(request.headers.get("Accept", ""), single=bool(name) or watch)
    if request.method != "GET" or partial is None or not PARAMETERS.issuperset(params):
        return None
    try:
        fields = "" if name else params.get("fieldSelector", "")  # a read of one object has no selectors
        if not answers(cache.resource, fields):
            return None
        if not await cache.ready():
            return None
        if "metadata.namespace" in fields and not (namespace or cache.is_namespaced):
            return None  # the server refuses it for some resources of the cluster
        typed = bool(builtin_kind(cache.resource))
        view = JSONView(cache.resource.api_version, cache.kind, partial=partial, typed=typed)
        if name:
            return await _get(request, cache, view, namespace, name)
        options = read_options(params)
        selected = select(cache.resource, namespace, options)
        if _needs_proof(options) and not await cache.proved():
            return None
        if watch:
            watcher = cache.watcher(view, selected, options)
            async with cache.opened(watcher, options):
                return await _watch(request, watcher)
        return await _list(request, cache, view, selected, options)
    except StatusError as error:
        return web.Response(
            status=error.code, body=go_json(error.body) + b"\n", headers=error.headers, content_type="application/json"
        )


def _needs_proof(options: Options) -> bool:
    unset = options.revision is None and not options.token and options.initial_events is not False
    return unset and not proves_later(options)


async def _get(
    request: web.Request, cache: CachedResource, view: JSONView, namespace: str, name: str
) -> web.StreamResponse | None:
    version = request.query.get("resourceVersion", "")
    if version:
        await wait_for_revision(cache.storage, read_version(version))
    elif not await cache.proved():
        return None
    stored = cache.storage.collection("objects").get(f"{namespace}/{name}" if namespace else name)
    if stored is None:
        raise not_found(cache.resource.group, cache.resource.resource, name)
    return await _send(request, _one(view.whole(stored) + b"\n"))


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _list(
    request: web.Request, cache: CachedResource, view: JSONView, selected: Filter, options: Options
) -> web.StreamResponse:
    page = await read_page(cache.storage, cache.storage.collection("objects"), selected, options)
    return await _send(request, chunks(view, page))


async def _send(request: web.Request, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
    """Send a body. A large one is compressed, in a thread, if the client accepts gzip."""
    first, is_large = await opening(pieces)
    if not is_large:
        return web.Response(body=first, content_type="application/json")
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    zipped = accepts_gzip(request.headers.get("Accept-Encoding", ""))
    packer = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP) if zipped else None
    if packer is not None:
        response.headers.update({"Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
    await response.prepare(request)

    async def write(piece: bytes) -> None:
        await response.write(piece if packer is None else await anyio.to_thread.run_sync(packer.compress, piece))

    await write(first)
    async for piece in pieces:
        await write(piece)
    await response.write_eof(b"" if packer is None else packer.flush())
    return response


async def _watch(request: web.Request, watcher: Watcher[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    if request.version >= HttpVersion11:
        response.enable_chunked_encoding()
        watcher.direct = _direct(request)
    await response.prepare(request)
    if request.transport is not None:
        watcher.on_slow = request.transport.abort
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        watcher.wake()
        timer = loop.call_later(_LOOK, look)

    timer = loop.call_later(_LOOK, look)
    try:
        while (batch := await watcher.next_batch()) is not None:
            if request.transport is None or request.transport.is_closing():
                return response
            if batch:
                watcher.set_blocked(True)
                await response.write(b"".join([line.data for line in batch]))
                watcher.set_blocked(False)
        await response.write_eof()
    except (ConnectionResetError, ClientConnectionError):
        pass  # the client has gone
    finally:
        timer.cancel()
    return response


def _direct(request: web.Request) -> Callable[[bytes], bool]:
    """Return a function that writes a line, as a chunk, in the step that applies its change.

    It does so only while no byte waits for the socket, so that a slow reader fills the watcher's queue, which is
    limited. A task that is woken for each reader and line would cost more than the line.
    """

    def write(line: bytes) -> bool:
        transport = request.transport
        if transport is None or transport.is_closing() or transport.get_write_buffer_size():
            return False
        transport.write(b"%x\r\n%b\r\n" % (len(line), line))
        return True

    return write
