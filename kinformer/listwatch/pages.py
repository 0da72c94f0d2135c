"""The items of a page of a list: as they arrive over HTTP, and converted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any, Protocol, runtime_checkable

from kinformer.list_watcher import ListPage
from kinformer.objects.object import KubeObject

__all__ = ["HTTPPageItems", "map_page"]

_BATCH = 500  # objects of a plain iterable passed on together

Convert = Callable[[Iterable[Any]], Awaitable[list[KubeObject]]]


class HTTPPageItems:
    """Iterates over the items of a page in lists. It owns the connection.

    Reading to the end, an error or cancellation closes the connection. A reader that stops earlier must call `aclose`.
    """

    def __init__(self, connection: AsyncExitStack, lists: AsyncGenerator[list[KubeObject], None]) -> None:
        self._connection = connection
        self._lists = lists

    def __aiter__(self) -> AsyncIterator[list[KubeObject]]:
        return self

    async def __anext__(self) -> list[KubeObject]:
        try:
            return await anext(self._lists)
        except BaseException:
            await self._connection.aclose()
            raise

    async def aclose(self) -> None:
        """Close the connection, if it is still open."""
        await self._lists.aclose()
        await self._connection.aclose()


def map_page(page: ListPage, convert: Convert) -> ListPage:
    """Return the page with each list of objects converted. `items` is an async iterable of lists."""
    items = page.items
    inner = aiter(items) if isinstance(items, AsyncIterable) else _batches(items)
    return ListPage(_ConvertedLists(convert, inner), header=page.header)


async def _batches(objects: Iterable[Any]) -> AsyncGenerator[list[Any], None]:
    batch: list[Any] = []
    for obj in objects:
        batch.append(obj)
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> None: ...


class _ConvertedLists:
    """The converted lists of a page. Closes the inner lists."""

    def __init__(self, convert: Convert, inner: AsyncIterator[list[Any]]) -> None:
        self._convert = convert
        self._inner = inner

    def __aiter__(self) -> AsyncIterator[list[KubeObject]]:
        return self

    async def __anext__(self) -> list[KubeObject]:
        objects = await anext(self._inner)
        try:
            return await self._convert(objects)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Close the inner lists, if they can be closed."""
        if isinstance(self._inner, _Closable):
            await self._inner.aclose()
