"""Checks, before resuming a watch after a gap, that the server has not been replaced or rolled back.

A plain watch at a resourceVersion that the server has not reached is accepted, and stays silent until the server gets
there: after a restore of etcd, or with another cluster behind the same URL, the cache looks live and is wrong for hours
(kubernetes/kubernetes#107457). A list with limit 1 tells the truth at the price of one object.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable
from typing import Any

from kinformer._runtime.clock import SYSTEM, Clock
from kinformer._runtime.logs import get_logger
from kinformer.exceptions import APIError
from kinformer.list_watcher import ListerWatcher, ListOptions, ServerTip
from kinformer.objects.meta import compare_resource_versions
from kinformer.reflector.errors import RETRIED, ClusterReplacedError, RewindError
from kinformer.reflector.timeouts import answered

__all__ = [
    "AWAY",
    "NO_ANSWER",
    "ClusterLearner",
    "ContinuityCheck",
    "Gap",
]

log = get_logger("kinformer.reflector")

NO_ANSWER = (400, 403, 404, 405, 406, 415, 422, 501)
"""Of a question that would be refused again: it is not allowed, or a source of one's own does not know it."""


class ContinuityCheck:
    """Compares a source with what was seen of it.

    A source that offers `tip` (see `ServerProbe`) is asked by that, any other by a list with limit 1. The identity of
    the cluster comes from `tip`, or more cheaply from `cluster`, a coroutine without arguments, where there is one.

    Args:
        source: The source.
        name: What the log calls it.
        timeout: Seconds for an answer.
    """

    def __init__(self, source: ListerWatcher, *, name: str, timeout: float) -> None:
        self._source = source
        self._name = name
        self._timeout = timeout
        self._said: set[str] = set()
        self.cluster: str | None = None

    @property
    def can_learn(self) -> bool:
        """Whether the source can say which cluster it is, and has not yet."""
        return self.cluster is None and (hasattr(self._source, "cluster") or hasattr(self._source, "tip"))

    async def learn(self) -> None:
        """Remember which cluster this is, while there is no doubt about it. Errors come out."""
        probe = getattr(self._source, "cluster", None)
        if probe is not None:
            self.cluster = await answered(probe(), self._timeout, "cluster")
        else:
            self.cluster = (await self._ask_tip()).cluster

    async def verify(self, seen: str) -> None:
        """Return if a watch may go on from `seen`.

        Raises:
            RewindError: The server is not as far.
            ClusterReplacedError: It is another one, which is remembered from now on.
            KinformerError, OSError: The question failed.
        """
        try:
            tip = await self._ask(seen)
        except APIError as error:
            # Who may list with a selector need not be allowed to without one. Then there is nothing to compare with,
            # and the watch is resumed as every other client would do it; that says 401 itself.
            if error.status not in (401, *NO_ANSWER):
                raise
            self._say_once(f"{error.status}", "the server does not say where it stands: %s", error)
            return
        if tip is None:
            return
        if tip.cluster is not None:
            before, self.cluster = self.cluster, tip.cluster
            if before is not None and before != tip.cluster:
                raise ClusterReplacedError(f"cluster {tip.cluster} answers where {before} was")
        try:
            rewound = compare_resource_versions(tip.resource_version, seen) < 0
        except ValueError as error:
            self._say_once("number", "a server that went back cannot be noticed: %s", error)
            return
        if rewound:
            raise RewindError(f"the server went back from resourceVersion {seen} to {tip.resource_version}")

    async def _ask(self, seen: str) -> ServerTip | None:
        if hasattr(self._source, "tip"):
            return await self._ask_tip()
        if not seen.isdecimal():  # nothing to compare with, so nothing to ask for
            return None
        return await answered(self._list_one(), self._timeout, "list with limit 1")

    async def _ask_tip(self) -> ServerTip:
        probe: Any = self._source
        tip: ServerTip = await answered(probe.tip(), self._timeout, "tip")
        return tip

    async def _list_one(self) -> ServerTip:
        page = await self._source.list(ListOptions(limit=1))
        if isinstance(page.items, AsyncIterable):
            async for _ in page.items:
                pass  # the version is read behind the last item
        return ServerTip(page.resource_version)

    def _say_once(self, topic: str, text: str, error: Exception) -> None:
        if topic not in self._said:
            self._said.add(topic)
            # The texts are constants of this module.
            log.warning("%s: " + text, self._name, error, resource=self._name, reason="tip")  # noqa: G003


# Seconds without a stream, or asleep, that need no question. A server restarts in more; a stream that has ended in
# order is opened again in milliseconds.
AWAY = 2.0


class Gap:
    """What is known of the time since the server stood where it should.

    Args:
        quiet: Seconds without evidence, streams or not, after which there is doubt.
        clock: Its `boot` tells how long the machine slept, which the loop's time does not count.
    """

    def __init__(self, quiet: float, clock: Clock = SYSTEM) -> None:
        self._quiet = quiet
        self._clock = clock
        self._closed_at = 0.0
        self._proved_at = 0.0
        self._slept = 0.0
        self._silent = False

    def closed(self, last_event: float | None) -> None:
        """A stream has ended; `last_event` is the loop's time of what came last, perhaps on an earlier one."""
        self._closed_at = self._now()
        self._proved_at = max(self._proved_at, last_event or 0.0)

    def silent(self) -> None:
        """It was ended because nothing came."""
        self._silent = True

    def proved(self) -> None:
        """The server has just shown where it stands."""
        self._proved_at = self._now()
        self._slept = self._asleep()
        self._silent = False

    def in_doubt(self) -> bool:
        """Whether to ask before the next watch."""
        now = self._now()
        return (
            self._silent
            or now - max(self._closed_at, self._proved_at) > AWAY
            or now - self._proved_at > self._quiet
            or self._asleep() - self._slept > AWAY
        )

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _asleep(self) -> float:
        return self._clock.boot() - self._now()


class ClusterLearner:
    """Asks once, in a task of its own; a failure is asked again when the next watch is open.

    Args:
        tip: What asks and remembers.
        name: For the log and the task.
        broke: Called when the question met a bug, which `check` then raises.
    """

    def __init__(self, tip: ContinuityCheck, *, name: str, broke: Callable[[], None]) -> None:
        self._tip = tip
        self._name = name
        self._broke = broke
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Ask, unless the answer is there, or on its way, or the source cannot give one."""
        if self._tip.can_learn and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._ask(), name=f"kinformer cluster of {self._name}")
            self._task.add_done_callback(self._done)

    def check(self) -> None:
        """Raise the bug that the question met."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def stop(self) -> None:
        """Leave nothing running."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._broke()

    async def _ask(self) -> None:
        try:
            await self._tip.learn()
        except RETRIED as error:
            # Nothing depends on it yet; whatever is wrong with the server, the watch will find out and tell.
            log.debug(
                "%s: it is not known which cluster this is: %s", self._name, error, resource=self._name, reason=error
            )
