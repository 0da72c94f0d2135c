"""Sources around a source, and pages around its pages, whose objects go through a function on their way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Protocol, runtime_checkable

from kinformer.list_watcher import Capabilities, ListerWatcher, ListPage, capabilities_of
from kinformer.objects.object import KubeObject

__all__ = ["ListerWatcherWrapper", "map_page"]

_BATCH = 500  # objects of a plain iterable that are handed on together

Convert = Callable[[Iterable[Any]], Awaitable[list[KubeObject]]]


class ListerWatcherWrapper:
    """A source that changes what another gives, and offers what that offers beside `list` and `watch`."""

    def __init__(self, inner: ListerWatcher) -> None:
        self._inner = inner

    @property
    def capabilities(self) -> Capabilities:
        """Those of the inner source."""
        return capabilities_of(self._inner)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._inner!r}>"


def map_page(page: ListPage, convert: Convert) -> ListPage:
    """`page` with what `convert` makes of each list of its objects; `items` is an async iterable of lists."""
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
    """The converted lists of a page; closes the lists that they come from."""

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
