"""LIST: chooses the snapshot of a resource and cuts it into pages (storage/cacher, storage/etcd3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from kinformer._runtime.clock import YieldBudget
from kinformer.apiserver.options import EXACT, ContinueToken, Options
from kinformer.apiserver.selecting.filters import Selector
from kinformer.apiserver.status import (
    TOO_OLD_CONTINUE,
    TOO_OLD_LIST,
    Document,
    expired,
    timeout_too_large,
)
from kinformer.apiserver.storage import BytesView, Compacted, RevisionSnapshot, Storage, Stored, StoredCollection

__all__ = ["GZIP_LEVEL", "ItemPage", "accepts_gzip", "chunks", "opening", "read_page", "wait_for_revision"]

_GZIP_FROM = 128 * 1024  # bytes (responsewriters/writers.go, defaultGzipThresholdBytes)
GZIP_LEVEL = 1
WAIT = 3.0  # seconds that a request waits for a future resourceVersion (cacher, blockTimeout)
_SLICE = 200  # the most items that are joined into one piece of a body
_PIECE = 128 << 10  # ... and bytes, besides the last item


async def wait_for_revision(storage: Storage, revision: int) -> None:
    """Wait until the server has reached a revision. Raises a 504 `StatusError` after 3 s."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT
    while storage.revision < revision:
        left = deadline - loop.time()
        if left <= 0:
            raise timeout_too_large(revision, storage.revision)
        await asyncio.sleep(min(left, 0.05))


class ItemPage:
    """One page of a LIST: its items and its metadata."""

    shards = ""  # the shard selector of the page

    def __init__(self, items: list[Stored], revision: int, token: str = "", remaining: int | None = None) -> None:
        self.items = items
        self.revision = revision
        self.token = token
        self.remaining = remaining

    def metadata(self) -> Document:
        """Return ListMeta with only the fields that are set."""
        metadata: Document = {"resourceVersion": str(self.revision)}
        if self.token:
            metadata["continue"] = self.token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        if self.shards:
            metadata["shardInfo"] = {"selector": self.shards}
        return metadata


async def read_page(storage: Storage, collection: StoredCollection, selected: Selector, options: Options) -> ItemPage:
    """Return the requested page. Raises a 410 or 504 `StatusError`."""
    page = await _read_items(storage, collection, selected, options)
    if selected.shards is not None:
        page.shards = selected.shards.text
    return page


async def _read_items(storage: Storage, collection: StoredCollection, selected: Selector, options: Options) -> ItemPage:
    limit = 0 if options.revision == 0 else options.limit
    if options.token:
        token = ContinueToken.decode(options.token)
        await wait_for_revision(storage, token.revision)
        return await _continued(storage, collection, selected, token, limit)
    revision = options.revision
    if not revision:
        # Without a version, the newest state. With "0", the cache's state, which ignores the limit.
        return await _page_of(collection, collection.snapshot(), selected, storage.revision, limit)
    await wait_for_revision(storage, revision)
    exact = options.match == EXACT or (not options.match and limit)  # a limit without a match is the old form of Exact
    if not exact:
        return await _page_of(collection, collection.snapshot(), selected, storage.revision, limit)
    try:
        snapshot = _past(storage, collection, revision)
    except Compacted:
        raise expired(TOO_OLD_LIST) from None
    return await _page_of(collection, snapshot, selected, revision, limit)


def _past(storage: Storage, collection: StoredCollection, revision: int) -> RevisionSnapshot:
    if revision < storage.compacted:
        raise Compacted
    return collection.at(revision)


async def _continued(
    storage: Storage, collection: StoredCollection, selected: Selector, token: ContinueToken, limit: int
) -> ItemPage:
    start = _absolute_key(selected.namespace, token.start)
    if token.revision < 0:
        return await _page_of(collection, collection.snapshot().onwards(start), selected, storage.revision, limit)
    try:
        snapshot = _past(storage, collection, token.revision)
    except Compacted:
        raise expired(TOO_OLD_CONTINUE, token=ContinueToken(-1, token.start.removeprefix("/")).encode()) from None
    return await _page_of(collection, snapshot.onwards(start), selected, token.revision, limit)


def _absolute_key(namespace: str, start: str) -> str:
    start = start.removeprefix("/")
    return f"{namespace}/{start}" if namespace else start


def _relative_key(namespace: str, key: str) -> str:
    return key[len(namespace) :] if namespace else f"/{key}"


async def _page_of(
    collection: StoredCollection, snapshot: RevisionSnapshot, selected: Selector, revision: int, limit: int
) -> ItemPage:
    within = snapshot.within(selected.namespace)
    if not selected.selects:
        items, rest = list(within.items), 0
        if limit and len(items) > limit:
            items, rest = items[:limit], len(items) - limit
    else:
        items, rest, budget = [], 0, YieldBudget()
        for number, stored in enumerate(within.items, 1):
            if selected.matches(stored):
                items.append(stored)
                if len(items) == limit:
                    rest = len(within.items) - number  # whether they are selected or not
                    break
            if budget.exhausted():
                await budget.pause()
    if not rest:
        return ItemPage(items, revision)
    collection.keep_snapshot(revision)
    token = ContinueToken(revision, _relative_key(selected.namespace, items[-1].key) + "\0").encode()
    # With a selector, the remaining items are not counted.
    return ItemPage(items, revision, token, None if selected.selects else rest)


async def chunks(view: BytesView, page: ItemPage) -> AsyncIterator[bytes]:
    """Yield the body of a list in pieces. Yields to the event loop between pieces."""
    head, tail = view.frame(page.metadata())
    if view.form == "partial" and not page.items:  # a nil slice in Go, where other forms have an empty list
        yield head[:-1] + b"null" + tail[1:]
        return
    lead, items, size = head, list[bytes](), 0
    for stored in page.items:
        item = view.item(stored)
        items.append(item)
        size += len(item)
        if len(items) == _SLICE or size >= _PIECE:
            yield lead + b",".join(items)
            lead, size = b",", 0
            items.clear()
            await asyncio.sleep(0)
    yield (lead if items or lead is head else b"") + b",".join(items) + tail


def accepts_gzip(accept_encoding: str) -> bool:
    """Return True if this Accept-Encoding has `gzip` without a weight (writers.go, negotiateContentEncoding)."""
    return "gzip" in map(str.strip, accept_encoding.split(","))


async def opening(pieces: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """Return the beginning of a body, and True if the body is large enough to be compressed.

    A body that is not is returned whole. The rest of a large one is left in `pieces`.
    """
    held: list[bytes] = []
    size = 0
    async for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size > _GZIP_FROM:
            break
    return b"".join(held), size > _GZIP_FROM
