"""Sources around a source, and its pages, whose objects go through a function on their way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from kinformer.list_watcher import ListerWatcher, ListPage
from kinformer.objects.object import KubeObject

__all__ = ["ListerWatcherWrapper", "MappedPage", "map_page"]

_BATCH = 500  # objects of a plain iterable that are handed on together

Convert = Callable[[Iterable[Any]], Awaitable[list[KubeObject]]]


class ListerWatcherWrapper:
    """A source that changes what another gives; all else that one can do is asked of the other."""

    def __init__(self, inner: ListerWatcher) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # not yet there: a copy in the making
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._inner!r}>"


def map_page(page: ListPage, convert: Convert) -> ListPage:
    """`page` with what `convert` makes of each list of its objects; `items` is an async iterable of lists."""
    items = page.items
    inner = aiter(items) if isinstance(items, AsyncIterable) else _batches(items)
    return MappedPage(page, _Lists(convert, inner))


async def _batches(objects: Iterable[Any]) -> AsyncGenerator[list[Any], None]:
    batch: list[Any] = []
    for obj in objects:
        batch.append(obj)
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


class _Lists:
    """The converted lists of a page; closes what they come from as the inner source wants it."""

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
        """Closes the inner items, if they can be closed."""
        close = getattr(self._inner, "aclose", None)
        if close is not None:
            await close()


class MappedPage(ListPage):
    """A page whose other fields are those of the inner page, which may learn them with its last item."""

    __slots__ = ("_inner",)

    def __init__(self, inner: ListPage, items: AsyncIterable[list[Any]]) -> None:
        self._inner = inner
        self.items = items

    @property
    def resource_version(self) -> str:  # type: ignore[override]
        return self._inner.resource_version

    @property
    def continue_token(self) -> str:  # type: ignore[override]
        return self._inner.continue_token
