"""Methods of `Client` that packages above this one implement: waiting for an object, and the verbs.

No package imports one above it. Only these methods import from above, by name, when they are called. A program that
does not call them does not import those packages.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from importlib import import_module
from typing import Any, overload

from kinformer.objects.conditions import Narrowing
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject

__all__ = ["ImplementedAbove"]


class ImplementedAbove:
    """The base class of `Client` with the methods that are implemented above it."""

    @overload
    async def wait_for(
        self,
        resource: str | GroupVersionResource,
        key: str,
        condition: Narrowing,
        timeout: float | None = None,
        *,
        allow_recreate: bool = False,
    ) -> KubeObject: ...
    @overload
    async def wait_for(
        self,
        resource: str | GroupVersionResource,
        key: str,
        condition: Callable[[KubeObject | None], object],
        timeout: float | None = None,
        *,
        allow_recreate: bool = False,
    ) -> KubeObject | None: ...
    async def wait_for(
        self,
        resource: str | GroupVersionResource,
        key: str,
        condition: Callable[[KubeObject | None], object],
        timeout: float | None = None,
        *,
        allow_recreate: bool = False,
    ) -> KubeObject | None:
        """Wait until a condition holds for one object, by listing and watching only that object.

        ::

            pod = await client.wait_for("v1/pods", "default/web-1", is_pod_ready, timeout=60)

        The condition is called with the newest state of the object on the server, and with each later state, in order,
        or with None while the object does not exist. List and watch survive the same faults as in an informer.

        Args:
            resource: The resource, such as `"v1/pods"`.
            key: `"namespace/name"`, or `"name"` if the resource has no namespaces.
            condition: A plain function of the object or None, as in `kinformer.conditions`. Its exceptions propagate.
            timeout: Seconds, or None to wait forever.
            allow_recreate: True to keep waiting if the object is deleted, because another one may get its name.

        Returns:
            The object for which the condition held, or None if it held for its absence. Type checkers infer an object
            if the condition is from `kinformer.conditions` or returns `TypeGuard[KubeObject]`.

        Raises:
            TimeoutError: The time has passed. The message describes the object's last state and the last error.
            DeletedError: The object existed and was deleted. The message describes its last state.
            APIError: The server refused twice in a row (a 4xx such as 403). The message has the object's last state.
            ValueError: The key is not valid for the resource.
            ConfigError: The resource name is invalid.
        """
        wait = _above("kinformer.watching.object_wait").wait_for_object
        found: KubeObject | None = await wait(self, resource, key, condition, timeout, allow_recreate=allow_recreate)
        return found

    def logs(
        self,
        key: str,
        *,
        container: str | None = None,
        previous: bool = False,
        follow: bool = False,
        tail: int | None = None,
    ) -> AsyncGenerator[str, None]:
        """Read the log of a container line by line, as it arrives: `async for line in client.logs("default/web-1")`.

        Lines have no line break. A line longer than 1 MiB comes in several parts, so memory is bounded. Leaving the
        loop, through `break` too, or cancellation closes the connection (at once within `contextlib.aclosing`).

        Args:
            key: `"namespace/name"` of the pod.
            container: The container. None is the only one.
            previous: True for the log of the container's run before its last restart.
            follow: True to wait for new lines until the container ends.
            tail: The number of newest lines to begin with. None is all.

        Raises:
            NotFoundError: There is no such pod.
            BadRequestError: The pod has several containers or none with this name, no previous run, or has not started.
            APIError, ConnectError: As for `stream`. A log that is cut off ends with ConnectError.
            ConfigError: The key or `tail` is invalid (raised immediately).
        """
        lines: AsyncGenerator[str, None] = _above("kinformer.verbs.logs").log_lines(
            self, key, container=container, previous=previous, follow=follow, tail=tail
        )
        return lines


def _above(module: str) -> Any:
    return import_module(module)
