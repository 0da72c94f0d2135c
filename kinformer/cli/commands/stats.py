"""`kinformer stats`: shows the figures of running informers, as `top` shows processes."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.text import Text

from kinformer import KinformerError, SharedInformerFactory
from kinformer.cli.commands.figures import Gauge, InformerFigures
from kinformer.cli.output.amounts import rate, seconds, size
from kinformer.cli.output.errors import FAILED, complain, one_line
from kinformer.cli.output.grid import Cell, Grid
from kinformer.cli.output.live_frame import flowing
from kinformer.cli.output.screen import Loading, can_draw, draw
from kinformer.cli.output.tables import clean
from kinformer.cli.output.text import middle
from kinformer.cli.process import processor_seconds, resident_memory
from kinformer.cli.target import ObjectSelection, Server
from kinformer.objects.units import human_duration

__all__ = ["stats"]

_LOOK = 1.0  # seconds between two updates on a terminal
_HEADER = (
    *("RESOURCE", "STATE", "OBJECTS", "MEMORY", "ADD/S", "UPD/S", "DEL/S", "LAST EVENT", "QUEUE", "LAG"),
    *("RELISTS", "RESTARTS"),
)
_STATES = {"watching": "green", "polling": "green", "listing": "yellow", "starting": "yellow"}


async def stats(
    server: Server,
    selections: Sequence[ObjectSelection],
    *,
    output: str,
    once: bool,
    interval: float,
    timeout: float,
    duration: float | None,
    compact: bool = False,
    metadata_only: bool = False,
) -> int:
    """Run an informer for each selection, and show their figures.

    On a terminal, this is a table that changes in place. Otherwise a table, or a line with "json", is printed every
    `interval` seconds.

    Args:
        server: The server.
        selections: The objects. Each selection gets an informer.
        output: "table" or "json".
        once: Wait for the caches, observe them for one interval, print and exit.
        interval: Seconds between two updates.
        timeout: Seconds for which `once` waits for the caches.
        duration: Seconds after which to end, or None to run forever.
        compact, metadata_only: Options of `for_resource`.

    Returns:
        0, or 1 with `once` if a cache has not synced.
    """
    limit = asyncio.timeout(duration)
    try:
        async with limit, server.client() as client:
            places = [(selection, *await selection.find(client)) for selection in selections]
            async with SharedInformerFactory(client, compact=compact, metadata_only=metadata_only) as factory:
                informers = [informer for place in places for informer in place[0].informers(factory, *place[1:])]
                gauges = [Gauge(informer, clock=time.monotonic) for informer in dict.fromkeys(informers)]
                names = {namespace or "all namespaces" for *_, namespace in places}
                show = _Show(gauges, output=output, title=f"{client.server}, {', '.join(sorted(names))}")
                if once:
                    return await _once(factory, show, interval=interval, timeout=timeout)
                await show.go_on(interval)
    except TimeoutError:
        if not limit.expired():
            raise
    return 0


async def _once(factory: SharedInformerFactory, show: _Show, *, interval: float, timeout: float) -> int:
    failure: KinformerError | None = None
    with Loading(f"{len(factory.informers)} caches") as loading:
        waiting = asyncio.ensure_future(factory.wait_for_cache_sync(timeout, fail_fast=True))
        try:
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=0.25)
                loading.update(size(sum(figures.bytes for figures in factory.statistics().values())))
            waiting.result()
        except KinformerError as error:
            failure = error
        finally:
            waiting.cancel()
    if failure is None:
        show.look()
        await asyncio.sleep(interval)
    show.print()
    return complain(failure, FAILED) if failure is not None else 0


class _Show:
    """Shows the figures of some informers, as a table or as JSON: those of the last `look`."""

    def __init__(self, gauges: Sequence[Gauge], *, output: str, title: str) -> None:
        self._gauges = gauges
        self._output = output
        self._title = title
        self._grid = Grid(_HEADER, right=_HEADER[2:10], names=_HEADER[:1], gap=2)
        self._began, self._processor = time.monotonic(), processor_seconds()
        self._looked: list[InformerFigures] = self.look()

    def look(self) -> list[InformerFigures]:
        """Return the current figures. The next rates are measured from here."""
        self._looked = [gauge.look() for gauge in self._gauges]
        return self._looked

    async def go_on(self, interval: float) -> None:
        """Show the figures until cancelled or, on a terminal, until q."""
        console = Console()
        if self._output == "table" and can_draw(console):
            news = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                looking = group.create_task(self._keep_looking(news), name="kinformer stats: looks")
                await draw(console, self._picture, news=news)
                looking.cancel()
            return
        while True:
            await asyncio.sleep(interval)
            self.print()

    async def _keep_looking(self, news: asyncio.Event) -> None:
        while True:
            self.look()
            news.set()
            await asyncio.sleep(_LOOK)

    def print(self) -> None:
        """Print the current figures to stdout."""
        figures = self.look()
        if self._output == "json":
            at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            process = {"memory": resident_memory(), "processor": processor_seconds()}
            line = {"at": at, "process": process, "informers": [informer.as_dict() for informer in figures]}
            sys.stdout.write(f"{json.dumps(line)}\n")
        else:
            lines = self._grid.lines([_row(informer) for informer in figures])
            sys.stdout.write("\n".join(line.plain.rstrip() for line in [*lines, *_errors(figures)]) + "\n")
        sys.stdout.flush()

    def _picture(self, width: int, height: int) -> RenderableType:
        figures = self._looked
        up = time.monotonic() - self._began
        memory = resident_memory()
        busy = (processor_seconds() - self._processor) / max(up, 1.0)
        used = Text(f"processor {busy:.0%}" + (f", {size(memory)}" if memory else ""), "bright_black")
        title = Text(" kinformer stats ", "bold reverse cyan")
        place = Text(middle(clean(self._title), width - 2))
        head = flowing([title, place, Text(f"up {human_duration(up)}"), used], width)
        rows = [_row(informer) for informer in figures]
        if self._grid.fits(rows, width):
            lines = self._grid.lines(rows, width)
        else:
            lines = [line for row in rows for line in _block(row, width)]
        lines += [Text(), *_errors(figures, width)]
        room = height - len(head) - 1
        foot = Text(" q ends", "bright_black", end="")
        return Group(*head, *lines[:room], *[Text()] * (room - len(lines)), foot)


def _block(row: Sequence[Cell], width: int) -> list[Text]:
    """Return the figures of an informer below its name, for a screen that is too narrow to show them beside it."""
    name, state, *others = row
    figures = [
        Text.assemble((f"{header.lower()} ", "bright_black"), (cell.text, cell.style))
        for header, cell in zip(_HEADER[2:], others, strict=True)
    ]
    top = Text.assemble((middle(name.text, width - len(state.text) - 3), name.style), "   ", (state.text, state.style))
    return [top, *flowing(figures, width)]


def _row(informer: InformerFigures) -> list[Cell]:
    style = _STATES.get(informer.state, "red") if informer.live or not informer.synced else "red"
    age = "-" if informer.last_event_age is None else human_duration(informer.last_event_age)
    lag = "-" if informer.lag is None else "<1 s" if informer.lag < 1 else seconds(informer.lag)
    waiting = informer.queued + informer.pending
    return [
        Cell(clean(informer.resource), "bold"),
        Cell(informer.state.replace("_", " "), style),
        Cell(f"{informer.objects:,}"),
        Cell(size(informer.memory) if informer.objects else "-"),
        *(Cell(rate(informer.rates[kind]), "" if informer.rates[kind] else "bright_black") for kind in informer.rates),
        Cell(age),
        Cell(f"{waiting:,}", "yellow" if waiting > 100 else ""),
        Cell(lag, "yellow" if informer.lag is not None and informer.lag > 5 else ""),
        Cell(_by_cause(informer.relists)),
        Cell(_by_cause(informer.watch_restarts)),
    ]


def _by_cause(counts: Mapping[str, int]) -> str:
    """Format counts by cause: `2 expired, 1 gap`."""
    most = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{number:,} {cause}" for cause, number in most) or "0"


def _errors(figures: Sequence[InformerFigures], width: int | None = None) -> list[Text]:
    """Return the reasons of outages and the numbers of skipped objects. With a width they are wrapped, never cut."""
    messages = []
    for informer in figures:
        name = informer.resource
        if informer.last_error is not None and not informer.live:
            messages.append((clean(one_line(f"{name}: {informer.last_error}")), "red"))
        if informer.errors:
            skipped = f"{name}: {informer.errors:,} objects are skipped, because they cannot be decoded"
            messages.append((clean(skipped), "yellow"))
    if width is None:
        return [Text(message, style, no_wrap=True) for message, style in messages]
    return [
        Text(line, style, no_wrap=True)
        for message, style in messages
        for line in textwrap.wrap(message, width, subsequent_indent="  ", break_on_hyphens=False)
    ]
