"""A shard: the part of a resource that one of several replicas follows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Self, Unpack

from kinformer._runtime.clock import SYSTEM, Clock
from kinformer._runtime.signatures import shows_options
from kinformer.exceptions import ConfigError
from kinformer.leaderelection.lease import LeaseKeywords, LeaseOptions
from kinformer.leaderelection.lease_client import Requester
from kinformer.listwatch.part import Part
from kinformer.metrics import Metrics
from kinformer.sharding.candidacy import ShardCandidacy

__all__ = ["Shard"]


class Shard(Part):
    """One of `count` parts of a resource, by the hash of the objects' uids, for `for_resource(shard=)`. Experimental.

    ::

        async with Shard.claim(client, name="widgets", count=3) as shard, SharedInformerFactory(client) as factory:
            widgets = factory.for_resource("example.com/v1/widgets", shard=shard)
            deployments = factory.for_resource("apps/v1/deployments", shard=shard.of_owners())
            await Controller(reconcile).for_(widgets).owns(deployments, "Widget").run()

    The hash is the API server's, which filters if it can (`shardSelector`, KEP-5866, alpha in Kubernetes 1.36). Every
    object is looked at here too, and the others are left out before the cache. A shard has *uids*, not names: an object
    that is made again under its name may be in another one. So make writes conditional on uid or resourceVersion.

    Args:
        index: Which part, from 0 to `count - 1`. With a fixed one, such as the ordinal of a StatefulSet's pod, no Lease
            is needed (as in kube-state-metrics, pkg/sharding).
        count: The number of parts, the same in all replicas.

    Raises:
        ConfigError: `index` or `count` is invalid.
    """

    __slots__ = ()

    @classmethod
    @shows_options(LeaseOptions)
    def claim(
        cls,
        client: Requester,
        *,
        name: str,
        count: int,
        namespace: str | None = None,
        identity: str | None = None,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        **durations: Unpack[LeaseKeywords],
    ) -> AbstractAsyncContextManager[Self]:
        """Wait for a part that no other replica holds, and hold it during the body.

        Each part has a Lease, such as `widgets-0-of-3`, which a `LeaderElector` takes, renews and gives back. So before
        another replica may have the part, the body of this one has been cancelled, its requests are refused, and
        LeadershipLostError is raised when it has ended. `count` replicas hold the parts, and more of them wait as
        spares: if a replica ends in order, one takes its part within `1.2 * retry_period`, and if it crashes, within
        `lease_duration + 1.2 * retry_period`.

        Replicas with another `count` never hold parts at the same time, since these would overlap: a replica waits
        until no Lease of another count is held. So a rolling change of `count` goes through if readiness does not wait
        for this body. Until the last replica of the old count has ended, the parts of those before it have no owner.

        Args:
            client: The client, which the caller enters and closes. Besides what a `LeaderElector` needs, it must be
                permitted to `list` the Leases of the namespace: once in each `retry_period` while it waits.
            name: The prefix of the Leases' names, the same in all replicas and used for nothing else.
            count: The number of parts.
            namespace: The namespace of the Leases. By default the client's: the pod's, or the kubeconfig context's.
            identity: The holder in the Lease. By default, the host name and a random part.
            metrics: Receives the metrics of leader election, whose label `name` is `namespace/name-index-of-count`.
            clock: Its `boot` measures the Lease, and its `wall` is written into it.
            lease_duration, renew_deadline, retry_period: See `LeaderElector`.

        Raises:
            ConfigError: An option is invalid, or there is no namespace. The message names the option.
            LeadershipLostError: (on exit) The Lease was lost before the body had ended: not renewed in time, taken by
                another replica, or changed or deleted by others.
        """
        cls(0, count)  # raises if the count is invalid
        namespace = namespace or getattr(client, "namespace", None)
        if not namespace:
            raise ConfigError("Shard.claim: pass namespace=, because the client has none")
        candidacy = ShardCandidacy(client, namespace, name, count, identity, metrics, clock, durations)
        return cls._held(candidacy)

    @classmethod
    @asynccontextmanager
    async def _held(cls, candidacy: ShardCandidacy) -> AsyncIterator[Self]:
        index, elector = await candidacy.take()
        async with elector.leading():
            yield cls(index, candidacy.count)
