"""What has gone through a derived collection, in figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["DerivedStatistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedStatistics:
    """Counts since the collection was entered, but for those that are said to be of this moment.

    Attributes:
        objects: The values, at this moment.
        reads: The names of the collections that it reads, at this moment.
        runs: The calls of its function.
        failures: Those of them that raised.
        dependencies: Pairs of a value and something that it was computed from, at this moment.
        waiting: The objects whose values have to be computed anew, at this moment.
        events: The changes of values, by type.
        pending: The calls that wait, by the name of the handler, at this moment.
        coalesced: The calls that were folded into another because a handler was too slow for its `queue_size`.
        handler_errors: The calls of handlers and filters that raised.
        index_errors: The values left out of an index because its function raised.
    """

    objects: int = 0
    reads: tuple[str, ...] = ()
    runs: int = 0
    failures: int = 0
    dependencies: int = 0
    waiting: int = 0
    events: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)
    coalesced: int = 0
    handler_errors: int = 0
    index_errors: int = 0
