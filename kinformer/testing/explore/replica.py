"""A replica of a program: its successive processes, how they end, and what they have read."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kinformer.client.client import Client
from kinformer.testing.explore.rules.sent import ProcessReads
from kinformer.testing.explore.server import URL
from kinformer.testing.simulation.processes import Process, Simulation

if TYPE_CHECKING:
    from kinformer.testing.explore.trace import Trace

__all__ = ["Ends", "Main", "ProgramProcess", "Replica", "leaves_of"]

Main = Callable[[Client], Awaitable[object]]
_STOPPING = 30.0  # grace period in seconds, as the kubelet gives a pod
_AGAIN = 1.0  # seconds until a program that has ended is started again, doubled each time, as by the kubelet
_LONGEST = 64.0  # seconds between two starts at most
_STEADY = 60.0  # seconds after which an end is not a failed start, so the next pause is short
_CLEANUPS = 100  # calls of `sys.exit` while an abandoned process is cleaned up


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors in an exception group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves_of(inner)
    else:
        yield error


@dataclass
class Ends:
    """The ends of a replica's processes that no fault has caused.

    Attributes:
        last: How the last one ended.
    """

    last: str = ""
    _times: list[tuple[float, bool]] = field(default_factory=list)  # the time of each, and True after a failure
    _pause: float = _AGAIN  # seconds before the next start

    def note(self, now: float, started: float, last: str, *, failed: bool) -> float:
        """Note an end, and return the seconds until the next start."""
        self._times.append((now, failed))
        self.last = last
        pause = _AGAIN if now - started > _STEADY else self._pause
        self._pause = min(2 * pause, _LONGEST)
        return pause

    def count(self, since: float, *, failed: bool) -> int:
        """Return the number of ends since a moment, with a failure or without one."""
        return sum(1 for at, failure in self._times if at > since and failure == failed)


class ProgramProcess(Process):
    """A process that ends when one of its tasks raises `SystemExit`.

    Args:
        exited: Called with the exit.
    """

    def __init__(self, simulation: Simulation, name: str, exited: Callable[[ProgramProcess, SystemExit], None]) -> None:
        super().__init__(simulation, name)
        simulation.processes.append(self)
        self._exited = exited

    def turn(self) -> None:
        """Run what is ready."""
        try:
            super().turn()
        except SystemExit as error:
            self._exited(self, error)

    def cancel_all(self) -> None:
        """Cancel all tasks, as `asyncio.run` does when one of them exits."""
        with self.loop.as_running():
            for task in self._left():
                task.cancel()

    def close(self) -> None:
        """Discard all state."""
        for _ in range(_CLEANUPS):
            try:
                super().close()
            except SystemExit:
                continue
            return


class Replica:
    """A replica: one process at a time, which is started again whenever it ends.

    `process` and `reads` are replaced at each start, and `ends` grows. The director changes `counts`, `late_until` and
    `behind` as requests arrive.

    Args:
        index: Its number among all replicas, from 1.
        name: Its name in stories.
        main: The program.
        faulty: True if faults may strike it.
        may_raise: Errors with which the program may end.
        fail: Called with any other error that ends the program.
    """

    def __init__(
        self,
        simulation: Simulation,
        trace: Trace,
        index: int,
        name: str,
        main: Main,
        *,
        faulty: bool,
        may_raise: tuple[type[BaseException], ...],
        fail: Callable[[Replica, BaseException], None],
    ) -> None:
        self.index = index
        self.name = name
        self.faulty = faulty
        self.counts: Counter[tuple[str, str]] = Counter()  # requests and events so far, by verb and resource
        self.reads = ProcessReads()
        self.late_until: dict[str, float] = {}  # resource -> time until which its events are delayed
        self.behind = 0  # revisions by which the cache lags when its next process lists
        self.process: ProgramProcess | None = None
        self.ends = Ends()
        self._simulation = simulation
        self._trace = trace
        self._main = main
        self._may_raise = may_raise
        self._fail = fail
        self._life = _Life()

    @property
    def owner(self) -> str:
        """The name of its process in the network."""
        return f"{self.name}#{self._life.number}"

    @property
    def is_running(self) -> bool:
        """True unless it was killed, is paused or has ended."""
        process = self.process
        return process is not None and not process.dead and process.stopped_until <= self._simulation.now

    def start(self) -> None:
        """Start a process, as its Deployment does whenever the one before has ended."""
        self._life = life = _Life(self._life.number + 1, self._simulation.now)
        self.reads = ProcessReads()
        self.process = ProgramProcess(self._simulation, self.owner, self._exited)
        self._note("starts" if life.number == 1 else "starts again")
        life.task = self.process.start(self._run())
        life.task.add_done_callback(self._ended)

    async def _run(self) -> None:
        async with Client.from_url(URL) as client:
            await self._main(client)

    # -- ends -----------------------------------------------------------------------------------------------------

    def _exited(self, process: ProgramProcess, error: SystemExit) -> None:
        """Let the other tasks clean up after an exit, for as long as a pod has."""
        if process is not self.process or process.dead:
            return
        life = self._life
        if life.exit is None:
            life.exit = error
            self._simulation.later(_STOPPING, lambda: self._end(error) if self._life is life else None)
        process.cancel_all()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if self.process is None or self.process.dead or self._simulation.closing:
            return
        error = None if task.cancelled() else task.exception()
        self._end(self._life.exit or error, cancelled=task.cancelled())

    def _end(self, error: BaseException | None, *, cancelled: bool = False) -> None:
        process, life = self.process, self._life
        if process is None or process.dead:
            return
        if isinstance(error, SystemExit):
            text, failed = f"exits with {error.code or 0}", bool(error.code)
        elif error is not None:
            text, failed = f"ended with {_described(error)}", True
        else:
            text, failed = "is cancelled" if cancelled else "returns", cancelled
        if error is not None and not isinstance(error, SystemExit) and not self.may_raise(error):
            self._fail(self, error)
        if life.stopping:
            self.kill(_AGAIN, why="has stopped" if error is None else text)
        else:
            self.kill(why=text, failed=failed)

    def may_raise(self, error: BaseException) -> bool:
        """Return True if the program may end with this error."""
        return all(isinstance(leaf, (*self._may_raise, asyncio.CancelledError)) for leaf in leaves_of(error))

    def kill(self, away: float | None = None, *, why: str = "is killed", failed: bool = True) -> None:
        """End its process immediately, as SIGKILL does, and start another one later.

        Args:
            away: Seconds until the next start. None if no fault ended the process: the pause then grows with each end.
            why: How it ends, for stories.
            failed: True if it has ended by itself with a failure.
        """
        process = self.process
        if process is None or process.dead:
            return
        if away is None:
            away = self.ends.note(self._simulation.now, self._life.since, why, failed=failed)
        self._note(why)
        process.kill()
        self.process = None
        self._simulation.network.cut(self.owner)
        self._simulation.later(away, self.start)

    def abandon(self) -> None:
        """End its process at the end of the history."""
        if self.process is not None:
            self.process.kill()

    def stop(self, away: float) -> None:
        """Ask its process to end, with SIGTERM, and start another one afterwards."""
        process, life = self.process, self._life
        if process is None or process.dead or life.stopping:
            return
        self._note("is asked to stop (SIGTERM)")
        life.stopping = True
        if not process.loop.send_signal(signal.SIGTERM) and life.task is not None:
            process.loop.call_soon(life.task.cancel)
        self._simulation.later(_STOPPING + away, lambda: self.kill(away) if self._life is life else None)

    # -- faults ---------------------------------------------------------------------------------------------------

    def pause(self, seconds: float) -> None:
        """Execute nothing for this long, while time goes on."""
        if self.process is not None and not self.process.dead:
            self._note(f"executes nothing for {seconds:g} s")
            self.process.stop(seconds)

    def jump(self, seconds: float) -> None:
        """Move its wall clock."""
        if self.process is not None:
            self._note(f"its clock jumps by {seconds:+g} s")
            self.process.jump_wall(seconds)

    def _note(self, text: str) -> None:
        self._trace.add(self._simulation.now, self.name, "life", text)


@dataclass
class _Life:
    """The life of one process.

    Its replica sets `task` at the start, `stopping` after a SIGTERM, and `exit` at the first `SystemExit`.
    """

    number: int = 0
    since: float = 0.0
    task: asyncio.Task[Any] | None = None
    stopping: bool = False
    exit: SystemExit | None = None


def _described(error: BaseException) -> str:
    names = dict.fromkeys(type(leaf).__name__ for leaf in leaves_of(error))
    return ", ".join(names)
