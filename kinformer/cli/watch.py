"""`kinformer watch`: what there is, then every change of it, through whatever happens to the server."""

from __future__ import annotations

import asyncio
import sys
import time

from kinformer.cli.errors import one_line
from kinformer.cli.get import object_name
from kinformer.cli.progress import Loading
from kinformer.cli.tables import Table
from kinformer.cli.target import Selection, Server
from kinformer.client import Client
from kinformer.discovery import APIResource
from kinformer.event_stream import InformerEvent
from kinformer.exceptions import ForbiddenError, NotFoundError, UnauthorizedError
from kinformer.factory import SharedInformerFactory
from kinformer.informer import SharedInformer

__all__ = ["watch"]

_LOOK = 0.25  # seconds between two looks at how the informer does
_FINAL = (UnauthorizedError, ForbiddenError, NotFoundError)  # before the first list they end the command


async def watch(server: Server, selection: Selection, *, output: str, duration: float | None) -> int:
    """Print each object of a selection, then each change, to stdout, until cancelled.

    An informer does the work: an outage is a line on stderr, and what changed meanwhile is printed after it. A 401,
    403 or 404 before the first list is raised, also a server that cannot be reached.

    Args:
        server: Where.
        selection: Which.
        output: "table", "json" (a line an event: `{"type": ..., "object": ...}`) or "name" (a line an event).
        duration: Seconds after which to end; None is never.
    """
    limit = asyncio.timeout(duration)
    try:
        async with limit, server.client() as client:
            resource, namespace = await selection.find(client)
            await _follow(client, resource, namespace, selection, output)
    except TimeoutError:
        if not limit.expired():
            raise
    return 0


async def _follow(
    client: Client, resource: APIResource, namespace: str | None, selection: Selection, output: str
) -> None:
    async with SharedInformerFactory(client) as factory:
        informer = factory.for_resource(
            resource.gvr,
            namespace=namespace,
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
        )
        printer = _Printer(resource, selection, output)
        async with informer.events() as events:
            await _first_list(informer, resource)
            printer.fit(informer)
            telling = asyncio.create_task(_tell_of_outages(informer), name="kinformer watch: outages")
            try:
                async for event in events:
                    printer.write(event)
            finally:
                telling.cancel()
                await asyncio.wait({telling})


async def _first_list(informer: SharedInformer, resource: APIResource) -> None:
    outage = _Outage(informer)
    waiting = asyncio.ensure_future(informer.wait_synced(fail_fast=True))
    try:
        with Loading(resource.name) as loading:
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=_LOOK)
                outage.look()
                loading.update(f"{informer.statistics().bytes / 1e6:,.1f} MB")
        waiting.result()
    finally:
        waiting.cancel()


async def _tell_of_outages(informer: SharedInformer) -> None:
    outage = _Outage(informer)
    while True:
        await asyncio.sleep(_LOOK)
        outage.look()


class _Outage:
    """Tells on stderr when an informer loses its server, and when it follows it again: a line each."""

    def __init__(self, informer: SharedInformer) -> None:
        self._informer = informer
        self._told: str | None = None
        self._since = 0.0

    def look(self) -> None:
        """Say what is new."""
        health = self._informer.health()
        if health.live:
            if self._told is not None:
                self._say(f"followed again after {time.monotonic() - self._since:.0f} s")
            self._told = None
            return
        if health.last_error is None or (not health.synced and isinstance(health.last_error, _FINAL)):
            return
        if self._told is None:
            self._since = time.monotonic()
        if health.state not in (self._told, "listing"):  # the way back from an outage is no news of it
            self._say(f"{health.state.replace('_', ' ')}, trying again: {one_line(health.last_error)}")
            self._told = health.state

    def _say(self, text: str) -> None:
        print(f"kinformer: {self._informer.name}: {text}", file=sys.stderr)


class _Printer:
    """Events on stdout, each at once, for whoever reads the pipe."""

    def __init__(self, resource: APIResource, selection: Selection, output: str) -> None:
        self._resource = resource
        self._output = output
        self._table: Table | None = None
        if output == "table":
            with_namespace = resource.namespaced and selection.all_namespaces
            self._table = Table(resource, with_namespace=with_namespace, with_event=True)

    def fit(self, informer: SharedInformer) -> None:
        if self._table is not None:
            self._table.fit(informer.lister.list())

    def write(self, event: InformerEvent) -> None:
        if self._table is not None:
            self._table.write(event.object, event.type)
            return
        if self._output == "json":
            sys.stdout.write(f'{{"type":"{event.type}","object":{event.object.raw.decode()}}}\n')
        else:
            sys.stdout.write(f"{object_name(self._resource, event.object)}\n")
        sys.stdout.flush()
