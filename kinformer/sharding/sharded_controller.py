"""A controller whose work is shared by several replicas, each of which alone holds a part of the resource.

Experimental: its names, options and figures may change in any release.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Unpack

from kinformer._runtime.cancellation import ShieldedExitStack
from kinformer._runtime.logs import get_logger
from kinformer._runtime.signatures import check_callback, keywords_of, options_of
from kinformer._runtime.tasks import Tasks
from kinformer.client.client import Client
from kinformer.controller.controller import Controller
from kinformer.controller.managed import health_fields
from kinformer.controller.metrics import ControllerStatistics
from kinformer.controller.options import ControllerKeywords
from kinformer.controller.reconcile import ReconcileFunction, Request, Result, reconcile_name
from kinformer.exceptions import ConfigError, ShardLostError, kind_of
from kinformer.informer.informer import SharedInformer
from kinformer.leaderelection.leader_election import default_identity
from kinformer.list_watcher import ListerWatcher
from kinformer.listwatch.list_watch import ListWatch
from kinformer.objects.meta import GroupVersionResource
from kinformer.sharding.caches import ShardCaches
from kinformer.sharding.feed import LedgerFollower
from kinformer.sharding.gate import ShardGate, Verdict
from kinformer.sharding.membership import ShardMembership, ShardMembershipHealth
from kinformer.sharding.metrics import ShardFigures, ShardMetrics
from kinformer.sharding.options import ShardingKeywords, ShardingOptions, ShareInformerKeywords, SourceFactory
from kinformer.sharding.source import ShardSource, controller_uid

__all__ = ["ShardedController"]

log = get_logger("kinformer.sharding")

_RETRY_PER_OBJECT = 50e-6  # seconds of delay per object of a waiting share: a retry takes less than half of it
_GONE_FOR = 60.0  # seconds for which a reconcile may clean up after a deleted object
_READABLE = 52  # characters of a default group: with a dash and a hash of ten, it has 63, the maximum of a label


class ShardedController:
    """A `Controller` that runs in several replicas, each for its share of the objects. Experimental.

    ::

        controller = ShardedController(reconcile, client, "example.com/v1/widgets", namespace="prod")
        deployments = controller.owns("apps/v1/deployments", "Widget")
        await controller.run()                  # in each replica

    Objects are assigned to 256 slots by the hash of their uid. A replica's Lease shows which slots it holds. Each
    replica caches its own share of the resource in `informer` (filtered by the server if possible, and checked here in
    any case), and the objects that its objects own in the informers returned by `owns`. Of everything else, it keeps
    only the name and uid.

    The guarantees, in addition to a Controller's: a key never has two owners at once, even if replicas join, leave,
    crash, or are suspended and resumed, and even if an object is deleted and created again with the same name.
    Reconciles of slots that go to another replica have `shutdown_timeout` seconds to end. Then they are cancelled, and
    only after that are the slots given away. If the right to the slots lapses, the reconciles are cancelled
    immediately, and their requests are not sent (ShardLostError). docs/sharding.md lists the cases that no client can
    exclude.

    Args:
        reconcile: As for a `Controller`. The object of a request may be gone. A reconcile may clean up after it for at
            most 60 s, so use a finalizer if something must be cleaned up.
        client: Entered by the caller, and not closed here.
        resource: The resource to share.
        namespace: The namespace of the objects, or None for all.
        label_selector, field_selector: Select the objects, on the server. None selects all.
        lease_namespace: The namespace of the replicas' Leases. By default `namespace`, or else the client's.
        group: The prefix of the names of the replicas' Leases: the same in all replicas, and used for nothing else in
            that namespace. By default the resource, and a hash of it with `namespace`, the selectors and `name`.
            Replicas that differ in one of these ignore each other, also during a rolling update.
        identity: The unique name of this replica. By default the host name and a random part.
        informer: Options of the share's `SharedInformer`, such as `indexers` and `transform`.
        source: Creates a `ListerWatcher` from a resource and `metadata_only`. By default a `ListWatch` on the client.
        clock: Its `boot` measures the Lease, and its `wall` is written into it.
        workers, rate_limiter, timeout, shutdown_timeout, name, metrics, debounce: See `Controller`. `shutdown_timeout`
            must be below `renew_deadline`, or a share would lapse while it is being given away. `metrics` receives the
            figures of the controller, its informers, and the share (`kinformer_shard_*`).
        lease_duration, renew_deadline, retry_period: See `LeaderElector`.

    Raises:
        ConfigError: An option is invalid. The message names it.

    Attributes:
        informer: The informer of the share. Its lister and indexes hold only this replica's objects.
        membership: The living replicas, and the slots that this replica holds.
    """

    runs_in_every_replica = True
    """Constant: a manager runs it whether or not this replica leads."""

    def __init__(
        self,
        reconcile: ReconcileFunction,
        client: Client,
        resource: str | GroupVersionResource,
        **keywords: Unpack[ShardingKeywords],
    ) -> None:
        options = options_of(ShardingOptions, "ShardedController", keywords)
        options = replace(options, name=options.name or reconcile_name(reconcile))
        self._resource = gvr = GroupVersionResource.parse(resource)
        check_callback(reconcile, "reconcile", "request", f"controller {options.name}")
        self._user_reconcile = reconcile
        self._poll = options.retry_period / 4
        self._source = options.source or _list_watches(client, gvr, options)
        self._informer_defaults: ShareInformerKeywords = {} if options.metrics is None else {"metrics": options.metrics}
        informer: ShareInformerKeywords = {**self._informer_defaults, **(options.informer or {})}
        source = ShardSource(self._source(gvr, False))
        self.informer = SharedInformer(source, name=str(gvr), **informer)
        self._caches = ShardCaches(source, self.informer)
        self._owned: set[GroupVersionResource] = set()
        self._controller = Controller(self._reconcile, **keywords_of(options, ControllerKeywords)).for_(self.informer)
        self._tasks = Tasks(self._task_crashed)
        self._gate = ShardGate(
            caches=self._caches,
            follower=LedgerFollower(gvr, self._source, self._tasks),
            has_slot=lambda slot: self.membership.has(slot),
            request_heartbeat=lambda: self.membership.request_heartbeat(),
            trigger=self._trigger_if_running,
            grace=options.shutdown_timeout,
            gone_for=_GONE_FOR,
            clock=options.clock,
        )
        self.membership = ShardMembership(
            client,
            namespace=options.lease_namespace or options.namespace or client.namespace,
            group=options.group or _default_group(gvr, options),
            identity=options.identity or default_identity(),
            work=self._gate,
            options=options,
            clock=options.clock,
        )
        self._metrics = ShardMetrics(options.metrics, self.name, self._figures)
        self._end: asyncio.Future[None] | None = None

    def owns(
        self, resource: str | GroupVersionResource, owner_kind: str, **options: Unpack[ShareInformerKeywords]
    ) -> SharedInformer:
        """Reconcile the owner when an object that it owns changes.

        Args:
            resource: The owned resource. No server can filter it by owner, so all of it is sent over the wire, and
                objects of other replicas are dropped here.
            owner_kind: `"Widget"`, or `"example.com/Widget"`.
            **options: Options of the `SharedInformer`.

        Returns:
            The informer of the objects that this replica's objects own: the controlling owner's uid is in one of its
            slots. `run` enters and exits it.

        Raises:
            ConfigError: `owns` was already called for this resource.
        """
        gvr = GroupVersionResource.parse(resource)
        if gvr in self._owned:
            raise ConfigError(f"{gvr} is already owned; call owns() once for each resource")
        source = ShardSource(self._source(gvr, False), uid_of=controller_uid)
        keywords: ShareInformerKeywords = {**self._informer_defaults, **options}
        informer: SharedInformer = SharedInformer(source, name=str(gvr), **keywords)
        self._owned.add(gvr)
        self._caches.add_owned(source, informer)
        self._controller.owns(informer, owner_kind)
        return informer

    # --- reconciles -------------------------------------------------------------------------------------------

    def trigger(self, request: str | Request) -> None:
        """Reconcile a key, if it is this replica's, for a reason other than an event. See `Controller.trigger`."""
        self._controller.trigger(request)

    def _trigger_if_running(self, key: str) -> None:
        if self._controller.statistics().running:
            self._controller.trigger(key)

    async def _reconcile(self, request: Request) -> Result | None:
        admission = self._gate.admit(request.key)
        if admission.verdict is Verdict.LATER:
            return Result(requeue_after=self._poll)
        if admission.verdict is Verdict.FRESH:
            return Result(requeue_after=max(self._poll, _RETRY_PER_OBJECT * len(self.informer.lister)))
        if admission.verdict is Verdict.SKIP:
            return None
        try:
            return await self._gate.reconcile(request.key, admission, _called(self._user_reconcile, request))
        except ShardLostError as error:
            log.info("%s", error, reason=error)
            return Result(requeue_after=self._poll)  # by then its owner is known, possibly this replica again

    # --- running ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take part until cancelled. Then reconciles end as in a Controller, and the slots are given back.

        Raises:
            RuntimeError: It ran before. Create a new one.
            Exception: The error with which an informer, the ledger or the membership crashed.
        """
        if self._end is not None:
            raise RuntimeError(f"{self!r} can run only once; create a new one")
        self._end = asyncio.get_running_loop().create_future()
        async with ShieldedExitStack() as stack:
            self._metrics.open()
            stack.callback(self._metrics.close)
            for informer in self.informers:
                await stack.enter_async_context(informer)
            # Exited in reverse order: reconciles end, the slots are given back, the informers stop.
            stack.push_async_callback(self._tasks.cancel)
            membership = self._tasks.start(self.membership.run(), f"kinformer sharding {self.membership.group}")
            # Cancelled once, and then awaited, because its requests have timeouts of their own.
            stack.push_async_callback(_cancel_and_wait, membership)
            controller = self._tasks.start(self._controller.run(), f"kinformer sharded {self._controller.name}")
            stack.push_async_callback(_cancel_and_wait, controller)
            await self._end

    def _task_crashed(self, task: str, error: BaseException) -> None:
        log.error("%s ended with %s: %s", task, type(error).__name__, error, reason=error)
        if self._end is not None and not self._end.done():
            self._end.set_exception(error)

    # --- figures ----------------------------------------------------------------------------------------------

    def health(self) -> ShardMembershipHealth:
        """Return the state of the membership. For the caches, see the informers' own `health`."""
        return self.membership.health()

    @property
    def name(self) -> str:
        """The name in the log and the metrics."""
        return self._controller.name

    @property
    def informers(self) -> tuple[SharedInformer, ...]:
        """The informer of the share, and the informers of the objects that it owns."""
        return self._caches.informers

    @property
    def own_informers(self) -> tuple[SharedInformer, ...]:
        """All `informers`, because `run` enters and exits them. See `ManagedController`."""
        return self.informers

    @property
    def synced(self) -> bool:
        """True if reconciles have begun."""
        return self._controller.synced

    @property
    def dropped(self) -> int:
        """Objects and events of the resource received that are in none of the slots, so 0 if the server filters."""
        return self._caches.sources[0].dropped

    def _figures(self) -> ShardFigures:
        ledger = self._gate.ledger
        return ShardFigures(self.health(), self.dropped, len(ledger), len(ledger.doubts))

    def statistics(self) -> ControllerStatistics:
        """Return the controller's figures. A key of another replica counts as a success."""
        return self._controller.statistics()

    def not_ready_reason(self) -> str | None:
        """Return the reason why the replica does not take part, or None if it does. See `ManagedController`."""
        health = self.health()
        if not self.statistics().running:
            return "it has not been started"
        if not health.live:
            return kind_of(health.last_error) if health.last_error else f"its membership is {health.state}"
        return None

    def status_sections(self) -> Mapping[str, Mapping[str, object]]:
        """Return the state of the membership, in the section `shares`. See `ManagedController`."""
        return {"shares": health_fields(self.health())}

    def __repr__(self) -> str:
        return (
            f"<ShardedController {self.membership.identity} of {self.membership.group}: {len(self._gate.open)} slots>"
        )


def _default_group(resource: GroupVersionResource, options: ShardingOptions) -> str:
    """Return a group that is unique to the controller, fits into a label, and can be the prefix of a Lease's name.

    It leaves out the version, because the objects are the same in all versions.
    """
    name = f"{resource.resource}.{resource.group}".rstrip(".")
    others = (options.namespace, options.label_selector, options.field_selector, options.name)
    digest = blake2b(repr((name, *others)).encode(), digest_size=5).hexdigest()
    return f"{name[:_READABLE].rstrip('.-')}-{digest}"


def _list_watches(client: Client, shared: GroupVersionResource, options: ShardingOptions) -> SourceFactory:
    """Return a factory of sources on the client. The selectors apply only to the shared resource."""

    def source(resource: GroupVersionResource, metadata_only: bool) -> ListerWatcher:
        return ListWatch(
            client,
            resource,
            namespace=options.namespace,
            metadata_only=metadata_only,
            label_selector=options.label_selector if resource == shared else None,
            field_selector=options.field_selector if resource == shared else None,
        )

    return source


async def _called(reconcile: ReconcileFunction, request: Request) -> Result | None:
    return await reconcile(request)


async def _cancel_and_wait(task: asyncio.Task[None]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
