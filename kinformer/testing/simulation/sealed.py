"""Removes the nondeterminism around a simulation: clocks, random numbers, names and threads."""

from __future__ import annotations

import random
import ssl
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from kinformer._lazy import needs_extra
from kinformer.testing.simulation.calls import calls_simulated, entropy_from

__all__ = ["sealed"]

_NODE = 0x0242AC110002  # the hardware address in a version 1 UUID
_LAST = ("_last_timestamp", "_last_timestamp_v6", "_last_timestamp_v7")  # of a UUID, so that the next one is later

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
    """The dates of `time` and `datetime`, which `time-machine` moves, also under names that were bound before."""

    def __init__(self) -> None:
        self._traveller: Any = None
        self._at = 0.0

    @contextmanager
    def moved(self, start: float) -> Iterator[None]:
        """Begin at a date, in seconds since 1970, and let `move` change it in the block."""
        with needs_extra("explore", "time_machine"):
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

    `random`, `secrets`, `uuid`, `tempfile` and `os.urandom` give the same results for the same seed. The other calls
    to the machine are as in `calls_simulated`.
    """
    state = random.getstate()
    random.seed(seed)
    dates = _Dates()
    with ExitStack() as stack:
        stack.callback(random.setstate, state)
        stack.enter_context(calls_simulated())
        stack.enter_context(entropy_from(random.Random(seed + 1)))
        stack.enter_context(patch.object(uuid, "_generate_time_safe", None, create=True))
        stack.enter_context(patch.object(uuid, "_node", _NODE))
        for name in _LAST:
            stack.enter_context(patch.object(uuid, name, None, create=True))
        stack.enter_context(patch.object(tempfile, "_name_sequence", _names_of_files()))
        stack.enter_context(patch.object(ssl, "create_default_context", _context))
        stack.enter_context(dates.moved(start))
        yield dates.move


def _names_of_files() -> Iterator[str]:
    """Return the names that `tempfile` tries, from a generator that is seeded when the first one is needed."""
    names: Iterator[str] = tempfile._RandomNameSequence()  # type: ignore[attr-defined]
    return names
