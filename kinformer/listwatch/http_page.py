"""A page of a list whose items come while its body arrives, and the reader of that body."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack

from kinformer._runtime.clock import YieldBudget
from kinformer.client.body import Body
from kinformer.list_watcher import ListPage
from kinformer.objects.object import KubeObject

__all__ = ["BodyReader", "HTTPPage", "HTTPPageItems"]

_WAITED = 0.0002  # seconds: a read that took longer has given the loop its turn


class HTTPPage(ListPage):
    # Held weakly by its items: a page that is dropped must not wait for a collection to close its stream.
    __slots__ = ("__weakref__",)


class HTTPPageItems:
    """The items of a page; owns the stream that they come from."""

    def __init__(self, stack: AsyncExitStack, body: Body, pieces: AsyncGenerator[list[KubeObject], None]) -> None:
        self._stack = stack
        self._body = body
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[list[KubeObject]]:
        return self

    async def __anext__(self) -> list[KubeObject]:
        try:
            return await anext(self._pieces)
        except BaseException:
            await self._stack.aclose()
            raise

    async def aclose(self) -> None:
        """Closes the stream, if it is still open."""
        await self._pieces.aclose()
        await self._stack.aclose()

    def __del__(self) -> None:
        # A page that was dropped halfway: the connection must not stay open until some collection.
        self._body.close()


class BodyReader:
    """Reads a body chunk by chunk. No generator: one that is left halfway is closed by a task of its own.

    Keeps the budget honest, for time spent waiting is not work. A login page or a proxy's apology, with 200 as its
    status, is not the API server: that raises `no_json`.
    """

    def __init__(self, body: Body, budget: YieldBudget, no_json: type[Exception]) -> None:
        self._body = body
        self._budget = budget
        self._no_json = no_json
        self._begun = False

    async def read(self) -> bytes:
        """The next chunk, or b"" at the end."""
        before = time.perf_counter()
        chunk = await self._body.read()
        if time.perf_counter() - before > _WAITED:
            self._budget.restart()
        elif self._budget.exhausted():
            await self._budget.pause()
        if not self._begun and chunk:
            self._begin(chunk)
        return chunk

    def _begin(self, chunk: bytes) -> None:
        first = chunk.lstrip(b" \t\r\n")[:1]
        self._begun = bool(first)
        if first == b"<" or self._body.content_type == "text/html":
            kind = self._body.content_type or "HTML"
            text = f"{kind} came where JSON was asked for; something between answers for the server"
            raise self._no_json(f"{text}: {chunk[:80]!r}")
