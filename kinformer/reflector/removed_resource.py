"""Decides whether a 404 means that the resource was removed (a CRD deleted), or only that it is not served now."""

from __future__ import annotations

from collections.abc import Callable

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import SYSTEM
from kinformer._runtime.logs import get_logger
from kinformer.exceptions import NotFoundError
from kinformer.list_watcher import Source
from kinformer.listwatch.head_limit import answered
from kinformer.objects.meta import GroupVersionResource
from kinformer.reflector.errors import RETRIED
from kinformer.reflector.follower import Follower
from kinformer.reflector.states import InitialStream, List, State

__all__ = ["APART", "RemovedResourceCheck"]

log = get_logger("kinformer.reflector")

# Seconds between two questions that prove a removal: 30, by when a backend that is being replaced is back, and the 15
# that the answer of a source may be old. There is no hurry, because a watch gets the deletes of a deleted definition.
APART = 45.0


class RemovedResourceCheck:
    """Empties a store once its resource is proved to exist no longer.

    A 404 alone proves nothing. So the source is asked at each 404, and the resource counts as removed once the same
    cluster has lacked it at least `APART` seconds apart, and had it at no time in between. A resource that a server
    has built in (the group has no dot, or is `k8s.io` or below) is never removed: a server without it is another one,
    or has moved it to another group.

    Args:
        source: The source. Its `presence` is used , which without an answer proves nothing.
        name: The name of the reflector.
        follower: Writes to the store.
        cluster: Returns the identity of the cluster that the cache mirrors, or None if unknown.
        timeout: Seconds for a response.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        follower: Follower,
        *,
        cluster: Callable[[], str | None],
        timeout: float,
    ) -> None:
        self._source = source
        self._name = name
        self._follower = follower
        self._is_builtin = _is_builtin(source.resource)
        self._cluster = cluster
        self._timeout = timeout
        self._since: float | None = None  # the time since which it has been lacking. `over` resets it
        self._lacking: str | None = None  # the cluster that lacked it since then
        self._proved = False  # True once the store was emptied, or is about to be

    def delay_after(self, error: Exception, seconds: float) -> float:
        """Return the delay after an error: `seconds`, after a 404 at most until the question that decides."""
        if not isinstance(error, NotFoundError) or self._since is None or self._proved:
            return seconds
        return min(seconds, max(1.0, self._since + APART - SYSTEM.loop()))

    async def after(self, error: Exception, state: State) -> Exception | None:
        """Ask the source after a 404, and empty the store the one time that this proves the removal.

        Args:
            error: The failure of a request for the collection, which the store has listed before.
            state: The state that follows it. A list that waits for another cluster to have the resource proves nothing
                about the objects of the one before.

        Returns:
            The error by which the question failed, or None.
        """
        if not isinstance(error, NotFoundError) or self._is_builtin or self._proved:
            return None
        if isinstance(state, List | InitialStream) and state.cause == "cluster_replaced":
            return None
        try:
            gone = await self._ask()
        except RETRIED as failure:
            return failure
        if gone:
            message = "%s: the server no longer has the resource, so the cache is emptied"
            log.warning(message, self._name, resource=self._name, reason="absent")
            version = self._follower.version
            self._follower.replace(ChunkedList(), "")
            self._follower.version = version  # a resource that is created again is not older than this
        return None

    async def _ask(self) -> bool:
        """Return True if this question proves the removal. Raises the errors of a request, which proves nothing."""
        asked_at, since, self._since = SYSTEM.loop(), self._since, None
        if await answered(self._source.presence(), self._timeout, "discovery") is not False:
            return False
        cluster = await answered(self._source.cluster(), self._timeout, "cluster")
        if self._cluster() not in (None, cluster):
            return False
        if since is None or cluster != self._lacking:
            since, self._lacking = SYSTEM.loop(), cluster
        self._since = since
        self._proved = asked_at - since >= APART
        return self._proved

    def over(self) -> None:
        """Record that the collection has responded, so the resource exists."""
        self._since = None
        self._proved = False


def _is_builtin(resource: object) -> bool:
    if not isinstance(resource, GroupVersionResource):
        return False
    return "." not in resource.group or f".{resource.group}".endswith(".k8s.io")
