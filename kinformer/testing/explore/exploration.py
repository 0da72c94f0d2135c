"""The decorator that explores the histories of a program, and reports the shortest failing one."""

from __future__ import annotations

import functools
import gc
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from kinformer.exceptions import ConfigError
from kinformer.testing.explore.faults import ALL, Fault
from kinformer.testing.explore.findings import Finding
from kinformer.testing.explore.history import NOT_SIMULATED, History
from kinformer.testing.explore.schedule import (
    Point,
    Schedule,
    decode_schedule,
    draw_schedule,
    single_strikes,
)
from kinformer.testing.explore.sites import places_noted
from kinformer.testing.explore.steps import Step
from kinformer.testing.explore.story import tell
from kinformer.testing.explore.trace import Trace
from kinformer.testing.explore.world import World
from kinformer.testing.simulation.calls import calls_simulated

__all__ = ["ExplorationError", "explore", "quietly", "reproduce"]

Test = Callable[..., Coroutine[Any, Any, None]]
_REPRODUCED = "__kinformer_reproduced__"
_RULES = frozenset({"errors", "rest", "lead", "finalizers", "leftovers", "fields"})
_SHARE = 0.5  # share of schedules with a single fault, tried in order, before hypothesis combines faults
_COLLECTED = 8  # histories between garbage collections. Each leaves a few megabytes
_BEFORE = 8  # steps that the story shows before the first that differs between two plays
_CAUSES = (
    "Usual causes: state of a module that outlives a replica, the order of a set of objects, files,",
    "a clock or a generator of random numbers in compiled code or in an object made before the exploration.",
)
_EXAMPLES = 10  # examples drawn from a script's strategy. The longest one is used for single faults


class ExplorationError(AssertionError):
    """A check failed or a rule was broken in a history. The message is the story.

    Attributes:
        finding: The failed check or broken rule.
        schedule: The schedule that reproduces it.
        tried: The number of histories until it was found.
    """

    def __init__(self, story: str, finding: Finding, schedule: Schedule, tried: int) -> None:
        super().__init__(story)
        self.finding = finding
        self.schedule = schedule
        self.tried = tried


def explore(
    *,
    schedules: int = 500,
    faults: Iterable[Fault] = ALL,
    ignore: Iterable[str] = (),
    seed: int | None = None,
) -> Callable[[Test], Callable[..., None]]:
    """Test an operator under many orders of events. ``async def test(world)`` declares, and this decorator explores.

    The first history has no fault. It is played twice, and a difference is a failure, because nothing that is found
    could be reproduced. Then come histories with one fault each, at every point that the first one reached, and then
    combinations of faults, which hypothesis chooses and shrinks.

    Args:
        schedules: The number of histories to try.
        faults: The faults to choose from.
        ignore: Rules to skip: "errors", "rest", "lead", "finalizers", "leftovers", "fields".
        seed: The seed for hypothesis, or None for a random one in each run.

    Raises:
        ConfigError: A rule does not exist, or `schedules` is below 1.
    """
    chosen, ignored = tuple(faults), frozenset(ignore)
    if unknown := ignored - _RULES:
        raise ConfigError(
            f"explore(ignore=...): unknown rule: {', '.join(sorted(unknown))}; expected one of {sorted(_RULES)}"
        )
    if schedules < 1:
        raise ConfigError(f"explore: invalid schedules={schedules!r}: expected 1 or more")

    def decorate(test: Test) -> Callable[..., None]:
        @functools.wraps(test)
        def explored(*args: Any, **fixtures: Any) -> None:
            exploration = _Exploration(functools.partial(test, *args, **fixtures), chosen, ignored)
            with quietly(), calls_simulated(), _collecting_by_hand():
                schedule = getattr(explored, _REPRODUCED, None) or getattr(test, _REPRODUCED, None)
                if schedule is not None:
                    exploration.reproduce(decode_schedule(schedule))
                else:
                    exploration.explore(schedules, seed)

        signature = inspect.signature(test)
        if "world" not in signature.parameters:
            raise ConfigError(f"explore: {test.__name__} has no parameter `world`")
        fixtures = [one for name, one in signature.parameters.items() if name != "world"]
        explored.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        del explored.__wrapped__  # pytest would look for fixtures there
        return explored

    return decorate


def reproduce(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a test of `explore` play only the history encoded in `text`, which the story of a failure ends with."""
    decode_schedule(text)

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        setattr(test, _REPRODUCED, text)
        return test

    return decorate


class _Exploration:
    def __init__(self, test: Callable[..., Coroutine[Any, Any, None]], faults: tuple[Fault, ...], ignored: Any) -> None:
        self._test = test
        self._faults = faults
        self._ignored = ignored
        self._tried = 0
        self._strategies: list[Any] = []
        self._examples: list[list[Step]] = []

    def explore(self, schedules: int, seed: int | None) -> None:
        plain = Schedule()
        history = self._play_twice(plain)
        self._check(history, plain, "in the first history")
        points = history.points
        for schedule in single_strikes(self._faults, points, int((schedules - 1) * _SHARE)):
            self._check(self._play(schedule, self._example), schedule, "with single faults")
        left = schedules - self._tried
        if left > 0:
            self._search(points, left, seed)

    def reproduce(self, schedule: Schedule) -> None:
        steps = None if schedule.steps is None else msgspec.convert(schedule.steps, list[list[Step]])
        drawn = iter(steps or [])
        self._check(self._play(schedule, lambda _: next(drawn)), schedule, "reproduced")

    # -- one history ----------------------------------------------------------------------------------------------

    def _world(self, draw: Callable[[Any], Any]) -> World:
        world = World(draw)
        declaring = self._test(world=world)
        try:
            declaring.send(None)
        except StopIteration:
            return world
        except RuntimeError as error:
            if "no running event loop" not in str(error):
                raise
        declaring.close()
        raise ConfigError("a test of `explore` only declares and must not await: move awaiting code into programs")

    def _play(self, schedule: Schedule, draw: Callable[[Any], Any]) -> History:
        return self._history(self._world(draw), schedule)

    def _play_twice(self, schedule: Schedule) -> History:
        """Play a history twice, and compare. It counts once."""
        with places_noted():
            history = self._play(schedule, self._example)
            if history.finding is None or history.finding.rule != NOT_SIMULATED:
                again = self._play(schedule, self._example)
                self._tried -= 1
                self._require_same(history.trace, again.trace, schedule)
        return history

    def _require_same(self, first: Trace, second: Trace, schedule: Schedule) -> None:
        found = first.difference(second)
        if found is None:
            return
        text = f"the program does not do the same twice: step {found.step + 1} of one history differs"
        if found.field:
            text = f"{text}, in {found.field}"
        before = [entry.line() for entry in first.entries[max(0, found.step - _BEFORE) : found.step]]
        story = "\n".join([text, "", *before, *found.lines(), "", *_CAUSES])
        raise ExplorationError(story, Finding("determinism", text, found.objects), schedule, self._tried)

    def _history(self, world: World, schedule: Schedule) -> History:
        if self._tried % _COLLECTED == 0:
            gc.collect()  # earlier histories
        self._tried += 1
        history = History(world.plan, schedule, self._ignored)
        history.play()
        return history

    def _check(self, history: History, schedule: Schedule, where: str) -> None:
        if history.finding is None:
            return
        steps = [msgspec.to_builtins(steps) for steps in self._examples] or None
        self._fail(msgspec.structs.replace(schedule, steps=schedule.steps or steps), history, where)

    def _fail(self, schedule: Schedule, failed: History, where: str) -> None:
        drawn = iter(msgspec.convert(schedule.steps or [], list[list[Step]]))
        tried, history = self._tried, failed
        if failed.finding is None or failed.finding.rule != NOT_SIMULATED:  # which may depend on real time
            with places_noted():
                history = self._play(schedule, lambda _: next(drawn))
        finding = history.finding
        if finding is None:
            self._require_same(failed.trace, history.trace, schedule)
            raise RuntimeError("the failed history does not fail when repeated, although it does the same")
        story = tell(finding, schedule, history.trace, f"found {where}, after {tried} histories")
        raise ExplorationError(story, finding, schedule, tried) from finding.error

    def _example(self, strategy: Any) -> list[Step]:
        for known, steps in zip(self._strategies, self._examples, strict=True):
            if repr(known) == repr(strategy):
                return steps
        self._strategies.append(strategy)
        self._examples.append(_longest(strategy))
        return self._examples[-1]

    # -- many -----------------------------------------------------------------------------------------------------

    def _search(self, points: dict[Point, int], left: int, seed: int | None) -> None:
        import hypothesis
        from hypothesis import strategies as st
        from hypothesis.errors import Flaky

        failed: list[tuple[Schedule, History]] = []

        @hypothesis.settings(
            max_examples=left,
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),  # pyright: ignore[reportArgumentType]
            report_multiple_bugs=False,
            phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        )
        @hypothesis.given(st.data())
        def search(data: Any) -> None:
            steps: list[list[Step]] = []

            def draw(strategy: Any) -> list[Step]:
                steps.append(data.draw(strategy))
                return steps[-1]

            world = self._world(draw)
            schedule = draw_schedule(data.draw, self._faults, points, len(world.plan.steps))
            if steps:
                schedule = msgspec.structs.replace(schedule, steps=msgspec.to_builtins(steps))
            history = self._history(world, schedule)
            if history.finding is not None:
                failed[:] = [(schedule, history)]
                raise _FoundError

        if seed is not None:
            search = hypothesis.seed(seed)(search)
        try:
            search()
        except (_FoundError, Flaky):
            if not failed:
                raise
        else:
            return
        self._fail(*failed[0], "by hypothesis, and shrunk")


class _FoundError(Exception):
    """A history went wrong."""


def _longest(strategy: Any) -> list[Step]:
    import hypothesis

    examples: list[list[Step]] = []

    @hypothesis.settings(max_examples=_EXAMPLES, derandomize=True, database=None, deadline=None)
    @hypothesis.given(strategy)
    def collect(steps: list[Step]) -> None:
        examples.append(list(steps))

    collect()
    return max(examples, key=len)


@contextmanager
def _collecting_by_hand() -> Iterator[None]:
    """Collect garbage only between histories. It would otherwise take a third of their time."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


@contextmanager
def quietly() -> Iterator[None]:
    """Log nothing below CRITICAL, because programs under faults log a lot."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)
