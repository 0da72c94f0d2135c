"""The freshness of an informer: when its cache was last proved to be current, and the tasks that prove it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kinformer._runtime.clock import SYSTEM
from kinformer._runtime.fence import unfenced
from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import Coro, Tasks, all_of
from kinformer._runtime.waiters import WaiterQueue
from kinformer.connection.single_flight import SingleFlight
from kinformer.exceptions import ConfigError, StoppedError
from kinformer.informer.freshness.proof import CacheSelection, ScopeProof
from kinformer.reflector.errors import RETRIED

if TYPE_CHECKING:
    from kinformer.informer.core import CollectionCore

__all__ = ["Freshness", "check_max_staleness", "too_old"]

log = get_logger("kinformer.informer")

_LEAST = 4.0  # seconds: twice the time of a proof, because proofs are requested at half of the age
_RETRY = 1.0  # the least seconds between two attempts, so that a server that refuses them is not asked in a loop
_LIMIT = 30.0  # the most seconds for a proof that no task waits for


class Freshness:
    """Proves that an informer's cache is current, when a task asks for it, or regularly.

    Args:
        name: The name of the informer.
        proofs: The proofs by scope. The mapping changes with the namespaces.
        namespaces_proved: Waits until the namespaces that were chosen at the call are followed.
        tasks: Owns the task that proves regularly.
        synced: Waits for the first sync.
    """

    def __init__(
        self,
        name: str,
        proofs: Callable[[], Mapping[str | None, ScopeProof]],
        namespaces_proved: Callable[[], Coro[None]],
        tasks: Tasks,
        synced: Callable[[], Coro[None]],
    ) -> None:
        self.name = name
        self._proofs = proofs
        self._namespaces_proved = namespaces_proved
        self._tasks = tasks
        self._synced = synced
        self._flight = SingleFlight(self._prove, joins_running=False)
        self._sent: _Moment | None = None  # when the newest proof was requested
        self._proved = WaiterQueue()
        self._max_staleness: float | None = None  # the smallest that was asked for. `keep` reduces it
        self._keeping: asyncio.Task[None] | None = None  # proves regularly, once there is such an age
        self._has_started = False

    @property
    def staleness(self) -> float | None:
        """Seconds since the newest proof was requested, or None before the first. A list of a polled cache is one."""
        polled = [proof.polled_age for proof in self._proofs().values()]
        if None not in polled and polled:
            return max(age for age in polled if age is not None)
        return None if self._sent is None else self._sent.age

    async def prove(self) -> None:
        """Return once the cache has everything that the server had at the call.

        Calls share a proof that has not been requested. Raises the errors of the requests, and WatchError if the server
        went back in time.
        """
        await self._flight.get()

    async def holds(self, selection: CacheSelection) -> None:
        """Return once the selected objects are as new as on the server at the call. Raises as `prove` does."""
        proofs = self._proofs()
        scopes = {None, selection.namespace} if selection.namespace else proofs.keys()
        await all_of(proof.holds(selection) for scope, proof in proofs.items() if scope in scopes)

    async def until_within(self, max_staleness: float) -> None:
        """Wait until the newest proof is not older."""
        while (age := self.staleness) is None or age > max_staleness:
            await self._proved.wait()

    def __str__(self) -> str:
        age = self.staleness
        return f"{self.name} ({'never proved current' if age is None else f'proved current {age:.0f} s ago'})"

    async def _prove(self) -> None:
        sent = _Moment()
        await self._namespaces_proved()
        await all_of(self._prove_scope(scope, proof) for scope, proof in self._proofs().items())
        self._sent = sent
        self._proved.wake_all()

    async def _prove_scope(self, scope: str | None, proof: ScopeProof) -> None:
        try:
            await proof.prove()
        except StoppedError:
            if scope in self._proofs():  # otherwise the namespace has left, and its reflector with it
                raise

    # --- regularly ------------------------------------------------------------------------------------------

    def keep(self, max_staleness: float) -> None:
        """Prove at half of this age from now on, until the informer ends. The lowest age that was asked for counts."""
        if self._max_staleness is not None and max_staleness >= self._max_staleness:
            return
        self._max_staleness = max_staleness
        if self._keeping is not None:
            self._keeping.cancel()
        if self._has_started:
            self._start(max_staleness)

    def start(self) -> None:
        """Begin to prove regularly, once that is asked for."""
        self._has_started = True
        if self._max_staleness is not None:
            self._start(self._max_staleness)

    def fail(self, error: BaseException) -> None:
        """Raise an error in the tasks that wait for the next proof, because there will be none."""
        self._has_started = False  # a call of `keep` from now on starts no task
        self._proved.fail(error)

    def _start(self, max_staleness: float) -> None:
        with unfenced():  # it may be asked for in a leader's body, and outlive it
            self._keeping = self._tasks.start(self._keep(max_staleness), f"kinformer proofs of {self.name}")

    async def _keep(self, max_staleness: float) -> None:
        await self._synced()
        failing = False
        while True:
            age = self.staleness
            await asyncio.sleep(0.0 if age is None else max(0.0, max_staleness / 2 - age))
            try:
                async with asyncio.timeout(_LIMIT):
                    await self.prove()
            except RETRIED as error:
                if not failing:
                    log.warning("%s: the proof failed: %s", self, error, resource=self.name, reason=error)
                failing = True
                await asyncio.sleep(_RETRY)
            else:
                failing = False


class _Moment:
    """A moment, and its age. The age includes time in which the machine was suspended."""

    def __init__(self) -> None:
        self._loop, self._boot = SYSTEM.loop(), SYSTEM.boot()

    @property
    def age(self) -> float:
        return max(SYSTEM.loop() - self._loop, SYSTEM.boot() - self._boot)


def check_max_staleness(value: float | None) -> None:
    """Raise ConfigError unless this is None, or a number of seconds in which a proof is possible."""
    if value is not None and not value >= _LEAST:
        raise ConfigError(f"invalid max_staleness={value!r}: expected a number of seconds, {_LEAST:g} or more, or None")


def too_old(core: CollectionCore, max_staleness: float) -> list[Freshness]:
    """Return the informers behind a collection whose last proof is older. From now on, all are proved regularly."""
    behind: list[Freshness] = [root.freshness for root in core.roots() if not root.is_absent]
    for freshness in behind:
        freshness.keep(max_staleness)
    return [freshness for freshness in behind if freshness.staleness is None or freshness.staleness > max_staleness]
