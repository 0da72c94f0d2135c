"""Checks, before resuming a watch after a gap, that the server has not been replaced or rolled back.

A plain watch at a resourceVersion that the server has not reached is accepted, and stays silent until the server gets
there: after a restore of etcd, or with another cluster behind the same URL, the cache looks live and is wrong for hours
(kubernetes/kubernetes#107457). A list with limit 1 tells the truth at the price of one object.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable

from kinformer._runtime.clock import SYSTEM, Clock
from kinformer._runtime.logs import get_logger
from kinformer.exceptions import APIError
from kinformer.list_watcher import ListerWatcher, ListOptions, ServerTip, capabilities_of
from kinformer.objects.meta import compare_resource_versions
from kinformer.reflector.errors import RETRIED, ClusterReplacedError, RewindError
from kinformer.reflector.timeouts import answered

__all__ = ["AWAY", "NO_ANSWER", "Continuity", "ContinuityCheck", "Gap"]

log = get_logger("kinformer.reflector")

NO_ANSWER = (400, 403, 404, 405, 406, 415, 422, 501)
"""Statuses of a question that would be refused again: it is not allowed, or a user's own source does not know it."""

AWAY = 2.0
"""Seconds without a stream, or asleep, that raise no doubt. A server takes longer to restart; a stream that has ended
in order is opened again within milliseconds."""


class ContinuityCheck:
    """Compares a server with what was seen of it.

    A source that offers `tip` (see `TipProbe`) is asked by that, any other by a list with limit 1. The identity of the
    cluster comes from `tip`, or more cheaply from `cluster` (see `ClusterProbe`).

    Args:
        source: The source.
        name: For the log.
        timeout: Seconds for an answer.

    Attributes:
        cluster: Which cluster it is; None while that is not known.
    """

    def __init__(self, source: ListerWatcher, *, name: str, timeout: float) -> None:
        capabilities = capabilities_of(source)
        self._source = source
        self._tip = capabilities.tip
        self._cluster = capabilities.cluster
        self._name = name
        self._timeout = timeout
        self._logged: set[str] = set()
        self.cluster: str | None = None

    @property
    def can_learn(self) -> bool:
        """True if the source can tell which cluster it is, and has not yet."""
        return self.cluster is None and (self._cluster is not None or self._tip is not None)

    async def learn(self) -> None:
        """Remember which cluster this is, while there is no doubt about it. Errors come out."""
        if self._cluster is not None:
            self.cluster = await answered(self._cluster.cluster(), self._timeout, "cluster")
        elif self._tip is not None:
            self.cluster = (await answered(self._tip.tip(), self._timeout, "tip")).cluster

    async def verify(self, seen: str) -> None:
        """Return if a watch may be resumed from `seen`.

        Raises:
            RewindError: The server has not got that far.
            ClusterReplacedError: It is another cluster, which is remembered from now on.
            KinformerError, OSError: The question failed.
        """
        try:
            tip = await self._ask(seen)
        except APIError as error:
            # A client that may list with a selector need not be allowed to without one. Then there is nothing to
            # compare with, and the watch is resumed as any other client would; that says 401 itself.
            if error.status not in (401, *NO_ANSWER):
                raise
            self._warn_once(f"{error.status}", "the server does not say where it stands: %s", error)
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
            self._warn_once("number", "a server that went back cannot be noticed: %s", error)
            return
        if rewound:
            raise RewindError(f"the server went back from resourceVersion {seen} to {tip.resource_version}")

    async def _ask(self, seen: str) -> ServerTip | None:
        if self._tip is not None:
            return await answered(self._tip.tip(), self._timeout, "tip")
        if not seen.isdecimal():  # nothing to compare with, so nothing to ask for
            return None
        return await answered(self._list_one(), self._timeout, "list with limit 1")

    async def _list_one(self) -> ServerTip:
        page = await self._source.list(ListOptions(limit=1))
        if isinstance(page.items, AsyncIterable):
            async for _ in page.items:
                pass  # the version is read behind the last item
        return ServerTip(page.resource_version)

    def _warn_once(self, topic: str, text: str, error: Exception) -> None:
        if topic not in self._logged:
            self._logged.add(topic)
            # The texts are constants of this module.
            log.warning("%s: " + text, self._name, error, resource=self._name, reason="tip")  # noqa: G003


class Gap:
    """How long nothing was heard of the server: when it is in doubt that it is where it was.

    Args:
        quiet: Seconds without evidence, with a stream or without, after which there is doubt.
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
        """The server has just shown where it is."""
        self._proved_at = self._now()
        self._slept = self._asleep()
        self._silent = False

    def in_doubt(self) -> bool:
        """True if the server is to be asked before the next watch."""
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


class Continuity(Gap):
    """The gap since a server was last heard of, the check that ends the doubt, and learning which cluster it is.

    Args:
        source: The source.
        name: For the log and the task.
        timeout: Seconds for an answer.
        quiet, clock: See `Gap`.
        on_bug: Called when learning the cluster met a bug, which `raise_bug` then raises.
    """

    def __init__(
        self,
        source: ListerWatcher,
        *,
        name: str,
        timeout: float,
        quiet: float,
        clock: Clock,
        on_bug: Callable[[], None],
    ) -> None:
        super().__init__(quiet, clock)
        self.check = ContinuityCheck(source, name=name, timeout=timeout)
        self._name = name
        self._on_bug = on_bug
        self._learning: asyncio.Task[None] | None = None

    async def verify(self, seen: str) -> None:
        """`ContinuityCheck.verify`, which ends the doubt unless it raises."""
        await self.check.verify(seen)
        self.proved()

    def learn_cluster(self) -> None:
        """Ask once which cluster this is, in a task beside the watch; a failure is asked again at the next watch."""
        if self.check.can_learn and (self._learning is None or self._learning.done()):
            loop = asyncio.get_running_loop()
            self._learning = loop.create_task(self._learn(), name=f"kinformer cluster of {self._name}")
            self._learning.add_done_callback(self._learned)

    def raise_bug(self) -> None:
        """Raise the bug that learning the cluster met."""
        if self._learning is not None and self._learning.done() and not self._learning.cancelled():
            self._learning.result()

    async def stop(self) -> None:
        """Leave nothing running."""
        if self._learning is not None and not self._learning.done():
            self._learning.cancel()
            await asyncio.wait([self._learning])

    def _learned(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._on_bug()

    async def _learn(self) -> None:
        try:
            await self.check.learn()
        except RETRIED as error:
            # Nothing depends on it yet; if something is wrong with the server, the watch finds out and reports it.
            text = "%s: it is not known which cluster this is: %s"
            log.debug(text, self._name, error, resource=self._name, reason=error)
