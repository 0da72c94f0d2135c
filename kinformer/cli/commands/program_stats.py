"""`kinformer stats http://...`: the informers, derived collections and fleets of a running program, by `/statusz`."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from kinformer import Client, KinformerError
from kinformer.cli.output.amounts import size
from kinformer.cli.output.errors import FAILED, complain
from kinformer.cli.output.grid import Cell, Grid
from kinformer.cli.output.live_frame import flowing
from kinformer.cli.output.screen import can_draw, draw
from kinformer.cli.output.tables import clean
from kinformer.cli.output.text import middle
from kinformer.objects.units import human_duration

__all__ = ["is_program", "program_stats"]

_PAGE = "/statusz"
_ADDRESS = re.compile(r"(?P<server>https?://[^/?#]*)(?P<path>[^?#]*)")  # a query is not sent
_INFORMERS = Grid(
    ("RESOURCE", "STATE", "OBJECTS", "MEMORY", "QUEUE", "PROVED", "RELISTS", "RESTARTS", "ERROR"),
    right=("OBJECTS", "MEMORY", "QUEUE", "PROVED", "RELISTS", "RESTARTS"),
    names=("RESOURCE",),
    gap=2,
)
_DERIVED = Grid(
    ("COLLECTION", "STATE", "VALUES", "RUNS", "FAILED", "WAITING", "READS"),
    right=("VALUES", "RUNS", "FAILED", "WAITING"),
    names=("COLLECTION",),
    gap=2,
)
_CLUSTERS = Grid(
    ("CLUSTER", "STATE", "INFORMERS", "FAILURES", "ERROR"), right=("INFORMERS", "FAILURES"), names=("CLUSTER",), gap=2
)
Status = Mapping[str, Any]


def is_program(resource: str) -> bool:
    """Return True if this is the address of a program rather than a resource."""
    return resource.startswith(("http://", "https://"))


async def program_stats(url: str, *, output: str, once: bool, interval: float, duration: float | None) -> int:
    """Show the figures of a program that serves `/statusz`, as a `Manager` with `listen` and the FastAPI router do.

    Args:
        url: The URL of the program. A path replaces `/statusz`.
        output: "table" or "json".
        once: Print once and exit.
        interval: Seconds between two requests.
        duration: Seconds after which to end, or None to run forever.

    Returns:
        0, or 1 if the first request fails. Later failures are shown and retried.
    """
    address = _ADDRESS.match(url)
    assert address is not None, "see is_program"
    page = address["path"] if address["path"] not in ("", "/") else _PAGE
    limit = asyncio.timeout(duration)
    try:
        async with limit, Client.from_url(address["server"]) as client:
            program = _WatchedProgram(client, page)
            try:
                await program.ask()
            except (KinformerError, ValueError) as error:
                return complain(error, FAILED)
            if once:
                program.print(output)
            else:
                await _go_on(program, output, interval)
    except TimeoutError:
        if not limit.expired():
            raise
    return 0


async def _go_on(program: _WatchedProgram, output: str, interval: float) -> None:
    console = Console()
    if output == "table" and can_draw(console):
        news = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(program.keep_asking(interval, news.set), name="kinformer stats: requests")
            await draw(console, program.picture, news=news)
            asking.cancel()
        return
    await program.keep_asking(interval, lambda: program.print(output), first=True)


class _WatchedProgram:
    """A program, and its last status response. `ask` replaces it, and a failed request only adds a line below it."""

    def __init__(self, client: Client, page: str) -> None:
        self._client = client
        self._page = page
        self._status: Status = {}
        self._failure = ""

    async def ask(self) -> None:
        """Request the status.

        Raises:
            KinformerError: There is no response.
            ValueError: The response is not a status.
        """
        body = await self._client.text(self._page)
        try:
            status = json.loads(body)
        except ValueError:
            status = None
        if not isinstance(status, dict) or not isinstance(status.get("resources"), dict):
            raise ValueError(f"{self._client.server}{self._page} does not return the status of informers")
        self._status, self._failure = status, ""

    async def keep_asking(self, interval: float, told: Any, *, first: bool = False) -> None:
        """Poll until cancelled. `told` is called after each response."""
        if first:
            told()
        while True:
            await asyncio.sleep(interval)
            try:
                await self.ask()
            except (KinformerError, ValueError) as error:
                self._failure = str(error)
            told()

    def print(self, output: str) -> None:
        """Print the figures to stdout."""
        if output == "json":
            sys.stdout.write(f"{json.dumps(self._status)}\n")
        else:
            sys.stdout.write("\n".join(line.plain.rstrip() for line in self._lines()) + "\n")
        sys.stdout.flush()

    def picture(self, width: int, height: int) -> RenderableType:
        """Render the screen."""
        title = Text(" kinformer stats ", "bold reverse cyan")
        head = flowing([title, Text(middle(clean(f"{self._client.server}{self._page}"), width - 2))], width)
        lines, room = self._lines(width), height - len(head) - 1
        foot = Text(" q ends", "bright_black", end="")
        return Group(*head, *lines[:room], *[Text()] * (room - len(lines)), foot)

    def _lines(self, width: int | None = None) -> list[Text]:
        lines = _INFORMERS.lines([_informer(*entry) for entry in self._status["resources"].items()], width)
        if shared := self._status.get("shared_cache"):
            lines += [Text(), _shared(shared)]
        derived = self._status.get("derived") or {}
        if derived:
            lines += [Text(), *_DERIVED.lines([_derived(*entry) for entry in derived.items()], width)]
        for name, fleet in (self._status.get("fleets") or {}).items():
            clusters = [_cluster(f"{name}/{cluster}", health) for cluster, health in fleet["clusters"].items()]
            lines += [Text(), *_CLUSTERS.lines(clusters, width)]
            if fleet["source_error"]:
                lines.append(Text(clean(f"{name}: {fleet['source_error']}"), "red"))
        if self._failure:
            lines.append(Text(clean(self._failure), "red"))
        return lines


def _informer(name: str, status: Status) -> list[Cell]:
    health, figures = status["health"], status["statistics"]
    error = "" if health.get("live") else str(health.get("last_error") or "")
    return [
        Cell(clean(name), "bold"),
        _state(health),
        Cell(f"{figures['objects']:,}"),
        Cell(size(figures["memory"]) if figures["objects"] else "-"),
        Cell(f"{figures['queued'] + sum(figures['pending'].values()):,}"),
        Cell("-" if (age := health.get("staleness")) is None else human_duration(age)),
        Cell(f"{sum(figures['relists'].values()):,}"),
        Cell(f"{sum(figures['watch_restarts'].values()):,}"),
        Cell(clean(error), "red"),
    ]


def _shared(shared: Status) -> Text:
    """Return who holds the cache that this program shares with others."""
    if shared["holder"] is None:
        return Text("shared cache: this process is alone, and reads from the server", "yellow")
    return Text(
        clean(f"shared cache: this process is the {shared['role']}, and the holder is process {shared['holder']}")
    )


def _derived(name: str, status: Status) -> list[Cell]:
    figures = status["statistics"]
    return [
        Cell(clean(name), "bold"),
        _state(status["health"]),
        Cell(f"{figures['objects']:,}"),
        Cell(f"{figures['runs']:,}"),
        Cell(f"{figures['failures']:,}", "yellow" if figures["failures"] else ""),
        Cell(f"{figures['waiting']:,}"),
        Cell(clean(", ".join(figures["reads"]))),
    ]


def _cluster(name: str, health: Status) -> list[Cell]:
    state = ("live" if health["live"] else "away") if health["state"] == "running" else str(health["state"])
    return [
        Cell(clean(name), "bold"),
        Cell(clean(state), "green" if health["live"] else "red"),
        Cell(f"{len(health['resources']):,}"),
        Cell(f"{health['failures']:,}", "yellow" if health["failures"] else ""),
        Cell(clean(str(health["last_error"] or "")), "red"),
    ]


def _state(health: Status) -> Cell:
    return Cell(str(health["state"]).replace("_", " "), "green" if health.get("live") else "red")
