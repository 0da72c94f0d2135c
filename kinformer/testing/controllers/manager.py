"""The task that runs the controllers: what changed is queued, and one key at a time is brought to its desired state."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from kinformer._runtime.logs import get_logger
from kinformer.apiserver.status import StatusError
from kinformer.testing.api.delete import Deleter
from kinformer.testing.api.write import Writer
from kinformer.testing.controllers.cluster import APIClient, Object
from kinformer.testing.controllers.deployments import DeploymentController
from kinformer.testing.controllers.endpoints import EndpointsController
from kinformer.testing.controllers.garbage import GarbageCollector
from kinformer.testing.controllers.jobs import JobController
from kinformer.testing.controllers.kubelet import Kubelet, Outcome
from kinformer.testing.controllers.replica_sets import ReplicaSetController
from kinformer.testing.controllers.scheduler import Scheduler
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["Controllers", "running"]

logger = get_logger("kinformer.testing.controllers")

_RETRY = 1.0  # seconds after a refused write. Doubled each time, up to _LONGEST_RETRY
_LONGEST_RETRY = 60.0
_SHORTEST = 0.001  # seconds to a next look, as a difference of times may be a little above 0 for ever


class BuiltinController(Protocol):
    """The double of one controller. The task of `Controllers` calls it, so no two calls overlap."""

    def keys(self, resource: ResourceType, old: Object | None, new: Object | None) -> list[tuple[str, str]]:
        """Return what to reconcile after a change: namespaces and names."""
        ...

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Bring one object to its desired state. Returns the seconds after which to look again, or None."""
        ...


class _Key(NamedTuple):
    controller: str
    namespace: str
    name: str


@asynccontextmanager
async def running(writer: Writer, deleter: Deleter, **options: Any) -> AsyncIterator[None]:
    """Run the controllers of a server in a block. The options are those of `Controllers`."""
    async with Controllers(writer, deleter, **options):
        yield


class Controllers:
    """The controllers of one server, from entering to exiting.

    Everything happens in one task, in the order of the changes, so a test sees the same each time.

    Args:
        writer, deleter: The server's.
        startup: Seconds from the start of a pod until it is ready.
        runtime: Seconds that a pod runs that ends by itself (`restartPolicy` is not `Always`).
        shutdown: Seconds that the containers of a deleted pod take to end, if the grace period is not shorter.
        outcome: Decides what becomes of a pod. None: it becomes ready, and succeeds if it ends by itself.
        seed: The seed of the names of pods.
        parts: The names of the doubles to run, beside real controllers. None: all.
    """

    def __init__(
        self,
        writer: Writer,
        deleter: Deleter,
        *,
        startup: float,
        runtime: float,
        shutdown: float,
        outcome: Outcome | None,
        seed: int,
        parts: Collection[str] | None = None,
    ) -> None:
        cluster = APIClient(writer, deleter, seed)
        self._cluster = cluster
        doubles: dict[str, BuiltinController] = {
            "garbage collector": GarbageCollector(cluster),
            "deployment": DeploymentController(cluster, self._now),
            "replica set": ReplicaSetController(cluster, self._now),
            "job": JobController(cluster, self._now),
            "scheduler": Scheduler(cluster),
            "kubelet": Kubelet(cluster, self._now, startup, runtime, shutdown, outcome),
            "endpoints": EndpointsController(cluster),
        }
        self._controllers = {part: controller for part, controller in doubles.items() if parts is None or part in parts}
        self._queue: dict[_Key, None] = {}  # keys to reconcile, in the order of the changes
        self._timers: list[tuple[float, int, _Key]] = []  # a heap: the number keeps equal times in order
        self._due: dict[_Key, float] = {}  # the earliest timer of each key
        self._refused: dict[_Key, int] = {}  # how often in a row the server has refused a write
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise RuntimeError("these controllers have been started already: call run_controllers() again")
        self._cluster.ledger.on_change.append(self._changed)
        self._cluster.ledger.on_rewind.append(self._look_at_all)
        self._look_at_all()
        self._task = asyncio.create_task(self._run(), name="kinformer testing: controllers")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._cluster.ledger.on_change.remove(self._changed)
        self._cluster.ledger.on_rewind.remove(self._look_at_all)
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled() and (crash := self._task.exception()) is not None and error is None:
            raise crash

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _look_at_all(self) -> None:
        """Queue all objects."""
        ledger = self._cluster.ledger
        for resource in list(ledger.registry):
            if resource.is_storage:
                for stored in ledger.collection(resource).snapshot().items:
                    self._changed(resource, None, ledger.read(resource, stored))

    def _changed(self, resource: ResourceType, old: Object | None, new: Object | None) -> None:
        """Queue what a write concerns."""
        if new is None and old is not None:
            self._cluster.forget(resource, old)
        if resource.builtin and resource.kind == "Event":
            return
        for part, controller in self._controllers.items():
            for namespace, name in controller.keys(resource, old, new):
                self._queue.setdefault(_Key(part, namespace, name))
        if self._queue:
            self._wake.set()

    async def _run(self) -> None:
        try:
            while True:
                self._take_due()
                if self._queue:
                    key = next(iter(self._queue))
                    del self._queue[key]
                    self._reconcile(key)
                    await asyncio.sleep(0)  # lets watchers and clients run between two keys
                    continue
                self._wake.clear()
                until = self._timers[0][0] if self._timers else None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(until):
                        await self._wake.wait()
        except Exception:
            logger.exception("the controllers of the embedded server have ended", reason="controllers_failed")
            raise

    def _reconcile(self, key: _Key) -> None:
        try:
            later = self._controllers[key.controller].reconcile(key.namespace, key.name)
            self._refused.pop(key, None)
        except StatusError as error:
            count = self._refused[key] = self._refused.get(key, 0) + 1
            later = min(_RETRY * 2 ** (count - 1), _LONGEST_RETRY)
            message = "the double of the %s controller was refused at %s/%s, and tries again in %g s: %s"
            logger.info(message, *key, later, error, reason="write_refused")
        if later is not None:
            self._add_timer(key, self._now() + max(later, _SHORTEST))

    def _add_timer(self, key: _Key, at: float) -> None:
        if at < self._due.get(key, float("inf")):
            self._due[key] = at
            heapq.heappush(self._timers, (at, len(self._timers), key))

    def _take_due(self) -> None:
        while self._timers and self._timers[0][0] <= self._now():
            at, _, key = heapq.heappop(self._timers)
            if self._due.get(key) == at:
                del self._due[key]
                self._queue.setdefault(key)
