"""`kinformer stats http://...`: the figures of a running program."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from starlette.applications import Starlette

from kinformer import Client, Manager, SharedInformerFactory, derive
from kinformer.contrib.fastapi import health_routes
from kinformer.testing import APIServer
from kinformer.watchcache import Share
from tests.support.cli import CommandLine
from tests.support.kube import pod
from tests.support.ports import reserved_port
from tests.support.waiting import until
from tests.support.web_server import serving


@pytest.fixture
def kinformer(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


async def test_it_shows_the_informers_of_a_program_and_what_is_derived_from_them(
    server: APIServer, client: Client, kinformer: CommandLine
) -> None:
    for number in range(3):
        server.create(pod(f"web-{number}"))
    async with Manager(client, listen="127.0.0.1:0") as manager:
        pods = manager.factory.for_resource("v1/pods")
        manager.factory.add(derive(pods, lambda one, _: one.name, name="names"))
        await manager.factory.wait_for_cache_sync(20)
        await manager.factory.derived[0].wait_synced(20)
        url = f"http://127.0.0.1:{manager.port}"
        table = await kinformer("stats", url, "--once")
        document = await kinformer("stats", f"{url}/statusz", "--once", "-o", "json")
        again = await kinformer("stats", url, "--interval", "0.1", "--duration", "0.5")
    lines = [line.split() for line in table.out.splitlines() if line]
    assert lines[1][:3] == ["v1/pods", "watching", "3"]
    assert lines[2][:3] == ["COLLECTION", "STATE", "VALUES"]
    assert lines[3] == ["names", "watching", "3", "3", "0", "0", "v1/pods"]
    assert json.loads(document.out)["derived"]["names"]["statistics"]["reads"] == ["v1/pods"]
    assert again.out.count("RESOURCE") > 1
    assert (table.status, document.status, again.status) == (0, 0, 0)


async def test_a_program_that_is_not_there_or_has_no_such_page_is_named(kinformer: CommandLine) -> None:
    with reserved_port() as port:
        away = await kinformer("stats", f"http://127.0.0.1:{port}", "--once")
    assert away.status == 1
    assert f"127.0.0.1:{port}" in away.err
    async with APIServer() as server:
        other = await kinformer("stats", f"{server.url}/version", "--once")
    assert other.status == 1
    assert "/version does not return the status of informers" in other.err


async def test_it_shows_the_part_of_a_program_in_a_shared_cache(client: Client, kinformer: CommandLine) -> None:
    with tempfile.TemporaryDirectory(prefix="kf") as folder:
        share = Share(Path(folder) / "cache.sock")
        async with SharedInformerFactory(client, share=share) as factory:
            factory.for_resource("v1/pods")
            await until(lambda: share.role == "holder")
            async with serving(Starlette(routes=health_routes(lambda _: factory))) as url:
                table = await kinformer("stats", url, "--once")
                document = await kinformer("stats", url, "--once", "-o", "json")
        async with serving(Starlette(routes=health_routes(lambda _: factory))) as url:
            alone = await kinformer("stats", url, "--once")
    assert f"shared cache: this process is the holder, and the holder is process {os.getpid()}\n" in table.out
    assert json.loads(document.out)["shared_cache"] == {"role": "holder", "holder": os.getpid()}
    assert "shared cache: this process is alone" in alone.out
