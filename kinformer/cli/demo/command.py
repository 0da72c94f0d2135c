"""`kinformer demo`: runs informers that follow a simulated cluster on an embedded API server."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from rich.console import Console, RenderableType
from rich.live import Live

from kinformer import Backoff, KubeObject, SharedInformer, SharedInformerFactory
from kinformer.cli.demo.activity import Activity, Happening
from kinformer.cli.demo.screen import DemoScreen
from kinformer.cli.living.cluster import LivingCluster
from kinformer.cli.output.errors import FAILED, INTERRUPTED, one_line
from kinformer.cli.output.keys import on_interrupt, stop_on_key
from kinformer.cli.output.logs import log_kept_back
from kinformer.cli.output.tables import clean
from kinformer.testing import APIServer

__all__ = ["demo"]

_RESOURCES = ("v1/pods", "apps/v1/deployments", "v1/nodes")
_UNATTENDED = 20.0  # seconds that the demo lasts without a terminal
_RESTART_AT = 10.0  # seconds, or two fifths of a shorter demo
_DOWNTIME = 2.0  # seconds, or a tenth of a shorter demo
_FRAME = 0.1  # seconds between two pictures
_PAUSE = (0.2, 0.8)  # seconds between two changes of the cluster
_AGREE = 5.0  # seconds for the caches to equal the server at the end
# The default backoff would wait up to 1.6 s before the first retry, and the demo is short.
_BACKOFF = Backoff(initial=0.25, maximum=1.0)


async def demo(*, duration: float | None, plain: bool, console: Console | None = None) -> int:
    """Show a simulated cluster in this process, as seen by informers.

    The API server is restarted once, in the middle. At the end the caches are compared with the server.

    Args:
        duration: Seconds. None runs until q or Ctrl-C, or 20 s without a terminal.
        plain: Print lines instead of drawing. The default if the console is not a terminal.
        console: The console to draw on, or None for stdout.

    Returns:
        0, 1 if a cache differs from the server at the end, or 130 after Ctrl-C.
    """
    console = console or Console()
    plain = plain or not console.is_terminal
    if duration is None and not (sys.stdin.isatty() and console.is_terminal):
        duration = _UNATTENDED
    async with (
        APIServer() as server,
        server.client() as client,
        SharedInformerFactory(client, backoff=_BACKOFF) as factory,
    ):
        cluster = LivingCluster(server, pause=_PAUSE)
        await cluster.start()
        show = _Demo(server, cluster, [factory.for_resource(resource) for resource in _RESOURCES], duration)
        with on_interrupt(show.interrupt):
            if plain:
                await show.print_lines()
            else:
                await show.draw(console)
            status = await show.compare()
        return INTERRUPTED if show.interrupted and not status else status


class _Demo:
    """One run of the demo: the cluster, the restart, and the screen."""

    def __init__(
        self, server: APIServer, cluster: LivingCluster, informers: Sequence[SharedInformer], duration: float | None
    ) -> None:
        self._server = server
        self._cluster = cluster
        self._informers = informers
        self._duration = duration
        self._began = asyncio.get_running_loop().time()
        self._stop = asyncio.Event()
        self._restart_at = _RESTART_AT if duration is None else min(_RESTART_AT, duration * 0.4)
        self._downtime = _DOWNTIME if duration is None else min(_DOWNTIME, duration * 0.1)
        # `_restart_once` sets these.
        self._down = False
        self._restarted = False
        self._relists_before = 0
        self._failure: OSError | None = None  # the pipe was closed while a handler wrote to it
        self.interrupted = False
        self._announce: Callable[[str], None] = lambda text: None  # the screen shows the message in its footer

    def interrupt(self) -> None:
        """End as after Ctrl-C, with the comparison."""
        self.interrupted = True
        self._stop.set()

    # --- two ways to show it ------------------------------------------------------------------------------

    async def print_lines(self) -> None:
        """Print a line for each call of a handler, and one every second for the state."""
        activity = Activity(self._print_happening, clock=lambda: self._elapsed)
        self._listen(activity)
        self._announce = _say
        async with self._living():
            for informer in self._informers:
                await informer.wait_synced(_AGREE)
                _say(f"{informer.name}: synced with {len(informer.lister)} objects")
            while await self._goes_on(1.0):
                _say(self._summary(activity))
        if self._failure is not None:
            raise self._failure

    def _print_happening(self, event: Happening) -> None:
        if self._failure is not None:
            return
        try:
            _say(f"{event.type:<8} {event.kind:<11} {event.key:<24} {event.what}")
        except OSError as error:  # raised in a handler, it would only be logged
            self._failure = error
            self._stop.set()

    async def draw(self, console: Console) -> None:
        """Draw on the whole terminal until q is pressed, then restore it."""
        activity = Activity(clock=lambda: self._elapsed)
        self._listen(activity)
        pods, deployments, nodes = self._informers
        screen = DemoScreen(pods=pods, deployments=deployments, nodes=nodes, activity=activity, url=self._server.url)

        def picture() -> RenderableType:
            width, height = console.size
            return screen.render(elapsed=self._elapsed, footer=self._footer(), height=height, width=width)

        with (
            log_kept_back(),
            stop_on_key(self._stop.set),
            # Drawn only here, in place and in one write, so that nothing flickers and no thread reads the caches.
            Live(picture(), console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live,
        ):
            async with self._living():
                while await self._goes_on(_FRAME):
                    live.update(picture(), refresh=True)

    def _listen(self, activity: Activity) -> None:
        for informer in self._informers:
            activity.listen(informer)

    @asynccontextmanager
    async def _living(self) -> AsyncIterator[None]:
        """Run the cluster and restart the server once while the context is open. Raises their errors."""
        tasks = [
            asyncio.create_task(self._cluster.run(), name="kinformer demo: cluster"),
            asyncio.create_task(self._restart_once(), name="kinformer demo: restart"),
        ]
        for task in tasks:
            task.add_done_callback(self._task_ended)
        try:
            yield
            if self._down:
                await tasks[1]  # the comparison at the end needs the server
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._stop.set()

    async def _goes_on(self, seconds: float) -> bool:
        """Wait this long. Returns False immediately when the demo ends."""
        if self._duration is not None:
            seconds = min(seconds, self._duration - self._elapsed)
            if seconds <= 0:
                return False
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return True
        return False

    # --- the restart -------------------------------------------------------------------------------------

    async def _restart_once(self) -> None:
        await asyncio.sleep(self._restart_at)
        self._relists_before = self._relists()
        self._down = True
        self._announce("the API server is being restarted: every watch is cut, the caches still answer")
        await self._server.restart(downtime=self._downtime)
        self._announce("the API server is back")
        self._down = False
        self._restarted = True

    def _footer(self) -> str:
        if self._down:
            return (
                "[bold yellow]The API server is being restarted:[/] "
                "every watch is cut, and the tables still answer from the caches."
            )
        if not self._restarted:
            seconds = max(0.0, self._restart_at - self._elapsed)
            return (
                f"All of this is read from informers. In {seconds:.0f} s the API server is restarted, "
                "to show that they survive it."
            )
        if not all(informer.health().live for informer in self._informers):
            return "[bold yellow]The API server is back:[/] the informers receive the changes that they missed."
        return (
            f"[bold green]The API server was restarted[/] at {self._restart_at:.0f} s; the informers follow it again "
            f"({self._relists() - self._relists_before} relists), and have received all changes that they had missed."
        )

    # --- figures ---------------------------------------------------------------------------------------

    @property
    def _elapsed(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def _relists(self) -> int:
        return sum(informer.health().relists for informer in self._informers)

    def _summary(self, activity: Activity) -> str:
        pods = self._informers[0]
        phases = Counter(str(pod.path("status.phase", "Unknown")) for pod in pods.lister.list())
        counts = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
        health = pods.health()
        server = "restarting" if self._down else "restarted" if self._restarted else "up"
        return (
            f"pods: {counts} | {health.state} at {health.resource_version}, {self._relists()} relists, "
            f"{activity.rate():.1f} events/s | server {server}"
        )

    async def compare(self) -> int:
        """Compare the caches with the server after all changes, print the result, and return 0 or 1."""
        deadline = self._elapsed + _AGREE
        while True:
            different = [informer for informer in self._informers if not self._agrees(informer)]
            if not different:
                break
            if self._elapsed > deadline:
                for informer in different:
                    error = informer.health().last_error
                    why = f": {one_line(error)}" if error else ""
                    print(f"kinformer: {informer.name}: the cache differs from the server{why}", file=sys.stderr)
                return FAILED
            await asyncio.sleep(_FRAME)
        objects = sum(len(informer.lister) for informer in self._informers)
        restart = f", after a restart of the API server and {self._relists()} relists" if self._restarted else ""
        print(f"The caches of {len(self._informers)} informers equal the server, object by object: {objects}{restart}.")
        return 0

    def _agrees(self, informer: SharedInformer) -> bool:
        there = [KubeObject.from_dict(document) for document in self._server.list(informer.name)]
        return {obj.key: obj.resource_version for obj in there} == {
            obj.key: obj.resource_version for obj in informer.lister.list()
        }


def _say(text: str) -> None:
    print(f"{datetime.now().astimezone():%H:%M:%S}  {clean(text)}", flush=True)
