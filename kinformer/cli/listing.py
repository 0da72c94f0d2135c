"""A whole list, at once: what an informer is not needed for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable

from kinformer.exceptions import ConnectError, ExpiredError
from kinformer.list_watcher import ListOptions, ListPage
from kinformer.listwatch.list_watch import ListWatch
from kinformer.objects.object import KubeObject

__all__ = ["list_all", "read_page"]

_PAGE = 500  # objects a request, kubectl's --chunk-size
_SILENCE = 120.0  # seconds without a byte of a list after which it has failed, the informer's idle_timeout


async def list_all(source: ListWatch, progress: Callable[[int], None] | None = None) -> tuple[list[KubeObject], str]:
    """All objects of a source, the newest state, and its resourceVersion.

    Args:
        source: What to list.
        progress: Called with the number of objects that have come, as they come.

    Raises:
        APIError, ConnectError, DecodeError: As `ListWatch.list`; also after 120 s without a byte.
    """
    progress = progress or _in_silence
    try:
        return await _pages(source, ListOptions(limit=_PAGE), progress)
    except ExpiredError:
        # The snapshot that the pages were cut from is gone; one page cannot be (client-go, tools/pager/pager.go).
        return await _pages(source, ListOptions(), progress)


async def _pages(
    source: ListWatch, options: ListOptions, progress: Callable[[int], None]
) -> tuple[list[KubeObject], str]:
    objects: list[KubeObject] = []
    while True:
        page = await source.list(options)
        async for items in _pieces(page):
            objects += items
            progress(len(objects))
        if not page.continue_token:
            return objects, page.resource_version
        options = options.replace(continue_token=page.continue_token)


async def read_page(source: ListWatch, options: ListOptions) -> tuple[ListPage, list[KubeObject]]:
    """One page, with all its objects. Raises as `list_all`."""
    page = await source.list(options)
    objects: list[KubeObject] = []
    async for items in _pieces(page):
        objects += items
    return page, objects


async def _pieces(page: ListPage) -> AsyncIterable[list[KubeObject]]:
    items = page.items
    if not isinstance(items, AsyncIterable):
        yield list(items)
        return
    pieces = aiter(items)
    while True:
        try:
            async with asyncio.timeout(_SILENCE):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise ConnectError(f"a list stopped coming: nothing for {_SILENCE:g} s") from error
        yield piece


def _in_silence(_: int) -> None:
    pass
