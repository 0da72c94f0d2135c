"""The habits of kubectl's users: several resources, names, orders, labels, columns of definitions."""

from __future__ import annotations

import asyncio

import pytest
import yaml

from kinformer.testing import APIServer
from tests.cli.terminal import on_terminal
from tests.support.cli import CommandLine
from tests.support.kube import config_map, pod

ONCE = ("watch", "--once")

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "backups.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "backups", "kind": "Backup", "singular": "backup"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
                    {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    {"name": "Target", "type": "string", "jsonPath": ".spec.target", "priority": 1},
                ],
            }
        ],
    },
}


@pytest.fixture
def kinformer(server: APIServer, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys, server.url)


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


async def test_several_resources_are_a_table_each(server: APIServer, kinformer: CommandLine) -> None:
    server.create(pod("web-1"))
    server.create(config_map("prices"))
    ended = await kinformer(*ONCE, "pods,configmaps")
    assert [line[:1] for line in words(ended.out)] == [["NAME"], ["pod/web-1"], [], ["NAME"], ["configmap/prices"]]
    listed = yaml.safe_load((await kinformer(*ONCE, "pods,cm", "-o", "yaml")).out)
    assert [item["kind"] for item in listed["items"]] == ["Pod", "ConfigMap"]


@pytest.mark.slow
async def test_objects_are_named_with_a_slash(server: APIServer, kinformer: CommandLine) -> None:
    for name in ("a", "b", "c"):
        server.create(config_map(name))
    server.create(pod("web-1"))
    ended = await kinformer(*ONCE, "cm/c", "v1/configmaps/a", "pods/web-1", "-o", "name")
    assert ended == (0, "configmap/c\nconfigmap/a\npod/web-1\n", "")
    followed = await kinformer("watch", "cm/b", "pods/web-1", "-o", "name", "--duration", "2")
    assert sorted(followed.out.splitlines()) == ["configmap/b", "pod/web-1"]


@pytest.mark.parametrize(
    ("path", "order"),
    [
        (".data.x", ["c", "b", "d", "a"]),
        ("{.metadata.labels.rank}", ["b", "d", "c", "a"]),
        ("metadata.name", list("abcd")),
    ],
)
async def test_a_path_gives_the_order(server: APIServer, kinformer: CommandLine, path: str, order: list[str]) -> None:
    """Nothing first, quantities by their size, digits in texts as numbers."""
    values = {"a": ("1Gi", "n-10"), "b": ("900Ki", ""), "d": ("5M", "n-1"), "c": ("", "n-9")}
    for name, (x, rank) in values.items():
        labels = {"rank": rank} if rank else {}
        server.create(config_map(name, data={"x": x} if x else {}, labels=labels))
    ended = await kinformer(*ONCE, "cm", "-o", "name", "--sort-by", path)
    assert ended.out.split() == [f"configmap/{name}" for name in order]


async def test_labels_are_a_column_and_headers_can_be_left_out(server: APIServer, kinformer: CommandLine) -> None:
    server.create(config_map("a", labels={"app": "web", "tier": "x"}))
    header, row = words((await kinformer(*ONCE, "cm", "--show-labels")).out)
    assert (header[-1], row[-1]) == ("LABELS", "app=web,tier=x")
    [row] = words((await kinformer(*ONCE, "cm", "--no-headers")).out)
    assert row[0] == "a"
    [row] = words((await kinformer("watch", "cm", "--no-headers", "--duration", "1")).out)
    assert row[:2] == ["ADDED", "a"]


async def test_custom_resources_have_the_columns_of_their_definition(server: APIServer, kinformer: CommandLine) -> None:
    server.register_crd(DEFINITION)
    status = {"conditions": [{"type": "Stored", "status": "False"}, {"type": "Ready", "status": "True"}]}
    metadata = {"name": "daily", "namespace": "default"}
    spec = {"size": 3, "target": "s3"}
    server.create(
        {"apiVersion": "example.com/v1", "kind": "Backup", "metadata": metadata, "spec": spec, "status": status}
    )
    header, row = words((await kinformer(*ONCE, "backups")).out)
    assert header == ["NAME", "SIZE", "READY", "SINCE"]
    assert row[:3] == ["daily", "3", "True"]
    header, row = words((await kinformer(*ONCE, "backups", "-o", "wide")).out)
    assert (header[-1], row[-1]) == ("TARGET", "s3")


async def test_each_event_can_be_a_document(server: APIServer, kinformer: CommandLine) -> None:
    server.create(config_map("a"))
    server.create(config_map("b"))
    out = (await kinformer("watch", "cm", "-o", "yaml", "--duration", "1")).out
    assert out.startswith("---\n# ADDED default/")
    assert sorted(document["metadata"]["name"] for document in yaml.safe_load_all(out)) == ["a", "b"]


async def test_a_server_without_tls_is_told_in_words(server: APIServer, kinformer: CommandLine) -> None:
    kinformer.url = server.url.replace("http:", "https:")
    ended = await kinformer(*ONCE, "pods")
    assert ended.status == 1
    assert "the server does not speak TLS there; try http:// instead of https://" in ended.err


@pytest.mark.process
@pytest.mark.parametrize("width", [60, 80, 120])
async def test_a_filter_and_an_outage_on_terminals_of_any_width(server: APIServer, width: int) -> None:
    for name in ("web-1", "web-2", "database-of-the-payments-team-with-a-long-name-0"):
        server.create(pod(name))
    async with on_terminal("watch", "pods", "-A", "--server", server.url, width=width) as terminal:
        await terminal.shows("web-1", "web-2", "3 objects")
        terminal.press("/web\r")
        await terminal.until(lambda: "/web: 2 of 3" in terminal.text and "database" not in terminal.text)
        terminal.press("\x1b")
        await terminal.shows("name-0", "3 objects")
        down = asyncio.create_task(server.restart(downtime=3))
        await terminal.until(
            lambda: (
                "as it was before: GET" in terminal.text
                and "connection refused" in " ".join(terminal.text.split())
                and "3 objects" in terminal.text
            )
        )
        await down
        await terminal.shows("watching")
        terminal.press("q")
        assert await terminal.ended() == 0
