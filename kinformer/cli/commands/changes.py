"""`kinformer changes`: prints what changes as it comes, a line when something begins, and one when it has ended."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from rich.cells import cell_len
from rich.text import Text

from kinformer import Client, ConfigError, KinformerError, SharedInformer, SharedInformerFactory
from kinformer.cli.commands.outages import by_reason, report_outages
from kinformer.cli.output.errors import complain
from kinformer.cli.output.tables import Ink
from kinformer.cli.output.text import clean, escaped
from kinformer.cli.target import ObjectSelection, Server
from kinformer.client import discover
from kinformer.contrib.changes import Change, Changes
from kinformer.contrib.changes.causes import is_over, outcome_of

__all__ = ["ChangeFilter", "changes"]

_USUAL = (
    "v1/pods",
    "apps/v1/deployments",
    "apps/v1/statefulsets",
    "apps/v1/daemonsets",
    "batch/v1/jobs",
    "batch/v1/cronjobs",
    "v1/services",
    "v1/configmaps",
    "v1/secrets",
    "v1/persistentvolumeclaims",
    "networking.k8s.io/v1/ingresses",
    "autoscaling/v2/horizontalpodautoscalers",
)
_OF_CLUSTER = ("v1/nodes", "v1/namespaces", "v1/persistentvolumes")
_STYLES = {"created": "green", "deleted": "red", "changed": ""}
_MOST = 10_000  # causes to know, as many as a log keeps changes
_OBJECT = 32  # cells for the name of an object, at least
_LOOK = 1.0  # seconds between two looks at what has ended
_QUIET = 5.0  # seconds without a further change after which a cause has ended
_STUCK = 60.0  # seconds without one after which it has ended even if something expected has not followed
_LONGEST = 64  # cells for it at the start, at most. A longer name widens the column when it comes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFilter:
    """The changes to print.

    Attributes:
        kind: Of objects of this kind, or None for all.
        name: Of objects whose name matches this pattern, such as `web-*`, or None for all.
        noise: Also those of nothing but heartbeats, generations, counts of replicas and the like.
    """

    kind: str | None = None
    name: str | None = None
    noise: bool = False

    def __call__(self, change: Change) -> bool:
        """Return True if a change is to be printed."""
        return self.matches(change.kind, change.name)

    def matches(self, kind: str, name: str) -> bool:
        """Return True if changes of an object are to be printed."""
        return self.kind in (None, kind) and (self.name is None or fnmatchcase(name, self.name))


async def changes(
    server: Server,
    selections: Sequence[ObjectSelection] | ObjectSelection,
    change_filter: ChangeFilter,
    *,
    output: str,
    show_secrets: bool,
    duration: float | None,
) -> int:
    """Print each change of the selected objects to stdout, until cancelled.

    Args:
        server: The server.
        selections: The objects, or a selection without a resource for the usual resources. One of these that cannot be
            followed is a line on stderr. A chosen one is raised.
        change_filter: The changes to print.
        output: "table" for a line in words, or "json" for a line of JSON.
        show_secrets: Print the values of Secrets.
        duration: Seconds after which to end, or None to run forever.
    """
    limit = asyncio.timeout(duration)
    try:
        # The authors of changes are read from managedFields.
        async with limit, server.client() as client, SharedInformerFactory(client, keep_managed_fields=True) as factory:
            if change_filter.kind is not None:  # in any form, as a resource
                change_filter = replace(change_filter, kind=(await discover(client)).find(change_filter.kind).kind)
            usual = isinstance(selections, ObjectSelection)
            chosen = await _usual(client, selections) if isinstance(selections, ObjectSelection) else selections
            followed = [informer for selection in chosen for informer in await _follow(client, factory, selection)]
            followed = list(dict.fromkeys(followed))  # pods,po is one informer
            lines = _Lines(output, with_namespace=any(selection.all_namespaces for selection in chosen))
            async with asyncio.TaskGroup() as group:
                for informer in followed:
                    group.create_task(report_outages(informer), name="kinformer changes: outages")
                left_out: dict[str, BaseException] = {}
                synced = [informer for informer in followed if await _is_synced(informer, left_out, usual=usual)]
                for words, names in by_reason(left_out).items():
                    complain(f"left out {', '.join(names)}: {words}")
                if not synced:
                    raise ConfigError("none of the usual resources can be followed; name one")
                lines.make_room(synced, change_filter)
                # Informers of one resource have one name, but a log tells its sources apart by name.
                named = {f"{informer.name}#{number}": informer for number, informer in enumerate(synced)}
                async with Changes(named, noise=change_filter.noise, show_secrets=show_secrets) as log:
                    # Scripts, and users who ask for noise or for one kind, get every change by itself.
                    await (_print if change_filter.noise or change_filter.kind or output == "json" else _print_causes)(
                        log, change_filter, lines
                    )
    except TimeoutError:
        if not limit.expired():
            raise
    return 0


async def _usual(client: Client, selection: ObjectSelection) -> list[ObjectSelection]:
    served = {str(resource) for resource in await discover(client)}
    names = (*_USUAL, *(_OF_CLUSTER if selection.all_namespaces else ()))
    return [replace(selection, resource=name) for name in names if name in served]


async def _follow(client: Client, factory: SharedInformerFactory, selection: ObjectSelection) -> list[SharedInformer]:
    resource, namespace = await selection.find(client)
    if "watch" not in resource.verbs:
        raise ConfigError(f"{resource} cannot be watched; the server offers {', '.join(resource.verbs)}")
    return selection.informers(factory, resource, namespace)


async def _is_synced(informer: SharedInformer, left_out: dict[str, BaseException], *, usual: bool) -> bool:
    try:
        await informer.wait_synced(fail_fast=True)
    except KinformerError as error:
        if not usual:
            raise
        left_out[informer.name] = error
        return False
    return True


async def _print(log: Changes, change_filter: ChangeFilter, lines: _Lines) -> None:
    async for change in log.stream(after=0, noise=True):  # the log has noise, or Events, only if they are asked for
        if change_filter(change):
            lines.write(change)


async def _print_causes(log: Changes, change_filter: ChangeFilter, lines: _Lines) -> None:
    """Print the first change of each cause, and what has come of it once nothing has followed for a while."""
    under_way: dict[int, Change] = {}  # by the number of the first change, the last one
    printed: OrderedDict[int, str] = OrderedDict()  # by the number of the first change, the last outcome

    async def read() -> None:
        async for change in log.stream(after=0, noise=True):
            number = change.cause or change.number
            if number in printed:
                under_way[number] = change
            elif change_filter(change):
                printed[number] = ""
                lines.write(change)
            while len(printed) > _MOST:
                under_way.pop(printed.popitem(last=False)[0], None)

    def end(now: float) -> None:
        quiet = [number for number, last in under_way.items() if last.time.timestamp() <= now - _QUIET]
        heads = {head.number: head for head in log.list(grouped=True)} if quiet else {}
        for number in quiet:
            last, head = under_way[number], heads.get(number)
            if head is not None and not is_over(head, head.members) and last.time.timestamp() > now - _STUCK:
                continue
            del under_way[number]
            if head is not None and (words := outcome_of(head, head.members)) not in ("", printed[number]):
                printed[number] = words
                seconds = (last.time - head.time).total_seconds()
                lines.write(replace(head, time=last.time, type="changed", summary=f"{words} in {seconds:.0f} s", by=""))

    async with asyncio.TaskGroup() as group:
        group.create_task(read(), name="kinformer changes: print")
        try:
            while True:
                await asyncio.sleep(_LOOK)
                end(time.time())
        finally:
            end(time.time() + _QUIET)  # nothing else will follow, so print the outcomes now


class _Lines:
    """Writes changes as lines. Each is flushed immediately, for readers of a pipe. The column of names only grows."""

    def __init__(self, output: str, *, with_namespace: bool) -> None:
        self._as_json = output == "json"
        self._with_namespace = with_namespace
        self._ink = Ink()
        self._width = _OBJECT

    def make_room(self, informers: Sequence[SharedInformer], change_filter: ChangeFilter) -> None:
        """Widen the column of names for the present objects, so that it does not shift when they change."""
        for informer in () if self._as_json else informers:
            kind = next((obj.kind for obj in informer.indexer.sample(1)), "")
            for key in informer.by_key:
                name = key.rpartition("/")[2]
                if change_filter.matches(kind, name):
                    width = len(kind) + 1 + len(key if self._with_namespace else name)
                    self._width = max(self._width, min(width, _LONGEST))

    def write(self, change: Change) -> None:
        """Write one change."""
        if self._as_json:
            document = {**change.as_dict(), "resource": change.resource.partition("#")[0]}
            sys.stdout.write(f"{escaped(json.dumps(document, ensure_ascii=False))}\n")
        else:
            sys.stdout.write(f"{self._ink.render(self._line(change))}\n")
        sys.stdout.flush()

    def _line(self, change: Change) -> Text:
        place = f"{change.namespace}/" if self._with_namespace and change.namespace else ""
        name = clean(f"{change.kind}/{place}{change.name}")
        self._width = max(self._width, cell_len(name))
        return Text.assemble(
            (change.time.astimezone().strftime("%H:%M:%S"), "bright_black"),
            f"  {name}{' ' * (self._width - cell_len(name))}  ",
            (clean(change.summary), _STYLES[change.type]),
            (f"  ({clean(change.by)})" if change.by else "", "bright_black"),
        )
