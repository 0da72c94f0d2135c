"""Whether the server still stands where, and is who, it was: what is asked before a watch is resumed after a gap.

A plain watch at a resourceVersion that the server has not reached is accepted, and says nothing until the server gets
there: after a restore of etcd, or with another cluster behind the same URL, it is green while dead for hours
(kubernetes/kubernetes#107457). A list with limit 1 tells the truth at the price of one object.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

from kinformer._runtime.logs import get_logger
from kinformer.exceptions import APIError, WatchError
from kinformer.list_watcher import ListerWatcher, ListOptions, ServerTip
from kinformer.objects.meta import compare_resource_versions
from kinformer.reflector.timeouts import answered

__all__ = ["NO_ANSWER", "ClusterReplacedError", "RewindError", "TipCheck"]

log = get_logger("kinformer.reflector")

NO_ANSWER = (400, 403, 404, 405, 406, 415, 422, 501)
"""Of a question that would be refused again: it is not allowed, or a source of one's own does not know it."""


class RewindError(WatchError):
    """The server stands before a resourceVersion that it has given out: it was restored from a backup."""


class ClusterReplacedError(WatchError):
    """Another cluster answers under the same URL."""


class TipCheck:
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
