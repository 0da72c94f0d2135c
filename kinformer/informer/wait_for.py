"""Waiting for an object to be as it should be, without asking the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

from kinformer._runtime.signatures import check_callback
from kinformer.cache.lister import IndexView
from kinformer.exceptions import StoppedError
from kinformer.informer.collection import ComputedCollection
from kinformer.objects.conditions import Narrowing
from kinformer.objects.object import KubeObject, view
from kinformer.processor.callbacks import Filter
from kinformer.processor.event_stream import EventStream

__all__ = ["Followed", "is_gone", "wait_for"]

V = TypeVar("V")

Condition = Callable[[KubeObject | None], object]


class Followed(Protocol):
    """A cache that tells its changes, as a `SharedInformer` does."""

    @property
    def name(self) -> str: ...
    @property
    def indexer(self) -> IndexView[KubeObject[Any]]: ...
    async def wait_synced(self) -> None: ...
    def events(
        self,
        *,
        queue_size: int | None,
        filter: Filter[Any],  # noqa: A002 - the word of informers
        name: str,
    ) -> EventStream[Any]: ...


@overload
async def wait_for(
    informer: Followed,
    key: str,
    condition: Narrowing,
    timeout: float | None = None,
) -> KubeObject: ...
@overload
async def wait_for(
    informer: Followed, key: str, condition: Condition, timeout: float | None = None
) -> KubeObject | None: ...
@overload
async def wait_for(
    informer: ComputedCollection[V], key: str, condition: Callable[[V | None], object], timeout: float | None = None
) -> V | None: ...
async def wait_for(informer: Any, key: str, condition: Callable[[Any], object], timeout: float | None = None) -> Any:
    """Wait until `condition` is true of the object with this key, as an informer's cache has it.

    ::

        pod = await wait_for(pods, "default/web-1", lambda pod: pod and pod.path("status.phase") == "Running", 60)

    Each state that reaches the informer is shown to it, in order, beginning with the one in the cache; a state that
    the server's watch folded away, or that passed during a relist, is not. While the condition does not hold at
    once, it costs a pass over the keys of the cache, in slices. Cancelling it is safe.

    Args:
        informer: One that follows the resource, or a derived collection; entered, perhaps not yet synced.
        key: `"namespace/name"` or `"name"`.
        condition: A plain function of the object, or of None while there is none. Its exceptions are raised unchanged.
        timeout: Seconds; None waits for ever.

    Returns:
        The object for which it was true; None if that was its absence. Type checkers know that it is an object if the
        condition is one of `kinformer.conditions`, or returns `TypeGuard[KubeObject]`.

    Raises:
        TimeoutError: `timeout` seconds have passed; the text names the object as it is.
        StoppedError: The informer has been left. If it has crashed, its error is raised instead.
        TypeError: The condition cannot be called with an object, or is a coroutine function.
    """
    check_callback(condition, "condition", "obj", f"wait_for {informer.name} {key}", plain=True)
    seen: Any = None
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            await informer.wait_synced()
            seen = _viewed(informer.indexer.get_by_key(key))
            if condition(seen):
                return seen
            # A filter spares an informer the events of all other objects; values of a program do not know their keys.
            only = None if _is_computed(informer) else (lambda obj: obj.key == key)
            of_key = informer.events(filter=only, name=f"wait_for {key}", queue_size=None)
            async with of_key as stream:
                async for event in stream:
                    if event.key != key:
                        continue
                    seen = None if event.type == "DELETED" else event.object
                    if condition(seen):
                        return seen
    except TimeoutError:
        if not limit.expired():
            raise  # the condition's own
        version = getattr(seen, "resource_version", None)
        state = "is absent" if seen is None else f"is at resourceVersion {version}" if version else f"is {seen!r}"
        name = getattr(condition, "__name__", "the condition")
        raise TimeoutError(f"{informer.name} {key}: no {name} within {timeout:g} s; it {state}") from None
    raise StoppedError(f"{informer.name} was left while something waited for {key}")


def is_gone(uid: str | None = None) -> Condition:
    """Return a condition for `wait_for`: the object is absent, or, with `uid`, another one has its name by now."""

    def gone(obj: KubeObject | None) -> bool:
        return obj is None or (uid is not None and obj.uid != uid)

    return gone


def _is_computed(informer: object) -> bool:
    readable = getattr(informer, "_readable", None)
    return readable is not None and readable.engine is not None


def _viewed(obj: Any) -> Any:
    return None if obj is None else view(obj)
