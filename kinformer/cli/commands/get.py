"""`kinformer get`: what there is, once."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kinformer.cli.listing import list_all
from kinformer.cli.output import documents
from kinformer.cli.output.errors import complain
from kinformer.cli.output.progress import Loading
from kinformer.cli.output.tables import Table
from kinformer.cli.output.text import clean
from kinformer.cli.target import Selection, Server, UsageError
from kinformer.client.client import Client
from kinformer.client.discovery import APIResource
from kinformer.exceptions import BadRequestError, NotFoundError
from kinformer.listwatch.list_watch import ListWatch
from kinformer.objects.object import KubeObject

__all__ = ["get", "object_name"]


async def get(
    server: Server, selection: Selection, *, names: Sequence[str], output: str, all_fields: bool = False
) -> int:
    """List the objects of a selection, or those of it that are named, and print them to stdout.

    Args:
        server: Where.
        selection: Which.
        names: Some objects by name, each with a request of its own; none is all.
        output: "table", "json" or "yaml" (one List, or the object where one is named), "jsonl" (a line an object) or
            "name".
        all_fields: Print managedFields too.

    Returns:
        0; 1 where a name was not found, after printing the others.
    """
    if names and (selection.all_namespaces or selection.label_selector or selection.field_selector):
        raise UsageError("names go neither with -A nor with a selector")
    for name in names:
        if "/" in name or "%" in name or name in (".", "..", ""):
            raise UsageError(f"{name!r} is no name of an object")
    missing = 0
    async with server.client() as client:
        resource, namespace = await selection.find(client)
        if names:
            objects, missing = await _named(client, resource, namespace, names, all_fields=all_fields)
            version = ""
        else:
            objects, version = await _listed(client, resource, namespace, selection, all_fields=all_fields)
    document = documents.Document(objects, version, alone=len(names) == 1)
    if output == "json":
        documents.write_json(document)
    elif output == "yaml":
        documents.write_yaml(document)
    elif output == "jsonl":
        documents.write_lines(objects)
    elif output == "name":
        sys.stdout.writelines(f"{object_name(resource, obj)}\n" for obj in objects)
    elif objects:
        Table(resource, with_namespace=resource.namespaced and selection.all_namespaces).write_all(objects)
    elif not names:
        where = f" in {namespace} namespace" if namespace else ""
        print(f"No resources found{where}.", file=sys.stderr)
    return 1 if missing else 0


def object_name(resource: APIResource, obj: KubeObject) -> str:
    """`pod/web-1`, `deployment.apps/web`: what kubectl's `-o name` prints and takes."""
    singular = resource.singular or resource.kind.lower()
    name = clean(obj.name)  # those of roles may hold anything
    return f"{singular}.{resource.group}/{name}" if resource.group else f"{singular}/{name}"


async def _named(
    client: Client, resource: APIResource, namespace: str | None, names: Sequence[str], *, all_fields: bool
) -> tuple[list[KubeObject], int]:
    found: list[KubeObject] = []
    missing = 0
    for name in names:
        try:
            answer = await client.request("GET", resource.gvr.path(namespace, name))
        except NotFoundError as error:
            complain(error)
            missing += 1
            continue
        document = answer.to_dict() if isinstance(answer, KubeObject) else answer
        if not all_fields:
            document.get("metadata", {}).pop("managedFields", None)
        found.append(KubeObject.from_dict(document))
    return found, missing


async def _listed(
    client: Client, resource: APIResource, namespace: str | None, selection: Selection, *, all_fields: bool
) -> tuple[list[KubeObject], str]:
    source = ListWatch(
        client,
        resource.gvr,
        namespace=namespace,
        label_selector=selection.label_selector,
        field_selector=selection.field_selector,
        keep_managed_fields=all_fields,
    )
    try:
        with Loading(resource.name) as loading:
            return await list_all(
                source, lambda count: loading.update(f"{count:,} so far, {source.stats.bytes / 1e6:,.1f} MB")
            )
    except BadRequestError as error:
        raise selection.refused(resource, error) from error
