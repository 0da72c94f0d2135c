"""The search: chooses schedules with several faults, and shrinks one that fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from kinformer._lazy import needs_extra
from kinformer.testing.explore.faults import BY_NAME, Fault
from kinformer.testing.explore.schedule import PACES, Point, Schedule, Strike, chosen_faults
from kinformer.testing.explore.steps import Step

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["Script", "Search", "examples_of", "shrunk"]

_STRIKES = (1, 2, 2, 2, 3, 3, 4, 5)  # numbers of faults, each as likely
_BEYOND = 2  # more points than were seen, because a fault may cause further requests
_SEEDS = 1000
_EXAMPLES = 30  # lists of steps drawn from a script's strategy
_SHRINKS = 80  # histories spent on shrinking
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
Script = list[list[Step]]  # the steps of each strategy, in the order in which the test uses them


class Search:
    """Chooses schedules at random. The same seed and histories give the same schedules.

    Each history adds the points that it reached, with `learn`, and later schedules may strike there.

    Args:
        faults: The faults to choose from.
        seed: The seed.
    """

    def __init__(self, faults: Iterable[Fault], seed: int) -> None:
        self._random = random.Random(seed)
        self._faults = chosen_faults(faults)
        self._points: dict[Point, int] = {}
        self._kinds: list[tuple[Point, list[Fault]]] = []

    def learn(self, points: dict[Point, int]) -> None:
        """Add the points that a history reached."""
        before = len(self._points)
        for point, count in points.items():
            self._points[point] = max(count, self._points.get(point, 0))
        if len(self._points) > before:
            self._kinds = [(point, faults) for point in self._points if (faults := self._faults_at(point))]

    def schedule(self, steps: int) -> Schedule:
        """Choose a schedule for a script with a number of steps."""
        choose = self._random
        strikes = tuple(self._strike() for _ in range(choose.choice(_STRIKES))) if self._kinds else ()
        paces = tuple(choose.choice(PACES) for _ in range(choose.randint(0, steps)))
        return Schedule(choose.randrange(_SEEDS), strikes, paces)

    def choose(self, examples: list[list[Step]]) -> list[Step]:
        """Choose one of the examples of a strategy."""
        return self._random.choice(examples)

    def _faults_at(self, point: Point) -> list[Fault]:
        return [fault for fault in self._faults if fault.strikes_at(point.verb, point.resource)]

    def _strike(self) -> Strike:
        choose = self._random
        kinds = self._kinds
        if choose.random() < 0.5:
            kinds = [kind for kind in kinds if kind[0].verb in _WRITES] or kinds
        point, faults = choose.choice(kinds)
        fault = choose.choice(faults)
        most = self._points[point] + _BEYOND
        number = choose.randrange(most if choose.random() < 0.5 else min(most, 4))
        at = msgspec.structs.replace(point, number=number)
        return Strike(fault.name, choose.choice(fault.variants), at, choose.choice(fault.seconds))


def examples_of(strategy: SearchStrategy[list[Step]]) -> list[list[Step]]:
    """Return examples of a hypothesis strategy for lists of steps. They are the same each time."""
    with needs_extra("explore", "hypothesis"):
        import hypothesis

    examples: list[list[Step]] = []

    @hypothesis.settings(
        max_examples=_EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),  # pyright: ignore[reportArgumentType]
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(strategy)
    def collect(steps: list[Step]) -> None:
        examples.append(list(steps))

    collect()
    return examples


def shrunk(
    schedule: Schedule, script: Script, pools: list[list[list[Step]]], fails: Callable[[Schedule, Script], bool]
) -> tuple[Schedule, Script]:
    """Return a simpler schedule, and script, that still fail.

    Args:
        schedule: A schedule that fails.
        script: The steps that were drawn for it.
        pools: The examples of each strategy.
        fails: Plays a history, and returns True if it fails by the same rule.
    """
    left = _SHRINKS
    again = True
    while again:
        again = False
        for simpler, steps in _simpler(schedule, script, pools):
            if left == 0:
                return schedule, script
            left -= 1
            if fails(simpler, steps):
                schedule, script, again = simpler, steps, True
                break
    return schedule, script


def _simpler(schedule: Schedule, script: Script, pools: list[list[list[Step]]]) -> Iterator[tuple[Schedule, Script]]:
    """Yield simpler schedules and scripts, the most promising first."""
    replace = msgspec.structs.replace
    strikes, paces = schedule.strikes, schedule.paces
    for number in range(len(strikes)):
        yield replace(schedule, strikes=strikes[:number] + strikes[number + 1 :]), script
    for number, steps in enumerate(script):
        for shorter in sorted(pools[number], key=len):
            if len(shorter) < len(steps):
                yield schedule, [*script[:number], shorter, *script[number + 1 :]]
    if paces:
        yield replace(schedule, paces=()), script
        yield replace(schedule, paces=paces[:-1]), script
    for number, pace in enumerate(paces):
        if pace != PACES[0]:
            yield replace(schedule, paces=(*paces[:number], PACES[0], *paces[number + 1 :])), script
    if schedule.seed:
        yield replace(schedule, seed=0), script
    for number, strike in enumerate(strikes):
        usual = BY_NAME[strike.fault].seconds[0]
        if strike.seconds != usual:
            simple = replace(strike, seconds=usual)
            yield replace(schedule, strikes=(*strikes[:number], simple, *strikes[number + 1 :])), script
