"""The fleet: clusters that come and go, as a mapping from name to client and factory, and unions over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Self, TypeVar, Unpack

from kinformer._runtime.life import FirstSync, Life
from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import wait_for_end
from kinformer.cache.indexer import Indexers
from kinformer.client.client import Client
from kinformer.client.config import ClientKeywords
from kinformer.derived.short_forms import UnionCollection
from kinformer.derived.union_engine import AWAY_AFTER, check_member
from kinformer.derived.values import ValueIndexers
from kinformer.fleet.keeper import Cluster, ClusterHealth
from kinformer.fleet.kubeconfig import KubeconfigContexts, name_of_context
from kinformer.fleet.metrics import FleetMetrics
from kinformer.fleet.roster import FleetStatistics, Roster
from kinformer.fleet.secrets import SecretClusters
from kinformer.fleet.sources import ClusterSource, GivenClusters, Wanted
from kinformer.fleet.unions import FleetUnion, FleetUnions
from kinformer.informer.collection import Collection, Entered
from kinformer.informer.core import Part
from kinformer.informer.informer_key import InformerIdentity
from kinformer.informer.options import ResourceKeywords, ResourceOptions
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject

__all__ = ["Fleet"]

T = TypeVar("T")

log = get_logger("kinformer.fleet")


class Fleet(Entered, Mapping[str, Cluster]):
    """Clusters that come and go: a mapping from name to `Cluster`, with its client and factory.

    ::

        async with Fleet.from_kubeconfig("clusters.yaml") as fleet:
            pods = fleet.union("v1/pods")
            await pods.wait_synced(30)
            pods.by_key.get("east/default/web-1")
            await fleet["east"].client.request("GET", "/version")

    The program changes it by `add` and `remove`; or it follows the contexts of a kubeconfig (`from_kubeconfig`), or
    Secrets in a hub cluster (`from_secrets`). The mapping has the clusters that are connected. A cluster whose
    configuration changes is connected anew: its objects stay until the new connection has listed them, and the
    differences are told. One whose configuration cannot be read goes on with the one before.

    ``async with`` starts and stops it; entering returns at once. Leaving leaves the unions, then the clusters, within
    one `shutdown_timeout`. A fleet may also be given to a factory or a `Manager`, which enters and leaves it.

    Args:
        clusters: From name to a client that has not been entered, or a function that makes one; the fleet enters and
            closes it. A cluster that cannot be connected is tried again if there is a function. (`from_kubeconfig` and
            `from_secrets` pass what they follow.)
        name: For the log, errors and the names of unions.
        away_after: Seconds after which a cluster that cannot be connected, or whose requests fail, no longer holds up
            the first sync of unions.
        **defaults: Options of the factories, as of `SharedInformerFactory`.

    Raises:
        ConfigError: The name of a cluster is empty or has a slash; an option does not exist.
    """

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
            log=log,
        )
        self._core = Part(name, life, sync)

    @classmethod
    def from_kubeconfig(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        cluster_of: Callable[[str], str | None] = name_of_context,
        poll: float = 2.0,
        client_options: ClientKeywords | None = None,
        name: str = "fleet",
        away_after: float = AWAY_AFTER,
        **defaults: Unpack[ResourceKeywords],
    ) -> Self:
        """Make a fleet of the contexts of a kubeconfig, which is followed.

        Args:
            path: The file; None: the files of KUBECONFIG, else `~/.kube/config`. It need not exist yet.
            cluster_of: Returns the name of the cluster of a context, or None to leave it out; by default the context's
                own name, with `_` for each slash.
            poll: Seconds between two looks at the file.
            client_options: Options of the clients: see `Client`.
            name, away_after, **defaults: See `Fleet`.
        """
        contexts = KubeconfigContexts(
            path, cluster_of=cluster_of, poll=poll, client_options=client_options or ClientKeywords()
        )
        return cls(contexts, name=name, away_after=away_after, **defaults)

    @classmethod
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
        """Make a fleet of Secrets in a hub cluster, each with a kubeconfig, which are followed.

        ::

            secrets = hub_factory.for_resource("v1/secrets", namespace="fleet", label_selector="cluster=true")
            fleet = Fleet.from_secrets(secrets)

        Args:
            secrets: The Secrets: an informer, or what is derived from one. It is entered before the fleet and left
                after it.
            key: The key of the kubeconfig in `data`; Cluster API has it under `"value"`.
            cluster_of: Returns the name of the cluster of a Secret, or None to leave it out.
            trusted: Kubeconfigs may name files of this machine, and programs to run, as credential plugins are. False:
                one that does is refused, because all who may write such a Secret would read files and run programs
                here.
            client_options: Options of the clients: see `Client`.
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
        return True  # a fleet without clusters is a fleet

    # --- life -------------------------------------------------------------------------------------

    @property
    def shutdown_timeout(self) -> float:
        """Seconds that leaving may take before tasks are cancelled."""
        timeout: float = self._core.life.shutdown_timeout
        return timeout

    def _start(self) -> None:
        for one in self._unions.each:
            self._unions.begin(one, self._roster)
        self._roster.start()
        self._metrics.start()

    async def _finish(self, deadline: float) -> None:
        """Follow nothing more, leave the unions, then the clusters."""
        try:
            await self._roster.stop_following()
            self._unions.end_joining()
            for one in reversed(self._unions.each):
                await one.core.life.leave(deadline)
        finally:
            self._metrics.close()
            await self._roster.leave_clusters(deadline)

    def _refuse_leaving(self) -> None:
        for one in self._unions.each:
            one.core.life.refuse_leaving()

    # --- clusters by the program ------------------------------------------------------------------

    async def add(self, name: str, client: Client | Callable[[], Client]) -> Cluster:
        """Connect a cluster, and return it; its objects come into the unions as adds.

        Args:
            name: Not empty, without a slash.
            client: One that has not been entered, or a function that makes one. The fleet enters and closes it.

        Raises:
            ConfigError: The name is taken or invalid; the client cannot be entered.
            RuntimeError: The fleet has not been entered.
            StoppedError: It has been left.
        """
        self._core.life.require_running("add")
        if not self._core.life.has_begun:
            raise RuntimeError(f"{self.name} has not been entered; clusters are added while it runs")
        return await self._roster.add(name, Wanted.by_program(client))

    async def remove(self, name: str) -> None:
        """Leave a cluster; its objects are told as deletes. Returns when its informers and its client have ended.

        Raises:
            KeyError: There is none of this name.
            ConfigError: It is of the kubeconfig or of a Secret that the fleet follows.
        """
        self._core.life.require_running("remove")
        await wait_for_end(self._roster.remove(name))

    # --- the first sync ---------------------------------------------------------------------------

    @property
    def has_synced(self) -> bool:
        """True once the first clusters are known, and each union has synced."""
        return self._roster.settled.is_open and all(one.union.has_synced for one in self._unions.each)

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Wait until `has_synced`, for the unions that there are now; a cluster that is away holds up nothing.

        Raises:
            NotSyncedError: `timeout` seconds have passed; the text says what is missing.
            StoppedError: The fleet has been left.
        """
        self._core.life.require_running("wait_synced")
        await self._core.sync.wait(timeout)

    async def _first_sync(self, fail_fast: bool) -> None:
        await self._roster.settled.wait()
        for one in tuple(self._unions.each):
            await one.core.sync.first(fail_fast)

    def _unsynced_reason(self) -> str:
        waits = [one.core for one in self._unions.each if not one.core.sync.is_done()]
        return "; ".join(f"{core.name}: {core.sync.reason()}" for core in waits) or self._roster.unsettled_reason()

    def _unsynced_errors(self) -> dict[str, BaseException | None]:
        return {name: health.last_error for name, health in self.health().items() if not health.live}

    # --- unions -----------------------------------------------------------------------------------

    def union(
        self,
        resource: str | GroupVersionResource,
        *,
        indexers: Indexers | None = None,
        **options: Unpack[ResourceKeywords],
    ) -> UnionCollection[KubeObject]:
        """Return the union of a resource of all clusters, also of those that come later; asking twice returns the same.

        Keys begin with the name of a cluster: `"east/default/web-1"`. It is entered and left with the fleet.

        Args:
            resource: As of `SharedInformerFactory.for_resource`.
            indexers: Name to index function or JSON path, over the union.
            **options: Of the informers, one for each cluster.

        Raises:
            ConfigError: An option that does not exist, or differs from what the union has.
            StoppedError: The fleet has been left.
        """
        self._core.life.require_running("union")
        gvr = GroupVersionResource.parse(resource)
        settings = ResourceOptions.of(options, self._options)
        identity = InformerIdentity.of(gvr, settings)
        for one in self._unions.each:
            if one.options is not None and one.identity == identity:
                one.options.refuse_difference(gvr, settings)
                one.union.add_indexers(dict(indexers or {}))
                one.holders += 1
                return one.union
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
        """Return a new union of what a function makes of each cluster, those included that come later.

        ::

            def ready(cluster):
                pods = cluster.factory.for_resource("v1/pods")
                return cluster.factory.add(filtered(pods, is_pod_ready))

            fleet.union_of(ready, name="ready pods")

        Args:
            make: Returns a collection of a cluster. A derived one is given to the cluster's factory, as above.
            name: Of the union.
            indexers: Name to index function or JSON path, over the union.

        Raises:
            StoppedError: The fleet has been left.
        """
        self._core.life.require_running("union_of")
        return self._added(FleetUnion(name, make, away_after=self._away_after, indexers=indexers))

    async def release(self, union: UnionCollection) -> None:
        """Give a union back. The last holder to do so ends it, and the informers that were made for it.

        Raises:
            ValueError: It is not of this fleet, or was released as often as it was asked for.
            RuntimeError: The last holder asks from inside one of its handlers; the union stays.
        """
        self._core.life.require_running("release")
        one = next((one for one in self._unions.each if one.union is union), None)
        if one is None:
            raise ValueError(f"{union!r} is not held by {self.name}")
        if one.holders > 1:
            one.holders -= 1
            return
        life = one.core.life
        if life.has_begun:
            life.refuse_leaving()
        self._unions.each.remove(one)
        if one.joining is not None:
            one.joining.clear()
        if life.has_begun:
            await life.leave_in_time()
            for cluster in list(self.values()):
                await one.release(cluster)

    def _added(self, one: FleetUnion) -> UnionCollection:
        if self._core.life.has_begun:
            self._unions.begin(one, self._roster)
        self._unions.each.append(one)
        return one.union

    # --- reports ----------------------------------------------------------------------------------

    def health(self) -> dict[str, ClusterHealth]:
        """Return the health of each cluster that there should be, by name; those that have failed are among them."""
        return self._roster.health()

    @property
    def source_error(self) -> BaseException | None:
        """Why the kubeconfig or the Secrets cannot be read at present; None if they can."""
        return self._roster.source_error

    def statistics(self) -> FleetStatistics:
        """Return what has come and gone."""
        return self._roster.statistics()

    def __repr__(self) -> str:
        return f"<Fleet {self.name}: {', '.join(self) or 'no cluster'}>"


def _informer_of(resource: GroupVersionResource, options: ResourceKeywords, cluster: Cluster) -> Collection:
    found: Collection = cluster.factory.for_resource(resource, **options)
    return found
