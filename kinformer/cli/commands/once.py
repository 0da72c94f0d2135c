"""`kinformer watch --once`: prints the objects that an informer has after its first list."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kinformer import Client, KubeObject, ListOptions, NotFoundError, SharedInformer, SharedInformerFactory
from kinformer.cli.commands.manner import Manner
from kinformer.cli.commands.printer_columns import printer_columns
from kinformer.cli.output import documents
from kinformer.cli.output.errors import complain
from kinformer.cli.output.screen import Loading
from kinformer.cli.output.tables import Columns, Table
from kinformer.cli.target import ObjectSelection, Server
from kinformer.client import APIResource
from kinformer.exceptions import BadRequestError, ExpiredError

__all__ = ["watch_once"]

_LOOK = 0.25  # seconds between two updates of the progress line


async def watch_once(server: Server, selections: Sequence[ObjectSelection], manner: Manner) -> int:
    """Wait for the first lists of informers, print the objects to stdout, and end.

    The lists have the server's newest state, in pages of 500. The first failure ends the command and is raised.

    Args:
        server: The server.
        selections: The objects. A selection with names gets an informer for each name.
        manner: The form. "json" and "yaml" print one List, or the object if a single one is named.

    Returns:
        0, or 1 if a named object does not exist, after printing the others.
    """
    async with server.client() as client:
        lists = [await _list(client, selection, manner, several=len(selections) > 1) for selection in selections]
    missing = [error for some in lists for error in some.missing]
    for error in missing:
        complain(error)
    objects = [obj for some in lists for obj in some.objects]
    if objects or not manner.is_table:
        _print(lists, manner)
    elif not missing:
        places = {some.namespace for some in lists}
        where = f" in {places.pop()} namespace" if len(places) == 1 and None not in places else ""
        print(f"No resources found{where}.", file=sys.stderr)
    return 1 if missing else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _List:
    """The objects of one selection, in order, and the named ones that do not exist."""

    selection: ObjectSelection
    columns: Columns
    namespace: str | None
    objects: Sequence[KubeObject]
    version: str
    missing: Sequence[NotFoundError]


def _print(lists: Sequence[_List], manner: Manner) -> None:
    objects = [manner.shown(obj) for some in lists for obj in some.objects]
    [first, *others] = lists
    alone = not others and len(first.selection.names) == 1
    document = documents.OutputDocument(objects, "" if others or first.selection.names else first.version, alone=alone)
    if manner.template is not None:
        documents.write_from_template(manner.template, document)
        return
    match manner.output:
        case "json":
            documents.write_json(document)
        case "yaml":
            documents.write_yaml(document)
        case "jsonl":
            documents.write_lines(objects)
        case "name":
            for some in lists:
                names = (documents.object_name(some.columns.resource, obj) for obj in some.objects)
                sys.stdout.writelines(f"{name}\n" for name in names)
        case _:
            for number, some in enumerate(some for some in lists if some.objects):
                if number:
                    sys.stdout.write("\n")
                Table(some.columns, headers=manner.headers).write_all(some.objects)


async def _list(client: Client, selection: ObjectSelection, manner: Manner, *, several: bool) -> _List:
    resource, namespace = await selection.find(client)
    first_lists = await _first_lists(client, resource, namespace, selection, all_fields=manner.all_fields)
    kind = f"{resource.name}.{resource.group}" if resource.group else resource.name
    missing = [
        NotFoundError(404, "NotFound", f'{kind} "{name}" not found')
        for name, (some, _) in zip(selection.names, first_lists, strict=False)
        if not some
    ]
    objects = [obj for some, _ in first_lists for obj in some]
    wide = manner.output == "wide"
    own = await printer_columns(client, resource, wide=wide) if manner.form in ("table", "wide") else None
    order = manner.order
    if order is not None:
        objects = order.sorted(objects)
        if objects and not order.matched:
            print(f"kinformer: --sort-by {order.path}: none of the {resource.name} has a value there", file=sys.stderr)
    return _List(
        selection=selection,
        columns=Columns(
            resource,
            with_namespace=resource.namespaced and selection.all_namespaces,
            with_type=several,
            with_labels=manner.show_labels,
            wide=wide,
            own=own,
            custom=manner.columns,
        ),
        namespace=namespace,
        objects=objects,
        version=first_lists[0][1],
        missing=missing,
    )


async def _first_lists(
    client: Client, resource: APIResource, namespace: str | None, selection: ObjectSelection, *, all_fields: bool
) -> list[tuple[list[KubeObject], str]]:
    """Return the first list of each informer (one per name, or one for all): ordered objects, resourceVersion."""
    async with SharedInformerFactory(client) as factory:
        listing = _Listing()
        informers = selection.informers(
            factory,
            resource,
            namespace,
            keep_managed_fields=all_fields,
            tweak_list_options=listing.newest,
            watch_list=False,  # not every resource that can be listed can be watched
            on_error=listing.failed,
        )
        error = await listing.error(informers, resource.name)
        if isinstance(error, BadRequestError):
            raise selection.refused(resource, error) from error
        if error is not None:
            raise error
        return [
            (sorted(informer.lister.list(), key=lambda obj: obj.key), informer.last_sync_resource_version)
            for informer in informers
        ]


class _Listing:
    """The first lists of some informers: their progress, and the first failure."""

    def __init__(self) -> None:
        self._count = 0  # objects in completed pages
        self._failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._expired: set[SharedInformer] = set()  # those that list again without pages

    def newest(self, options: ListOptions) -> ListOptions:
        """Request the newest state. By default, an informer gets its first list from the server's watch cache."""
        if options.continue_token:  # this request follows a page that is complete
            self._count += options.limit or 0
        return options.replace(resource_version=None) if options.resource_version == "0" else options

    def failed(self, informer: SharedInformer, error: BaseException) -> None:
        """Record an error of an informer."""
        # If pages have expired, the informer immediately lists again without pages. That is not a failure yet.
        if isinstance(error, ExpiredError) and informer not in self._expired:
            self._expired.add(informer)
        elif not self._failure.done():
            self._failure.set_result(error)

    async def error(self, informers: Sequence[SharedInformer], name: str) -> BaseException | None:
        """Wait until all informers have synced or one has failed, and return its error."""
        synced = asyncio.gather(*(informer.wait_synced() for informer in informers))
        either: set[asyncio.Future[Any]] = {synced, self._failure}
        try:
            with Loading(name) as loading:
                while not synced.done() and not self._failure.done():
                    await asyncio.wait(either, timeout=_LOOK, return_when=asyncio.FIRST_COMPLETED)
                    received = sum(informer.statistics().bytes for informer in informers) / 1e6
                    loading.update(
                        f"{self._count:,} so far, {received:,.1f} MB" if self._count else f"{received:,.1f} MB"
                    )
            if not synced.done():
                return self._failure.result()
            synced.result()
            return None
        finally:
            synced.cancel()
            await asyncio.gather(synced, return_exceptions=True)
