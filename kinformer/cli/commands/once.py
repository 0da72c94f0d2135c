"""`kinformer watch --once`: the objects that an informer has after its first list."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from kinformer import (
    APIResource,
    BadRequestError,
    Client,
    ExpiredError,
    FieldSelector,
    KubeObject,
    ListOptions,
    NotFoundError,
    SharedInformer,
    SharedInformerFactory,
)
from kinformer.cli.output import documents
from kinformer.cli.output.errors import complain
from kinformer.cli.output.progress import Loading
from kinformer.cli.output.tables import Table
from kinformer.cli.target import Selection, Server, UsageError, check_name

__all__ = ["watch_once"]

_LOOK = 0.25  # seconds between two updates of the progress line


async def watch_once(
    server: Server, selection: Selection, *, names: Sequence[str], output: str, all_fields: bool = False
) -> int:
    """Wait for the first list of an informer, print the objects to stdout, and end.

    The list is the server's newest state, in pages of 500. The first failure ends the command and is raised.

    Args:
        server: The server.
        selection: The objects.
        names: Only the objects of these names, by an informer each; empty for all of the selection.
        output: "table", "wide", "json" or "yaml" (one List, or the object if one is named), "jsonl" (a line an object)
            or "name".
        all_fields: Print managedFields too.

    Returns:
        0; 1 if an object that was named does not exist, after printing the others.
    """
    if names and (selection.all_namespaces or selection.label_selector or selection.field_selector):
        raise UsageError("names cannot be combined with -A or a selector")
    for name in names:
        check_name(name)
    async with server.client() as client:
        resource, namespace = await selection.find(client)
        fields = [_named(name) for name in names] if names else [selection.field_selector]
        lists = await _first_lists(client, resource, namespace, selection, fields, all_fields=all_fields)
    objects = [obj for found, _ in lists for obj in found]
    missing = [name for name, (found, _) in zip(names, lists, strict=False) if not found]
    for name in missing:
        kind = f"{resource.name}.{resource.group}" if resource.group else resource.name
        complain(NotFoundError(404, "NotFound", f'{kind} "{name}" not found'))
    document = documents.Document(objects, "" if names else lists[0][1], alone=len(names) == 1)
    if objects or output not in ("table", "wide"):
        _print(document, resource, selection, output)
    elif not names:
        where = f" in {namespace} namespace" if namespace else ""
        print(f"No resources found{where}.", file=sys.stderr)
    return 1 if missing else 0


def _print(document: documents.Document, resource: APIResource, selection: Selection, output: str) -> None:
    match output:
        case "json":
            documents.write_json(document)
        case "yaml":
            documents.write_yaml(document)
        case "jsonl":
            documents.write_lines(document.objects)
        case "name":
            sys.stdout.writelines(f"{documents.object_name(resource, obj)}\n" for obj in document.objects)
        case _:
            with_namespace = resource.namespaced and selection.all_namespaces
            Table(resource, with_namespace=with_namespace, wide=output == "wide").write_all(document.objects)


def _named(name: str) -> str:
    return str(FieldSelector((("metadata.name", "=", name),)))


async def _first_lists(
    client: Client,
    resource: APIResource,
    namespace: str | None,
    selection: Selection,
    fields: Sequence[str | None],
    *,
    all_fields: bool,
) -> list[tuple[list[KubeObject], str]]:
    """Return the first list of an informer for each field selector: its objects in order, and its resourceVersion."""
    async with SharedInformerFactory(client) as factory:
        listing = _Listing()
        informers = [
            factory.for_resource(
                resource.gvr,
                namespace=namespace,
                label_selector=selection.label_selector,
                field_selector=field,
                keep_managed_fields=all_fields,
                tweak_list_options=listing.newest,
                watch_list=False,  # a resource that can be listed may not have a watch
                on_error=listing.failed,
            )
            for field in fields
        ]
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
        self._count = 0  # objects of the pages that are complete
        self._failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._expired: set[SharedInformer] = set()

    def newest(self, options: ListOptions) -> ListOptions:
        """Ask for the newest state; an informer otherwise takes its first list from the server's watch cache."""
        if options.continue_token:
            self._count += options.limit or 0
        return options.replace(resource_version=None) if options.resource_version == "0" else options

    def failed(self, informer: SharedInformer, error: BaseException) -> None:
        """Note an error of an informer."""
        # If pages have expired, the informer lists again at once, without pages. That is not a failure yet.
        if isinstance(error, ExpiredError) and informer not in self._expired:
            self._expired.add(informer)
        elif not self._failure.done():
            self._failure.set_result(error)

    async def error(self, informers: Sequence[SharedInformer], name: str) -> BaseException | None:
        """Wait until all informers have synced, or one has failed; returns its error."""
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
