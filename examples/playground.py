"""The cluster of the examples: yours, or one that lives as long as the example.

    python examples/scheduled_pod_lister.py                        an API server of its own, with things happening
    python examples/scheduled_pod_lister.py --context staging      a cluster of yours, until Ctrl-C
    python examples/scheduled_pod_lister.py --kubeconfig ~/.kube/config --duration 30

This file is no example: it reads these options, fills the server and ends the program.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from kinformer import Client
from kinformer.testing import APIServer

AFTER = 0.3  # seconds that a program goes on after the last thing has happened


def run(
    main: Callable[[Client], Coroutine[Any, Any, None]],
    *,
    fill: Callable[[APIServer], Awaitable[None]],
    happens: Callable[[APIServer], Awaitable[None]],
) -> None:
    """Run `main` until --duration is over, or (with a server of its own) until `happens` has ended.

    Args:
        main: The example; it may run for ever, and is then cancelled, as at Ctrl-C.
        fill: Puts into the embedded server what is there at the start.
        happens: Changes the embedded server while the example looks on.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", help="a file; default: an embedded API server")
    parser.add_argument("--context", help="a context of the kubeconfig")
    parser.add_argument("--duration", type=float, help="seconds; default: until all is shown, or Ctrl-C")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        if options.kubeconfig or options.context:
            client = Client.from_kubeconfig(options.kubeconfig, context=options.context)
            asyncio.run(_on_cluster(main, client, options.duration))
        else:
            asyncio.run(_on_embedded(main, fill, happens, options.duration))


async def _on_cluster(
    main: Callable[[Client], Coroutine[Any, Any, None]], connecting: Client, duration: float | None
) -> None:
    async with connecting as client:
        await _until(asyncio.create_task(main(client)), asyncio.create_task(asyncio.sleep(duration or 1e9)))


async def _on_embedded(
    main: Callable[[Client], Coroutine[Any, Any, None]],
    fill: Callable[[APIServer], Awaitable[None]],
    happens: Callable[[APIServer], Awaitable[None]],
    duration: float | None,
) -> None:
    async def show(server: APIServer) -> None:
        happening = asyncio.ensure_future(happens(server))
        done, _ = await asyncio.wait({happening}, timeout=duration)
        if not done:
            happening.cancel()
            return
        happening.result()
        await asyncio.sleep(AFTER)

    async with APIServer() as server:
        await fill(server)
        async with server.client() as client:
            await _until(asyncio.create_task(main(client)), asyncio.create_task(show(server)))


async def _until(example: asyncio.Task[None], over: asyncio.Task[None]) -> None:
    """Wait until one of the two has ended, then end both; errors come out."""
    await asyncio.wait({example, over}, return_when=asyncio.FIRST_COMPLETED)
    for task in (example, over):
        task.cancel()
    for result in await asyncio.gather(example, over, return_exceptions=True):
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            raise result


async def until_followed(server: APIServer, since: int, *, anew: bool = False, seconds: float = 15) -> None:
    """Until a client follows the pods again, `anew` with a full list; `since` counts the requests that came before."""
    sign = "sendInitialEvents" if anew else "watch"
    async with asyncio.timeout(seconds):
        while not any(  # noqa: ASYNC110 - the server keeps a log, it has no event
            request.status == 200 and request.path == "/api/v1/pods" and sign in request.params
            for request in server.requests[since:]
        ):
            await asyncio.sleep(0.05)


def pod(
    name: str, *, namespace: str = "default", phase: str = "Pending", node: str = "", **labels: str
) -> dict[str, Any]:
    """A small Pod for the embedded server."""
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "registry.example.com/main:1"}]}
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}
