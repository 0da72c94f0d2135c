"""Learning which cluster answers, beside the first watch and without holding it up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kinformer._runtime.logs import get_logger
from kinformer.reflector.recovery import RETRIED
from kinformer.reflector.tip import TipCheck

__all__ = ["ClusterLearner"]

log = get_logger("kinformer.reflector")


class ClusterLearner:
    """Asks once, in a task of its own; a failure is asked again when the next watch is open.

    Args:
        tip: What asks and remembers.
        name: For the log and the task.
        broke: Called when the question met a bug, which `check` then raises.
    """

    def __init__(self, tip: TipCheck, *, name: str, broke: Callable[[], None]) -> None:
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
