"""The controller: turns changes of objects into calls of a reconcile function, one call at a time per object."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Self, Unpack

from kinformer._runtime.signatures import check_callback, options_of, shows_options
from kinformer.controller.metrics import ControllerMetrics, ControllerStatistics
from kinformer.controller.options import ControllerKeywords, ControllerOptions
from kinformer.controller.predicates import EventFilter
from kinformer.controller.reconcile import Reason, ReconcileFunction, Request, reconcile_name, request_key
from kinformer.controller.run import ControllerRun
from kinformer.controller.sources import ControllerSource, Mapper, has_clusters, keys_of_owners
from kinformer.exceptions import ConfigError
from kinformer.informer.collection import Collection, core_of
from kinformer.informer.informer import SharedInformer
from kinformer.objects.meta import GroupVersionResource
from kinformer.workqueue.delaying_queue import RateLimitingQueue
from kinformer.workqueue.rate_limiters import ExponentialFailureRateLimiter, RateLimiter

__all__ = ["Controller"]


class Controller:
    """Calls `reconcile` for each object that has changed, until it succeeds.

    ::

        async def reconcile(request: Request) -> Result | None:
            foo = foos.lister.get(request.name, namespace=request.namespace)
            ...

        controller = Controller(reconcile, workers=4).for_(foos).owns(deployments, "Foo")
        await controller.run()

    The guarantees: A key is never reconciled twice at once. Any number of changes during a reconcile cause one more run
    after it. The first list and resyncs wait behind live changes. A key that keeps failing waits longer each time. A
    key is not reconciled again before the caches have seen its own writes (at most 10 s, see `Request.wrote`).
    (controller-runtime, pkg/internal/controller/controller.go)

    Args:
        reconcile: A coroutine function of a `Request`, which returns None or a `Result`. If it raises, the error is
            logged, and the key is retried after the limiter's delay, or after the server's `Retry-After` if that is
            longer. TerminalError is not retried.
        workers: The maximum number of reconciles running at once, each for another key. 1 by default, which is safe
            for code that was not written for concurrency.
        rate_limiter: Chooses the delay before a failed key is retried. By default 5 ms, doubling to 1000 s, per key.
        timeout: Seconds for one reconcile, which is then cancelled and counts as failed. None (the default) sets no
            limit.
        shutdown_timeout: Seconds that running reconciles have to end when `run` is cancelled, before they are cancelled
            too. 5 by default.
        max_staleness: Seconds, at least 4. A reconcile waits while a cache of its informers was last proved to be
            current longer ago (see `SharedInformer.confirm`). The informers prove themselves at half of that age, with
            a LIST of one object, and on a quiet resource a watch of 3 s. None (the default) requests nothing.
        name: The name in logs and metrics, which must be unique. By default, the name of the reconcile function.
        metrics: A sink. None exports nothing.
        debounce: Seconds for which a trigger waits for more triggers of the same key, counted from the first one, so
            that a key that changes constantly is not delayed forever. 0 by default: no wait.

    Raises:
        ConfigError: An option is invalid. The message names it.
        TypeError: `reconcile` cannot be called with a request.
    """

    runs_in_every_replica = False
    """Constant: a manager with an elector runs it only while this replica leads."""

    own_informers: tuple[SharedInformer, ...] = ()
    """Constant: its informers are entered and exited elsewhere, such as by a factory."""

    @shows_options(ControllerOptions)
    def __init__(self, reconcile: ReconcileFunction, **keywords: Unpack[ControllerKeywords]) -> None:
        self._options = options = options_of(ControllerOptions, "Controller", keywords)
        self.name = reconcile_name(reconcile) if options.name is None else options.name
        check_callback(reconcile, "reconcile", "request", f"controller {self.name}")
        self.reconcile = reconcile
        """The function passed to the controller. Call it with a `Request` to test it alone."""
        self._limiter: RateLimiter[str] = (
            ExponentialFailureRateLimiter() if options.rate_limiter is None else options.rate_limiter
        )
        self._metrics = ControllerMetrics(self.name, options.metrics)
        self._sources: list[ControllerSource] = []
        self._main: Collection | None = None
        self._run: ControllerRun | None = None
        self._abandoned: dict[str, asyncio.Task[None]] = {}  # reconciles that outlived their run

    # --- sources ------------------------------------------------------------------------------------------

    def for_(self, informer: Collection, predicate: EventFilter | None = None) -> Self:
        """Reconcile the objects of this informer: each change of an object triggers its key.

        Args:
            informer: The informer of the controller's main resource, or a derived collection. Each controller has one.
            predicate: Chooses the events that trigger. None is all of them. See `kinformer.controller.predicates`.

        Raises:
            ConfigError: The controller already has a main informer.
            RuntimeError: The controller is running.
            TypeError: `predicate` cannot be called with an event.
        """
        if self._main is not None:
            raise ConfigError(
                f"controller {self.name} already has the main informer {self._main.name}; use watches() for others"
            )
        self._add_source(ControllerSource(informer, None, predicate))
        self._main = informer
        return self

    def owns(self, informer: Collection, owner_kind: str, predicate: EventFilter | None = None) -> Self:
        """Reconcile the owner of an object when the object changes: the owner whose reference has `controller: true`.

        Args:
            informer: The informer of the owned resource. It may be metadata_only.
            owner_kind: `"Deployment"` in the group of the resource of `for_`, `"apps/Deployment"` or
                `"apps/v1/Deployment"` in any version of that group, `"v1/Service"` in the core group.
            predicate: Chooses the events that trigger. None is all of them.

        Raises:
            ConfigError: `owner_kind` is not a valid kind. If it is the name of a resource, the message has its kind.
            RuntimeError: The controller is running.
            TypeError: `predicate` cannot be called with an event.
        """
        mapper = keys_of_owners(owner_kind, self._is_cluster_scoped, self._group)
        return self._add_source(ControllerSource(informer, mapper, predicate))

    def watches(self, informer: Collection, mapper: Mapper, predicate: EventFilter | None = None) -> Self:
        """Reconcile the keys that `mapper` returns for an object of this informer when that object changes.

        Args:
            informer: An informer of any resource, or a derived collection.
            mapper: A plain or coroutine function that maps an object to keys (`"namespace/name"`) or Requests. For an
                update it is called with both states. If this informer and the main one are unions, a key without a
                cluster gets the object's cluster. If it raises, the error is logged and counted, and the event triggers
                nothing.
            predicate: Chooses the events that trigger. None is all of them.

        Raises:
            RuntimeError: The controller is running.
            TypeError: `mapper` cannot be called with an object, or `predicate` with an event.
        """
        return self._add_source(ControllerSource(informer, mapper, predicate))

    def _add_source(self, source: ControllerSource) -> Self:
        if self._run is not None:
            raise RuntimeError(f"controller {self.name} is running; call for_, owns and watches before run()")
        owner = f"controller {self.name} on informer {source.informer.name}"
        if source.mapper is not None:
            check_callback(source.mapper, "mapper", "obj", owner)
        if source.predicate is not None:
            check_callback(source.predicate, "predicate", "event", owner, plain=True)
        self._sources.append(source)
        return self

    def _is_cluster_scoped(self) -> bool | None:
        if self._main is None:
            return None
        core = core_of(self._main)
        key = next(iter(self._main.by_key), None) if core is None else core.publisher.cache.any_key()
        if key is None:
            return None
        return key.count("//") == 1 if core is not None and core.has_members else "/" not in key

    def _group(self) -> str | None:
        """Return the group of the reconciled objects, or None if they are no resource."""
        core = core_of(self._main)
        informers = core.roots() if core is not None and core.has_members else []
        resource = getattr(informers[0].face if informers else self._main, "resource", None)
        return resource.group if isinstance(resource, GroupVersionResource) else None

    # --- running ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Reconcile until cancelled.

        Reconciles begin when all objects that the informers held at first have been queued. A cancelled `run` takes no
        new key, gives running reconciles `shutdown_timeout` seconds, cancels each of them once, and gives it 1 s for
        its `finally`. A second cancellation meanwhile cancels them at once. Within `LeaderElector.leading()`, no
        reconcile starts once the lead is lost, and none is waited for. A controller can run again. If a reconcile has
        ignored its cancellation and is still running, its key then waits for it to end.

        Raises:
            ConfigError: The controller has no source.
            RuntimeError: The controller is running.
            StoppedError: One of its informers was exited. If the informer crashed, its error is raised instead.
            LeadershipLostError: The lead was lost.
        """
        if self._run is not None:
            raise RuntimeError(f"controller {self.name} is already running")
        if not self._sources:
            raise ConfigError(f"controller {self.name} has no sources; call for_, owns or watches first")
        queue: RateLimitingQueue[str] = RateLimitingQueue(self._limiter, name=self.name, metrics=self._options.metrics)
        self._run = run = ControllerRun(
            self.name, self.reconcile, self._sources, self._options, self._metrics, queue, self._abandoned
        )
        try:
            await run.run()
        finally:
            self._run = None
            self._abandoned = run.abandoned

    def trigger(self, request: str | Request) -> None:
        """Reconcile a key for the program's own reason: a webhook, a timer, a change outside the cluster.

        Args:
            request: A key, or a Request.

        Raises:
            RuntimeError: The controller is not running.
            ValueError: The key has more than one slash (more than two with a union), or a part of the Request has one.
        """
        if self._run is None:
            raise RuntimeError(f"controller {self.name} is not running; trigger it after run() has begun")
        key = request_key(request, clusters=has_clusters(self._sources))
        self._run.trigger(key, Reason("TRIGGER"))

    @property
    def synced(self) -> bool:
        """True if reconciles have begun: all objects that existed at first have been queued."""
        return self._run is not None and self._run.synced

    def statistics(self) -> ControllerStatistics:
        """Return the current figures."""
        run = self._run
        return ControllerStatistics(
            running=run is not None,
            synced=self.synced,
            active=0 if run is None else run.active,
            reconciles=dict(self._metrics.outcomes),
            queue=None if run is None else run.queue.statistics(),
            **self._metrics.counted(),
        )

    def not_ready_reason(self) -> str | None:
        """Return None: a controller that is not running may be waiting for the lead. See `ManagedController`."""
        return None

    def status_sections(self) -> Mapping[str, Mapping[str, object]]:
        """Return no sections, because the statistics are complete. See `ManagedController`."""
        return {}

    def __repr__(self) -> str:
        sources = ", ".join(source.informer.name for source in self._sources)
        return f"<Controller {self.name} on {sources or 'nothing'}: {'running' if self._run else 'not running'}>"
