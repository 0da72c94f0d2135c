"""A controller whose work is shared by several replicas, each of which holds a part of the resource alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from kinformer._runtime.cancellation import ShieldedExitStack
from kinformer._runtime.clock import SYSTEM, Clock
from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import Tasks
from kinformer.controller.controller import Controller
from kinformer.controller.metrics import ControllerStatistics
from kinformer.controller.reconcile import Request, Result
from kinformer.exceptions import ConfigError
from kinformer.informer.informer import SharedInformer
from kinformer.leaderelection.leader_election import default_identity
from kinformer.leaderelection.lease import LeaseTimes
from kinformer.list_watcher import ListerWatcher, ListOptions
from kinformer.listwatch.list_watch import ListWatch
from kinformer.listwatch.wrapper import ListerWatcherWrapper
from kinformer.metrics import Metrics
from kinformer.objects.meta import GroupVersionResource
from kinformer.reflector.reflector import Reflector
from kinformer.sharding.feed import ShardFeed
from kinformer.sharding.gate import ShardGate, ShardLostError, Verdict
from kinformer.sharding.ledger import ShardLedger
from kinformer.sharding.membership import ShardMembership, ShardMembershipHealth
from kinformer.sharding.metrics import ShardFigures, ShardMetrics
from kinformer.sharding.source import ShardSource, controller_uid
from kinformer.workqueue.rate_limiters import RateLimiter

__all__ = ["ShardedController"]

log = get_logger("kinformer.sharding")

Reconcile = Callable[[Request], Awaitable[Result | None]]

_LOOK = 50e-6  # seconds for each object of a share, all of which wait: to look again takes less than half of that
_GONE_FOR = 60.0  # seconds for which a reconcile may clean up behind an object that is gone
_READABLE = 52  # characters of a default group: with a hash of ten and what parts them 63, the most that a label takes


class _Cache(NamedTuple):
    """An informer that reconciles read, with the source that is cut down to the share."""

    source: ShardSource
    informer: SharedInformer

    @property
    def settled(self) -> bool:
        """The cache holds all that is in the slots of now, or will never hold anything."""
        if self.informer.optional and self.informer.health().state == "absent":
            return True
        return self.source.settled and self.informer.lists_applied


class ShardedController:
    """A `Controller` of which N replicas run, each for its share of the objects.

    ::

        controller = ShardedController(reconcile, client, "example.com/v1/widgets", namespace="prod")
        deployments = controller.owns("apps/v1/deployments", "Widget")
        await controller.run()                  # in each replica

    Objects are shared out by the hash of their uid, in 256 slots; a replica's Lease says which of them it holds. Each
    replica keeps its own share of the resource in `informer` (asked for from the server where that can filter, and
    checked here in any case), what its objects own in the informers that `owns` returned, and of everything else the
    name and uid alone.

    What is promised beside a Controller's own promises: a key has never two owners at once, whoever joins, leaves,
    crashes, or is stopped and goes on; also when an object is deleted and made again under its name. Reconciles of a
    share that goes to somebody else have `shutdown_timeout` seconds to end, then they are cancelled, and only then is
    it given away. When the right to a share has lapsed, its reconciles are cancelled at once, and what they ask of the
    client is not sent (ShardLostError). What no client can exclude stands in docs/sharding.md.

    Args:
        reconcile: As for a `Controller`. The object of a request may be gone; it is cleaned up behind for 60 s at
            most, so what must be cleaned up needs a finalizer.
        client: Entered by the caller, and not closed here.
        resource: What is shared out.
        namespace: Of the objects; None: all.
        label_selector, field_selector: Of the objects, on the server.
        lease_namespace: Where the replicas' Leases are; default: `namespace`, else the client's.
        group: What the replicas have in common, and no others in that namespace: the beginning of their Leases' names.
            Default: the resource, and a hash of it with `namespace`, the selectors and `name`. Replicas that
            differ in one of these take no notice of each other, also in a rolling update.
        identity: Of this replica; no two may have the same. Default: host name and a random part.
        lease_duration, renew_deadline, retry_period: As for a `LeaderElector`.
        workers, rate_limiter, timeout, shutdown_timeout, name, debounce: As for a `Controller`.
        metrics: A sink, for the controller, its informers, and how the share stands (`kinformer_shard_*`).
        informer: Further options for the share's informer, as `SharedInformer` has them (`indexers`, `transform`).
        source: Makes a `ListerWatcher` of a resource and `metadata_only`, in place of a `ListWatch` on the client.
        clock: Whose `boot` and `wall` are read.

    Raises:
        ConfigError: An option that cannot work.

    Attributes:
        informer: The share: its lister and indexes hold this replica's objects alone.
        membership: Who takes part, and which slots are ours.
    """

    def __init__(
        self,
        reconcile: Reconcile,
        client: Any,
        resource: str | GroupVersionResource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        lease_namespace: str | None = None,
        group: str | None = None,
        identity: str | None = None,
        lease_duration: float = 15,
        renew_deadline: float = 10,
        retry_period: float = 2,
        workers: int = 1,
        rate_limiter: RateLimiter | None = None,
        timeout: float | None = None,
        shutdown_timeout: float = 5,
        name: str | None = None,
        metrics: Metrics | None = None,
        debounce: float = 0.0,
        informer: Mapping[str, Any] | None = None,
        source: Callable[[GroupVersionResource, bool], ListerWatcher] | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self._resource = gvr = GroupVersionResource.parse(resource)
        times = _lease_times(lease_duration, renew_deadline, retry_period, shutdown_timeout)
        self._user = reconcile
        self._poll = retry_period / 4
        self._source = source or _sources(client, gvr, namespace, label_selector, field_selector)
        self._sources = [ShardSource(self._source(gvr, False))]
        self._options: dict[str, Any] = {} if metrics is None else {"metrics": metrics}
        self.informer = SharedInformer(self._sources[0], name=str(gvr), **{**self._options, **(informer or {})})
        self._owned: dict[GroupVersionResource, _Cache] = {}
        self._controller = Controller(
            self._reconcile,
            workers=workers,
            rate_limiter=rate_limiter,
            timeout=timeout,
            shutdown_timeout=shutdown_timeout,
            name=name or str(getattr(reconcile, "__qualname__", type(reconcile).__qualname__)),
            metrics=metrics,
            debounce=debounce,
        ).for_(self.informer)
        self._gate = self._new_gate(shutdown_timeout, clock)
        self.membership = ShardMembership(
            client,
            namespace=lease_namespace or namespace or client.namespace,
            group=group or _group_of(gvr, namespace, label_selector, field_selector, self.name),
            identity=identity or default_identity(),
            work=self._gate,
            times=times,
            clock=clock,
        )
        self._metrics = ShardMetrics(metrics, self.name, self._figures)
        self._tasks = Tasks(self._crashed)
        self._following: list[asyncio.Task[Any]] = []
        self._feed: ShardFeed | None = None
        self._end: asyncio.Future[None] | None = None

    def _new_gate(self, grace: float, clock: Clock) -> ShardGate:
        return ShardGate(
            sources=self._sources,
            settled=lambda: all(
                one.settled for one in (_Cache(self._sources[0], self.informer), *self._owned.values())
            ),
            has=lambda slot: self.membership.has(slot),
            cached_uid=self._cached_uid,
            hurry=lambda: self.membership.hurry(),
            trigger=self._trigger,
            restart=self._follow,
            confirm=self._confirm,
            grace=grace,
            gone_for=_GONE_FOR,
            clock=clock,
        )

    def owns(self, resource: str | GroupVersionResource, owner_kind: str, **options: Any) -> SharedInformer:
        """Reconcile the owner when what it owns changes.

        Args:
            resource: The owned one. No server can filter it by its owner, so all of it comes over the wire and what
                belongs to others is dropped here.
            owner_kind: `"Widget"`, or `"example.com/Widget"`.
            options: Of `SharedInformer`.

        Returns:
            The informer of what this replica's objects own: the objects whose controlling owner's uid is in a slot of
            ours. It is entered and left by `run`.

        Raises:
            ConfigError: This resource is owned already.
        """
        gvr = GroupVersionResource.parse(resource)
        if gvr in self._owned:
            raise ConfigError(f"{gvr} is owned already")
        source = ShardSource(self._source(gvr, False), uid_of=controller_uid)
        informer = SharedInformer(source, name=str(gvr), **{**self._options, **options})
        self._owned[gvr] = _Cache(source, informer)
        self._sources.append(source)
        self._controller.owns(informer, owner_kind)
        return informer

    # --- reconciles -------------------------------------------------------------------------------------------

    def _cached_uid(self, key: str) -> str | None:
        obj = self.informer.indexer.get_by_key(key)
        return None if obj is None else obj.uid

    def trigger(self, request: str | Request) -> None:
        """Reconcile a key for a reason of the program's own, if it is ours; see `Controller.trigger`."""
        self._controller.trigger(request)

    def _trigger(self, key: str) -> None:
        if self._controller.statistics().running:
            self._controller.trigger(key)

    async def _reconcile(self, request: Request) -> Result | None:
        admission = self._gate.admit(request.key)
        if admission.verdict is Verdict.LATER:
            return Result(requeue_after=self._poll)
        if admission.verdict is Verdict.FRESH:
            return Result(requeue_after=max(self._poll, _LOOK * len(self.informer.lister)))
        if admission.verdict is Verdict.SKIP:
            return None
        try:
            return await self._gate.work(request.key, admission, _called(self._user, request))
        except ShardLostError as error:
            log.info("%s", error, reason=error)
            return Result(requeue_after=self._poll)  # by then it is known whose it is; perhaps ours again

    # --- life -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take part until cancelled; then reconciles end as a Controller's do, and the share is given back.

        Raises:
            RuntimeError: It ran before; make a new one.
            Exception: What an informer, the ledger or the membership crashed of.
        """
        if self._end is not None:
            raise RuntimeError(f"{self!r} runs once; make a new one")
        self._end = asyncio.get_running_loop().create_future()
        async with ShieldedExitStack() as stack:
            self._metrics.open()
            stack.callback(self._metrics.close)
            for informer in self.informers:
                await stack.enter_async_context(informer)
            # Left in the opposite order: reconciles end, the share is given back, the informers stop.
            stack.push_async_callback(self._tasks.cancel)
            membership = self._tasks.start(self.membership.run(), f"kinformer sharding {self.membership.group}")
            # Cancelled once, and waited for: its requests have limits of their own.
            stack.push_async_callback(_ended, membership)
            controller = self._tasks.start(self._controller.run(), f"kinformer sharded {self._controller.name}")
            stack.push_async_callback(_ended, controller)
            await self._end

    def _follow(self, ledger: ShardLedger) -> None:
        for task in self._following:
            task.cancel()
        source, feed = _Newest(self._source(self._resource, True)), ShardFeed(ledger)
        self._feed = feed
        reflector = Reflector(source, feed, name=f"{self._resource} (ledger)", watch_list=False)
        self._following = [
            self._tasks.start(feed.run(), f"kinformer ledger of {self._resource}"),
            self._tasks.start(reflector.run(), f"kinformer reflector of the ledger of {self._resource}"),
        ]

    def _confirm(self, seen: int | None, asked: float, forget_after: float) -> None:
        if self._feed is not None:
            self._feed.confirm(seen, asked, forget_after)

    def _crashed(self, task: str, error: BaseException) -> None:
        log.error("%s ended by %s: %s", task, type(error).__name__, error, reason=error)
        if self._end is not None and not self._end.done():
            self._end.set_exception(error)

    # --- figures ----------------------------------------------------------------------------------------------

    def health(self) -> ShardMembershipHealth:
        """How the membership stands; for the caches see the informers' own."""
        return self.membership.health()

    @property
    def name(self) -> str:
        """What the log and the metrics call it."""
        return self._controller.name

    @property
    def informers(self) -> tuple[SharedInformer, ...]:
        """The share's, and those of what it owns."""
        return (self.informer, *(one.informer for one in self._owned.values()))

    @property
    def synced(self) -> bool:
        """Reconciles have begun."""
        return self._controller.synced

    @property
    def dropped(self) -> int:
        """Objects and events of the resource that came and were not of our slots: 0 where the server filters."""
        return self._sources[0].dropped

    def _figures(self) -> ShardFigures:
        ledger = self._gate.ledger
        return ShardFigures(self.health(), self.dropped, len(ledger), len(ledger.doubts))

    def statistics(self) -> ControllerStatistics:
        """The controller's figures; a key that is not ours counts as a success."""
        return self._controller.statistics()

    def __repr__(self) -> str:
        return (
            f"<ShardedController {self.membership.identity} of {self.membership.group}: {len(self._gate.open)} slots>"
        )


def _lease_times(duration: float, deadline: float, period: float, shutdown: float) -> LeaseTimes:
    if shutdown >= deadline:
        raise ConfigError(
            f"ShardedController(shutdown_timeout={shutdown!r}): below renew_deadline={deadline!r}, "
            "or a share lapses while it is being given away"
        )
    return LeaseTimes(duration, deadline, period)


def _group_of(resource: GroupVersionResource, *others: str | None) -> str:
    """Another one for every other controller; short enough for a label's value, and fit to begin a Lease's name.

    Without the version: whatever it is, the objects are the same.
    """
    text = f"{resource.resource}.{resource.group}".rstrip(".")
    digest = blake2b(repr((text, *others)).encode(), digest_size=5).hexdigest()
    return f"{text[:_READABLE].rstrip('.-')}-{digest}"


def _sources(
    client: Any,
    shared: GroupVersionResource,
    namespace: str | None,
    label_selector: str | None,
    field_selector: str | None,
) -> Callable[[GroupVersionResource, bool], ListerWatcher]:
    """What makes the sources; the selectors are for the resource that is shared."""

    def source(resource: GroupVersionResource, metadata_only: bool) -> ListerWatcher:
        if resource != shared:
            return ListWatch(client, resource, namespace=namespace, metadata_only=metadata_only)
        return ListWatch(
            client,
            resource,
            namespace=namespace,
            metadata_only=metadata_only,
            label_selector=label_selector,
            field_selector=field_selector,
        )

    return source


async def _called(reconcile: Reconcile, request: Request) -> Result | None:
    return await reconcile(request)


async def _ended(task: asyncio.Task[Any]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait({task})


class _Newest(ListerWatcherWrapper):
    """A source whose lists are the newest: what a cache of the server holds may be older than our membership."""

    async def list(self, options: ListOptions) -> Any:
        """A page of what there is now."""
        if options.resource_version == "0":
            options = options.replace(resource_version=None)
        return await self._inner.list(options)

    def watch(self, options: ListOptions) -> Any:
        """As the inner source's."""
        return self._inner.watch(options)
