"""`kinformer watch`: the objects of a selection, then every change of them, through outages of the server."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass

from rich.console import Console

from kinformer import (
    APIResource,
    BadRequestError,
    Client,
    ConfigError,
    EventStream,
    ForbiddenError,
    NotFoundError,
    SharedInformer,
    SharedInformerFactory,
    UnauthorizedError,
)
from kinformer.cli.commands.event_lines import EventLines, JsonLines, NameLines, TableLines
from kinformer.cli.output.differences import NOISE
from kinformer.cli.output.errors import one_line
from kinformer.cli.output.live_table import LiveTable
from kinformer.cli.output.progress import Loading
from kinformer.cli.output.screen import can_draw, draw
from kinformer.cli.output.tables import Columns, Table
from kinformer.cli.target import Selection, Server, UsageError

__all__ = ["Manner", "watch"]

_LOOK = 0.25  # seconds between two looks at the health of the informer
_FINAL = (UnauthorizedError, ForbiddenError, NotFoundError)  # these end the command before the first list


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """The form in which a watch is shown.

    Attributes:
        output: "table", "wide", "json" or "jsonl" (a line for each event), or "name" (a line for each event).
        diff: Show the differences of updates.
        all_fields: Keep managedFields, and leave nothing out of differences.
        plain: Write lines on a terminal too, instead of a table that changes in place.
        changes_only: Leave out the objects that exist when the watch begins.
    """

    output: str = "table"
    diff: bool = False
    all_fields: bool = False
    plain: bool = False
    changes_only: bool = False

    def __post_init__(self) -> None:
        if self.diff and self.output == "name":
            raise UsageError("--diff cannot be combined with -o name")

    @property
    def noise(self) -> frozenset[str] | None:
        """The paths that differences leave out; None if no differences are shown."""
        if not self.diff:
            return None
        return frozenset() if self.all_fields else NOISE


async def watch(server: Server, selection: Selection, manner: Manner, *, duration: float | None) -> int:
    """Show each object of a selection, then each change, until cancelled.

    On a terminal a table is drawn, and q ends it; otherwise, and in the other forms, events are lines on stdout. An
    informer follows the server: an outage is reported, on stderr if events are lines, and changes that were missed
    come after it. A 401, 403 or 404 before the first list is raised, and so is a server that cannot be reached.

    Args:
        server: The server.
        selection: The objects.
        manner: The form in which to show them.
        duration: Seconds after which to end; None is never.
    """
    limit = asyncio.timeout(duration)
    try:
        async with limit, server.client() as client:
            resource, namespace = await selection.find(client)
            if "watch" not in resource.verbs:
                offers = ", ".join(resource.verbs)
                raise ConfigError(f"{resource} cannot be watched; the server offers {offers} (--once lists it)")
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
            if manner.output in ("table", "wide") and not manner.plain and can_draw(console):
                where = f" in {namespace}" if namespace else " in all namespaces" if resource.namespaced else ""
                table = LiveTable(
                    Columns(resource, with_namespace=with_namespace, wide=manner.output == "wide"),
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
    wide = manner.output == "wide"
    return TableLines(Table(resource, with_namespace=with_namespace, with_event=True, wide=wide), noise=manner.noise)


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
    reporting = asyncio.create_task(_report_outages(informer), name="kinformer watch: outages")
    try:
        async for event in events:
            if not (manner.changes_only and event.is_in_initial_list):
                lines.write(event)
    finally:
        reporting.cancel()
        await asyncio.wait({reporting})


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


async def _report_outages(informer: SharedInformer) -> None:
    outage = _Outage(informer)
    while True:
        await asyncio.sleep(_LOOK)
        outage.look()


class _Outage:
    """Reports on stderr when an informer loses its server, and when it follows it again: a line each."""

    def __init__(self, informer: SharedInformer) -> None:
        self._informer = informer
        self._reported: str | None = None
        self._since = 0.0

    def look(self) -> None:
        """Report a change since the last call."""
        health = self._informer.health()
        if health.live:
            if self._reported is not None:
                self._say(f"followed again after {time.monotonic() - self._since:.0f} s")
            self._reported = None
            return
        if health.last_error is None or (not health.synced and isinstance(health.last_error, _FINAL)):
            return
        if self._reported is None:
            self._since = time.monotonic()
        if health.state not in (self._reported, "listing"):  # listing again is not news: it is the end of the outage
            self._say(f"{health.state.replace('_', ' ')}, trying again: {one_line(health.last_error)}")
            self._reported = health.state

    def _say(self, text: str) -> None:
        print(f"kinformer: {self._informer.name}: {text}", file=sys.stderr)
