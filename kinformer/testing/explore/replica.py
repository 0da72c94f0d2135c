"""A replica of a program: its processes, one after the other, and what it has been told."""

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
_STOPPING = 30.0  # seconds that an orderly end may take, as the kubelet gives a pod
_AGAIN = 1.0  # seconds until a program that ended by an error that it may end by is started again


class Replica:
    """One replica.

    Args:
        index: Its number among all replicas, from 1.
        name: In stories.
        main: The program.
        faulty: True if faults strike it.
        may_raise: The errors by which the program may end: it is started again then, as by its Deployment.
        fail: Is told of an error by which it must not end.
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
        self.seen: dict[str, int] = {}  # the newest revision that it was told of, by resource
        self.late_until: dict[str, float] = {}  # until when events of a resource are held up
        self.behind = 0  # revisions that the cache lacks from which its next process lists
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
        """True unless it is dead, stopped or has ended."""
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
            self._note(f"ended by {type(error).__name__}" if error else "has stopped")
            self.kill(_AGAIN, told=False)

    def kill(self, away: float, *, told: bool = True) -> None:
        """End its process at once, as SIGKILL does, and start another one after so many seconds."""
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
        """Ask it to end, by SIGTERM; start another one after."""
        process = self.process
        if process is None or process.dead or self._stopping:
            return
        self._note("is told to stop (SIGTERM)")
        self._stopping = True
        if not process.loop.send_signal(signal.SIGTERM) and self._task is not None:
            process.loop.call_soon(self._task.cancel)
        owner = self.owner
        self._simulation.later(_STOPPING + away, lambda: self.kill(away) if self.owner == owner else None)

    def pause(self, seconds: float) -> None:
        """Execute nothing for so long, while time goes on."""
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
