"""Waits for conditions that no event tells of, and for tasks that are ready to run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def until(
    ask: Callable[[], Any],
    seconds: float = 10.0,
    *,
    holds: Callable[[Any], Any] = bool,
    what: str | Callable[[], str] = "",
) -> Any:
    """Ask again and again until an answer holds, and return it.

    Args:
        ask: A function or a coroutine function.
        seconds: How long it may take, on the clock of the loop.
        holds: True if the answer is the wanted one; by default any that is true.
        what: What is waited for, for the message of the error.

    Raises:
        TimeoutError: No answer held in time.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    while True:
        answer = ask()
        if inspect.isawaitable(answer):
            async with asyncio.timeout_at(start + seconds):
                answer = await answer
        if holds(answer):
            return answer
        waited = loop.time() - start
        if waited >= seconds:
            told = (what() if callable(what) else what) or _source(ask)
            raise TimeoutError(f"not within {seconds:g} s: {told}; the last answer: {answer!r}")
        # The longer it takes the less often, as each look costs some real time on a virtual clock too.
        await asyncio.sleep(min(max(0.01, waited / 20), 0.2))


async def settle(turns: int = 50) -> None:
    """Let everything run that is ready to."""
    for _ in range(turns):
        await asyncio.sleep(0)


def _source(ask: Callable[[], Any]) -> str:
    try:
        return inspect.getsource(ask).strip()
    except (OSError, TypeError):  # a built-in function, or text that was compiled
        return repr(ask)
