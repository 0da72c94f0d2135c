"""Answers of the server that are remembered for some seconds, within a bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from kinformer._runtime.tasks import Coro
from kinformer.client.single_flight import SingleFlight

__all__ = ["Memory"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memory(Generic[K, V]):
    """Remembers answers by their question, and shares a question that is being asked.

    Args:
        seconds: The time for which an answer is reused. A failure is not remembered.
        most: The most answers. A further one takes the place of the one that was used longest ago.
    """

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._most = most
        self._flights: OrderedDict[K, SingleFlight[V]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of remembered answers."""
        return len(self._flights)

    async def get(self, key: K, ask: Callable[[], Coro[V]]) -> V:
        """Return the answer to a question, which `ask` gets if it is not known."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = SingleFlight(ask, ttl=self._seconds)
            if len(self._flights) > self._most:
                self._flights.popitem(last=False)
        else:
            self._flights.move_to_end(key)
        return await flight.get()
