"""`kinformer problems`: prints what is wrong right now, a line for each cause, and ends."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from kinformer import Client, KinformerError, NotSyncedError, SharedInformerFactory
from kinformer.cli.commands.outages import by_reason
from kinformer.cli.coverage import UNKNOWN_SINCE, Coverage, Scope, withheld_words
from kinformer.cli.output.errors import complain
from kinformer.cli.output.grid import Cell, Grid
from kinformer.cli.output.screen import Loading
from kinformer.cli.output.tables import Ink
from kinformer.cli.output.text import clean, escaped
from kinformer.cli.target import Selection, Server
from kinformer.contrib.problems import Problem, Problems, by_severity
from kinformer.objects.units import age

__all__ = ["NOT_LOOKED", "SOME", "problems"]

SOME = 1
NOT_LOOKED = 2  # a resource could not be read
_PATIENCE = 120.0  # seconds for the first lists
_LOOK = 0.25  # seconds between two updates of the progress line
_STYLES = {"critical": "bold red", "error": "red", "warning": "yellow"}


async def problems(server: Server, selection: Selection, *, output: str, grace: float | None) -> int:
    """Print the problems of a cluster or a namespace to stdout.

    Args:
        server: The server.
        selection: The namespace, or all.
        output: "table" or "json", a line for each problem.
        grace: Seconds for which anything may be wrong, or None for the grace times of the rules.

    Returns:
        0 if there is no problem, 1 if there are some, and 2 if something could not be read. The others are printed.
    """
    try:
        async with server.client() as client:
            return await _look(client, selection, output, grace)
    except KinformerError as error:  # before anything could be read
        return complain(error, NOT_LOOKED)


async def _look(client: Client, selection: Selection, output: str, grace: float | None) -> int:
    namespace = None if selection.all_namespaces else selection.namespace or client.namespace
    began = datetime.now(UTC)
    async with SharedInformerFactory(client) as factory:
        scope = Scope(client, factory, namespace)
        await scope.update()
        async with Problems(factory, namespace=namespace, grace=grace) as found:
            try:
                await _synced(found, factory)
            except NotSyncedError as error:
                return complain(error, NOT_LOOKED)
            shown = by_severity(scope.found(found))
            coverage = scope.coverage(found, once=True)
    _write(shown, output, with_namespace=namespace is None)
    if not shown:
        print(f"{UNKNOWN_SINCE}{age(began)}." if coverage.is_unknown else coverage.verdict, file=sys.stderr)
    _write_unread(coverage)
    if scope.left_out:
        complain(scope.left_out_words)
    return NOT_LOOKED if coverage.withheld or coverage.unread else SOME if shown else 0


def _write_unread(coverage: Coverage) -> None:
    for words, names in by_reason(coverage.withheld).items():
        told = withheld_words(len(coverage.withheld), coverage.resources)
        complain(f"{told}: {', '.join(names)}: {words}")
    for words, names in by_reason(coverage.unread).items():
        complain(f"could not look at {', '.join(names)}: {words}")


async def _synced(found: Problems, factory: SharedInformerFactory) -> None:
    waiting = asyncio.ensure_future(found.wait_synced(_PATIENCE))
    try:
        with Loading("problems") as loading:
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=_LOOK)
                loading.update(f"{sum(one.bytes for one in factory.statistics().values()) / 1e6:,.1f} MB")
        waiting.result()
    finally:
        waiting.cancel()


def _write(shown: Sequence[Problem], output: str, *, with_namespace: bool) -> None:
    if output == "json":
        sys.stdout.writelines(f"{escaped(json.dumps(one.as_dict(), ensure_ascii=False))}\n" for one in shown)
        return
    if not shown:
        return
    ink = Ink()
    namespace = ["NAMESPACE"] if with_namespace else []
    grid = Grid(["SEVERITY", *namespace, "OWNER", "HIT", "REASON", "SINCE", "MESSAGE"])
    for line in grid.lines([_row(one, with_namespace=with_namespace) for one in shown]):
        line.rstrip()
        sys.stdout.write(f"{ink.render(line)}\n")


def _key(one: Problem) -> str:
    """Return the key of the owner."""
    return f"{one.owner.namespace}/{one.owner.name}" if one.owner.namespace else one.owner.name


def _row(one: Problem, *, with_namespace: bool) -> list[Cell]:
    is_itself = one.count == 1 and one.unit != "replicas" and one.key in ("", _key(one))
    unit = one.unit.removesuffix("s") if one.count == 1 else one.unit
    hit = "" if is_itself else f"{one.count:,} {unit}"
    return [
        Cell(one.severity, _STYLES[one.severity]),
        *([Cell(clean(one.owner.namespace))] if with_namespace else []),
        Cell(clean(f"{one.owner.kind}/{one.owner.name}")),
        Cell(clean(hit)),
        Cell(clean(one.reason)),
        Cell(age(one.since)),
        Cell(clean(one.message)),
    ]
