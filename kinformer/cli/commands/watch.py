"""`kinformer watch`: what there is, then every change of it, through whatever happens to the server."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass

from rich.console import Console

from kinformer.cli.commands.event_lines import EventLines, JsonLines, NameLines, TableLines
from kinformer.cli.output.differences import NOISE
from kinformer.cli.output.errors import one_line
from kinformer.cli.output.live_table import LiveTable
from kinformer.cli.output.progress import Loading
from kinformer.cli.output.screen import can_draw, draw
from kinformer.cli.output.tables import Columns, Table
from kinformer.cli.target import Selection, Server, UsageError
from kinformer.client.client import Client
from kinformer.client.discovery import APIResource
from kinformer.exceptions import BadRequestError, ConfigError, ForbiddenError, NotFoundError, UnauthorizedError
from kinformer.informer.factory import SharedInformerFactory
from kinformer.informer.informer import SharedInformer
from kinformer.processor.event_stream import EventStream

__all__ = ["Manner", "watch"]

_LOOK = 0.25  # seconds between two looks at how the informer does
_FINAL = (UnauthorizedError, ForbiddenError, NotFoundError)  # before the first list they end the command


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a watch is shown.

    Attributes:
        output: "table", "json" or "jsonl" (a line an event), or "name" (a line an event).
        diff: Show what updates have changed.
        all_fields: Keep managedFields, and leave nothing out of differences.
        plain: A table of lines on a terminal too, in place of one that is drawn anew.
        changes_only: Leave out what there is when the watch begins.
    """

    output: str = "table"
    diff: bool = False
    all_fields: bool = False
    plain: bool = False
    changes_only: bool = False

    def __post_init__(self) -> None:
        if self.diff and self.output == "name":
            raise UsageError("--diff does not go with -o name")

    @property
    def noise(self) -> frozenset[str] | None:
        """What differences leave out; None where none are wanted."""
        if not self.diff:
            return None
        return frozenset() if self.all_fields else NOISE


async def watch(server: Server, selection: Selection, manner: Manner, *, duration: float | None) -> int:
    """Show each object of a selection, then each change, until cancelled.

    On a terminal a table is drawn, and q ends it; elsewhere, and in the other forms, events are lines on stdout. An
    informer does the work: an outage is told of, on stderr where there are lines, and what changed meanwhile comes
    after it. A 401, 403 or 404 before the first list is raised, also a server that cannot be reached.

    Args:
        server: Where.
        selection: Which.
        manner: How.
        duration: Seconds after which to end; None is never.
    """
    limit = asyncio.timeout(duration)
    try:
        async with limit, server.client() as client:
            resource, namespace = await selection.find(client)
            if "watch" not in resource.verbs:
                raise ConfigError(
                    f"{resource} cannot be watched; the server offers {', '.join(resource.verbs)} (kinformer get lists)"
                )
            await _follow(client, resource, namespace, selection, manner)
    except TimeoutError:
        if not limit.expired():
            raise
    return 0


async def _follow(
    client: Client, resource: APIResource, namespace: str | None, selection: Selection, manner: Manner
) -> None:
    async with SharedInformerFactory(client) as factory:
        informer = factory.for_resource(
            resource.gvr,
            namespace=namespace,
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
            keep_managed_fields=manner.all_fields,
        )
        console = Console()
        with_namespace = resource.namespaced and selection.all_namespaces
        async with informer.events() as events:
            await _first_list(informer, resource, selection)
            if manner.output == "table" and not manner.plain and can_draw(console):
                where = f" in {namespace}" if namespace else " in all namespaces" if resource.namespaced else ""
                table = LiveTable(
                    Columns(resource, with_namespace=with_namespace),
                    title=f"{resource}{where}{selection.in_words()}",
                    noise=manner.noise,
                    clock=time.monotonic,
                )
                await _draw(console, table, informer, events)
            else:
                await _write(_lines(resource, manner, with_namespace=with_namespace), manner, informer, events)


def _lines(resource: APIResource, manner: Manner, *, with_namespace: bool) -> EventLines:
    if manner.output == "name":
        return NameLines(resource)
    if manner.output in ("json", "jsonl"):
        return JsonLines(noise=manner.noise)
    return TableLines(Table(resource, with_namespace=with_namespace, with_event=True), noise=manner.noise)


async def _draw(console: Console, table: LiveTable, informer: SharedInformer, events: EventStream) -> None:
    news = asyncio.Event()

    async def follow() -> None:
        async for event in events:
            table.apply(event)
            news.set()

    async with asyncio.TaskGroup() as group:
        following = group.create_task(follow(), name="kinformer watch: events")
        await draw(
            console,
            lambda width, height: table.picture(width, height, informer.health()),
            news=news,
            press=table.press,
        )
        following.cancel()


async def _write(lines: EventLines, manner: Manner, informer: SharedInformer, events: EventStream) -> None:
    lines.fit(informer.lister.list())
    telling = asyncio.create_task(_tell_of_outages(informer), name="kinformer watch: outages")
    try:
        async for event in events:
            if not (manner.changes_only and event.is_in_initial_list):
                lines.write(event)
    finally:
        telling.cancel()
        await asyncio.wait({telling})


async def _first_list(informer: SharedInformer, resource: APIResource, selection: Selection) -> None:
    outage = _Outage(informer)
    waiting = asyncio.ensure_future(informer.wait_synced(fail_fast=True))
    try:
        with Loading(resource.name) as loading:
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=_LOOK)
                error = informer.health().last_error
                if isinstance(error, BadRequestError):
                    raise selection.refused(resource, error) from error
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
