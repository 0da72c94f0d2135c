"""`kinformer proxy`: the Kubernetes API for this user's programs, with some resources from one cache."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from kinformer import SharedInformer
from kinformer.cli.output.amounts import count
from kinformer.cli.output.screen import Loading
from kinformer.cli.target import Server
from kinformer.manager import Manager
from kinformer.metrics import Metrics
from kinformer.watchcache import Proxy

__all__ = ["proxy"]

_LOOK = 0.25  # seconds between two updates of the progress line


async def proxy(
    target: Server,
    resources: Sequence[str],
    *,
    listen: str | None,
    socket: str | None,
    health: str | None,
    allowed_hosts: Sequence[str],
    namespace: str | None,
    managed_fields: bool,
    duration: float | None,
) -> int:
    """Serve until cancelled. See `kinformer.watchcache.Proxy`.

    Prints the URL to stdout, then a line for each resource whose first list is complete. Requests are answered from
    the beginning.

    Args:
        target: The server.
        resources: The resources to answer from a cache, by names that kubectl accepts.
        listen, socket, allowed_hosts, namespace, managed_fields: Options of the proxy.
        health: The address of `/livez`, `/readyz`, `/statusz` and `/metrics`, or None.
        duration: Seconds after which to end, or None to run forever.

    Raises:
        ConfigError: The server has no such resource, or an option is invalid.
        OSError: The address is in use, or the socket cannot be created.
    """
    metrics = _metrics() if health else None
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(target.client())
        manager = await stack.enter_async_context(
            Manager(client, listen=health, allowed_hosts=allowed_hosts, metrics=metrics)
        )
        serving = False
        manager.add_check("proxy", lambda: None if serving else "not listening")
        running = await stack.enter_async_context(
            Proxy(
                client,
                manager.factory,
                resources,
                listen=listen,
                socket=socket,
                namespace=namespace,
                keep_managed_fields=managed_fields,
                allowed_hosts=allowed_hosts,
                metrics=metrics,
            )
        )
        serving = True
        print(f"Serving {running.url}", flush=True)
        limit = asyncio.timeout(duration)
        try:
            async with limit:
                await _show_first_lists(running.informers)
                await asyncio.Event().wait()
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            serving = False
    return 0


async def _show_first_lists(informers: Sequence[SharedInformer]) -> None:
    """Show the progress of the first lists, and a line for each one that is complete.

    Raises:
        APIError: The server keeps refusing one.
    """
    pending = {asyncio.ensure_future(informer.wait_synced()): informer for informer in informers}
    try:
        with Loading(count(len(informers), "cache")) as loading:
            while pending:
                done, _ = await asyncio.wait(pending, timeout=_LOOK, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    informer = pending.pop(task)
                    task.result()
                    print(f"{informer.name}: {count(len(informer.lister), 'object')}", flush=True)
                received = sum(informer.statistics().bytes for informer in pending.values()) / 1e6
                loading.update(f"{received:,.1f} MB; requests are passed on meanwhile")
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


def _metrics() -> Metrics | None:
    """Return a sink for `/metrics`, or None if prometheus_client is not installed."""
    try:
        from kinformer.contrib.prometheus import PrometheusMetrics
    except ImportError:
        return None
    return PrometheusMetrics()
