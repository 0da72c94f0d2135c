"""The decorator that explores the histories of a program, and reports the shortest failing one."""

from __future__ import annotations

import functools
import gc
import inspect
import logging
import zlib
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from kinformer.exceptions import ConfigError
from kinformer.testing.explore.faults import ALL, Fault
from kinformer.testing.explore.history import NOT_SIMULATED, History
from kinformer.testing.explore.patches.places import places_noted
from kinformer.testing.explore.rules.finding import Violation
from kinformer.testing.explore.schedule import Schedule, decode_schedule, single_strikes
from kinformer.testing.explore.search import Script, Search, examples_of, shrunk
from kinformer.testing.explore.steps import Step
from kinformer.testing.explore.story import tell
from kinformer.testing.explore.summary import Summary
from kinformer.testing.explore.trace import Trace
from kinformer.testing.explore.world import World
from kinformer.testing.simulation.calls import calls_simulated

__all__ = ["ExplorationError", "explore", "quietly", "reproduce"]

Test = Callable[..., Coroutine[Any, Any, None]]
_REPRODUCED = "__kinformer_reproduced__"
_RULES = frozenset({"errors", "rest", "lead", "finalizers", "leftovers", "fields"})
_SHARE = 0.5  # share of schedules with a single fault, tried in order, before faults are combined
_COLLECTED = 8  # histories between garbage collections. Each leaves a few megabytes
_BEFORE = 8  # steps that the story shows before the first that differs between two plays
_CAUSES = (
    "Usual causes: state of a module that outlives a replica, the order of a set of objects, files,",
    "a clock or a generator of random numbers in compiled code or in an object made before the exploration.",
)


class ExplorationError(AssertionError):
    """A check failed or a rule was broken in a history. The message is the story.

    Attributes:
        finding: The failed check or broken rule.
        schedule: The schedule that reproduces it.
        tried: The number of histories until it was found.
    """

    def __init__(self, story: str, finding: Violation, schedule: Schedule, tried: int) -> None:
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
    combinations of faults, chosen at random. One that fails is shrunk. An exploration that finds nothing prints what it
    has tried, and what it has not. pytest shows that with `-rP`.

    Args:
        schedules: The number of histories to try.
        faults: The faults to choose from.
        ignore: Rules to skip: "errors", "rest", "lead", "finalizers", "leftovers", "fields".
        seed: The seed of the combinations. None takes one from the test's name, so that each run tries the same ones.

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
            name = getattr(test, "__name__", repr(test))
            with quietly(), calls_simulated(), _collecting_by_hand():
                schedule = getattr(explored, _REPRODUCED, None) or getattr(test, _REPRODUCED, None)
                if schedule is not None:
                    exploration.reproduce(decode_schedule(schedule))
                    return
                exploration.explore(schedules, zlib.crc32(name.encode()) if seed is None else seed)
            print(exploration.summary.text(name))

        signature = inspect.signature(test)
        if "world" not in signature.parameters:
            raise ConfigError(f"explore: {test.__name__} has no parameter `world`")
        fixtures = [parameter for name, parameter in signature.parameters.items() if name != "world"]
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
    """Plays the histories of one test. `summary` counts them."""

    def __init__(self, test: Callable[..., Coroutine[Any, Any, None]], faults: tuple[Fault, ...], ignored: Any) -> None:
        self._test = test
        self._faults = faults
        self._ignored = ignored
        self._examples: dict[str, list[list[Step]]] = {}  # of the strategies in scripts
        self.summary = Summary(faults)

    def explore(self, schedules: int, seed: int) -> None:
        """Play this many histories. Raises ExplorationError for the first one that fails."""
        search = Search(self._faults, seed)
        first = self._play_first()
        search.learn(first.points)
        for schedule in single_strikes(self._faults, first.points, int((schedules - 1) * _SHARE)):
            search.learn(self._try(self._with_free(schedule, first), self._longest, "with single faults").points)
        while self.summary.histories < schedules:
            world, script = self._world(lambda strategy: search.choose(self._pool(strategy)))
            schedule = self._with_free(search.schedule(len(world.plan.steps)), first)
            history = self._play(world, schedule)
            search.learn(history.points)
            if history.finding is not None:
                self._shrink(history, schedule, script)

    def reproduce(self, schedule: Schedule) -> None:
        """Play one history. Raises ExplorationError if it fails."""
        script = msgspec.convert(schedule.steps or [], Script)
        world, _ = self._world(_given(script))
        history = self._play(world, schedule)
        if history.finding is not None:
            self._fail(history, schedule, script, "reproduced", 1)

    def _shrink(self, failed: History, schedule: Schedule, script: Script) -> None:
        tried = self.summary.histories
        assert failed.finding is not None
        rule, simplest = failed.finding.rule, failed

        def fails(simpler: Schedule, steps: Script) -> bool:
            nonlocal simplest
            world, _ = self._world(_given(steps))
            history = self._play(world, simpler)
            if history.finding is None or history.finding.rule != rule:
                return False
            simplest = history
            return True

        schedule, script = shrunk(schedule, script, self._pools(), fails)
        how = f"found with several faults, and shrunk, after {_histories(tried)}"
        self._fail(simplest, schedule, script, how, tried)

    @staticmethod
    def _with_free(schedule: Schedule, first: History) -> Schedule:
        """Return the schedule with the writes that need no lead, as the first history has shown."""
        return msgspec.structs.replace(schedule, free=first.free) if first.free else schedule

    # -- one history ----------------------------------------------------------------------------------------------

    def _world(self, draw: Callable[[Any], list[Step]]) -> tuple[World, Script]:
        """Return the declared world, and the steps that were drawn for its scripts."""
        script: Script = []

        def noted(strategy: Any) -> list[Step]:
            script.append(draw(strategy))
            return script[-1]

        world = World(noted)
        declaring = self._test(world=world)
        try:
            declaring.send(None)
        except StopIteration:
            return world, script
        except RuntimeError as error:
            if "no running event loop" not in str(error):
                raise
        declaring.close()
        raise ConfigError("a test of `explore` only declares and must not await: move awaiting code into programs")

    def _play(self, world: World, schedule: Schedule) -> History:
        if self.summary.histories % _COLLECTED == 0:
            gc.collect()  # frees the earlier histories
        history = History(world.plan, schedule, self._ignored)
        history.play()
        self.summary.note(history)
        return history

    def _play_first(self) -> History:
        """Play the history without faults twice, and compare. It counts once."""
        plain = Schedule()
        with places_noted():
            world, script = self._world(self._longest)
            first = self._play(world, plain)
            if not _is_refused(first):
                again = History(self._world(self._longest)[0].plan, plain, self._ignored)
                again.play()
                self._require_same(first.trace, again.trace, plain, 1)
        if first.finding is not None:
            self._fail(first, plain, script, "found in the first history, after 1 history", 1)
        return first

    def _try(self, schedule: Schedule, draw: Callable[[Any], list[Step]], where: str) -> History:
        world, script = self._world(draw)
        history = self._play(world, schedule)
        if history.finding is not None:
            tried = self.summary.histories
            self._fail(history, schedule, script, f"found {where}, after {_histories(tried)}", tried)
        return history

    def _fail(self, failed: History, schedule: Schedule, script: Script, how: str, tried: int) -> None:
        history = failed
        if not _is_refused(failed):  # a call that is refused may depend on real time
            world, _ = self._world(_given(script))
            with places_noted():
                history = self._play(world, schedule)
        finding = history.finding
        if finding is None:
            self._require_same(failed.trace, history.trace, schedule, tried)
            raise RuntimeError("the failed history does not fail when repeated, although it does the same")
        schedule = msgspec.structs.replace(schedule, steps=msgspec.to_builtins(script) or None)
        raise ExplorationError(tell(finding, schedule, history.trace, how), finding, schedule, tried) from finding.error

    def _require_same(self, first: Trace, second: Trace, schedule: Schedule, tried: int) -> None:
        difference = first.difference(second)
        if difference is None:
            return
        text = f"the program does not do the same twice: step {difference.step + 1} of one history differs"
        if difference.field:
            text = f"{text}, in {difference.field}"
        before = [entry.line() for entry in first.entries[max(0, difference.step - _BEFORE) : difference.step]]
        story = "\n".join([text, "", *before, *difference.lines(), "", *_CAUSES])
        raise ExplorationError(story, Violation("determinism", text, difference.objects), schedule, tried)

    # -- scripts --------------------------------------------------------------------------------------------------

    def _pool(self, strategy: Any) -> list[list[Step]]:
        name = repr(strategy)
        if name not in self._examples:
            self._examples[name] = examples_of(strategy)
        return self._examples[name]

    def _longest(self, strategy: Any) -> list[Step]:
        return max(self._pool(strategy), key=len)

    def _pools(self) -> list[list[list[Step]]]:
        """Return the examples for each script of the test, in its order."""
        pools: list[list[list[Step]]] = []

        def noted(strategy: Any) -> list[Step]:
            pools.append(self._pool(strategy))
            return pools[-1][0]

        self._world(noted)
        return pools


def _is_refused(history: History) -> bool:
    """Return True if the program made a call that is not simulated."""
    return history.finding is not None and history.finding.rule == NOT_SIMULATED


def _given(script: Script) -> Callable[[Any], list[Step]]:
    drawn = iter(script)
    return lambda _: next(drawn)


def _histories(number: int) -> str:
    return "1 history" if number == 1 else f"{number} histories"


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
