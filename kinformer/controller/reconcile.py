"""The request that a reconcile receives, and the result that it returns."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kinformer.exceptions import check_requeue_after
from kinformer.objects.meta import split_meta_namespace_key
from kinformer.objects.types import ApiObject

__all__ = ["Reason", "ReconcileFunction", "Request", "Result", "reconcile_name", "request_key"]


class Reason(NamedTuple):
    """A reason for a reconcile.

    `kind` is `"INITIAL"` (the object existed at the start), `"ADDED"`, `"UPDATED"`, `"DELETED"` or `"SYNC"` (a resync),
    with the `resource` and the `key` of the changed object. `key` is `""` for the object of the request itself.
    Otherwise `kind` is `"RETRY"` (the last run failed), `"REQUEUE"` (the last run asked for it) or `"TRIGGER"`
    (`Controller.trigger`).
    """

    kind: str
    resource: str = ""
    key: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


def request_key(request: str | Request, *, clusters: bool = False) -> str:
    """Return the key of a request in the form used in queues. With `clusters`, it may begin with a cluster's name.

    Raises:
        ValueError: The key has too many slashes, or a part of the Request has one.
    """
    if isinstance(request, str):
        if clusters and request.count("/") == 2:
            return request
        namespace, name = split_meta_namespace_key(request)
        return f"{namespace}/{name}" if namespace else name
    for part in (request.cluster, request.namespace, request.name):
        if "/" in part:
            raise ValueError(f"{request!r}: {part!r} must not contain a slash")
    return request.key


@dataclass(frozen=True, slots=True)
class Request:
    """The object to reconcile. It deliberately does not describe the change: read the cache.

    Requests for the same object are equal.

    Attributes:
        namespace: The namespace, or `""` for a cluster-scoped object.
        name: The name of the object, which may be gone.
        reasons: The distinct triggers since the last run began, in order, at most 8. For logs and metrics only:
            triggers are merged, so a reconcile that depends on them will be wrong at some point.
        attempt: Failures of the key since its last success, and its TemporaryErrors without a delay.
        cluster: The name of the object's cluster if the controller is for a union, and otherwise `""`.
    """

    namespace: str
    name: str
    reasons: tuple[Reason, ...] = field(default=(), compare=False)
    attempt: int = field(default=0, compare=False)
    _on_write: Callable[[ApiObject], None] | None = field(default=None, compare=False, repr=False)
    _catch_up: Callable[[float], Awaitable[None]] | None = field(default=None, compare=False, repr=False)

    cluster: str = ""

    @property
    def key(self) -> str:
        """The key in listers and queues: `"namespace/name"`, `"name"`, or `"cluster/namespace/name"` for a union."""
        if self.cluster:
            return f"{self.cluster}/{self.namespace}/{self.name}"
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def of(cls, key: str) -> Request:
        """Return the request for a key. Raises ValueError if the key has more than two slashes."""
        if key.count("/") == 2:
            cluster, namespace, name = key.split("/")
            return cls(namespace, name, cluster=cluster)
        return cls(*split_meta_namespace_key(key))

    def wrote(self, object: ApiObject) -> None:  # noqa: A002 - the name in the contract
        """Report a write: the key's next run waits until the cache has seen it, at most 10 s.

        Otherwise a reconcile that is triggered at once may not find an object that it has just created, and may create
        it again. Writes by a `Client` and its `api_client` within a reconcile are reported automatically. This method
        is for other clients, such as the ApiClient passed to `Client.from_api_client`. Outside a controller (in
        a test of the reconcile), it does nothing.

        Args:
            object: The server's response: a KubeObject, dict or kubernetes_asyncio model with its resourceVersion, or
                the Status that answers a delete. It is ignored unless one of the controller's informers follows its
                resource.

        Raises:
            TypeError: `object` is neither an object nor the Status of a delete.
        """
        if self._on_write is not None:
            self._on_write(object)

    async def caught_up(self, timeout: float = 10.0) -> None:
        """Wait until the controller's caches hold this run's writes so far (the same writes as in `wrote`).

        Call it before a run reads its own writes: listers then find the objects that the run created. The next run of
        the key waits in any case, without occupying a worker. Outside a controller, it returns at once.

        Args:
            timeout: Seconds to wait for the writes. Derived collections then have up to 10 s to catch up.

        Raises:
            TimeoutError: `timeout` seconds have passed. The message names the first unseen write. Unless it is caught,
                the run fails and is retried.
            WatchError: The server went back in time, and no longer knows a write.
            StoppedError: An informer of the controller was exited. If it crashed, its error is raised instead.
            ValueError: `timeout` is not a finite number above 0.
        """
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
            raise ValueError(f"invalid caught_up(timeout={timeout!r}): expected a finite number of seconds above 0")
        if self._catch_up is not None:
            await self._catch_up(timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a reconcile. None is the same as `Result()`: done until something changes.

    Args:
        requeue_after: Seconds until the next reconcile, or 0 for at once. None (the default) requests none. If the key
            already has a delay, the one that ends first counts (controller-runtime, pkg/reconcile/reconcile.go).

    Raises:
        ValueError: `requeue_after` is negative, infinite or not a number.
    """

    requeue_after: float | None = None

    def __post_init__(self) -> None:
        check_requeue_after(self.requeue_after, "Result")


ReconcileFunction = Callable[[Request], Awaitable[Result | None]]
"""A coroutine function that brings one object to its wanted state."""


def reconcile_name(reconcile: ReconcileFunction) -> str:
    """Return the default name of a controller with this function."""
    return str(getattr(reconcile, "__qualname__", type(reconcile).__qualname__))
