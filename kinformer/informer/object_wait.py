"""Waiting for a state of an object, without requests to the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from kinformer._runtime.signatures import check_callback
from kinformer._runtime.waiters import within
from kinformer.exceptions import StoppedError
from kinformer.informer.collection import Collection, core_of
from kinformer.objects.conditions import Narrowing
from kinformer.objects.object import KubeObject, view
from kinformer.objects.types import M

__all__ = ["wait_for"]

V = TypeVar("V")


@overload
async def wait_for(
    informer: Collection[KubeObject[M]], key: str, condition: Narrowing, timeout: float | None = None
) -> KubeObject[M]: ...
@overload
async def wait_for(
    informer: Collection[KubeObject[M]],
    key: str,
    condition: Callable[[KubeObject[M] | None], object],
    timeout: float | None = None,
) -> KubeObject[M] | None: ...
@overload
async def wait_for(
    informer: Collection[V], key: str, condition: Callable[[V | None], object], timeout: float | None = None
) -> V | None: ...
async def wait_for(informer: Any, key: str, condition: Callable[[Any], object], timeout: float | None = None) -> Any:
    """Wait until `condition` is true for the object with this key in an informer's cache.

    ::

        pod = await wait_for(pods, "default/web-1", lambda pod: pod and pod.path("status.phase") == "Running", 60)

    The condition is called with each state that reaches the informer, in order, beginning with the one in the cache.
    States that the server's watch folded away, or that passed during a relist, are left out. Unless the condition holds
    immediately, the wait costs a pass over the keys of the cache, in slices. Cancelling it is safe.

    Args:
        informer: An informer of the resource, or another collection. It must be entered, but need not be synced.
        key: `"namespace/name"` or `"name"`.
        condition: A plain function of the object, or of None while there is no object. Its exceptions propagate.
        timeout: Seconds, or None to wait forever.

    Returns:
        The object for which the condition held, or None if it held for its absence. Type checkers infer an object if
        the condition is from `kinformer.conditions` or returns `TypeGuard[KubeObject]`.

    Raises:
        TimeoutError: `timeout` seconds have passed. The message describes the object's last state.
        StoppedError: The informer was stopped. If it crashed, its error is raised instead.
        TypeError: The condition cannot be called with an object, or is a coroutine function.
    """
    check_callback(condition, "condition", "obj", f"wait_for {informer.name} {key}", plain=True)
    seen: Any = None

    def late() -> TimeoutError:
        version = getattr(seen, "resource_version", None)
        state = "is absent" if seen is None else f"is at resourceVersion {version}" if version else f"is {seen!r}"
        name = getattr(condition, "__name__", "the condition")
        return TimeoutError(f"{informer.name} {key}: no {name} within {timeout:g} s; it {state}")

    async with within(timeout, late):
        await informer.wait_synced()
        seen = _viewed(informer.by_key.get(key))
        if condition(seen):
            return seen
        # A filter avoids the events of all other objects. Values of other collections may not have their key.
        only = (lambda obj: obj.key == key) if _has_objects(informer) else None
        of_key = informer.events(filter=only, name=f"wait_for {key}", queue_size=None)
        async with of_key as stream:
            async for event in stream:
                if (event.key or event.object.key) != key:
                    continue
                seen = None if event.type == "DELETED" else event.object
                if condition(seen):
                    return seen
    raise StoppedError(f"{informer.name} was exited during wait_for {key}")


def _has_objects(informer: object) -> bool:
    """True if the values are objects with their keys, as in an informer."""
    core = core_of(informer)
    return core is not None and core.roots() == [core]


def _viewed(obj: object) -> object:
    return None if obj is None else view(obj)
