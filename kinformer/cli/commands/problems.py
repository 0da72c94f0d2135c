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
from kinformer.cli.target import ObjectSelection, Server
from kinformer.contrib.problems import Problem, Problems, by_severity
from kinformer.objects.units import age

__all__ = ["NOT_LOOKED", "SOME", "problems"]

SOME = 1  # there are problems
NOT_LOOKED = 2  # a resource could not be read
_PATIENCE = 120.0  # seconds for the first lists
_LOOK = 0.25  # seconds between two updates of the progress line
_STYLES = {"critical": "bold red", "error": "red", "warning": "yellow"}


async def problems(server: Server, selection: ObjectSelection, *, output: str, grace: float | None) -> int:
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


async def _look(client: Client, selection: ObjectSelection, output: str, grace: float | None) -> int:
    namespace = None if selection.all_namespaces else selection.namespace or client.namespace
    began = datetime.now(UTC)
    async with SharedInformerFactory(client) as factory:
        scope = Scope(client, factory, namespace)
        await scope.update()
        async with Problems(factory, namespace=namespace, grace=grace) as collection:
            try:
                await _synced(collection, factory)
            except NotSyncedError as error:
                return complain(error, NOT_LOOKED)
            shown = by_severity(scope.found(collection))
            coverage = scope.coverage(collection, once=True)
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


async def _synced(collection: Problems, factory: SharedInformerFactory) -> None:
    waiting = asyncio.ensure_future(collection.wait_synced(_PATIENCE))
    try:
        with Loading("problems") as loading:
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=_LOOK)
                loading.update(f"{sum(figures.bytes for figures in factory.statistics().values()) / 1e6:,.1f} MB")
        waiting.result()
    finally:
        waiting.cancel()


def _write(shown: Sequence[Problem], output: str, *, with_namespace: bool) -> None:
    if output == "json":
        sys.stdout.writelines(f"{escaped(json.dumps(problem.as_dict(), ensure_ascii=False))}\n" for problem in shown)
        return
    if not shown:
        return
    ink = Ink()
    namespace = ["NAMESPACE"] if with_namespace else []
    grid = Grid(["SEVERITY", *namespace, "OWNER", "HIT", "REASON", "SINCE", "MESSAGE"])
    for line in grid.lines([_row(problem, with_namespace=with_namespace) for problem in shown]):
        line.rstrip()
        sys.stdout.write(f"{ink.render(line)}\n")


def _key(problem: Problem) -> str:
    """Return the key of the owner."""
    return f"{problem.owner.namespace}/{problem.owner.name}" if problem.owner.namespace else problem.owner.name


def _row(problem: Problem, *, with_namespace: bool) -> list[Cell]:
    is_itself = problem.count == 1 and problem.unit != "replicas" and problem.key in ("", _key(problem))
    unit = problem.unit.removesuffix("s") if problem.count == 1 else problem.unit
    hit = "" if is_itself else f"{problem.count:,} {unit}"
    return [
        Cell(problem.severity, _STYLES[problem.severity]),
        *([Cell(clean(problem.owner.namespace))] if with_namespace else []),
        Cell(clean(f"{problem.owner.kind}/{problem.owner.name}")),
        Cell(clean(hit)),
        Cell(clean(problem.reason)),
        Cell(age(problem.since)),
        Cell(clean(problem.message)),
    ]
