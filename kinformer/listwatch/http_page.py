"""The items of a list while its body arrives."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack

from kinformer.objects.object import KubeObject

__all__ = ["HTTPPageItems"]


class HTTPPageItems:
    """The items of a page, in lists; owns the connection that they come from.

    Reading to the end, an error and cancellation close it. A reader that stops earlier calls `aclose`.
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
