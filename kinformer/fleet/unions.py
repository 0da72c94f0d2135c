"""The unions of a fleet: collections by cluster name, whose members join and leave with the clusters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kinformer._runtime.tasks import OneByOne
from kinformer.derived.short_forms import UnionCollection
from kinformer.derived.union_engine import UnionEngine
from kinformer.derived.values import ValueIndexers
from kinformer.fleet.keeper import Cluster, ClusterKeeper
from kinformer.fleet.roster import Roster
from kinformer.informer.collection import Collection
from kinformer.informer.factory import refuse_release
from kinformer.informer.informer import SharedInformer
from kinformer.informer.informer_key import InformerIdentity
from kinformer.informer.options import ResourceOptions

__all__ = ["ClusterMember", "FleetUnion", "FleetUnions"]

ClusterMember = Callable[[Cluster], Collection]


class FleetUnion:
    """One union of a fleet.

    Args:
        name: The name of the collection.
        make: Creates the member for a cluster.
        identity, options: The identity and options of the informers, if the members are informers of a factory.

    Attributes:
        core: The core of the collection.
        collection: The collection.
        holders: The number of requests for the union that have not been released. The fleet counts them.
        joining: The clusters that were connected when the union was entered, and have not joined yet. None before
            `FleetUnions.begin`.
    """

    def __init__(
        self,
        name: str,
        make: ClusterMember,
        *,
        away_after: float,
        indexers: ValueIndexers | None = None,
        identity: InformerIdentity | None = None,
        options: ResourceOptions | None = None,
    ) -> None:
        self.core = UnionEngine(name, {}, away_after=away_after)
        self.collection: UnionCollection = UnionCollection(self.core, indexers=indexers)
        self.identity = identity
        self.options = options
        self.holders = 1
        self.joining: OneByOne[ClusterKeeper] | None = None
        self._make = make
        self._members: dict[str, Collection] = {}
        self._clusters: dict[str, Cluster] = {}

    def expect(self, reason: Callable[[], str] | None) -> None:
        """Make the first sync wait for members that are still to be added. `reason` returns why. None ends the wait."""
        self.core.expects = reason
        self.core.wake()

    def has(self, cluster: Cluster) -> bool:
        """True if there is a member for this cluster, as opposed to an earlier one with its name."""
        return self._clusters.get(cluster.name) is cluster

    def join(self, cluster: Cluster) -> None:
        """Add the member for a cluster, or replace an earlier one with the same name.

        Raises:
            Exception: The member could not be created. An earlier one stays.
        """
        member = self._make(cluster)
        if cluster.name in self.core.members:
            self.collection.replace(cluster.name, member)
        else:
            self.collection.add(cluster.name, member)
        self._members[cluster.name] = member
        self._clusters[cluster.name] = cluster

    def leave(self, name: str) -> None:
        """Remove the member of a cluster, if there is one. Its values leave as deletes."""
        self._members.pop(name, None)
        self._clusters.pop(name, None)
        if name in self.core.members:
            self.collection.remove(name)

    def refuse_release(self, cluster: Cluster) -> None:
        """Raise RuntimeError if `release` would wait for the caller, which is a handler of the member."""
        member = self._held_by(cluster)
        if member is not None:
            refuse_release(cluster.factory, member)

    async def release(self, cluster: Cluster) -> None:
        """Release the informer of a cluster, if the member is an informer of its factory."""
        member = self._held_by(cluster)
        self._members.pop(cluster.name, None)
        if member is not None:
            await cluster.factory.release(member)

    def _held_by(self, cluster: Cluster) -> SharedInformer | None:
        member = self._members.get(cluster.name)
        return member if self.identity is not None and isinstance(member, SharedInformer) else None


class FleetUnions:
    """The unions of a fleet, each of which is notified of every cluster that joins or leaves.

    Attributes:
        requested: The unions, in the order of the requests. The fleet adds and removes them.
    """

    def __init__(self) -> None:
        self.requested: list[FleetUnion] = []

    def begin(self, union: FleetUnion, roster: Roster) -> None:
        """Enter a union, and add the connected clusters one by one."""
        union.core.life.begin()
        union.expect(roster.unsettled_reason)
        add = partial(self._join_late, union, roster)
        union.joining = OneByOne(add, roster.tasks, f"kinformer fleet: clusters join {union.collection.name}")
        union.joining.add(list(roster.open.values()))
        self._expect(union, roster)

    def end_joining(self) -> None:
        """Add no more clusters."""
        for union in self.requested:
            if union.joining is not None:
                union.joining.clear()

    def cluster_joined(self, roster: Roster, keeper: ClusterKeeper, cluster: Cluster) -> None:
        """Add a cluster to the unions."""
        for union in self.requested:
            self._join(union, roster, keeper, cluster)

    def cluster_left(self, name: str) -> None:
        """Remove a cluster from the unions."""
        for union in self.requested:
            union.leave(name)

    def first_known(self, roster: Roster) -> None:
        """Stop the unions from waiting for clusters that have not joined."""
        for union in self.requested:
            self._expect(union, roster)

    def _expect(self, union: FleetUnion, roster: Roster) -> None:
        if not union.joining and roster.settled.is_open:
            union.expect(None)

    def _join_late(self, union: FleetUnion, roster: Roster, keeper: ClusterKeeper) -> None:
        cluster = keeper.cluster
        if cluster is not None and roster.open.get(keeper.name) is keeper and not union.has(cluster):
            self._join(union, roster, keeper, cluster)
        self._expect(union, roster)

    def _join(self, union: FleetUnion, roster: Roster, keeper: ClusterKeeper, cluster: Cluster) -> None:
        try:
            union.join(cluster)
        except Exception as error:  # noqa: BLE001 - reported, counted and logged, without effect on others
            roster.note(keeper, error, f"cannot join {union.collection.name}")
