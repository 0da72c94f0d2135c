"""The fleet: clusters that join and leave, as a mapping from name to client and factory, and unions over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Self, TypeVar, Unpack

from kinformer._runtime.life import Life
from kinformer._runtime.logs import get_logger
from kinformer._runtime.signatures import shows_options
from kinformer._runtime.tasks import wait_for_end
from kinformer.cache.indexer import Indexers
from kinformer.client.client import Client
from kinformer.connection.config import ClientKeywords
from kinformer.connection.refusals import Refusals
from kinformer.derived.short_forms import UnionCollection
from kinformer.derived.union_engine import AWAY_AFTER, check_member
from kinformer.derived.values import ValueIndexers
from kinformer.fleet.keeper import Cluster, ClusterHealth
from kinformer.fleet.kubeconfig import KubeconfigContexts, name_of_context
from kinformer.fleet.metrics import FleetMetrics
from kinformer.fleet.roster import FleetStatistics, Roster
from kinformer.fleet.secrets import SecretClusters
from kinformer.fleet.sources import ClusterSource, GivenClusters, WantedCluster
from kinformer.fleet.unions import FleetUnion, FleetUnions
from kinformer.informer.collection import Collection, Entered, core_of
from kinformer.informer.core import ProgramPart, leave_parts
from kinformer.informer.informer_key import InformerIdentity
from kinformer.informer.options import ResourceKeywords, ResourceOptions, shows_defaults
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject
from kinformer.processor.first_sync import FirstSync

__all__ = ["Fleet"]

T = TypeVar("T")

log = get_logger("kinformer.fleet")

_POLL = 2.0  # seconds between two checks of a kubeconfig


class Fleet(Entered, Mapping[str, Cluster]):
    """Clusters that join and leave: a mapping from name to `Cluster`, with its client and factory.

    ::

        async with Fleet.from_kubeconfig("clusters.yaml") as fleet:
            pods = fleet.union("v1/pods")
            await pods.wait_synced(30)
            pods.by_key.get("east/default/web-1")
            await fleet["east"].client.request("GET", "/version")

    The program adds and removes clusters with `add` and `remove`, or the fleet follows the contexts of a kubeconfig
    (`from_kubeconfig`) or Secrets in a hub cluster (`from_secrets`). The mapping has the connected clusters. A cluster
    whose configuration changes is reconnected: its objects stay until the new connection has listed them, and handlers
    get the differences. A cluster whose configuration cannot be read keeps the previous one.

    ``async with`` starts and stops it. Entering returns immediately. Exiting stops the unions, then the clusters,
    within one `shutdown_timeout`. A fleet may also be added to a factory or a `Manager`, which enters and exits it.

    Args:
        clusters: Name to a client that has not been entered, or to a function that creates one. The fleet enters and
            closes it. With a function, a failed connection is retried. (`from_kubeconfig` and `from_secrets` pass a
            source.)
        name: The name in the log and errors, and in the names of unions.
        away_after: Seconds after which a cluster that cannot be connected, or whose requests fail, no longer delays the
            first sync of unions.
        **defaults: Options of the factories. See `SharedInformerFactory`.

    Raises:
        ConfigError: The name of a cluster is empty or has a slash, or an option does not exist.
    """

    @shows_defaults
    def __init__(
        self,
        clusters: Mapping[str, Client | Callable[[], Client]] | ClusterSource | None = None,
        *,
        name: str = "fleet",
        away_after: float = AWAY_AFTER,
        **defaults: Unpack[ResourceKeywords],
    ) -> None:
        if isinstance(clusters, ClusterSource):
            source: ClusterSource = clusters
        else:
            for cluster in clusters or ():
                check_member(cluster)
            source = GivenClusters(clusters or {})
        self.name = name
        self._options = ResourceOptions.of(defaults)
        self._away_after = away_after
        self._unions = FleetUnions()
        self._roster = Roster(name, source, defaults, away_after, self._unions)
        self._metrics = FleetMetrics(lambda: self._options.metrics or source.metrics, self)
        life = Life(
            name,
            start=self._start,
            finish=self._finish,
            refuse_inside=lambda _: self._refuse_leaving(),
            shutdown_timeout=self._options.shutdown_timeout,
        )
        sync = FirstSync(
            name,
            self._first_sync,
            is_done=lambda: self.has_synced,
            reason=self._unsynced_reason,
            errors=self._unsynced_errors,
            refusals=self._refusals,
            log=log,
        )
        self._core = ProgramPart(name, life, sync)

    @classmethod
    @shows_defaults
    def from_kubeconfig(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        cluster_of: Callable[[str], str | None] = name_of_context,
        client_options: ClientKeywords | None = None,
        name: str = "fleet",
        away_after: float = AWAY_AFTER,
        **defaults: Unpack[ResourceKeywords],
    ) -> Self:
        """Create a fleet of the contexts of a kubeconfig, and follow the file.

        Args:
            path: The file. None uses the files of KUBECONFIG, or else `~/.kube/config`. It need not exist yet.
            cluster_of: Returns the cluster name for a context, or None to leave it out. By default the context's own
                name, with `_` for each slash.
            client_options: Options of the clients. See `Client`.
            name, away_after, **defaults: See `Fleet`, except for `poll`: the seconds between two checks of the file,
                2 by default.
        """
        poll = defaults.pop("poll", None) or _POLL
        contexts = KubeconfigContexts(
            path, cluster_of=cluster_of, poll=poll, client_options=client_options or ClientKeywords()
        )
        return cls(contexts, name=name, away_after=away_after, **defaults)

    @classmethod
    @shows_defaults
    def from_secrets(
        cls,
        secrets: Collection,
        *,
        key: str = "kubeconfig",
        cluster_of: Callable[[KubeObject], str | None] = lambda secret: secret.name,
        trusted: bool = False,
        client_options: ClientKeywords | None = None,
        name: str = "fleet",
        away_after: float = AWAY_AFTER,
        **defaults: Unpack[ResourceKeywords],
    ) -> Self:
        """Create a fleet of Secrets in a hub cluster, each with a kubeconfig, and follow them.

        ::

            secrets = hub_factory.for_resource("v1/secrets", namespace="fleet", label_selector="cluster=true")
            fleet = Fleet.from_secrets(secrets)

        Args:
            secrets: The Secrets: an informer, or a collection derived from one. It must be entered before the fleet and
                exited after it.
            key: The key of the kubeconfig in `data`. Cluster API uses `"value"`.
            cluster_of: Returns the cluster name for a Secret, or None to leave it out.
            trusted: True to accept kubeconfigs that name files of this machine, or programs to run, such as credential
                plugins. False refuses them, because anyone who may write such a Secret could read files and run
                programs here.
            client_options: Options of the clients. See `Client`.
            name, away_after, **defaults: See `Fleet`.
        """
        clusters = SecretClusters(
            secrets, key=key, cluster_of=cluster_of, trusted=trusted, client_options=client_options or ClientKeywords()
        )
        return cls(clusters, name=name, away_after=away_after, **defaults)

    # --- the mapping ------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Cluster:
        cluster = self._roster.open[name].cluster
        if cluster is None:
            raise KeyError(name)
        return cluster

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._roster.open))

    def __len__(self) -> int:
        return len(self._roster.open)

    def __bool__(self) -> bool:
        return True  # an empty fleet is truthy

    # --- life -------------------------------------------------------------------------------------

    @property
    def shutdown_timeout(self) -> float:
        """Seconds that exiting may take before tasks are cancelled."""
        timeout: float = self._core.life.shutdown_timeout
        return timeout

    def _start(self) -> None:
        for union in self._unions.requested:
            self._unions.begin(union, self._roster)
        self._roster.start()
        self._metrics.start()

    async def _finish(self, deadline: float) -> None:
        """Stop following, then stop the unions, then the clusters."""
        try:
            await self._roster.stop_following()
            self._unions.end_joining()
            await leave_parts([union.core for union in reversed(self._unions.requested)], deadline=deadline)
        finally:
            self._metrics.close()
            await self._roster.leave_clusters(deadline)

    def _refuse_leaving(self) -> None:
        for union in self._unions.requested:
            union.core.life.refuse_leaving()
        self._roster.refuse_leaving()

    # --- clusters by the program ------------------------------------------------------------------

    async def add(self, name: str, client: Client | Callable[[], Client]) -> Cluster:
        """Connect a cluster, and return it. Its objects enter the unions as adds.

        Args:
            name: The name, not empty and without a slash.
            client: A client that has not been entered, or a function that creates one. The fleet enters and closes it.

        Raises:
            ConfigError: The name is taken or invalid, or the client cannot be entered.
            RuntimeError: The fleet has not been entered.
            StoppedError: The fleet was exited.
        """
        self._core.life.require_running("add")
        if not self._core.life.has_begun:
            raise RuntimeError(f"{self.name} has not been entered; add clusters while it is running")
        return await self._roster.add(name, WantedCluster.by_program(client))

    async def remove(self, name: str) -> None:
        """Disconnect a cluster, and wait until its informers and client end. Its objects leave the unions as deletes.

        Collections that fetch from the cluster find none of its objects any more.

        Raises:
            KeyError: There is no cluster with this name.
            ConfigError: The cluster is from the kubeconfig or a Secret that the fleet follows.
            RuntimeError: Called inside a handler of the cluster, which it would wait for. The cluster stays.
        """
        self._core.life.require_running("remove")
        await wait_for_end(self._roster.remove(name))

    # --- the first sync ---------------------------------------------------------------------------

    @property
    def has_synced(self) -> bool:
        """True once the first clusters are known, and each union has synced."""
        return self._roster.settled.is_open and all(union.collection.has_synced for union in self._unions.requested)

    async def wait_synced(self, timeout: float | None = None, *, fail_fast: bool | None = None) -> None:
        """Wait until `has_synced`, for the present unions. A cluster that is away does not delay this.

        Args:
            timeout: Seconds, or None to wait forever.
            fail_fast: Which refusals end the wait. See `SharedInformerFactory.wait_for_cache_sync`. By default these
                are only the hub's, since a cluster that refuses is away after `away_after`. True includes the clusters.

        Raises:
            NotSyncedError: `timeout` seconds have passed. The message has the reason.
            APIError: The server keeps refusing.
            StoppedError: The fleet was exited.
        """
        self._core.life.require_running("wait_synced")
        await self._core.sync.wait(timeout, fail_fast=fail_fast)

    async def _first_sync(self) -> None:
        await self._roster.settled.wait()
        for union in tuple(self._unions.requested):
            await union.core.sync.first()

    def _refusals(self, strict: bool) -> list[Refusals]:
        source = self._roster.source
        hub = core_of(source.secrets) if isinstance(source, SecretClusters) else None
        waits = [] if hub is None or hub.sync.is_done() else [hub]
        waits += [union.core for union in self._unions.requested if not union.core.sync.is_done()]
        return [refusals for core in waits for refusals in core.sync.refusals(strict)]

    def _unsynced_reason(self) -> str:
        waits = [union.core for union in self._unions.requested if not union.core.sync.is_done()]
        return "; ".join(f"{core.name}: {core.sync.reason()}" for core in waits) or self._roster.unsettled_reason()

    def _unsynced_errors(self) -> dict[str, BaseException | None]:
        return {name: health.last_error for name, health in self.health().items() if not health.live}

    # --- unions -----------------------------------------------------------------------------------

    @shows_options(ResourceOptions, unset="<the fleet's>")
    def union(
        self,
        resource: str | GroupVersionResource,
        *,
        indexers: Indexers | None = None,
        **options: Unpack[ResourceKeywords],
    ) -> UnionCollection[KubeObject]:
        """Return the union of a resource over all clusters, present and future. Equal requests share one union.

        Keys begin with the name of a cluster: `"east/default/web-1"`. The union is entered and exited with the fleet.

        Args:
            resource: See `SharedInformerFactory.for_resource`.
            indexers: Name to index function or JSON path, over the union.
            **options: Options of the informers, one for each cluster.

        Raises:
            ConfigError: An option does not exist, or differs from the existing union's.
            StoppedError: The fleet was exited.
        """
        self._core.life.require_running("union")
        gvr = GroupVersionResource.parse(resource)
        settings = ResourceOptions.of(options, self._options)
        identity = InformerIdentity.of(gvr, settings)
        for union in self._unions.requested:
            if union.options is not None and union.identity == identity:
                union.options.refuse_difference(gvr, settings)
                union.collection.add_indexers(dict(indexers or {}))
                union.holders += 1
                return union.collection
        make = partial(_informer_of, gvr, options)
        return self._added(
            FleetUnion(
                f"{gvr} of {self.name}",
                make,
                away_after=self._away_after,
                indexers=dict(indexers or {}),
                identity=identity,
                options=settings,
            )
        )

    def union_of(
        self, make: Callable[[Cluster], Collection[T]], *, name: str, indexers: ValueIndexers | None = None
    ) -> UnionCollection[T]:
        """Return a new union of the collections that a function returns for all clusters, present and future.

        ::

            def ready(cluster):
                pods = cluster.factory.for_resource("v1/pods")
                return cluster.factory.add(filtered(pods, is_pod_ready))

            fleet.union_of(ready, name="ready pods")

        Args:
            make: Returns a collection for a cluster. Add a derived one to the cluster's factory, as above.
            name: The name of the union.
            indexers: Name to index function or JSON path, over the union.

        Raises:
            StoppedError: The fleet was exited.
        """
        self._core.life.require_running("union_of")
        return self._added(FleetUnion(name, make, away_after=self._away_after, indexers=indexers))

    async def release(self, union: UnionCollection) -> None:
        """Give a union back. The last holder to do so ends it, and the informers that were created for it.

        Raises:
            ValueError: The fleet does not hold it, or it was released as often as it was requested.
            RuntimeError: The last holder called this inside a handler of the union, or of an informer that would end
                with it. The union stays.
        """
        self._core.life.require_running("release")
        held = next((held for held in self._unions.requested if held.collection is union), None)
        if held is None:
            raise ValueError(f"{union!r} is not held by {self.name}")
        if held.holders > 1:
            held.holders -= 1
            return
        life = held.core.life
        if life.has_begun:
            life.refuse_leaving()
            for cluster in self.values():
                held.refuse_release(cluster)
        self._unions.requested.remove(held)
        if held.joining is not None:
            held.joining.clear()
        if life.has_begun:
            await life.leave_in_time()
            for cluster in list(self.values()):
                await held.release(cluster)

    def _added(self, union: FleetUnion) -> UnionCollection:
        if self._core.life.has_begun:
            self._unions.begin(union, self._roster)
        self._unions.requested.append(union)
        return union.collection

    # --- reports ----------------------------------------------------------------------------------

    def health(self) -> dict[str, ClusterHealth]:
        """Return the health of each wanted cluster by name, including clusters that have failed."""
        return self._roster.health()

    @property
    def source_error(self) -> BaseException | None:
        """The error that prevents reading the kubeconfig or the Secrets at present, or None."""
        return self._roster.source_error

    def statistics(self) -> FleetStatistics:
        """Return counts of clusters that joined, left and failed."""
        return self._roster.statistics()

    def __repr__(self) -> str:
        return f"<Fleet {self.name}: {', '.join(self) or 'no cluster'}>"


def _informer_of(resource: GroupVersionResource, options: ResourceKeywords, cluster: Cluster) -> Collection:
    informer: Collection = cluster.factory.for_resource(resource, **options)
    return informer
