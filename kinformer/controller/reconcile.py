"""What a reconcile is given, and what it may answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kinformer.exceptions import KinformerError
from kinformer.objects.meta import split_meta_namespace_key

__all__ = ["Reason", "Request", "Result", "TerminalError", "request_key"]


class Reason(NamedTuple):
    """Why a reconcile runs.

    `kind` is `"INITIAL"` (it was there at the start), `"ADDED"`, `"UPDATED"`, `"DELETED"`, `"SYNC"` (a resync), with
    the `resource` and the `key` of the object that changed, where `key` is `""` for the object of the request itself;
    or `"RETRY"` (the last run failed), `"REQUEUE"` (the last run asked for it), `"TRIGGER"` (`Controller.trigger`).
    """

    kind: str
    resource: str = ""
    key: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


def request_key(key: str) -> str:
    """The key as queues have it; ValueError if it has more than one slash."""
    namespace, name = split_meta_namespace_key(key)
    return f"{namespace}/{name}" if namespace else name


@dataclass(frozen=True, slots=True)
class Request:
    """One run of a reconcile: which object is concerned. What has changed is not said, on purpose: look at the cache.

    Equal are requests for the same object.

    Attributes:
        namespace: `""` for what is cluster-scoped.
        name: Of the object, which may be gone.
        reasons: What has asked for this run since the last one began, the first first, at most 8. For the log and for
            metrics: events are folded, so a reconcile that decides by them is wrong sooner or later.
        attempt: How often the key has failed since it last succeeded.
    """

    namespace: str
    name: str
    reasons: tuple[Reason, ...] = field(default=(), compare=False)
    attempt: int = field(default=0, compare=False)
    _on_write: Callable[[Any], None] | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> str:
        """`"namespace/name"`, or `"name"`: what listers and queues know it by."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def of(cls, key: str) -> Request:
        """The request for a key; ValueError if it has more than one slash."""
        return cls(*split_meta_namespace_key(key))

    def wrote(self, object: Any) -> None:  # noqa: A002 - the contract's name
        """Tell the controller of a write: the key's next run waits until the cache has seen it, at most 10 s.

        Without it a reconcile that is triggered at once may not find what it has just made, and makes it again. What
        goes through `Client.request` in a reconcile is told by itself; this is for writes by other clients, such as
        kubernetes_asyncio's. Outside a controller (in a test of the reconcile) it does nothing.

        Args:
            object: What the server answered: a KubeObject, a dict, or a model of kubernetes_asyncio, with its
                resourceVersion. It counts if one of the controller's informers follows its resource.
        """
        if self._on_write is not None:
            self._on_write(object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a reconcile answers; None is the same as `Result()`: done until something changes.

    Args:
        requeue_after: Seconds after which to look again; 0 is at once. If the key is to be looked at earlier for
            another delay, the earlier one counts (controller-runtime, pkg/reconcile/reconcile.go).

    Raises:
        ValueError: `requeue_after` is negative, or no finite number.
    """

    requeue_after: float | None = None

    def __post_init__(self) -> None:
        if self.requeue_after is not None and not 0 <= self.requeue_after < math.inf:
            raise ValueError(f"Result(requeue_after={self.requeue_after!r}): seconds, 0 at least")


class TerminalError(KinformerError):
    """Raised by a reconcile: it has failed, and trying again would not help until something changes.

    Counted and logged as a failure, without a retry (controller-runtime, pkg/reconcile/reconcile.go).
    """
