"""The schedule: which faults strike at which points of a program, and all other random choices."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import msgspec

from kinformer.exceptions import ConfigError
from kinformer.testing.explore.faults import ALL, LEASES, Fault

__all__ = [
    "PACES",
    "Point",
    "Schedule",
    "Strike",
    "chosen_faults",
    "decode_schedule",
    "encode_schedule",
    "single_strikes",
]

PACES = (5.0, 0.0, 0.05, 0.7, 30.0)  # seconds before a step of the script. The first is the simplest


class Point(msgspec.Struct, frozen=True, array_like=True):
    """A reproducible point in a program's communication with the server: its n-th request or event of a kind."""

    replica: int
    verb: str  # as in RBAC. "event" is an event of a watch, "cached" a read that accepts cached data
    resource: str
    number: int = 0


class Strike(msgspec.Struct, frozen=True, array_like=True):
    """One fault at one point."""

    fault: str
    variant: str
    at: Point
    seconds: float = 0.0


class Schedule(msgspec.Struct, frozen=True, array_like=True):
    """All choices of one history, except the program's own behaviour.

    Attributes:
        seed: The seed of random numbers, names and the order of simultaneous arrivals.
        strikes: The faults.
        paces: Seconds before each step of the script. Steps beyond its end get 5.
        steps: The steps, if a strategy generated them.
        free: Writes that need no lead, as earlier histories have shown: program, verb and resource.
    """

    seed: int = 0
    strikes: tuple[Strike, ...] = ()
    paces: tuple[float, ...] = ()
    steps: Any = None
    free: tuple[tuple[str, str, str], ...] = ()


def encode_schedule(schedule: Schedule) -> str:
    """Encode a schedule as a string for `reproduce`."""
    return base64.urlsafe_b64encode(zlib.compress(msgspec.json.encode(schedule), 9)).decode()


def decode_schedule(text: str) -> Schedule:
    """Return the schedule encoded in a string.

    Raises:
        ConfigError: The string is not an encoded schedule.
    """
    try:
        return msgspec.json.decode(zlib.decompress(base64.urlsafe_b64decode(text)), type=Schedule)
    except (ValueError, zlib.error, msgspec.DecodeError) as error:
        raise ConfigError(f"reproduce: {text!r} is not an encoded schedule: {error}") from None


def chosen_faults(faults: Iterable[Fault]) -> list[Fault]:
    """Return the faults in the order of `ALL`."""
    chosen = set(faults)
    return [fault for fault in ALL if fault in chosen]


def _combinations(faults: Iterable[Fault], points: dict[Point, int]) -> Iterator[tuple[Fault, str, Point, int]]:
    """Yield each possible fault and point, with the number of such points. Likely faults and writes come first."""
    cached = {point.replica for point in points if point.verb == "cached"}
    for fault in chosen_faults(faults):
        for point, variant in product(points, fault.variants):
            useless = variant == "stale" and point.replica not in cached
            if fault.strikes_at(point.verb, point.resource) and not useless:
                yield fault, variant, point, points[point]


def _pace(point: Point) -> int:
    """Return how much later each further request of a kind is tried. The renewals of a Lease are much alike."""
    return 3 if point.resource.startswith(LEASES) else 1


def single_strikes(faults: Iterable[Fault], points: dict[Point, int], most: int) -> Iterator[Schedule]:
    """Yield at most `most` schedules with one fault each. For each fault, the points of writes come first."""
    candidates = [
        (
            fault.rank(point.verb) + number * _pace(point) + 2 * later,
            order,
            Schedule(order, (Strike(fault.name, variant, at, seconds),)),
        )
        for order, (fault, variant, point, count) in enumerate(_combinations(faults, points))
        for number in range(count)
        for later, seconds in enumerate(fault.seconds[: fault.alone])
        for at in [msgspec.structs.replace(point, number=number)]
    ]
    candidates.sort(key=lambda candidate: candidate[:2])
    for _, _, schedule in candidates[:most]:
        yield schedule
