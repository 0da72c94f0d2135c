"""`kinformer watch`: shows the objects of a selection, then every change, through outages of the server."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from rich.console import Console

from kinformer import Client, EventStream, SharedInformer, SharedInformerFactory
from kinformer.cli.commands.event_lines import (
    EventLines,
    JsonLines,
    NameLines,
    TableLines,
    TemplateLines,
    YamlDocuments,
)
from kinformer.cli.commands.manner import Manner
from kinformer.cli.commands.outages import LOOK, Outage, report_outages
from kinformer.cli.commands.printer_columns import printer_columns
from kinformer.cli.output.live_table import LiveTable
from kinformer.cli.output.screen import Loading, can_draw, draw
from kinformer.cli.output.tables import Columns, Table
from kinformer.cli.target import ObjectSelection, Server, UsageError
from kinformer.client import APIResource
from kinformer.exceptions import BadRequestError

__all__ = ["watch"]

_POLL = 30.0  # seconds between the lists of a resource that cannot be watched


async def watch(
    server: Server,
    selections: Sequence[ObjectSelection],
    manner: Manner,
    *,
    poll: float | None = None,
    duration: float | None,
) -> int:
    """Show each object of some selections, then each change, until cancelled.

    On a terminal, a table is drawn, and q ends it. Otherwise, and in the other forms, events are written to stdout. An
    informer for each resource, or each name, follows the server. An outage is reported, on stderr if events are
    written, and missed changes follow after it. A 401, 403 or 404 before the first list is raised, and so is the
    failure to reach the server.

    Args:
        server: The server.
        selections: The objects, one selection for each resource.
        manner: The output form.
        poll: Seconds between two lists, instead of a watch. None lists only what cannot be watched, every 30 s.
        duration: Seconds after which to end, or None to run forever.

    Raises:
        UsageError: `sort_by` is set although events are written, which come in the order in which they happen.
    """
    console = Console()
    draws = manner.is_table and not manner.plain and can_draw(console)
    if manner.sort_by and not draws:
        raise UsageError("--sort-by orders a list: use it with --once, or on a terminal")
    limit = asyncio.timeout(duration)
    try:
        async with limit, server.client() as client, SharedInformerFactory(client) as factory:
            followed = [await _follow(client, factory, selection, manner, poll) for selection in selections]
            async with AsyncExitStack() as stack:
                streams = [
                    (number, informer, await stack.enter_async_context(informer.events()))
                    for number, section in enumerate(followed)
                    for informer in section.informers
                ]
                async with asyncio.TaskGroup() as group:
                    for section in followed:
                        for informer in section.informers:
                            group.create_task(_first_list(section, informer), name="kinformer watch: first list")
                sections = [await _columns(client, section, manner, several=len(followed) > 1) for section in followed]
                if draws:
                    title = ", ".join(section.title for section in followed)
                    table = LiveTable(
                        sections,
                        title=title,
                        noise=manner.noise,
                        clock=time.monotonic,
                        order=manner.order,
                        headers=manner.headers,
                    )
                    await _draw(console, table, streams)
                else:
                    await _write([_lines(columns, manner) for columns in sections], manner, streams)
    except TimeoutError:
        if not limit.expired():
            raise
    return 0


_Streams = Sequence[tuple[int, SharedInformer, EventStream]]  # each with its section number


@dataclass(frozen=True, slots=True, kw_only=True)
class _Followed:
    """One selection, and the informers that follow it."""

    selection: ObjectSelection
    resource: APIResource
    namespace: str | None
    informers: Sequence[SharedInformer]

    @property
    def title(self) -> str:
        """The selection in words."""
        place = f" in {self.namespace}" if self.namespace else " in all namespaces" if self.resource.namespaced else ""
        names = f" {', '.join(self.selection.names)}" if self.selection.names else ""
        return f"{self.resource}{names}{place}{self.selection.in_words()}"


async def _follow(
    client: Client, factory: SharedInformerFactory, selection: ObjectSelection, manner: Manner, poll: float | None
) -> _Followed:
    resource, namespace = await selection.find(client)
    if "watch" not in resource.verbs and poll is None:
        poll = _POLL
        print(f"kinformer: {resource} cannot be watched, and is listed every {poll:g} s (--poll)", file=sys.stderr)
    informers = selection.informers(factory, resource, namespace, keep_managed_fields=manner.all_fields, poll=poll)
    return _Followed(selection=selection, resource=resource, namespace=namespace, informers=informers)


async def _columns(client: Client, followed: _Followed, manner: Manner, *, several: bool) -> Columns:
    wide = manner.output == "wide"
    return Columns(
        followed.resource,
        with_namespace=followed.resource.namespaced and followed.selection.all_namespaces,
        with_type=several,
        with_labels=manner.show_labels,
        wide=wide,
        own=await printer_columns(client, followed.resource, wide=wide) if manner.form in ("table", "wide") else None,
        custom=manner.columns,
    )


def _lines(columns: Columns, manner: Manner) -> EventLines:
    if manner.template is not None:
        return TemplateLines(manner.template, shown=manner.shown)
    match manner.output:
        case "name":
            return NameLines(columns.resource)
        case "json" | "jsonl":
            return JsonLines(noise=manner.noise, shown=manner.shown)
        case "yaml":
            return YamlDocuments(shown=manner.shown)
        case _:
            return TableLines(Table(columns, with_event=True, headers=manner.headers), noise=manner.noise)


async def _draw(console: Console, table: LiveTable, streams: _Streams) -> None:
    news = asyncio.Event()

    async def follow(section: int, events: EventStream) -> None:
        async for event in events:
            table.apply(event, section)
            news.set()

    async with asyncio.TaskGroup() as group:
        following = [
            group.create_task(follow(section, events), name="kinformer watch: events") for section, _, events in streams
        ]
        await draw(
            console,
            lambda width, height: table.picture(
                width, height, [(informer.name, informer.health()) for _, informer, _ in streams]
            ),
            news=news,
            press=table.press,
        )
        for task in following:
            task.cancel()


async def _write(sections: Sequence[EventLines], manner: Manner, streams: _Streams) -> None:
    async def follow(lines: EventLines, events: EventStream) -> None:
        async for event in events:
            if not (manner.changes_only and event.is_in_initial_list):
                lines.write(event)

    async with asyncio.TaskGroup() as group:
        for section, informer, events in streams:
            sections[section].fit(informer.lister.list())
            group.create_task(report_outages(informer), name="kinformer watch: outages")
            group.create_task(follow(sections[section], events), name="kinformer watch: events")


async def _first_list(followed: _Followed, informer: SharedInformer) -> None:
    outage = Outage(informer)
    waiting = asyncio.ensure_future(informer.wait_synced(fail_fast=True))
    try:
        with Loading(followed.resource.name) as loading:
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=LOOK)
                error = informer.health().last_error
                if isinstance(error, BadRequestError):
                    raise followed.selection.refused(followed.resource, error) from error
                outage.look()
                loading.update(f"{informer.statistics().bytes / 1e6:,.1f} MB")
        waiting.result()
    finally:
        waiting.cancel()
