"""The least that a program can do with a watch: read it, decode it, keep it in a dict, await a handler.

One task, and kinformer's own reader, framing and decoder; no queue, index, mailbox or recovery. The cost of an informer
beyond this is its machinery, and no informer of this decoder can cost less.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import aiohttp

from kinformer.connection.aiohttp_internals import read_whole
from kinformer.list_watcher import WatchEvent
from kinformer.objects.object import KubeObject, view
from kinformer.wire.decoder import EntryDecoder
from kinformer.wire.lines import LineFramer

__all__ = ["follow_least"]


async def follow_least(
    content: aiohttp.StreamReader, on_update: Callable[[KubeObject, KubeObject], Awaitable[bool]]
) -> None:
    """Read the body of a watch until the handler says that it has had enough; a first state is its own `old`."""
    framer, decoder, cache = LineFramer(), EntryDecoder(), dict[str, KubeObject]()
    read_whole(content)
    while chunk := await content.readany():
        found: list[WatchEvent] = []
        for lines in framer.feed(chunk):
            while lines:
                decoder.fast.read(lines, len(lines), found)
                if lines:
                    found.append(decoder.event(lines.take()))
        for _, obj in found:
            old, cache[obj.key] = cache.get(obj.key, obj), obj
            if await on_update(view(old), view(obj)):
                return
