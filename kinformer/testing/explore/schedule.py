"""The schedule: which faults strike at which points of a program, and everything else that is chosen."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec

from kinformer.exceptions import ConfigError
from kinformer.testing.explore.faults import ALL, Fault

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

__all__ = ["Point", "Schedule", "Strike", "decode_schedule", "draw_schedule", "encode_schedule", "single_strikes"]

PACES = (5.0, 0.0, 0.05, 0.7, 30.0)  # seconds before a step of the script; the first is the simplest
_MOST_STRIKES = 5
_BEYOND = 2  # a fault may make a program ask more often than it did without


class Point(msgspec.Struct, frozen=True, array_like=True):
    """A place in a program's talk with the server, which is the same in each run: its n-th such request, or event."""

    replica: int
    verb: str  # as in RBAC; "event" for one of a watch, "cached" for a read that takes what a cache has
    resource: str
    number: int = 0


class Strike(msgspec.Struct, frozen=True, array_like=True):
    """One fault at one point."""

    fault: str
    variant: str
    at: Point
    seconds: float = 0.0


class Schedule(msgspec.Struct, frozen=True, array_like=True):
    """One history, up to what the program does.

    Attributes:
        seed: Of random numbers, names and the order of what arrives at the same time.
        strikes: The faults.
        paces: Seconds before each step of the script; 5 for those that it does not name.
        steps: The steps, if a strategy made them.
    """

    seed: int = 0
    strikes: tuple[Strike, ...] = ()
    paces: tuple[float, ...] = ()
    steps: Any = None


def encode_schedule(schedule: Schedule) -> str:
    """Return a schedule as a text for `reproduce`."""
    return base64.urlsafe_b64encode(zlib.compress(msgspec.json.encode(schedule), 9)).decode()


def decode_schedule(text: str) -> Schedule:
    """Return the schedule of a text.

    Raises:
        ConfigError: It is none.
    """
    try:
        return msgspec.json.decode(zlib.decompress(base64.urlsafe_b64decode(text)), type=Schedule)
    except (ValueError, zlib.error, msgspec.DecodeError) as error:
        raise ConfigError(f"reproduce: {text!r} is not the text of a schedule: {error}") from None


def _chosen(faults: Iterable[Fault]) -> list[Fault]:
    wanted = set(faults)
    return [fault for fault in ALL if fault in wanted]


def _combinations(faults: Iterable[Fault], points: dict[Point, int]) -> Iterator[tuple[Fault, str, Point, int]]:
    """Yield what may strike where, with the number of such points: of the likeliest faults first, writes first."""
    cached = {point.replica for point in points if point.verb == "cached"}
    for fault in _chosen(faults):
        for point, variant in product(points, fault.variants):
            useless = variant == "stale" and point.replica not in cached
            if fault.strikes_at(point.verb, point.resource) and not useless:
                yield fault, variant, point, points[point]


def single_strikes(faults: Iterable[Fault], points: dict[Point, int], most: int) -> Iterator[Schedule]:
    """Yield the schedules of one fault each, at most so many: for each first the points of writes."""
    found = [
        (
            fault.rank(point.verb) + number + 2 * later,
            order,
            Schedule(order, (Strike(fault.name, variant, at, seconds),)),
        )
        for order, (fault, variant, point, count) in enumerate(_combinations(faults, points))
        for number in range(count)
        for later, seconds in enumerate(fault.seconds[: fault.alone])
        for at in [msgspec.structs.replace(point, number=number)]
    ]
    found.sort(key=lambda one: one[:2])
    for _, _, schedule in found[:most]:
        yield schedule


def draw_schedule(draw: DrawFn, faults: Iterable[Fault], points: dict[Point, int], steps: int) -> Schedule:
    """Draw a schedule by hypothesis."""
    from hypothesis import strategies as st

    combinations = list(_combinations(faults, points))
    strikes: list[Strike] = []
    if combinations:
        strike = st.tuples(st.sampled_from(combinations), st.integers(0, 30), st.integers(0, 4))
        for (fault, variant, point, count), number, length in draw(st.lists(strike, max_size=_MOST_STRIKES)):
            at = msgspec.structs.replace(point, number=number % (count + _BEYOND))
            strikes.append(Strike(fault.name, variant, at, fault.seconds[length % len(fault.seconds)]))
    paces = draw(st.lists(st.sampled_from(PACES), max_size=steps))
    return Schedule(draw(st.integers(0, 1000)), tuple(strikes), tuple(paces))
