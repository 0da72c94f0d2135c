"""The command line's paths, templates and columns, held to what kubectl and a real server showed.

Internals: what reads paths, conditions and columns, as a command for each of a thousand cases would take minutes.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from kinformer import ConfigError, KubeObject, NotFoundError
from kinformer.cli.commands.wait import WaitCondition
from kinformer.cli.output.columns import Order, columns_of, columns_of_definition, custom_columns
from kinformer.cli.output.template import JSONTemplate
from kinformer.cli.target import UsageError
from tests.conformance.recorded_differences import CLI
from tests.conformance.recordings import check, read
from tests.conformance.test_recorded_tables import at_present, shown


def as_served(document: Any) -> Any:
    """Return a document as a server sends it: with sorted keys, and 2 for 2.0."""
    return json.loads(json.dumps(document, sort_keys=True).replace(": 2.0,", ": 2,"))


DOCUMENTS = {name: as_served(document) for name, document in sorted(read("paths.documents").items())}
LIST = {"apiVersion": "v1", "kind": "List", "items": list(DOCUMENTS.values())}
REFUSED = "refused"


def of_kubectl(recorded: Any) -> Any:
    """Return what kubectl printed, with any gap between columns, or that it refused."""
    return REFUSED if isinstance(recorded, dict) else re.sub(r" {3,}", "   ", recorded)


def printed(case: str) -> str:
    form, name, path = case.split(" ", 2)
    try:
        if form == "jsonpath":
            return JSONTemplate(path).render(LIST if name == "list" else DOCUMENTS[name])
        columns = custom_columns(path)
    except ValueError:
        return REFUSED
    rows = LIST["items"] if name == "list" else [DOCUMENTS[name]]
    lines = [columns.names, *map(columns.cells, rows)]
    return "".join("   ".join(line) + "\n" for line in lines)


def test_templates_and_columns_are_printed_as_by_kubectl() -> None:
    check("paths.kubectl", {case: printed(case) for case in read("paths.kubectl")}, CLI, as_here=of_kubectl)


def object_of(document: Any) -> KubeObject:
    return KubeObject.from_json(json.dumps(document).encode())


def ordered(case: str) -> str:
    name, _, path = case.partition(" ")
    objects = []
    for number, value in enumerate(read("paths.values")[name]):
        metadata = {"name": str(number), "creationTimestamp": "2026-01-01T00:00:00Z"}
        body = {"metadata": metadata, "spec": {} if value is None else {"v": value}}
        objects.append(object_of(body))
    try:
        return " ".join(obj.name for obj in Order(path).sorted(objects))
    except ValueError:
        return REFUSED


def test_objects_are_sorted_as_by_kubectl() -> None:
    check("paths.sorted", {case: ordered(case) for case in read("paths.sorted")}, CLI, as_here=of_kubectl)


def awaited(case: str) -> str:
    name, _, condition = case.partition(" ")
    document = DOCUMENTS.get(name)
    obj = document and object_of({**document, "metadata": {**document["metadata"], "uid": "u"}})
    try:
        return "met" if WaitCondition(condition).check("widgets", name)(obj) else "not met"
    except (UsageError, ConfigError, NotFoundError):
        return REFUSED


def of_wait(recorded: Any) -> str:
    if isinstance(recorded, str):
        return "met"
    return "not met" if recorded["error"].startswith(("condition not met", "timed out")) else REFUSED


def test_a_wait_ends_as_that_of_kubectl() -> None:
    check("waits", {case: awaited(case) for case in read("waits")}, CLI, as_here=of_wait)


def in_kubectl(cell: Any) -> str:
    """Return the text of a cell of a table in kubectl."""
    return "" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell)


def test_columns_of_definitions_are_shown_as_by_a_server() -> None:
    cells = {}
    for case in read("columns.cells"):
        kind, _, path = case.partition(" ")
        columns = columns_of_definition([{"name": "C", "type": kind, "jsonPath": path}])
        assert columns is not None
        rows = [columns.cells(document) for document in DOCUMENTS.values()]
        cells[case] = [row.replace("example.com", "cells.example.com") for (row,) in rows]
    check("columns.cells", cells, CLI, as_here=lambda recorded: [in_kubectl(cell) for cell in recorded])
    columns = columns_of_definition([{"name": "C", "type": "date", "jsonPath": ".spec.when"}])
    assert columns is not None
    now = datetime.now(UTC)
    ages = {age: columns.cells({"spec": {"when": at_present(age, now)}})[0] for age in read("columns.ages")}
    check("columns.ages", ages, CLI)


def names_of(columns: list[str]) -> list[str]:
    return [column.partition(":")[0].upper() for column in columns]


def test_columns_of_built_in_kinds_are_those_of_a_server() -> None:
    now = datetime.now(UTC)
    names, cells = dict[str, list[str]](), dict[str, list[str]]()
    recorded_names = {resource: names_of(columns) for resource, columns in read("tables.columns").items()}
    recorded_cells = read("tables.cells")
    for case, recorded in read("tables.objects").items():
        resource, obj = case.partition(" ")[0], at_present(recorded, now)
        group = obj["apiVersion"].rpartition("/")[0]
        columns = columns_of(group, obj["kind"], wide=True)
        row = dict(zip(columns.names, columns.cells(obj), strict=True))
        names[resource] = ["NAME", *columns.names]
        cells[case] = [
            shown(name.title(), row[name]) if name in row else in_kubectl(cell)
            for name, cell in zip(recorded_names[resource], recorded_cells[case], strict=True)
        ]
    check("tables.cells", cells, CLI, as_here=lambda recorded: [in_kubectl(cell) for cell in recorded])
    check("tables.columns", names, CLI, as_here=names_of)
