"""Removes the nondeterminism around a simulation: clocks, random numbers and threads."""

from __future__ import annotations

import os
import random
import ssl
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import anyio.to_thread

__all__ = ["sealed"]


async def _at_once(func: Callable[..., Any], *args: Any, **_: Any) -> Any:
    return func(*args)


_create_default_context = ssl.create_default_context


@lru_cache(maxsize=1)
def _default_context() -> ssl.SSLContext:
    return _create_default_context()


def _context(*args: Any, **options: Any) -> ssl.SSLContext:
    """Cache the machine's certificates. kubernetes_asyncio reads them for each client, in 10 ms or more."""
    if args or any(options.values()):
        return _create_default_context(*args, **options)
    return _default_context()


class _Dates:
    """The dates of `time` and `datetime`, which `time-machine` moves if it is installed."""

    def __init__(self) -> None:
        self._traveller: Any = None
        self._at = 0.0

    @contextmanager
    def moved(self, start: float) -> Iterator[None]:
        if find_spec("time_machine") is None:
            yield
            return
        import time_machine

        with time_machine.travel(start, tick=False) as self._traveller:
            yield
        self._traveller = None

    def move(self, at: float) -> None:
        """Move to a date, in seconds since 1970."""
        if self._traveller is not None and at != self._at:
            self._at = at
            self._traveller.move_to(at)


@contextmanager
def sealed(seed: int, start: float) -> Iterator[Callable[[float], None]]:
    """Fix random numbers, names and dates in the block. Yields a function that moves the date.

    `random`, `uuid` and `os.urandom` give the same numbers for the same seed. `datetime.now` and `time.time` are moved
    if `time-machine` is installed. Calls in threads run immediately.
    """
    state = random.getstate()
    random.seed(seed)
    names = random.Random(seed + 1)
    dates = _Dates()
    with ExitStack() as stack:
        stack.callback(random.setstate, state)
        stack.enter_context(patch.object(os, "urandom", names.randbytes))
        stack.enter_context(patch.object(random, "_urandom", names.randbytes, create=True))
        stack.enter_context(patch.object(uuid, "_generate_time_safe", None, create=True))
        stack.enter_context(patch.object(anyio.to_thread, "run_sync", _at_once))
        stack.enter_context(patch.object(ssl, "create_default_context", _context))
        stack.enter_context(dates.moved(start))
        yield dates.move
