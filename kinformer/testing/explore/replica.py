"""A replica of a program: its successive processes, and the events that it has received."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kinformer.client.client import Client
from kinformer.testing.explore.server import URL
from kinformer.testing.simulation.processes import Process, Simulation

if TYPE_CHECKING:
    from kinformer.testing.explore.trace import Trace

__all__ = ["Main", "Replica"]

Main = Callable[[Client], Awaitable[object]]
_STOPPING = 30.0  # grace period in seconds, as the kubelet gives a pod
_AGAIN = 1.0  # seconds until a program that ended with a permitted error is restarted


class Replica:
    """One replica.

    Args:
        index: Its number among all replicas, from 1.
        name: Its name in stories.
        main: The program.
        faulty: True if faults may strike it.
        may_raise: Errors with which the program may end. It is then restarted, as by a Deployment.
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
        self.seen: dict[str, int] = {}  # the newest revision that it has seen, by resource
        self.late_until: dict[str, float] = {}  # resource -> time until which its events are delayed
        self.behind = 0  # revisions by which the cache lags when its next process lists
        self.process: Process | None = None
        self._simulation = simulation
        self._trace = trace
        self._main = main
        self._may_raise = may_raise
        self._fail = fail
        self._incarnation = 0
        self._task: asyncio.Task[Any] | None = None
        self._stopping = False

    @property
    def owner(self) -> str:
        """The name of its process in the network."""
        return f"{self.name}#{self._incarnation}"

    @property
    def is_running(self) -> bool:
        """True unless it was killed, is paused or has ended."""
        process = self.process
        return process is not None and not process.dead and process.stopped_until <= self._simulation.now

    def start(self) -> None:
        """Start a process."""
        self._incarnation += 1
        self._stopping = False
        self.process = self._simulation.process(self.owner)
        self._note("starts" if self._incarnation == 1 else "starts again")
        self._task = self.process.start(self._run())
        self._task.add_done_callback(self._ended)

    async def _run(self) -> None:
        async with Client.from_url(URL) as client:
            await self._main(client)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if self.process is None or self.process.dead or self._simulation.closing:
            return
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, self._may_raise):
            self._fail(self, error)
        elif error is not None or self._stopping:
            self._note(f"ended with {type(error).__name__}" if error else "has stopped")
            self.kill(_AGAIN, told=False)

    def kill(self, away: float, *, told: bool = True) -> None:
        """End its process immediately, as SIGKILL does, and start another one after `away` seconds."""
        process = self.process
        if process is None or process.dead:
            return
        if told:
            self._note("is killed")
        process.kill()
        self.process = None
        self._simulation.network.cut(self.owner)
        self._simulation.later(away, self.start)

    def stop(self, away: float) -> None:
        """Ask its process to end, with SIGTERM, and start another one afterwards."""
        process = self.process
        if process is None or process.dead or self._stopping:
            return
        self._note("is asked to stop (SIGTERM)")
        self._stopping = True
        if not process.loop.send_signal(signal.SIGTERM) and self._task is not None:
            process.loop.call_soon(self._task.cancel)
        owner = self.owner
        self._simulation.later(_STOPPING + away, lambda: self.kill(away) if self.owner == owner else None)

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
