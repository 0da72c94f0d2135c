"""A connection and its informers, for threads: a client and a factory on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import ssl as ssl_module
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Self, Unpack, cast, overload
from weakref import WeakValueDictionary

import anyio.to_thread

from kinformer._runtime.logs import get_logger
from kinformer._runtime.signatures import check_callback, name_of, shows_options
from kinformer._runtime.tasks import Tasks, wait_for_end
from kinformer.blocking.informer import Informer
from kinformer.blocking.loop_thread import Awaited, LoopThread
from kinformer.blocking.verbs import BlockingVerbs
from kinformer.cache.indexer import Indexers
from kinformer.client.client import Client
from kinformer.connection.config import ClientKeywords, ClientOptions
from kinformer.connection.kubeconfig import Kubeconfig
from kinformer.controller.controller import Controller
from kinformer.controller.reconcile import Request
from kinformer.exceptions import ConfigError, describe
from kinformer.informer.collection import core_of
from kinformer.informer.factory import SharedInformerFactory
from kinformer.informer.informer import SharedInformer
from kinformer.informer.metrics import InformerStatistics
from kinformer.informer.options import ResourceKeywords, ResourceOptions, shows_defaults
from kinformer.objects.conditions import Narrowing
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject
from kinformer.objects.types import ModelT
from kinformer.reflector.health import InformerHealth

__all__ = ["Informers"]


log = get_logger("kinformer.controller")

_BURST = "all"  # the only key of a debounced handler

# An option of both, such as `metrics`, is passed to both.
_OF_CLIENT_ALONE = ClientKeywords.__annotations__.keys() - set(ResourceOptions.__struct_fields__)


class InformersKeywords(ClientKeywords, ResourceKeywords, total=False):
    """The options of a client, and the options of all informers."""


class Informers(BlockingVerbs):
    """A client and a `SharedInformerFactory` for threads. ``with`` connects, starts and stops them.

    Without arguments, it finds the server like `Client()`. Any thread may call everything. Exiting delivers pending
    calls to handlers within `shutdown_timeout`, ends every iteration over events and every wait in other threads, and
    ends the thread. An interpreter that exits without leaving the `with` block does not wait for the thread. After a
    fork, the child needs its own `Informers`.

    Args:
        url, token, ssl: As in `Client.from_url`.
        kubeconfig, context: As in `Client.from_kubeconfig`.
        in_cluster: True to connect like `Client.in_cluster`.
        api_client: As in `Client.from_api_client`: an ApiClient of kubernetes, kubernetes.aio or kubernetes_asyncio.
        indexers: As in `SharedInformerFactory`.
        **options: The options of `Client`, such as `user_agent`, and any option of `for_resource` except `model`, as
            the default for all informers.

    Raises:
        ConfigError: An option does not exist, or options for two ways to a server are given.
    """

    @shows_defaults
    @shows_options(ClientOptions)
    def __init__(
        self,
        *,
        url: str | None = None,
        token: str | None = None,
        ssl: ssl_module.SSLContext | bool | None = None,
        kubeconfig: Kubeconfig | None = None,
        context: str | None = None,
        in_cluster: bool = False,
        api_client: Any = None,
        indexers: Indexers | None = None,
        **options: Unpack[InformersKeywords],
    ) -> None:
        ways: dict[str, tuple[bool, Callable[..., Client]]] = {
            "url": (url is not None, partial(Client.from_url, url or "", token=token, ssl=ssl)),
            "kubeconfig": (bool(kubeconfig or context), partial(Client.from_kubeconfig, kubeconfig, context=context)),
            "in_cluster": (in_cluster, Client.in_cluster),
            "api_client": (api_client is not None, partial(Client.from_api_client, api_client)),
        }
        chosen = [way for way, (given, _) in ways.items() if given]
        if len(chosen) > 1:
            raise ConfigError(f"{' and '.join(chosen)} are different ways to connect; pass only one of them")
        if chosen != ["url"] and (token is not None or ssl is not None):
            raise ConfigError(
                f"{'token' if token is not None else 'ssl'} requires url; the other ways have their own credentials"
            )
        of_client: Any = {name: value for name, value in options.items() if name in ClientKeywords.__annotations__}
        of_informers: Any = {name: value for name, value in options.items() if name not in _OF_CLIENT_ALONE}
        connect = ways[chosen[0]][1] if chosen else Client
        self._client = connect(**of_client)
        self._factory = SharedInformerFactory(self._client, indexers=indexers, **of_informers)
        self._loop_thread = LoopThread("blocking.Informers")
        self._tasks = Tasks(_task_crashed)  # of debounced handlers
        # One `Informer` for each shared informer, as long as the program holds it, so that asking twice returns it.
        self._faces: WeakValueDictionary[int, Informer] = WeakValueDictionary()

    def __enter__(self) -> Self:
        self._loop_thread.open(self._running())
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        for informer in self._factory.informers:
            _refuse_inside(informer, "leaving")
        self._loop_thread.close(error)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        async with self._client, self._factory:
            try:
                yield
            finally:
                tasks = self._tasks.running
                self._tasks.drop(tasks)
                await wait_for_end(tasks)

    # --- informers --------------------------------------------------------------------------------------

    @shows_options(ResourceOptions, unset="<the factory's>")
    def for_resource(
        self,
        resource: str | GroupVersionResource,
        *,
        model: type[ModelT] | None = None,
        indexers: Indexers | None = None,
        **options: Unpack[ResourceKeywords],
    ) -> Informer[ModelT]:
        """Return the informer for a resource, which starts immediately. Asking for the same twice returns the same.

        The arguments and errors are the same as for `SharedInformerFactory.for_resource`. Functions among the options
        (a transform, `on_error`, index functions) run on the loop's thread, so they must not block.
        """
        ask = cast("Callable[..., SharedInformer]", self._factory.for_resource)

        def face() -> Informer:  # on the loop, so that of two threads that ask at once, both get the same one
            informer = ask(resource, model=model, indexers=indexers, **options)
            return self._faces.setdefault(id(informer), Informer(self._loop_thread, informer))

        return self._loop_thread.call(f"for_resource({str(resource)!r})", face)

    def add_debounced_handler(
        self,
        function: Callable[[], object],
        informer: Informer,
        *others: Informer,
        debounce: float = 0.5,
        name: str | None = None,
    ) -> None:
        """Call a function once the informers have synced, and after changes: once for a burst of any number of them.

        ::

            informers.add_debounced_handler(write_files, settings, secrets, debounce=2)

        It runs in a worker thread, one call at a time, and reads the caches, which have the changes. Changes during a
        call cause one more. If it raises, the error is logged, and it is called again after a delay that grows (see
        `Controller`). Exiting waits up to 5 s for a call that runs, and drops one that waits.

        Args:
            function: A plain function without arguments.
            informer, others: The informers whose changes cause a call.
            debounce: Seconds from the first change of a burst to its call. 0.5 by default.
            name: The name in the log. By default, the name of the function.

        Raises:
            ConfigError: `debounce` is negative.
            TypeError: The function cannot be called without arguments, or is a coroutine function.
        """
        name = name_of(function) if name is None else name
        check_callback(function, "function", "", f"debounced handler {name}", plain=True)
        controller = Controller(partial(self._reconcile, function), debounce=debounce, name=name)
        for source in (informer, *others):
            controller.watches(source._informer, lambda _: [_BURST])

        def start() -> None:
            self._tasks.start(controller.run(), f"kinformer debounced handler {controller.name}")
            asyncio.get_running_loop().call_soon(controller.trigger, _BURST)  # also if there is no object

        self._loop_thread.call("add_debounced_handler", start)

    async def _reconcile(self, function: Callable[[], object], _: Request) -> None:
        call = partial(_called, function)
        await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._client.handler_limiter)

    def release(self, informer: Informer) -> None:
        """Give an informer back. The last holder to do so stops it. See `SharedInformerFactory.release`.

        Raises:
            ValueError: It belongs to another factory, or was released as often as it was requested.
            RuntimeError: Called from inside one of its handlers.
        """
        released = informer._informer
        _refuse_inside(released, "release")
        self._loop_thread.call("release", partial(self._factory.release, released))

    def wait_for_cache_sync(
        self, timeout: float | None = None, *, fail_fast: bool | None = None, handlers: bool = False
    ) -> None:
        """Wait until every informer has its first full list. See `SharedInformerFactory.wait_for_cache_sync`."""
        if handlers:
            for informer in self._factory.informers:
                _refuse_inside(informer, "wait_for_cache_sync(handlers=True)")
        wait = partial(self._factory.wait_for_cache_sync, timeout, fail_fast=fail_fast, handlers=handlers)
        self._loop_thread.call("wait_for_cache_sync", wait)

    def health(self) -> Mapping[str, InformerHealth]:
        """Return the health of each informer, by resource."""
        return self._factory.health()

    def statistics(self) -> Mapping[str, InformerStatistics]:
        """Return the statistics of each informer, by resource."""
        return self._factory.statistics()

    # --- requests ---------------------------------------------------------------------------------------

    request = Awaited(Client.request, of="_client")
    """Send a request, and return the decoded response: `Client.request`."""

    @overload
    def wait_for(
        self,
        resource: str | GroupVersionResource,
        key: str,
        condition: Narrowing,
        timeout: float | None = None,
        *,
        allow_recreate: bool = False,
    ) -> KubeObject: ...
    @overload
    def wait_for(
        self,
        resource: str | GroupVersionResource,
        key: str,
        condition: Callable[[KubeObject | None], object],
        timeout: float | None = None,
        *,
        allow_recreate: bool = False,
    ) -> KubeObject | None: ...
    def wait_for(
        self,
        resource: str | GroupVersionResource,
        key: str,
        condition: Callable[[KubeObject | None], object],
        timeout: float | None = None,
        *,
        allow_recreate: bool = False,
    ) -> KubeObject | None:
        """Wait until a condition holds for one object, by listing and watching only that object: `Client.wait_for`."""
        wait = partial(self._client.wait_for, resource, key, condition, timeout, allow_recreate=allow_recreate)
        return self._loop_thread.call("wait_for", wait)

    text = Awaited(Client.text, of="_client")
    """GET a response as a string, such as `/readyz`: `Client.text`."""

    @property
    def server(self) -> str:
        """The URL of the server. Raises RuntimeError before entering."""
        return self._client.server

    @property
    def namespace(self) -> str:
        """The namespace of the context or the service account, or "default" if neither sets one."""
        return self._client.namespace

    def __repr__(self) -> str:
        return f"<blocking.Informers of {self._client!r}>"


def _called(function: Callable[[], object]) -> None:
    try:
        function()
    except SystemExit as error:  # in a worker thread, it ends neither the program nor the loop
        raise RuntimeError(f"{name_of(function)} called sys.exit({error.code!r})") from error


def _task_crashed(task: str, error: BaseException) -> None:
    log.error("%s ended with %s", task, describe(error), reason=error)


def _refuse_inside(informer: SharedInformer, method: str) -> None:
    """Raise RuntimeError if one of the handlers of an informer calls a method that would wait for it."""
    core_of(informer).refuse_inside(f"{method} would wait for informer {informer.name}")
