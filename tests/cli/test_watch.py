"""`kinformer watch`: the list, then every change, through an outage too."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kinformer.testing import APIServer
from tests.support.cli import CommandLine, command_process
from tests.support.http_server import HttpServer
from tests.support.kube import config_map
from tests.support.metrics_server import MetricsServer


@asynccontextmanager
async def watching(server: APIServer, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`kinformer watch` as a process, whose lines come one by one."""
    async with command_process("watch", *arguments, "--server", server.url) as running:
        yield running


async def line(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    async with asyncio.timeout(40):
        return (await stream.readline()).decode()


@pytest.mark.process
async def test_a_watch_prints_the_list_and_then_each_change_at_once(server: APIServer) -> None:
    server.create(config_map("a"))
    async with watching(server, "configmaps", "-o", "json") as running:
        first = json.loads(await line(running.stdout))
        assert (first["type"], first["object"]["kind"], first["object"]["metadata"]["name"]) == (
            "ADDED",
            "ConfigMap",
            "a",
        )
        server.create(config_map("b"))
        second = json.loads(await line(running.stdout))
        server.update(config_map("b", data={"x": "1"}))
        third = json.loads(await line(running.stdout))
        server.delete("v1/configmaps", "default", "b")
        fourth = json.loads(await line(running.stdout))
    assert [event["type"] for event in (second, third, fourth)] == ["ADDED", "UPDATED", "DELETED"]
    assert third["object"]["data"] == {"x": "1"}


@pytest.mark.process
async def test_a_watch_as_a_table_says_what_happened_to_each(server: APIServer) -> None:
    server.create(config_map("a", namespace="one", data={}))
    async with watching(server, "cm", "-A") as running:
        assert (await line(running.stdout)).split() == ["EVENT", "NAMESPACE", "NAME", "DATA", "AGE"]
        assert (await line(running.stdout)).split()[:4] == ["ADDED", "one", "a", "0"]
        server.update(config_map("a", namespace="one", data={"x": "1"}))
        assert (await line(running.stdout)).split()[:4] == ["UPDATED", "one", "a", "1"]
        server.delete("v1/configmaps", "one", "a")
        assert (await line(running.stdout)).split()[:3] == ["DELETED", "one", "a"]


@pytest.mark.process
async def test_a_watch_goes_on_after_an_outage_and_tells_of_it(server: APIServer) -> None:
    server.create(config_map("a"))
    async with watching(server, "configmaps", "-o", "name") as running:
        assert await line(running.stdout) == "configmap/a\n"
        restarting = asyncio.ensure_future(server.restart(downtime=1.0))
        assert "trying again" in await line(running.stderr)
        server.create(config_map("meanwhile"))
        await restarting
        assert await line(running.stdout) == "configmap/meanwhile\n"
        assert "followed again" in await line(running.stderr)


@pytest.mark.slow
async def test_a_watch_ends_by_itself_after_its_duration(server: APIServer, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        server.create(config_map(name, labels={"app": name}))
    kinformer = CommandLine(capsys, server.url)
    ended = await kinformer("watch", "configmaps", "-o", "name", "-l", "app=b", "--duration", "4")
    assert ended == (0, "configmap/b\n", "")


async def test_a_duration_that_ends_before_the_server_answers_is_no_failure(
    server: APIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.pause()
    try:
        ended = await CommandLine(capsys, server.url)("watch", "configmaps", "--duration", "0.2")
    finally:
        server.resume()
    assert ended == (0, "", "")


# --- what changed -------------------------------------------------------------------------------------------


@pytest.mark.process
async def test_lines_of_json_name_the_key_and_what_was_there_already(server: APIServer) -> None:
    server.create(config_map("a", namespace="one"))
    async with watching(server, "cm", "-A", "-o", "jsonl") as running:
        first = json.loads(await line(running.stdout))
        server.delete("v1/configmaps", "one", "a")
        second = json.loads(await line(running.stdout))
    assert (first["type"], first["key"], first["initial"]) == ("ADDED", "one/a", True)
    assert (second["type"], second["key"], "initial" in second) == ("DELETED", "one/a", False)
    assert second["object"]["metadata"]["name"] == "a"


@pytest.mark.process
async def test_lines_of_json_say_what_an_update_changed(server: APIServer) -> None:
    server.create(config_map("a", data={"kept": "1", "old": "x", "gone": "y"}))
    async with watching(server, "cm", "-o", "jsonl", "--diff") as running:
        assert "changes" not in json.loads(await line(running.stdout))
        server.update(config_map("a", data={"kept": "1", "old": "z", "new": "null"}))
        event = json.loads(await line(running.stdout))
    assert event["type"] == "UPDATED"
    assert sorted(event["changes"], key=lambda change: change["path"]) == [
        {"path": "data.gone", "old": "y"},
        {"path": "data.new", "new": "null"},
        {"path": "data.old", "old": "x", "new": "z"},
    ]


@pytest.mark.slow
async def test_what_there_is_already_can_be_left_out(server: APIServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.create(config_map("a"))
    kinformer = CommandLine(capsys, server.url)
    assert (await kinformer("watch", "cm", "-o", "name", "--duration", "1")).out == "configmap/a\n"
    ended = await kinformer("watch", "cm", "-o", "name", "--duration", "1", "--changes-only")
    assert ended == (0, "", "")


@pytest.mark.process
async def test_differences_stand_below_an_update_and_noise_is_left_out(server: APIServer) -> None:
    server.create(config_map("a", data={"x": "1"}))
    async with watching(server, "cm", "--diff") as running:
        assert (await line(running.stdout)).split()[0] == "EVENT"
        assert (await line(running.stdout)).split()[0] == "ADDED"
        server.update(config_map("a", data={"x": "2", "y": "\x1b[31m"}))
        assert (await line(running.stdout)).split()[0] == "UPDATED"
        assert (await line(running.stdout)).strip() == '~ data.x: "1" → "2"'
        assert (await line(running.stdout)).strip() == r'+ data.y: "\u001b[31m"'
        server.update(config_map("a", data={"x": "2", "y": "\x1b[31m"}) | {"immutable": False})
        assert (await line(running.stdout)).split()[0] == "UPDATED"
        assert "immutable" in await line(running.stdout)


@pytest.mark.process
async def test_all_fields_are_shown_to_those_who_ask(server: APIServer) -> None:
    server.create(config_map("a"))
    async with watching(server, "cm", "-o", "jsonl", "--diff", "--all-fields") as running:
        assert "managedFields" in json.loads(await line(running.stdout))["object"]["metadata"]
        server.update(config_map("a", data={"x": "2"}))
        paths = [change["path"] for change in json.loads(await line(running.stdout))["changes"]]
    assert "metadata.resourceVersion" in paths
    assert "data.x" in paths or "data" in paths


@pytest.mark.process
async def test_what_a_secret_holds_is_not_among_the_differences(server: APIServer) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    server.create(secret | {"data": {"password": "b2xk"}})
    async with watching(server, "secrets", "--diff") as running:
        for _ in ("the header", "the secret"):
            await line(running.stdout)
        server.update(secret | {"data": {"password": "bmV3", "more": "bW9yZQ=="}})
        assert "UPDATED" in await line(running.stdout)
        assert (await line(running.stdout)).strip() == "~ data.password: (hidden) → (hidden)"
        assert (await line(running.stdout)).strip() == "+ data.more: (hidden)"


async def test_names_have_no_differences(server: APIServer, capsys: pytest.CaptureFixture[str]) -> None:
    ended = await CommandLine(capsys, server.url)("watch", "cm", "-o", "name", "--diff")
    assert (ended.status, ended.out) == (2, "")
    assert "--diff" in ended.err


@pytest.mark.process
async def test_a_reader_that_has_gone_ends_a_watch_quietly(server: APIServer) -> None:
    server.create(config_map("a"))
    reading, writing = os.pipe()
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kinformer.cli", "watch", "cm", "-o", "name", "--server", server.url),
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert await asyncio.to_thread(os.read, reading, 100) == b"configmap/a\n"
    os.close(reading)
    server.create(config_map("b"))
    _, err = await running.communicate()
    assert (running.returncode, err) == (141, b"")


@pytest.mark.slow
async def test_a_resource_that_cannot_be_watched_is_listed_regularly(capsys: pytest.CaptureFixture[str]) -> None:
    async with HttpServer(metrics := MetricsServer()) as server:
        kinformer = CommandLine(capsys, server.url)
        names = ["podmetrics.metrics.k8s.io/web-1", "podmetrics.metrics.k8s.io/web-2"]
        ended = await kinformer("watch", "podmetrics", "-A", "-o", "name", "--duration", "1")
        assert (ended.status, ended.out.split()) == (0, names)
        assert "cannot be watched, and is listed every 30 s (--poll)" in ended.err
        metrics.lists.clear()
        ended = await kinformer("watch", "podmetrics", "-A", "-o", "name", "--duration", "2.5", "--poll", "1")
        assert (ended.status, ended.err) == (0, "")
        assert len(metrics.lists) >= 2
        assert not metrics.watches
        ended = await kinformer("watch", "podmetrics", "-A", "-o", "name", "--once")
        assert (ended.status, ended.err, ended.out.split()) == (0, "", names)
        ended = await kinformer("watch", "podmetrics", "--once", "--poll", "1")
        assert "--poll cannot be combined with --once" in ended.err
