"""The controller: from changes to calls of a reconcile, one at a time for each object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from kinformer.controller.metrics import ControllerMetrics, ControllerStatistics
from kinformer.controller.reconcile import Reason, Request, request_key
from kinformer.controller.run import ControllerOptions, ControllerRun, Reconcile
from kinformer.controller.sources import ControllerSource, Mapper, keys_of_owners
from kinformer.exceptions import ConfigError
from kinformer.informer.informer import SharedInformer
from kinformer.metrics import Metrics
from kinformer.processor.event_stream import InformerEvent
from kinformer.workqueue.delaying_queue import RateLimitingQueue
from kinformer.workqueue.rate_limiters import ExponentialFailureRateLimiter, RateLimiter

__all__ = ["Controller"]

Filter = Callable[[InformerEvent], Any]


class Controller:
    """Calls `reconcile` for each object that something has happened to, until it succeeds.

    ::

        async def reconcile(request: Request) -> Result | None:
            foo = foos.lister.get(request.name, namespace=request.namespace)
            ...

        controller = Controller(reconcile, workers=4).for_(foos).owns(deployments, "Foo")
        await controller.run()

    What is promised: never two reconciles of one key at once; any number of changes during a reconcile are one more
    run after it; the first list and resyncs wait behind live changes; a key that fails waits longer each time; and
    a key is not reconciled again before the caches have seen what it wrote (at most 10 s; see `Request.wrote`).
    (controller-runtime, pkg/internal/controller/controller.go)

    Args:
        reconcile: A coroutine function of a `Request`. It returns None or a `Result`; what it raises is logged and
            tried again after the limiter's delay, or after the server's `Retry-After` where that is longer.
            TerminalError is not tried again.
        workers: Reconciles that may run at once, for different keys. 1, because a program that has not thought of
            more is right with that.
        rate_limiter: How long a key that failed waits; None: 5 ms, doubling to 1000 s, each key by itself.
        timeout: Seconds for one reconcile, which is cancelled then and counts as failed; None: no limit.
        shutdown_timeout: Seconds that reconciles under way have when `run` is cancelled, before they are.
        name: For the log and the metrics; default: the name of the function. Two controllers need two.
        metrics: A sink.
        debounce: Seconds for which a trigger waits for more of the same key; counted from the first, so that a key
            that changes all the time is not put off for ever. 0: not at all.

    Raises:
        ConfigError: An option that cannot work.
    """

    def __init__(
        self,
        reconcile: Reconcile,
        *,
        workers: int = 1,
        rate_limiter: RateLimiter | None = None,
        timeout: float | None = None,
        shutdown_timeout: float = 5,
        name: str | None = None,
        metrics: Metrics | None = None,
        debounce: float = 0.0,
    ) -> None:
        if not callable(reconcile):
            raise ConfigError(f"Controller({reconcile!r}): a coroutine function of a Request is needed")
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise ConfigError(f"Controller(workers={workers!r}): 1 at least")
        for option, value in (("timeout", timeout), ("shutdown_timeout", shutdown_timeout), ("debounce", debounce)):
            if value is not None and not value >= 0:
                raise ConfigError(f"Controller({option}={value!r}): seconds, 0 at least")
        self.name = str(getattr(reconcile, "__qualname__", type(reconcile).__qualname__)) if name is None else name
        self.reconcile = reconcile
        """The function that the controller was made with: call it with a `Request` to test it by itself."""
        self._options = ControllerOptions(
            name=self.name,
            workers=workers,
            timeout=timeout,
            shutdown_timeout=shutdown_timeout,
            debounce=debounce,
        )
        self._limiter: RateLimiter = ExponentialFailureRateLimiter() if rate_limiter is None else rate_limiter
        self._sink = metrics
        self._metrics = ControllerMetrics(self.name, metrics)
        self._sources: list[ControllerSource] = []
        self._main: SharedInformer | None = None
        self._run: ControllerRun | None = None
        self._own_write_waits = [0, 0]  # of earlier runs: waits, and those in vain

    # --- what it listens to -------------------------------------------------------------------------------

    def for_(self, informer: SharedInformer, predicate: Filter | None = None) -> Self:
        """Reconcile the objects of this informer: each change of one triggers its key.

        Args:
            informer: Of the resource that the controller is for; one for each controller.
            predicate: Which events count; see `kinformer.controller.predicates`. None: all.

        Raises:
            ConfigError: The controller is for another informer already.
            RuntimeError: The controller is running.
        """
        if self._main is not None:
            raise ConfigError(f"controller {self.name} is for {self._main.name} already; use watches() for others")
        self._add(ControllerSource(informer, None, predicate))
        self._main = informer
        return self

    def owns(self, informer: SharedInformer, owner_kind: str, predicate: Filter | None = None) -> Self:
        """Reconcile the owner when one of these objects changes: the one whose owner reference has `controller: true`.

        Args:
            informer: Of the owned resource; metadata_only is enough for it.
            owner_kind: `"Deployment"`, or `"apps/Deployment"` where several groups have that kind.
            predicate: Which events count; None: all.

        Raises:
            ConfigError: `owner_kind` is no kind.
            RuntimeError: The controller is running.
        """
        return self._add(ControllerSource(informer, keys_of_owners(owner_kind, self._is_cluster_scoped), predicate))

    def watches(self, informer: SharedInformer, mapper: Mapper, predicate: Filter | None = None) -> Self:
        """Reconcile whatever `mapper` says is concerned by a change of one of these objects.

        Args:
            informer: Of any resource.
            mapper: An object to keys (`"namespace/name"`) or Requests, plain or a coroutine function; of an update it
                is asked about both states. What it raises is logged and counted, and that event triggers nothing.
            predicate: Which events count; None: all.

        Raises:
            RuntimeError: The controller is running.
        """
        return self._add(ControllerSource(informer, mapper, predicate))

    def _add(self, source: ControllerSource) -> Self:
        if self._run is not None:
            raise RuntimeError(f"controller {self.name} is running; say what it listens to before")
        self._sources.append(source)
        return self

    def _is_cluster_scoped(self) -> bool | None:
        key = self._main.indexer.any_key() if self._main is not None else None
        return None if key is None else "/" not in key

    # --- life ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Reconcile until cancelled.

        Waits until all that the informers hold at first has been queued; then reconciles begin. Cancelled, it takes
        nothing new, gives the reconciles under way `shutdown_timeout` seconds, cancels each of them once, and gives
        it 1 s for its `finally`; cancelled a second time meanwhile, it cancels them at once. Within
        `LeaderElector.leading()` no reconcile starts once the lead is lost, and none is waited for. It can run again.

        Raises:
            ConfigError: It listens to nothing.
            RuntimeError: It is running.
            StoppedError: One of its informers was left; what that crashed of, if it crashed.
            LeadershipLostError: The lead was lost.
        """
        if self._run is not None:
            raise RuntimeError(f"controller {self.name} is running already")
        if not self._sources:
            raise ConfigError(f"controller {self.name} listens to nothing; use for_, owns or watches")
        queue: RateLimitingQueue[str] = RateLimitingQueue(self._limiter, name=self.name, metrics=self._sink)
        self._run = run = ControllerRun(
            self.reconcile, self._sources, self._options, self._limiter, self._metrics, queue
        )
        try:
            await run.run()
        finally:
            self._run = None
            self._own_write_waits[0] += run.own_writes.waits
            self._own_write_waits[1] += run.own_writes.timeouts

    def trigger(self, request: str | Request) -> None:
        """Reconcile a key for a reason of the program's own: a webhook, a timer, a change outside the cluster.

        Args:
            request: A key, or a Request.

        Raises:
            RuntimeError: The controller is not running.
            ValueError: No key.
        """
        if self._run is None:
            raise RuntimeError(f"controller {self.name} is not running")
        key = request_key(request.key if isinstance(request, Request) else request)
        self._run.trigger(key, Reason("TRIGGER"))

    @property
    def synced(self) -> bool:
        """Reconciles have begun: the queue holds, or has held, all that there was at first."""
        return self._run is not None and self._run.synced

    def statistics(self) -> ControllerStatistics:
        """The figures of this moment."""
        run, metrics = self._run, self._metrics
        waits, in_vain = self._own_write_waits
        return ControllerStatistics(
            running=run is not None,
            synced=self.synced,
            active=0 if run is None else run.active,
            reconciles=dict(metrics.outcomes),
            terminal_errors=metrics.terminal,
            timeouts=metrics.timeouts,
            source_errors=metrics.source_errors,
            own_write_waits=waits + (0 if run is None else run.own_writes.waits),
            own_write_timeouts=in_vain + (0 if run is None else run.own_writes.timeouts),
            queue=None if run is None else run.queue.statistics(),
        )

    def __repr__(self) -> str:
        sources = ", ".join(source.informer.name for source in self._sources)
        return f"<Controller {self.name} on {sources or 'nothing'}: {'running' if self._run else 'not running'}>"
