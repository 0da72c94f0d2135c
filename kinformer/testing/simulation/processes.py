"""Simulated processes: each has its own event loop and clocks, and all share one virtual time.

A schedule of hours runs in milliseconds, deterministically, with stopped processes, suspended machines, clocks that
jump or run at different speeds, and a network with delays and losses. A stopped process executes nothing while its
clocks and the other processes continue, as with SIGSTOP, a blocked loop or a paused VM.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Coroutine
from typing import Any

from kinformer._runtime.clock import Clock
from kinformer.testing.simulation.loop import SimulatedLoop
from kinformer.testing.simulation.network import Network
from kinformer.testing.simulation.refusals import NotSimulatedError

__all__ = ["EPOCH", "Process", "Simulation"]

EPOCH = 1_767_225_600.0  # the start of each simulation: 2026-01-01T00:00:00Z
API_SERVER = "10.96.0.1"  # reachable from all processes


class Process:
    """One process on one machine.

    `stop`, `jump_wall` and `kill` may be called at any virtual time, by a test or by a fault. They change its clocks,
    `stopped_until` and `dead`.

    Args:
        rate: The speed of its clocks.
        wall: The offset of its wall clock in seconds.
    """

    def __init__(self, simulation: Simulation, name: str, *, rate: float = 1.0, wall: float = 0.0) -> None:
        self.simulation = simulation
        self.name = name
        self.stopped_until = -math.inf
        self.dead = False
        self._rate = rate
        self._wall = wall
        self._slept = 0.0  # suspended time, in its own seconds
        self._suspended_at: float | None = None
        self.loop = SimulatedLoop(self._monotonic, simulation.network, name, lambda error: simulation.on_refusal(error))
        self.clock = Clock(loop=self._monotonic, wall=self.wall, boot=self.boot, perf=self._monotonic)
        self.loop.clock = self.clock
        self.tasks: list[asyncio.Task[Any]] = []

    def boot(self) -> float:
        """Return the seconds since the machine started, including those in which it was suspended."""
        return 5000.0 + self.simulation.now * self._rate

    def wall(self) -> float:
        """Return the machine's wall clock time, in seconds since 1970."""
        return EPOCH + self.simulation.now + self._wall

    def _monotonic(self) -> float:
        since = self.boot() if self._suspended_at is None else self._suspended_at
        return since - self._slept

    def stop(self, seconds: float, *, suspend: bool = False) -> None:
        """Execute nothing for this long. With `suspend`, the monotonic clock stops too, as on Linux."""
        self._resume()
        self.stopped_until = max(self.stopped_until, self.simulation.now + seconds)
        if suspend:
            self._suspended_at = self.boot()

    def _resume(self) -> None:
        if self._suspended_at is not None:
            self._slept += self.boot() - self._suspended_at
            self._suspended_at = None

    def jump_wall(self, seconds: float) -> None:
        """Move the wall clock."""
        self._wall += seconds

    def kill(self) -> None:
        """Kill the process as SIGKILL does. None of its code runs again, not even a `finally`."""
        self.dead = True

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a coroutine as a task of the process."""
        task = self.loop.create_task(coroutine)
        self.tasks.append(task)
        return task

    def answer(self, future: asyncio.Future[Any], result: Any) -> None:
        """Deliver a result from the network. A stopped process gets it when it continues."""

        def deliver() -> None:
            if not future.done():
                if isinstance(result, BaseException):
                    future.set_exception(result)
                else:
                    future.set_result(result)

        self.loop.call_soon(deliver)

    @property
    def next_due(self) -> float:
        """The time of the next callback, in the simulation's time."""
        if self.dead:
            return math.inf
        due = self.loop.next_due
        if self._suspended_at is not None:
            return self.stopped_until
        if math.isfinite(due):
            due = self.simulation.now + (due - self._monotonic()) / self._rate
        return max(due, self.stopped_until)

    def turn(self) -> None:
        """Run what is ready, unless the process is dead or stopped."""
        if self.dead or self.simulation.now < self.stopped_until:
            return
        self._resume()
        self.loop.run_ready(self._round_up)

    def _round_up(self, short: float) -> None:
        self._slept -= short

    def _left(self) -> list[asyncio.Task[Any]]:
        return [task for task in self.loop.tasks if not task.done()]

    def close(self) -> None:
        """Discard all state. Running tasks are abandoned, as in a killed process."""
        with self.loop.as_running():
            self.stopped_until = -math.inf
            for task in self._left():
                task.cancel()
            ready, scheduled = self.loop._ready, self.loop._scheduled  # type: ignore[attr-defined]
            for _ in range(1000):  # many iterations: a `finally` may await several times
                if not self._left():
                    break
                if not ready and scheduled:
                    timer = heapq.heappop(scheduled)
                    timer._scheduled = False
                    ready.append(timer)
                self.loop._run_once()  # type: ignore[attr-defined]
            for task in self._left():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.loop.close()


class Simulation:
    """The time shared by all processes, and the messages in transit between them.

    Only `run` moves `now`. The owner of a simulation may set `before_each_turn`, `after_each_turn` and `on_refusal`
    before it runs, and sets `closing` before it closes the processes.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.processes: list[Process] = []
        self.network = Network(self, frozenset({API_SERVER}))
        self.before_each_turn: Callable[[float], None] = lambda date: None
        self.after_each_turn: Callable[[], None] = lambda: None
        self.on_refusal: Callable[[NotSimulatedError], None] = lambda error: None
        self.closing = False
        self._stopping = False
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def process(self, name: str, **options: Any) -> Process:
        """Add a process."""
        process = Process(self, name, **options)
        self.processes.append(process)
        return process

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function after this many seconds."""
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, call))

    def stop(self) -> None:
        """Make `run` return after this step."""
        self._stopping = True

    def run(self, until: float) -> None:
        """Run until the given time, or until `stop` is called."""
        self._stopping = False
        while not self._stopping:
            dues = [process.next_due for process in self.processes]
            at = min(dues, default=math.inf)
            at = min(at, self._events[0][0]) if self._events else at
            if at > until:
                self.now = until
                return
            self.now = max(self.now, at)
            if self._events and self._events[0][0] <= self.now:
                while self._events and self._events[0][0] <= self.now:
                    heapq.heappop(self._events)[2]()
                    self.after_each_turn()
                dues = [process.next_due for process in self.processes]
            for process, due in zip(list(self.processes), dues, strict=False):
                if due <= self.now + 1e-9:
                    self.before_each_turn(process.wall())
                    process.turn()
                    self.after_each_turn()

    def close(self, *, check: bool = True) -> None:
        """Close all processes. With `check`, an error that reached a loop's exception handler is raised."""
        for process in self.processes:
            process.close()
        errors = [error for process in self.processes for error in process.loop.errors if not process.dead]
        assert not (check and errors), errors
