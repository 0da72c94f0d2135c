"""The items of a list, read while its body arrives."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack

from kinformer.objects.object import KubeObject

__all__ = ["HTTPPageItems"]


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
