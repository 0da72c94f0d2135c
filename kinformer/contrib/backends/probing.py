"""The probes of a program: which backends pass, decided in tasks of their own."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from kinformer.contrib.backends.backend import Backend, identity_of
from kinformer.exceptions import ConfigError

__all__ = ["Probe", "ProbeOptions", "Prober"]

log = logging.getLogger("kinformer.backends")

Probe = Callable[[Backend], Awaitable[Any]]

_JITTER = 0.1  # share of the interval by which it varies, so that backends are not all probed at once
_SHARE = 4  # at most this part of the slots is for backends that fail already
_GRACE = 1.0  # seconds that probes have to end after they were cancelled
_LOGGED = 10  # failing backends that are named at a level above DEBUG


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """The program's probe, how often it is called, and how many results decide.

    Raises:
        ConfigError: A value is invalid.
    """

    probe: Probe | None
    interval: float
    timeout: float
    success_threshold: int
    failure_threshold: int
    concurrency: int

    def __post_init__(self) -> None:
        if self.probe is not None and not callable(self.probe):
            raise ConfigError(f"probe: expected an async function of a backend, got {self.probe!r}")
        for name in ("interval", "timeout"):
            value = getattr(self, name)
            if not 0 < value < inf:
                raise ConfigError(f"{name}: expected a number of seconds above 0, got {value!r}")
        for name in ("success_threshold", "failure_threshold", "concurrency"):
            value = getattr(self, name)
            if value < 1:
                raise ConfigError(f"{name}: expected a number of at least 1, got {value!r}")


class _Probed:
    """A backend that is probed, with its results."""

    __slots__ = ("backend", "is_logged", "passes", "shown", "streak", "task", "value")

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.shown = backend
        self.passes: bool | None = None
        self.streak = 0  # results in a row that differ from `passes`
        self.value: Any = None
        self.is_logged = False
        self.task: asyncio.Task[None] | None = None

    def show(self) -> None:
        self.shown = replace(self.backend, healthy=self.passes, probed=self.value)


class Prober:
    """Probes backends, each in a task of its own, and keeps the verdicts.

    The first result of a backend decides at once. Later ones decide when a threshold is reached. A probe that ignores
    its cancellation gives its slot back, and its backend is not probed again before it has ended.

    Args:
        probe: The program's function.
        options: How often backends are probed, and how many results decide.
        name: The name of the pool, for the log.
        changed: Called when a verdict or the last result of a probe has changed.
        crashed: Called with the error of a task of its own, which is a bug.

    Attributes:
        probes: The number of probes that were started.
        failures: The number of probes that failed, with those that took too long.
        timeouts: The number of probes that took too long.
    """

    def __init__(
        self,
        probe: Probe,
        options: ProbeOptions,
        name: str,
        *,
        changed: Callable[[], None],
        crashed: Callable[[BaseException], None],
    ) -> None:
        self.probes = self.failures = self.timeouts = 0
        self._probe = probe
        self._options = options
        self._name = name
        self._changed = changed
        self._crashed = crashed
        self._probed: dict[tuple[str, str], _Probed] = {}
        self._slots = asyncio.Semaphore(options.concurrency)
        self._slots_of_failing = asyncio.Semaphore(max(1, options.concurrency // _SHARE))
        self._tasks: set[asyncio.Task[Any]] = set()  # those of backends and those of probes, until they have ended

    def follow(self, backends: Iterable[Backend]) -> None:
        """Probe these backends, and no others. A backend that was gone or not ready is probed anew."""
        before, self._probed = self._probed, {}
        for backend in backends:
            identity = identity_of(backend)
            probed = before.pop(identity, None)
            if probed is None:
                probed = _Probed(backend)
                probed.task = self._start(self._run(probed), f"kinformer probes of {backend.key}", self._run_ended)
            elif probed.backend != backend:
                probed.backend = backend
                probed.show()
            self._probed[identity] = probed
        for gone in before.values():
            if gone.task is not None:
                gone.task.cancel()

    def shown(self) -> list[Backend]:
        """Return the backends that are probed, with their verdicts."""
        return [probed.shown for probed in self._probed.values()]

    async def aclose(self) -> None:
        """Cancel all probes, and wait for their end, at most a second."""
        self._probed = {}
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=_GRACE)
            if left:
                message = "%s: %d probes ignored their cancellation"
                log.error(
                    message, self._name, len(left), extra={"resource": self._name, "key": "", "reason": "abandoned"}
                )

    # --- one backend ------------------------------------------------------------------------------------

    async def _run(self, probed: _Probed) -> None:
        while True:
            async with AsyncExitStack() as slots:
                if probed.passes is False:
                    # Known failures, which may take the whole timeout, leave most slots to the other backends.
                    await slots.enter_async_context(self._slots_of_failing)
                await slots.enter_async_context(self._slots)
                self.probes += 1
                name = f"kinformer probe of {probed.backend.key}"
                running = self._start(self._call(probed.backend), name, self._probe_ended)
                try:
                    await asyncio.wait({running}, timeout=self._options.timeout)
                finally:
                    is_late = not running.done()
                    running.cancel()
                self._record(probed, running, is_late=is_late)
            await asyncio.wait({running})
            await asyncio.sleep(self._options.interval * random.uniform(1 - _JITTER, 1 + _JITTER))

    async def _call(self, backend: Backend) -> Any:
        return await self._probe(backend)

    def _record(self, probed: _Probed, probe: asyncio.Task[Any], *, is_late: bool) -> None:
        """Take the result of a probe into account."""
        value, error = None, self._error_of(probe, is_late=is_late)
        if error is None:
            value = probe.result()
            if value is False:
                error = RuntimeError("it returned False")
        is_passed = error is None
        if error is not None:
            self.failures += 1
            self.timeouts += is_late
            self._log(probed, error)
        probed.streak = 0 if probed.passes is is_passed else probed.streak + 1
        needed = self._options.success_threshold if is_passed else self._options.failure_threshold
        is_decided = probed.passes is None or probed.streak >= needed
        is_news = is_passed and not _is_same(value, probed.value)
        if is_news:
            probed.value = value
        if is_decided:
            probed.passes, probed.streak = is_passed, 0
        if is_decided or is_news:
            probed.show()
            self._changed()

    def _error_of(self, probe: asyncio.Task[Any], *, is_late: bool) -> BaseException | None:
        if is_late:
            return TimeoutError(f"it took more than {self._options.timeout:g} s")
        if probe.cancelled():
            return RuntimeError("it was cancelled")
        return probe.exception()

    def _log(self, probed: _Probed, error: BaseException) -> None:
        named = sum(one.is_logged for one in self._probed.values())
        level = logging.DEBUG if probed.is_logged or named >= _LOGGED else logging.WARNING
        probed.is_logged = True
        key = probed.backend.key
        log.log(
            level,
            "%s: the probe of %s failed: %s: %s",
            self._name,
            key,
            type(error).__name__,
            error,
            extra={"resource": self._name, "key": key, "reason": "probe_failed"},
        )

    # --- tasks ------------------------------------------------------------------------------------------

    def _start(
        self, work: Coroutine[Any, Any, Any], name: str, ended: Callable[[asyncio.Task[Any]], None]
    ) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(ended)
        return task

    def _run_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crashed(error)

    def _probe_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, because a probe that ends late has no reader


def _is_same(value: Any, other: Any) -> bool:
    """Return True if two results are equal. Results that cannot be compared are different."""
    try:
        return value is other or bool(value == other)
    except Exception:  # noqa: BLE001 - of the program's class, such as an array, whose comparison is neither true nor false
        return False
