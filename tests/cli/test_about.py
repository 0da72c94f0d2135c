"""`kinformer version` and `kinformer help`."""

from __future__ import annotations

import json

import pytest

import kinformer as library
from kinformer.testing import APIServer, faults
from tests.support.cli import CommandLine
from tests.support.ports import reserved_port

VERSION = library.__version__


@pytest.fixture
def kinformer(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


async def test_the_versions_of_client_and_server_are_printed(server: APIServer, kinformer: CommandLine) -> None:
    ended = await kinformer("version", "--server", server.url)
    client, of_server = ended.out.splitlines()
    assert client.startswith(f"Client Version: v{VERSION} (Python 3.")
    assert of_server.startswith("Server Version: v1.")
    assert (ended.status, ended.err) == (0, "")


async def test_json_has_all_that_the_server_says(server: APIServer, kinformer: CommandLine) -> None:
    ended = await kinformer("version", "-o", "json", "--server", server.url)
    versions = json.loads(ended.out)
    assert versions["clientVersion"]["version"] == VERSION
    async with server.client() as client:
        assert versions["serverVersion"] == await client.request("GET", "/version")


async def test_without_a_server_the_clients_version_and_the_reason_are_said(kinformer: CommandLine) -> None:
    with reserved_port() as port:
        ended = await kinformer("version", "--server", f"http://127.0.0.1:{port}")
    assert ended.status == 1
    assert ended.out.startswith("Client Version: ")
    assert "Server" not in ended.out
    assert (ended.err.count("\n"), str(port) in ended.err) == (1, True)


async def test_a_server_that_refuses_is_said(server: APIServer, kinformer: CommandLine) -> None:
    server.faults.add(faults.status(503))
    ended = await kinformer("version", "-o", "json", "--server", server.url)
    assert ended.status == 1
    assert "503" in ended.err
    assert set(json.loads(ended.out)) == {"clientVersion"}


async def test_the_client_alone_asks_nobody(server: APIServer, kinformer: CommandLine) -> None:
    ended = await kinformer("version", "--client", "--server", server.url)
    assert (ended.status, len(ended.out.splitlines()), ended.err) == (0, 1, "")
    assert not server.requests


async def test_help_is_a_command_too(kinformer: CommandLine) -> None:
    assert await kinformer("help") == await kinformer("--help")
    assert await kinformer("help", "watch") == await kinformer("watch", "--help")
    assert await kinformer("help", "help") == await kinformer("help", "--help")


async def test_help_of_a_command_that_does_not_exist_names_the_nearest(kinformer: CommandLine) -> None:
    ended = await kinformer("help", "wach")
    assert (ended.status, ended.out) == (2, "")
    assert "unknown command 'wach'; nearest: watch" in ended.err
