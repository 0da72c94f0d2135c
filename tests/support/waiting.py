"""Waiting for what no event tells of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Until `condition` is true; TimeoutError where it does not become so."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


async def answer_until(ask: Callable[[], Awaitable[T]], holds: Callable[[T], Any], seconds: float = 10.0) -> T:
    """The first answer for which `holds`; TimeoutError where there is none."""
    async with asyncio.timeout(seconds):
        while not holds(answer := await ask()):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    return answer
