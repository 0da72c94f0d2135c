"""The scene of a test that is not a coroutine: its server runs on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kinformer.blocking import Informers
from kinformer.blocking.loop_thread import LoopThread
from kinformer.testing.clusters.control_plane import ControlPlane
from kinformer.testing.clusters.existing_cluster import ExistingCluster
from kinformer.testing.pytest_scene import Scene, scene

__all__ = ["OnLoop", "blocking_scene"]


_Call: TypeAlias = Callable[[str, Callable[[], Any]], Any]
"""Calls a function on a loop, and awaits its result if that is a coroutine. The name is for errors."""


class OnLoop:
    """The members of an object that belongs to an event loop, for other threads.

    Its methods run on the loop. Coroutine methods return their result, async context managers are entered with a plain
    `with`, and the members of a task run on the loop too.
    """

    def __init__(self, call: _Call, target: Any) -> None:
        self._on_loop = call
        self._target = target

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._target, name)
        if name == "faults":
            return OnLoop(self._on_loop, member)
        return partial(self._call, name, member) if callable(member) else member

    def _call(self, name: str, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        call = partial(method, *args, **kwargs)
        if inspect.iscoroutinefunction(method):
            return self._on_loop(name, call)
        [result] = self._on_loop(name, lambda: [call()])  # a task is not awaited
        if isinstance(result, asyncio.Task):
            return OnLoop(self._on_loop, result)
        return self._entered(result) if isinstance(result, AbstractAsyncContextManager) else result

    @contextmanager
    def _entered(self, manager: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        stack = AsyncExitStack()
        try:
            yield self._on_loop("entering", partial(stack.enter_async_context, manager))
        finally:
            self._on_loop("leaving", stack.aclose)


class _Server(OnLoop):
    """A server, whose clients are `blocking.Informers`."""

    folder = Path()  # for kubeconfigs. The scene sets it

    def client(self, user: str | None = None) -> Informers:
        """Return informers and requests for a user, by default one with all rights. Enter them with `with`."""
        return Informers(kubeconfig=self.kubeconfig(self.folder / f"kubeconfig-{user or ''}", user))


def _call_here(name: str, function: Callable[[], Any]) -> Any:
    """Call a function of a server that belongs to no loop, in pytest's thread.

    The processes of a control plane end with the thread that has started them.
    """

    async def call() -> Any:
        result = function()
        return await result if inspect.isawaitable(result) else result

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(call())


@contextmanager
def blocking_scene(request: pytest.FixtureRequest, shared: ControlPlane | ExistingCluster | None) -> Iterator[Scene]:
    """Set up and tear down the scene of one test, on a loop in another thread."""
    prepared: list[Scene] = []

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        async with scene(request, shared) as made:
            prepared.append(made)
            yield

    loop_thread = LoopThread("kube_apiserver")
    with tempfile.TemporaryDirectory() as folder:
        _ensure_running(shared)
        loop_thread.open(running())
        try:
            [made] = prepared
            server: Any = _Server(loop_thread.call if shared is None else _call_here, made.server)
            server.folder = Path(folder)
            factory: Any = OnLoop(loop_thread.call, made.factory)
            programs: Any = OnLoop(loop_thread.call, made.programs)
            with server.client() as client:
                yield Scene(server, client, made.namespace, factory, programs)
        finally:
            _ensure_running(shared)
            loop_thread.close()


def _ensure_running(shared: ControlPlane | ExistingCluster | None) -> None:
    if isinstance(shared, ControlPlane):
        _call_here("ensure_running", shared.ensure_running)
