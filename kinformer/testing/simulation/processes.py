"""Several processes in one: each has an event loop and clocks of its own, and all share one virtual time.

So a schedule of hours with stopped processes, suspended machines, clocks that jump or run at different speeds, and a
network that delays and loses, runs in milliseconds, and the same way each time. A process that is stopped executes
nothing, while its clocks and the other processes go on: what SIGSTOP, a blocked loop and a paused VM do.
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

__all__ = ["EPOCH", "Process", "Simulation"]

EPOCH = 1_767_225_600.0  # when each simulation begins: 2026-01-01T00:00:00Z
API_SERVER = "10.96.0.1"  # which all processes reach


class Process:
    """One process on one machine.

    Args:
        rate: How fast its clocks run.
        wall: How far its wall clock is off, in seconds.
    """

    def __init__(self, simulation: Simulation, name: str, *, rate: float = 1.0, wall: float = 0.0) -> None:
        self.simulation = simulation
        self.name = name
        self.stopped_until = -math.inf
        self.dead = False
        self._rate = rate
        self._wall = wall
        self._slept = 0.0  # of its own seconds, in suspend
        self._suspended_at: float | None = None
        self.loop = SimulatedLoop(self._monotonic, simulation.network, name)
        self.clock = Clock(loop=self._monotonic, wall=self.wall, boot=self.boot, perf=self._monotonic)
        self.loop.clock = self.clock
        self.tasks: list[asyncio.Task[Any]] = []

    def boot(self) -> float:
        return 5000.0 + self.simulation.now * self._rate

    def wall(self) -> float:
        """Return the date, in seconds since 1970, as its machine has it."""
        return EPOCH + self.simulation.now + self._wall

    def _monotonic(self) -> float:
        since = self.boot() if self._suspended_at is None else self._suspended_at
        return since - self._slept

    def stop(self, seconds: float, *, suspend: bool = False) -> None:
        """Execute nothing for so long; in suspend the monotonic clock stops too, as on Linux."""
        self._resume()
        self.stopped_until = max(self.stopped_until, self.simulation.now + seconds)
        if suspend:
            self._suspended_at = self.boot()

    def _resume(self) -> None:
        if self._suspended_at is not None:
            self._slept += self.boot() - self._suspended_at
            self._suspended_at = None

    def jump_wall(self, seconds: float) -> None:
        self._wall += seconds

    def kill(self) -> None:
        """Kill it as SIGKILL does: nothing of it runs again, not even a `finally`."""
        self.dead = True

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self.loop.create_task(coroutine)
        self.tasks.append(task)
        return task

    def answer(self, future: asyncio.Future[Any], result: Any) -> None:
        """Deliver what the network brought; a stopped process finds it when it goes on."""

        def deliver() -> None:
            if not future.done():
                if isinstance(result, BaseException):
                    future.set_exception(result)
                else:
                    future.set_result(result)

        self.loop.call_soon(deliver)

    @property
    def next_due(self) -> float:
        """In the simulation's time."""
        if self.dead:
            return math.inf
        due = self.loop.next_due
        if self._suspended_at is not None:
            return self.stopped_until
        if math.isfinite(due):
            due = self.simulation.now + (due - self._monotonic()) / self._rate
        return max(due, self.stopped_until)

    def turn(self) -> None:
        if self.dead or self.simulation.now < self.stopped_until:
            return
        self._resume()
        self.loop.run_ready(self._round_up)

    def _round_up(self, short: float) -> None:
        self._slept -= short

    def _left(self) -> list[asyncio.Task[Any]]:
        return [task for task in self.loop.tasks if not task.done()]

    def close(self) -> None:
        """Forget everything; what still runs is abandoned, as by a killed process."""
        with self.loop.as_running():
            self.stopped_until = -math.inf
            for task in self._left():
                task.cancel()
            ready, scheduled = self.loop._ready, self.loop._scheduled  # type: ignore[attr-defined]
            for _ in range(1000):  # many turns: a `finally` may await, and wait for a while
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
    """The time that all processes share, and what is on its way between them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.processes: list[Process] = []
        self.network = Network(self, frozenset({API_SERVER}))
        self.before_each_turn: Callable[[float], None] = lambda date: None
        self.after_each_turn: Callable[[], None] = lambda: None
        self.closing = False
        self._stopping = False
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def process(self, name: str, **options: Any) -> Process:
        process = Process(self, name, **options)
        self.processes.append(process)
        return process

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, call))

    def stop(self) -> None:
        """Make `run` return after this turn."""
        self._stopping = True

    def run(self, until: float) -> None:
        """Run until a time, or until `stop`."""
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

    def close(self) -> None:
        for process in self.processes:
            process.close()
        errors = [error for process in self.processes for error in process.loop.errors if not process.dead]
        assert not errors, errors
