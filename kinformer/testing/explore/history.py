"""Plays one history of a cluster, the replicas of some programs, and people, until all of them are at rest."""

from __future__ import annotations

import asyncio
import gc
import itertools
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kinformer.exceptions import APIError, LeadershipLostError
from kinformer.objects.meta import meta_namespace_key
from kinformer.testing.explore.director import Director
from kinformer.testing.explore.patches.exits import exits_caught
from kinformer.testing.explore.patches.marks import requests_marked
from kinformer.testing.explore.replica import Main, Replica, leaves_of
from kinformer.testing.explore.rules.fields import UndoneChange
from kinformer.testing.explore.rules.finding import Violation, is_bookkeeping
from kinformer.testing.explore.rules.rules import Rules
from kinformer.testing.explore.rules.sent import SENT
from kinformer.testing.explore.schedule import PACES, Point, Schedule
from kinformer.testing.explore.server import ACTOR, CLUSTER, ExploredServer
from kinformer.testing.explore.state import ClusterState
from kinformer.testing.explore.steps import PEOPLE, Step
from kinformer.testing.explore.trace import Trace
from kinformer.testing.kinds.crd_files import CRD_KIND, DEFINITIONS
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.simulation.processes import EPOCH, Simulation
from kinformer.testing.simulation.refusals import NotSimulatedError
from kinformer.testing.simulation.sealed import sealed

__all__ = ["NOT_SIMULATED", "Goal", "History", "Plan", "TestedProgram"]

NOT_SIMULATED = "simulation"
"""The rule of a finding that a program calls what is not simulated."""

_START = 2.0  # seconds until the script begins
_SLICE = 2.0  # seconds between two checks for the end
_REST = 12.0  # seconds without a write after which a history is over, longer than most retries
_LOOK = 120.0  # seconds in which a program may undo a change that is made again
_ENDS = 6  # ends since the last disturbance after which a program is taken to fail at each start
_DONE = 3  # ends after which a program that returns has nothing left to do
_AGAIN = 1.0  # seconds between two checks whether a deleted namespace or definition is gone
_NAMESPACES = "v1/namespaces"
Check = Callable[[ClusterState], object]
Object = dict[str, Any]


@dataclass(frozen=True)
class TestedProgram:
    """A program and its replicas."""

    main: Main
    replicas: int
    name: str
    faulty: bool
    may_raise: tuple[type[BaseException], ...]


@dataclass(frozen=True)
class Goal:
    """A check that must hold in the end, and its deadline."""

    check: Check
    within: float


@dataclass
class Plan:
    """The declarations of a test. `World` adds them while the test function runs, and histories only read them."""

    objects: list[Object] = field(default_factory=list)
    programs: list[TestedProgram] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    always: list[Check] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)


class History:
    """Plays a plan with a schedule.

    Attributes:
        trace: The trace of events.
        finding: The first failure, or None. It is set once, and ends the history.
        points: The points that the replicas reached, and the number of times.
    """

    def __init__(self, plan: Plan, schedule: Schedule, ignored: Iterable[str] = ()) -> None:
        self.trace = Trace()
        self.finding: Violation | None = None
        self._plan = plan
        self._schedule = schedule
        self._simulation = simulation = Simulation()
        self._disturbed_until = 0.0  # when the last step, or the effect of the last fault, is over
        self._last_write = 0.0  # of an object that is not bookkeeping
        self._steps_left = len(plan.steps)
        self._director = Director(
            schedule,
            self.trace,
            lambda: simulation.now,
            self._disturbed,
            self._delete_definition,
            self._delete_namespace,
        )
        self._process = simulation.process("apiserver")
        self._server = ExploredServer(self._process.clock, self._director.serve, simulation.later)
        self._director.server = self._server
        self._state = ClusterState(self._server)
        self._rules = Rules(self._server, frozenset(ignored), frozenset(schedule.free))
        self._ignored = frozenset(ignored)
        self._is_over = False  # then changes are made again, and only the rule of fields counts
        self._numbers = itertools.count(1)

    @property
    def points(self) -> dict[Point, int]:
        """The points that faults may strike, with how often the replicas reached each one."""
        return {
            Point(replica.index, verb, resource): count
            for replica in self._director.replicas.values()
            if replica.faulty
            for (verb, resource), count in replica.counts.items()
        }

    @property
    def free(self) -> tuple[tuple[str, str, str], ...]:
        """Writes that need no lead: program, verb and resource."""
        return tuple(sorted(self._rules.free))

    def names(self) -> dict[int, str]:
        """Return the names of the replicas that faults may strike."""
        return {replica.index: replica.name for replica in self._director.replicas.values() if replica.faulty}

    def struck(self) -> Counter[Point]:
        """Return the points at which faults struck, with their number."""
        return self._director.struck

    def play(self) -> Violation | None:
        """Play the history, and return the failure, if any."""
        simulation = self._simulation
        with sealed(self._schedule.seed, EPOCH) as move, requests_marked(), exits_caught(self._replica_on):
            simulation.before_each_turn = move
            simulation.after_each_turn = self._look
            simulation.on_refusal = self._refused
            try:
                self._prepare()
                self._settle()
            finally:
                simulation.closing = True
                for replica in self._director.replicas.values():
                    replica.abandon()
                simulation.close(check=self.finding is None)
        return self.finding

    def _replica_on(self, loop: asyncio.AbstractEventLoop) -> Replica | None:
        replicas = self._director.replicas.values()
        return next((replica for replica in replicas if replica.process and replica.process.loop is loop), None)

    # -- the cluster ----------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        for obj in self._plan.objects:
            self._make(obj)
        self._server.on_change(self._note_write)
        self._process.start(self._run_server())
        self._simulation.run(0.0)
        for program in self._plan.programs:
            for number in range(1, program.replicas + 1):
                self._start(program, f"{program.name} {number}")
        at = _START
        for number, step in enumerate(self._plan.steps):
            paces = self._schedule.paces
            at += paces[number] if number < len(paces) else PACES[0]
            self._simulation.later(at - self._simulation.now, lambda step=step: self._do(step))  # type: ignore[misc]

    async def _run_server(self) -> None:
        async with self._server:
            await asyncio.get_running_loop().create_future()

    def _make(self, obj: Object) -> None:
        if obj.get("kind") == CRD_KIND:
            self._server.register_crd(obj)
        else:
            self._server.create(obj)

    def _start(self, program: TestedProgram, name: str) -> None:
        replica = Replica(
            self._simulation,
            self.trace,
            next(self._numbers),
            name,
            program.main,
            faulty=program.faulty,
            may_raise=program.may_raise,
            fail=self._crashed,
        )
        self._director.replicas[name] = replica
        replica.start()

    def _do(self, step: Step) -> None:
        self._steps_left -= 1
        self._disturbed(self._simulation.now)
        token = ACTOR.set(PEOPLE)
        try:
            step.do(self._server)
        except APIError as error:
            self._trace(PEOPLE, "write", f"could not {step.text()}: {error.status} {error.reason}")
        finally:
            ACTOR.reset(token)

    def _delete_definition(self, resource: str, seconds: float) -> None:
        group, _, plural = resource.rpartition("/")
        name = f"{plural}.{group.partition('/')[0]}"
        definitions = [obj for obj in self._plan.objects if obj.get("metadata", {}).get("name") == name]
        if definitions and self._server.get(DEFINITIONS, None, name) is not None:
            self._server.lost.add(resource)
            self._server.delete(DEFINITIONS, None, name)
            self._simulation.later(seconds, lambda: self._make_definition(resource, definitions[0]))
            self._disturbed(self._simulation.now + seconds)

    def _make_definition(self, resource: str, definition: Object) -> None:
        if self._server.get(DEFINITIONS, None, definition["metadata"]["name"]) is not None:  # objects have finalizers
            self._simulation.later(_AGAIN, lambda: self._make_definition(resource, definition))
            return
        self._disturbed(self._simulation.now)
        self._server.lost.discard(resource)
        self._make(definition)

    def _delete_namespace(self, name: str, seconds: float) -> None:
        self._server.delete(_NAMESPACES, None, name)
        self._simulation.later(seconds, lambda: self._make_namespace(name))
        self._disturbed(self._simulation.now + seconds)

    def _make_namespace(self, name: str) -> None:
        if self._server.get(_NAMESPACES, None, name) is not None:  # its contents still have finalizers
            self._simulation.later(_AGAIN, lambda: self._make_namespace(name))
            return
        self._disturbed(self._simulation.now)
        self._make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    # -- events ---------------------------------------------------------------------------------------------------

    def _trace(self, actor: str, kind: str, text: str, objects: tuple[str, ...] = (), content: Any = None) -> None:
        self.trace.add(self._simulation.now, actor, kind, text, objects, content=content)

    def _disturbed(self, until: float) -> None:
        self._disturbed_until = max(self._disturbed_until, until)
        self._rules.writes = 0

    def _note_write(self, resource: ResourceType, old: Object | None, new: Object | None) -> None:
        actor, sent = ACTOR.get(), SENT.get()
        obj = new or old
        assert obj is not None, "a write has an object"
        if sent is not None and sent.replica != actor:
            sent = None
        elif sent is not None and not sent.is_for(resource.name, obj):
            actor, sent = CLUSTER, None  # a consequence, such as an emptied namespace
        if not is_bookkeeping(resource.name):
            self._last_write = self._simulation.now
        did = "creates" if old is None else "deletes" if new is None else "changes"
        version = obj["metadata"].get("resourceVersion", "") if new is not None else str(self._server.storage.revision)
        where = f"{resource.name} {meta_namespace_key(obj)}"
        self._trace(actor, "write", f"{did} {where} ({version})", (where,), new)
        for finding in self._rules.note(resource, old, new, sent, actor, self._simulation.now):
            self._found(finding)
        if self.finding is None and not self._is_over:
            self._check_always()

    def _check_always(self) -> None:
        for check in self._plan.always:
            try:
                holds = self._holds(check)
            except AssertionError as error:
                self._found(Violation("always", f"{_name(check)} does not hold: {_words(error)}", error=error))
            except Exception as error:  # noqa: BLE001 - the server would send it to the program, as a 500
                self._found(Violation("always", f"{_name(check)} raised {type(error).__name__}: {error}", error=error))
            else:
                if not holds:
                    self._found(Violation("always", f"{_name(check)} does not hold"))

    def _holds(self, check: Check) -> bool:
        """Evaluate a check, under simulated clocks even between the steps of the processes."""
        with self._process.loop.as_running():
            return check(self._state) is not False

    def _crashed(self, replica: Replica, error: BaseException) -> None:
        if "errors" not in self._ignored:
            where = "".join(traceback.format_exception(error)[-3:]).strip()
            text = f"{replica.name} ended with {type(error).__name__}: {error}\n{where}"
            self._found(Violation("errors", text, error=error, remedy=self._remedy(replica, error)))

    def _remedy(self, replica: Replica, error: BaseException) -> str:
        if not any(isinstance(leaf, LeadershipLostError) for leaf in leaves_of(error)):
            return ""
        program = replica.name.rpartition(" ")[0]
        [declared] = [tested for tested in self._plan.programs if tested.name == program][:1]
        replicas = f", replicas={declared.replicas}" if declared.replicas > 1 else ""
        call = f"world.run({getattr(declared.main, '__name__', 'main')}{replicas}, may_raise=LeadershipLostError)"
        return f"If a lost lead may end the program: {call}"

    def _refused(self, error: NotSimulatedError) -> None:
        if not self._simulation.closing:
            self._found(Violation(NOT_SIMULATED, str(error), error=error))

    def _found(self, finding: Violation) -> None:
        if self.finding is None and not (self._is_over and finding.rule != "fields"):
            self.finding = finding
            self._trace("check", "fault", f"!! {finding.text.splitlines()[0]}", finding.objects)
            self._simulation.stop()

    def _look(self) -> None:
        storm = self._rules.storm()
        if storm is not None:
            self._found(storm)

    # -- the end --------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        simulation = self._simulation
        within = max((goal.within for goal in self._plan.goals), default=600.0)
        while self.finding is None:
            simulation.run(simulation.now + _SLICE)
            if self.finding is not None or self._steps_left:
                continue
            since = max(self._disturbed_until, _START)
            if simulation.now < self._disturbed_until or self._fails_each_time(since) or not self._all_run(since):
                continue
            unmet = self._unmet()
            resting = simulation.now - max(since, self._last_write) >= _REST
            late = simulation.now - since > within + self._director.jumped
            if not unmet and resting and (late or not any(self._rules.at_rest())):
                self._finish()
                return
            if late:
                self._give_up(unmet, within)

    def _all_run(self, since: float) -> bool:
        """Return True if each process runs, or has ended so often that its program has nothing left to do."""
        replicas = self._director.replicas.values()
        return all(replica.is_running or self._has_ended(replica, since) for replica in replicas)

    def _has_ended(self, replica: Replica, since: float) -> bool:
        failures = replica.ends.count(since, failed=True)
        if failures and "errors" not in self._ignored:
            return False
        return failures + replica.ends.count(since, failed=False) >= _DONE

    def _fails_each_time(self, since: float) -> bool:
        """Report a program that fails again and again although nothing disturbs it."""
        if "errors" not in self._ignored:
            for replica in self._director.replicas.values():
                count = replica.ends.count(since, failed=True)
                if count >= _ENDS:
                    text = f"{replica.name} ends again and again: {count} times since the last change by others"
                    self._found(Violation("errors", f"{text}. At last it {replica.ends.last}"))
        return self.finding is not None

    def _unmet(self) -> list[tuple[Goal, str]]:
        unmet = []
        for goal in self._plan.goals:
            try:
                holds = self._holds(goal.check)
            except (AssertionError, LookupError, TypeError) as error:
                unmet.append((goal, _words(error)))
            else:
                if not holds:
                    unmet.append((goal, ""))
        return unmet

    def _give_up(self, unmet: list[tuple[Goal, str]], within: float) -> None:
        for goal, words in unmet:
            message = f"{_name(goal.check)} does not hold {within:g} s after the last change by others"
            self._found(Violation("eventually", f"{message}: {words}" if words else message))
        if not unmet and "rest" not in self._ignored:
            self._found(Violation("rest", f"the program never comes to rest: it still writes after {within:g} s"))
        self._finish()

    def _finish(self) -> None:
        if self.finding is None:
            for finding in self._rules.at_rest():
                self._found(finding)
        if self.finding is None and "errors" not in self._ignored:
            self._look_for_lost_errors()
        self._is_over = True
        for undone in self._rules.undone:
            if self.finding is None:
                self._make_again(undone)

    def _make_again(self, undone: UndoneChange) -> None:
        """Make a change again that a write has undone. If the program now lets it stay, it undid it by mistake."""
        simulation = self._simulation
        token = ACTOR.set("another client")
        try:
            if not undone.make_again(self._server):
                return
        except APIError:
            return  # the server no longer allows it
        finally:
            ACTOR.reset(token)
        self._last_write = start = simulation.now
        while simulation.now - self._last_write < _REST and simulation.now - start < _LOOK:
            simulation.run(simulation.now + _SLICE)
            if not undone.stays(self._server):
                return  # the program undoes it on purpose
        self._found(undone.finding)

    def _look_for_lost_errors(self) -> None:
        processes = [replica.process for replica in self._director.replicas.values() if replica.process is not None]
        if any(process.loop.has_unseen_errors for process in processes):
            gc.collect(0)  # an unreferenced task notifies its loop when it is collected
        for replica in self._director.replicas.values():
            for context in replica.process.loop.errors if replica.process is not None else ():
                error = context.get("exception")
                if error is None or not replica.may_raise(error):
                    text = f"{replica.name}: {context.get('message')}: {error!r}"
                    remedy = self._remedy(replica, error) if error is not None else ""
                    self._found(Violation("errors", text, error=error, remedy=remedy))


def _name(check: Callable[..., object]) -> str:
    return getattr(check, "__name__", repr(check))


def _words(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
