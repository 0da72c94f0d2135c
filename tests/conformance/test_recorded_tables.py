"""Tables, held to what a real server answered: the columns of each built-in kind, and rows of objects in many states.

`tables.objects` has the objects as the real server stored them, with times as seconds before now (`NOW-60`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kinformer.testing import ClusterServer
from tests.conformance.conftest import REAL, Held, new_namespace
from tests.conformance.reading import widgets_of
from tests.conformance.recorded_differences import SERVER
from tests.conformance.recordings import all_answers, read
from tests.conformance.site import MERGE, Site
from tests.conformance.test_lists import TABLE
from tests.conformance.transcript import AGE, TIME

pytestmark = pytest.mark.kubernetes("1.36", "its answers are not recorded")

OWN = ("uid", "resourceVersion", "managedFields", "generation", "selfLink", "deletionGracePeriodSeconds")
FROM_NOW = re.compile(r"NOW([+-]\d+)(u?)")  # u: with microseconds


def at_present(value: Any, now: datetime) -> Any:
    """Return a document with times instead of `NOW-60`."""
    if isinstance(value, dict):
        return {name: at_present(inner, now) for name, inner in value.items()}
    if isinstance(value, list):
        return [at_present(inner, now) for inner in value]
    offset = FROM_NOW.fullmatch(value) if isinstance(value, str) else None
    if offset is None:
        return value
    moment = now + timedelta(seconds=int(offset[1]))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000000Z" if offset[2] else "%Y-%m-%dT%H:%M:%SZ")


def before_now(value: Any, now: datetime) -> Any:
    """Return a document with `NOW-60` instead of times."""
    if isinstance(value, dict):
        return {name: before_now(inner, now) for name, inner in value.items()}
    if isinstance(value, list):
        return [before_now(inner, now) for inner in value]
    if not isinstance(value, str) or not TIME.fullmatch(value):
        return value
    seconds = round((now - datetime.fromisoformat(value)).total_seconds())
    return f"NOW-{max(0, seconds)}{'u' if '.' in value else ''}"


def path_of(obj: dict[str, Any], resource: str, site: Site) -> str:
    version, _, plural = resource.rpartition("/")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = obj["metadata"].get("namespace", "")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


async def make(site: Site, path: str, obj: dict[str, Any]) -> None:
    """Create an object with its status, and delete it if it is being deleted."""
    metadata = {name: value for name, value in obj["metadata"].items() if not name.endswith("Timestamp")}
    await site.make(path, {**obj, "metadata": metadata})
    own = f"{path}/{metadata['name']}"
    if "status" in obj and obj["kind"] != "Namespace":  # whose phase is the server's
        reply = await site.patch(f"{own}/status", {"status": obj["status"]}, MERGE, kept=False)
        assert reply.status in (200, 404), reply.body
    if "deletionTimestamp" in obj["metadata"]:
        await site.delete(own, kept=False)


def column_text(column: dict[str, Any]) -> str:
    return f"{column['name']}: {column['type']} {column['format']} {column['priority']}".replace("  ", " ")


def shown(column: str, cell: Any) -> Any:
    """Return a cell without the object's own age."""
    if column == "Created At":
        return "TIME"
    return "AGE" if column == "Age" and AGE.fullmatch(cell) else cell


async def test_rows_are_those_that_were_recorded(own_server: ClusterServer, server_kind: str, held: Held) -> None:
    by = REAL if server_kind == REAL else SERVER
    site = Site(own_server, await new_namespace(own_server))
    columns, cells, objects = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    for case, recorded in read("tables.objects").items():
        now = datetime.now(UTC).replace(microsecond=0)
        resource, obj = case.partition(" ")[0], at_present(recorded, now)
        path = path_of(obj, resource, site)
        await make(site, path, obj)
        own = f"{path}/{obj['metadata']['name']}"
        table = (await site.get(f"{own}?includeObject=Object", accept=TABLE, kept=False)).json
        (row,) = table["rows"]
        columns[resource] = [column_text(column) for column in table["columnDefinitions"]]
        names = [column["name"] for column in table["columnDefinitions"]]
        cells[case] = list(map(shown, names, row["cells"]))
        metadata = {name: value for name, value in row["object"]["metadata"].items() if name not in OWN}
        moments = {name: "NOW-0" for name in metadata if name.endswith("Timestamp")}
        objects[case] = before_now({**row["object"], "metadata": {**metadata, **moments}}, now)
    held("tables.columns", columns, by)
    held("tables.cells", cells, by)
    held("tables.objects", objects, by)


async def table_of(site: Site, group: str, columns: list[dict[str, Any]], objects: Sequence[dict[str, Any]]) -> Any:
    """Define a kind with columns, make objects of it, and return their table, or the text that refuses the columns."""
    widgets = site.of(f"{group}/v1", "widgets")
    definition = widgets_of(group, columns)
    reply = await site.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, kept=False)
    if reply.status != 201:
        return reply.json["message"].partition("is invalid: ")[2]
    await site.until(widgets, 200)
    for obj in objects:
        body = {**obj, "apiVersion": f"{group}/v1", "metadata": {**obj["metadata"], "namespace": site.namespace}}
        await site.make(widgets, body)
    return (await site.get(f"{widgets}?includeObject=None", accept=TABLE, kept=False)).json


def column(path: str, kind: str = "string", name: str = "C") -> dict[str, Any]:
    return {"name": name, "type": kind, "jsonPath": path}


async def test_columns_of_definitions_are_those_that_were_recorded(
    own_server: ClusterServer, server_kind: str, held: Held
) -> None:
    by = REAL if server_kind == REAL else SERVER
    site = Site(own_server, await new_namespace(own_server))
    documents = read("paths.documents")
    cases = list(read("columns.cells"))
    columns = []
    for number, case in enumerate(cases):
        kind, _, path = case.partition(" ")
        columns.append(column(path, kind, f"C{number}"))
    table = await table_of(site, "cells.example.com", columns, list(documents.values()))
    rows = [row["cells"][1:] for row in table["rows"]]  # of bare, odd and pod
    held("columns.cells", {case: [row[number] for row in rows] for number, case in enumerate(cases)}, by)

    ages = list(read("columns.ages"))
    times = [
        {"kind": "Widget", "metadata": {"name": f"t{number:02}"}, "spec": {"when": at_present(age, datetime.now(UTC))}}
        for number, age in enumerate(ages)
    ]
    table = await table_of(site, "ages.example.com", [column(".spec.when", "date")], times)
    held("columns.ages", {age: row["cells"][1] for age, row in zip(ages, table["rows"], strict=True)}, by)

    numbers = {path: number for number, path in enumerate(read("columns.odd"))}

    async def shown_alone(path: str) -> Any:
        """A server that cannot read one path shows no column of its definition."""
        table = await table_of(site, f"p{numbers[path]}.example.com", [column(path)], [documents["odd"]])
        if isinstance(table, str):
            return table
        names = [shown["name"] for shown in table["columnDefinitions"]]
        return {"names": names[1:], "rows": [row["cells"][1:] for row in table["rows"]]}

    held("columns.odd", await all_answers(shown_alone, numbers), by)
