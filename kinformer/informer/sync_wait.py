"""The wait for the first sync of an informer, and the reason why it has not synced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from kinformer._runtime.logs import get_logger
from kinformer._runtime.waiters import NEXT_WARNING, warnings_while
from kinformer.exceptions import ConnectError, NotFoundError, NotSyncedError, describe
from kinformer.informer.fail_fast import FailFast
from kinformer.informer.wiring import Scope, Wiring
from kinformer.processor.handler_set import HandlerSet
from kinformer.processor.processor import UNKNOWN_SCOPES
from kinformer.reflector.health import InformerHealth
from kinformer.reflector.reflector import Reflector

__all__ = ["SyncWait"]

log = get_logger("kinformer.informer")

_NAMED = 3  # namespaces that a reason names


class SyncWait:
    """The waits for the first sync of one informer.

    Args:
        name: Of the informer.
        parts: Of the informer.
        handlers: Of the informer.
        health: Returns its health.

    Attributes:
        entered: True once the informer has been started.
        fail_fast: The refusals that end a wait.
    """

    def __init__(self, name: str, parts: Wiring, handlers: HandlerSet, health: Callable[[], InformerHealth]) -> None:
        self.entered = False
        self.fail_fast = FailFast()
        self._name = name
        self._parts = parts
        self._handlers = handlers
        self._health = health
        self._warned: float | None = None

    async def wait(self, timeout: float | None, *, fail_fast: bool) -> None:
        """Wait for the first sync, with warnings; see `SharedInformer.wait_synced`."""
        try:
            async with asyncio.timeout(timeout):
                with warnings_while(self._warn):
                    await self.first(fail_fast=fail_fast)
        except TimeoutError:
            error = self._health().last_error
            text = f"{self._name} has not synced after {timeout:g} s: {self.reason()}"
            raise NotSyncedError(text, {self._name: error}) from None

    async def first(self, *, fail_fast: bool) -> None:
        """Wait for the first sync, without a limit and without warnings."""
        waiting = self._parts.processor.synced.wait()
        await (self.fail_fast.unless_refused(waiting) if fail_fast else waiting)

    def reason(self) -> str:
        """Return why the informer, or a handler of it, has not synced."""
        return self.unlisted_reason() or self._handlers.unsynced_reason()

    def unlisted_reason(self) -> str:
        """Return why the first list is not in the cache; "" if it is."""
        if not self.entered:
            return "it has not been entered; use `async with` on it, or on its factory"
        missing, chosen = self._parts.processor.missing, self._parts.chosen
        if chosen is not None and UNKNOWN_SCOPES in missing and (reason := chosen.unsynced_reason()):
            return reason
        return _reasons_by_scope({scope: part for scope, part in self._parts.reflectors.items() if scope in missing})

    def _warn(self) -> None:
        """Log what is missing and why; of many that wait at once, one does."""
        now = asyncio.get_running_loop().time()
        if self._warned is None or now - self._warned > NEXT_WARNING / 2:
            self._warned = now
            text = "%s still waits for its first sync: %s"
            log.warning(text, self._name, self.reason(), resource=self._name, reason="unsynced")


def _explain(error: BaseException) -> str:
    """Return one line that says why a request failed, and what may help."""
    if isinstance(error, NotFoundError) and error.nearest is not None:
        if error.nearest:
            return f"the server has no such resource; nearest: {error.nearest}"
        return "the server has no such resource; if it is a custom one, its CustomResourceDefinition is not installed"
    if isinstance(error, ConnectError):
        return f"the server is not reachable: {error}"
    return describe(error)


def _reasons_by_scope(reflectors: Mapping[Scope, Reflector]) -> str:
    """Return why the first lists of these reflectors are not in the cache; each reason names its namespaces."""
    by_reason: dict[str, list[str]] = {}
    for scope, reflector in reflectors.items():
        by_reason.setdefault(_reason(reflector), []).append(scope or "")
    return ", ".join(f"{reason}{_in_namespaces(scopes)}" for reason, scopes in by_reason.items())


def _reason(reflector: Reflector) -> str:
    health = reflector.health()
    if health.last_error is not None:
        return _explain(health.last_error)
    return "the list has come and is being written to the cache" if health.synced else reflector.progress


def _in_namespaces(scopes: list[str]) -> str:
    if scopes == [""]:
        return ""
    more = f" and {len(scopes) - _NAMED} more" if len(scopes) > _NAMED else ""
    return f" (in {', '.join(scopes[:_NAMED])}{more})"
