"""Checks, before resuming a watch, that the server has not been replaced or rolled back.

A server accepts a plain watch at a resourceVersion that it has not reached, and sends nothing until it does. So after
a restore of etcd, or with another cluster behind the same URL, the cache would look live and be wrong for hours
(kubernetes/kubernetes#107457). A list with limit 1 detects this at the cost of one object. It is made whenever a
stream was ended neither by the client nor at its own timeoutSeconds, and after each refused connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import TypeVar

from kinformer._runtime.clock import SYSTEM, Clock
from kinformer._runtime.logs import get_logger
from kinformer.exceptions import APIError
from kinformer.list_watcher import ListerWatcher, ListOptions, ServerTip, source_of
from kinformer.listwatch.head_limit import HeadLimit, answered
from kinformer.objects.meta import compare_resource_versions
from kinformer.reflector.errors import RETRIED, ClusterReplacedError, RewindError

__all__ = ["AWAY", "NO_ANSWER", "Continuity", "ContinuityCheck", "Gap"]

T = TypeVar("T")

log = get_logger("kinformer.reflector")

NO_ANSWER = (400, 403, 404, 405, 406, 415, 422, 501)
"""Statuses of a request that would be refused again, because it is not allowed or a custom source does not support
it."""

AWAY = 2.0
"""Seconds without a stream, or suspended, after which the server must be verified even if the stream ended at its own
timeout, because such a stream is normally reopened within milliseconds."""


class ContinuityCheck:
    """Compares a server with the version and the cluster seen before.

    The version comes from the source's `tip`, or without an answer from a list with limit 1.

    Args:
        source: The source.
        name: The name of the source, for the log.
        timeout: Seconds for a response. A list may take longer: see `HeadLimit`.

    Attributes:
        cluster: The identity of the cluster, or None while it is unknown.
        head_limit: The limit for the heads of the source's LISTs, of which asking for a version is one.
    """

    def __init__(self, source: ListerWatcher, *, name: str, timeout: float) -> None:
        self._source = source_of(source)
        self._name = name
        self._timeout = timeout
        limit = self._source.head_limit
        self.head_limit = limit if isinstance(limit, HeadLimit) else HeadLimit()
        self._logged: set[str] = set()
        self.cluster: str | None = None

    async def learn(self) -> None:
        """Store the identity of the cluster.

        Only call it while the server is not in doubt. Raises the source's errors.
        """
        self.cluster = await answered(self._source.cluster(), self._timeout, "cluster")

    async def verify(self, seen: str) -> None:
        """Return if a watch may be resumed from `seen`.

        Raises:
            RewindError: The server has not reached that version.
            ClusterReplacedError: It is another cluster. `cluster` is then the identity of the new one.
            KinformerError, OSError: The request failed.
        """
        try:
            tip = await self._listed(self._source.tip(), "tip")
            if tip is None:
                if not seen.isdecimal():  # it cannot be compared, so no request is made
                    return
                tip = await self._listed(self.list_one(), "list with limit 1")
        except APIError as error:
            # A client that may list with a selector may not be allowed to list without one. Then nothing can be
            # compared, and the watch is resumed as in any other client. A 401 will also be the response to that watch.
            if error.status not in (401, *NO_ANSWER):
                raise
            self._warn_once(
                f"{error.status}",
                "the server refused to return its version, so rollbacks cannot be detected: %s",
                error,
            )
            return
        self.compare(tip, seen)

    async def tip(self) -> ServerTip:
        """Return the server's version, read after this was called.

        Raises:
            KinformerError, OSError: The request failed.
        """
        tip = await self._listed(self._source.tip(), "tip")
        return await self._listed(self.list_one(), "list with limit 1") if tip is None else tip

    async def _listed(self, listing: Awaitable[T], request: str) -> T:
        return await self.head_limit.answered(listing, request, first=self._timeout)

    def compare(self, tip: ServerTip, seen: str) -> None:
        """Compare the server's version and cluster with those seen before. Raises as `verify` does."""
        if tip.cluster is not None:
            before, self.cluster = self.cluster, tip.cluster
            if before is not None and before != tip.cluster:
                raise ClusterReplacedError(f"another cluster responds: {tip.cluster} instead of {before}")
        try:
            rewound = compare_resource_versions(tip.resource_version, seen) < 0
        except ValueError as error:
            self._warn_once("number", "versions cannot be compared, so rollbacks cannot be detected: %s", error)
            return
        if rewound:
            raise RewindError(f"the server went back from resourceVersion {seen} to {tip.resource_version}")

    async def list_one(self) -> ServerTip:
        """Return the server's version from a list with limit 1, with the selectors of the source."""
        page = await self._source.list(ListOptions(limit=1))
        if isinstance(page.items, AsyncIterable):
            async for _ in page.items:
                pass  # the version is known only after the last item
        return ServerTip(page.resource_version)

    def _warn_once(self, topic: str, text: str, error: Exception) -> None:
        if topic not in self._logged:
            self._logged.add(topic)
            # The messages are constants of this module.
            log.warning("%s: " + text, self._name, error, resource=self._name, reason="tip")  # noqa: G003


class Gap:
    """Tracks how and for how long the watch was interrupted, to decide whether to verify the server before resuming.

    Args:
        quiet: Seconds without proof, with or without a stream, after which the server is in doubt.
        clock: A clock whose `boot` includes the time that the machine was suspended, which the loop's clock does not.
    """

    def __init__(self, quiet: float, clock: Clock = SYSTEM) -> None:
        self._quiet = quiet
        self._clock = clock
        # The reflector changes these by `closed`, `doubt` and `proved`. Times are on the loop's clock.
        self._closed_at = 0.0
        self._proved_at = 0.0
        self._slept = 0.0  # seconds of suspend up to the last proof
        self._doubted = False

    def closed(self, last_event: float | None) -> None:
        """Record the end of a stream. `last_event` is the loop time of the last event in this or an earlier stream."""
        self._closed_at = self._clock.loop()
        self._proved_at = max(self._proved_at, last_event or 0.0)

    def doubt(self) -> None:
        """Record a failure that could also mean that the server has restarted or gone back."""
        self._doubted = True

    def proved(self) -> None:
        """Record that the server has just proved its version."""
        self._proved_at = self._clock.loop()
        self._slept = self._asleep()
        self._doubted = False

    def in_doubt(self) -> bool:
        """True if the server must be verified before the next watch."""
        now = self._clock.loop()
        return (
            self._doubted
            or now - max(self._closed_at, self._proved_at) > AWAY
            or now - self._proved_at > self._quiet
            or self._asleep() - self._slept > AWAY
        )

    def _asleep(self) -> float:
        return self._clock.boot() - self._clock.loop()


class Continuity(Gap):
    """The gap since the last proof of a server's version, with the check that ends it.

    It also learns the identity of the cluster, in a task alongside the watch.

    Args:
        source: The source.
        name: The name of the source, for the log and the task.
        timeout: Seconds for a response.
        quiet, clock: See `Gap`.
        on_bug: Called if the task that learns the cluster fails with a bug, which `raise_bug` then raises.
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
        """Verify the server like `ContinuityCheck.verify`. It is not in doubt afterwards."""
        await self.check.verify(seen)
        self.proved()

    def learn_cluster(self) -> None:
        """Learn the identity of the cluster once, in a task. After a failure, it is tried again at the next watch."""
        if self.check.cluster is None and (self._learning is None or self._learning.done()):
            self._learning = asyncio.create_task(self._learn(), name=f"kinformer cluster of {self._name}")
            self._learning.add_done_callback(self._learned)

    def raise_bug(self) -> None:
        """Raise the bug that ended the task that learns the cluster, if any."""
        if self._learning is not None and self._learning.done() and not self._learning.cancelled():
            self._learning.result()

    async def stop(self) -> None:
        """Cancel the task that learns the cluster, and wait for its end."""
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
            # Nothing depends on it yet. If the server has a problem, the watch detects and reports it.
            message = "%s: the cluster could not be identified: %s"
            log.debug(message, self._name, error, resource=self._name, reason=error)
