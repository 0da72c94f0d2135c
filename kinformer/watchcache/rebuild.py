"""A rebuild of a watch cache: all objects of the informer become its next state, in slices."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from kinformer.apiserver.storage import RevisionSnapshot, Stored, StoredChange
from kinformer.objects.object import KubeObject

__all__ = ["Old", "Rebuild"]

_SLICE = 0.001  # seconds between two turns of the event loop, as of the processor
_PIECE = 200  # objects between two looks at the clock
_BUCKET = 500  # keys that are sorted in one step, about


Old = tuple[deque[StoredChange], dict[str, Stored]]
"""The history and the objects of the old state, to be freed in slices."""

Commit = Callable[[dict[str, Stored], RevisionSnapshot], Old]
"""Takes the objects of the next state, also in key order, and returns the old state."""


class Rebuild:
    """Builds a state, and hands it over in one step.

    Args:
        found: The objects at this moment.
        hold: Makes what is stored from an object.
        commit: See `Commit`.
    """

    def __init__(self, found: Sequence[KubeObject], hold: Callable[[KubeObject], Stored], commit: Commit) -> None:
        self._steps: Iterator[None] | None = self._run(found, hold, commit)

    def start(self) -> None:
        """Begin. A small state is handed over before this returns."""
        self._slice()

    def cancel(self) -> None:
        """Discard the state, which has not been handed over."""
        self._steps = None

    def _slice(self) -> None:
        until = time.perf_counter() + _SLICE
        while self._steps is not None:
            if next(self._steps, self) is self:
                self._steps = None
            elif time.perf_counter() >= until:
                asyncio.get_running_loop().call_soon(self._slice)
                return

    def _run(self, found: Sequence[KubeObject], hold: Callable[[KubeObject], Stored], commit: Commit) -> Iterator[None]:
        objects: dict[str, Stored] = {}
        for piece in _pieces(found):
            objects.update([(obj.key, hold(obj)) for obj in piece])
            yield
        keys: list[str] = []
        items: list[Stored] = []
        for bucket in _buckets(objects):
            if bucket is not None:
                bucket.sort()
                keys += bucket
                items += [objects[key] for key in bucket]
            yield
        history, old = commit(objects, RevisionSnapshot(keys, items))
        while history or old:
            for _ in range(min(len(history), _PIECE)):
                history.pop()
            for _ in range(min(len(old), _PIECE)):
                old.popitem()
            yield


def _pieces(found: Iterable[KubeObject]) -> Iterator[list[KubeObject]]:
    rest = iter(found)
    while piece := list(islice(rest, _PIECE)):
        yield piece


def _buckets(objects: dict[str, Stored]) -> Iterator[list[str] | None]:
    """Yield the keys in buckets, each before the next, and None while they are being filled.

    One sort of all keys would take the event loop for tens of milliseconds.
    """
    count = len(objects) // _BUCKET
    sample = sorted(islice(objects, 0, None, max(1, len(objects) // (count * 16 + 1))))
    bounds = sample[16::16]
    buckets: list[list[str]] = [[] for _ in range(len(bounds) + 1)]
    for number, key in enumerate(objects):
        buckets[bisect_right(bounds, key)].append(key)
        if not number % _PIECE:
            yield None
    yield from buckets
