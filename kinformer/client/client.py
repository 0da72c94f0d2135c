"""The client of one API server: a connection with verbs, and with waits for one object.

Lists, logs and waits import what they need when they are called, so that a program pays for what it uses.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Unpack, overload

from kinformer._runtime.signatures import shows_options
from kinformer.connection.config import ClientKeywords, ClientOptions
from kinformer.objects.conditions import Narrowing
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject
from kinformer.objects.types import ModelT
from kinformer.verbs.requests import ClientVerbs

if TYPE_CHECKING:
    from kinformer.objects.selectors import FieldSelector, LabelSelector

__all__ = ["Client"]


class Client(ClientVerbs):
    """A connection to one Kubernetes API server, as an async context manager.

    ::

        async with Client() as client:          # KUBECONFIG, ~/.kube/config, else the pod's service account
            pod = await client.get("v1/pods", "default/web-1")

    The other constructors are `from_kubeconfig`, `in_cluster`, `from_url` and `from_api_client`. They return
    immediately. Entering the client reads files, runs plugins and sets up TLS, and raises ConfigError (with file and
    field) if that fails. A client is entered once, belongs to that event loop, and closes everything on exit. Expiring
    credentials are renewed automatically. Credentials never appear in a repr, error or log message.

    Args:
        compression: "auto", the default, asks the server to gzip lists and other responses above 128 KB, as client-go
            does, unless the server is on this machine (a loopback address) or the kubeconfig has
            `disable-compression`. "gzip" always asks, and "none" never does. A watch is not compressed, except for an
            initial stream (1.37). docs/cost.md has the effect.
        rate: The maximum number of requests a second. None, the default, sets no limit, because servers protect
            themselves (API Priority and Fairness). It applies to `request`, `text`, the verbs, the lists of informers
            and `api_client`. It does not apply to watches, or to the Leases of elections and shards, which have
            deadlines.
        burst: The number of requests that may be sent at once after a pause. None is twice the rate, at least 1.
        metrics: A sink for metrics of retried requests, and of waits caused by `rate`.
        user_agent: The `User-Agent` of all requests, by which a server's audit log and metrics identify programs.
            The default is `kinformer/` and its version.
        log_plugin_stderr: True logs what a credential plugin prints to stderr, at DEBUG, without possible credentials.
        trace: Measures each sent request, as `kinformer.contrib.opentelemetry.traced_requests()` does. None, the
            default, measures nothing. Requests by `api_client` are not measured.

    Raises:
        ConfigError: An option is invalid. The message names it.
    """

    @shows_options(ClientOptions)
    def __init__(self, **options: Unpack[ClientKeywords]) -> None:
        super().__init__(**options)

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
        from kinformer.watching.object_wait import wait_for_object

        return await wait_for_object(self, resource, key, condition, timeout, allow_recreate=allow_recreate)

    def list(
        self,
        resource: str | GroupVersionResource,
        *,
        namespace: str | None = None,
        label_selector: str | Mapping[str, str] | LabelSelector | None = None,
        field_selector: str | FieldSelector | None = None,
        model: type[ModelT] | None = None,
    ) -> AsyncGenerator[KubeObject[ModelT], None]:
        """List objects from the server: `async for pod in client.list("v1/pods", namespace="default")`.

        They are read in pages of 500, all from the state at the first page. As in an informer, they have no
        managedFields, and an object that cannot be decoded is left out and logged. To read the same objects again and
        again, use an informer.

        Args:
            resource: The resource, such as `"v1/pods"`.
            namespace: The namespace. None is all namespaces, or for a resource without namespaces.
            label_selector, field_selector: Filters that the server applies.
            model: The type of `obj.model`, as in `for_resource`.

        Raises:
            ExpiredError: The state of the first page is no longer available, because reading took minutes.
            ConfigError, SelectorError: An argument is invalid (except for `namespace`, raised immediately).
            APIError, ConnectError, DecodeError: As for `request`. A 404 names the nearest resource.
        """
        from kinformer.verbs.listing import list_pages, one_by_one

        pages = list_pages(
            self,
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            model=model,
        )
        return one_by_one(pages)

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
        from kinformer.verbs.listing import one_by_one
        from kinformer.verbs.logs import log_batches

        return one_by_one(log_batches(self, key, container=container, previous=previous, follow=follow, tail=tail))
