"""`kinformer get`: what there is, once."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from kinformer.cli.listing import list_all
from kinformer.cli.progress import Loading
from kinformer.cli.tables import Table
from kinformer.cli.target import Selection, Server, UsageError
from kinformer.client import Client
from kinformer.discovery import APIResource
from kinformer.exceptions import NotFoundError
from kinformer.list_watch import ListWatch
from kinformer.object import KubeObject

__all__ = ["get", "object_name"]


async def get(server: Server, selection: Selection, *, names: Sequence[str], output: str) -> int:
    """List the objects of a selection, or those of it that are named, and print them to stdout.

    Args:
        server: Where.
        selection: Which.
        names: Some objects by name, each with a request of its own; none is all.
        output: "table", "json" (one List, or the object where one is named) or "name".

    Returns:
        0; 1 where a name was not found, after printing the others.
    """
    if names and (selection.all_namespaces or selection.label_selector or selection.field_selector):
        raise UsageError("names go neither with -A nor with a selector")
    missing = 0
    async with server.client() as client:
        resource, namespace = await selection.find(client)
        if names:
            objects, missing = await _named(client, resource, namespace, names)
            version = ""
        else:
            objects, version = await _listed(client, resource, namespace, selection)
    if output == "json":
        _print_json(objects, version, alone=len(names) == 1)
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
    return f"{singular}.{resource.group}/{obj.name}" if resource.group else f"{singular}/{obj.name}"


async def _named(
    client: Client, resource: APIResource, namespace: str | None, names: Sequence[str]
) -> tuple[list[KubeObject], int]:
    found: list[KubeObject] = []
    missing = 0
    for name in names:
        try:
            answer = await client.request("GET", resource.gvr.path(namespace, name))
        except NotFoundError as error:
            print(f"kinformer: {error}", file=sys.stderr)
            missing += 1
            continue
        found.append(answer if isinstance(answer, KubeObject) else KubeObject.from_dict(answer))
    return found, missing


async def _listed(
    client: Client, resource: APIResource, namespace: str | None, selection: Selection
) -> tuple[list[KubeObject], str]:
    source = ListWatch(
        client,
        resource.gvr,
        namespace=namespace,
        label_selector=selection.label_selector,
        field_selector=selection.field_selector,
    )
    with Loading(resource.name) as loading:
        return await list_all(
            source, lambda count: loading.update(f"{count:,} so far, {source.stats.bytes / 1e6:,.1f} MB")
        )


def _print_json(objects: Sequence[KubeObject], version: str, *, alone: bool) -> None:
    if alone and objects:
        sys.stdout.write(_indented(objects[0].raw) + "\n")
        return
    if alone:
        return
    sys.stdout.write('{\n  "apiVersion": "v1",\n  "kind": "List",\n')
    sys.stdout.write(f'  "metadata": {{\n    "resourceVersion": "{version}"\n  }},\n  "items": [')
    for number, obj in enumerate(objects):
        # Line by line: one text of a hundred thousand objects would need their memory once more.
        sys.stdout.write("," if number else "")
        sys.stdout.write("\n    " + _indented(obj.raw).replace("\n", "\n    "))
    sys.stdout.write("\n  ]\n}\n" if objects else "]\n}\n")


def _indented(raw: bytes) -> str:
    return msgspec.json.format(raw, indent=2).decode()
