"""Credential plugins that misbehave, and clocks that disagree with theirs."""

from __future__ import annotations

import asyncio
import fcntl
import json
import resource
from pathlib import Path

import pytest
from aiohttp import web

from kinformer import Client, ConfigError, UnauthorizedError
from tests.client.test_client import PLUGIN, json_answer, kubeconfig, plugin, require_token
from tests.support.http_server import HttpServer

pytestmark = pytest.mark.process

FAILS_LATER = (
    PLUGIN
    + """
    if (folder / "fails").exists():
        sys.exit("no session")
"""
)


async def fine(_: web.Request) -> web.Response:
    return json_answer({"fine": True})


async def test_a_credential_that_expires_before_it_is_there_starts_no_program_for_each_request(tmp_path: Path) -> None:
    """The clock of this machine is ahead, or was put forward."""
    (tmp_path / "status").write_text(json.dumps({"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}))
    async with HttpServer(fine) as server:
        config = kubeconfig(tmp_path, server.url, plugin(tmp_path, PLUGIN))
        async with Client.from_kubeconfig(config) as client:
            for _ in range(20):
                assert await client.request("GET", "/x") == {"fine": True}
    assert len((tmp_path / "runs").read_text()) <= 3


async def test_401s_one_after_another_start_a_plugin_that_fails_once(tmp_path: Path) -> None:
    (tmp_path / "status").write_text(json.dumps({"token": "old"}))
    async with HttpServer(require_token({"token": "new"})) as server:
        config = kubeconfig(tmp_path, server.url, plugin(tmp_path, FAILS_LATER))
        async with Client.from_kubeconfig(config) as client:
            (tmp_path / "fails").touch()
            with pytest.raises(ConfigError, match="ended with status 1"):
                await client.request("GET", "/x")
            for _ in range(20):
                with pytest.raises(UnauthorizedError):
                    await client.request("GET", "/x")
    assert (tmp_path / "runs").read_text() == "xx"


async def test_requests_after_the_expiry_start_a_plugin_that_fails_once_and_say_why(tmp_path: Path) -> None:
    (tmp_path / "status").write_text(json.dumps({"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}))
    async with HttpServer(fine) as server:
        config = kubeconfig(tmp_path, server.url, plugin(tmp_path, FAILS_LATER))
        async with Client.from_kubeconfig(config) as client:
            (tmp_path / "fails").touch()
            for _ in range(20):
                with pytest.raises(ConfigError, match="ended with status 1"):
                    await client.request("GET", "/x")
    assert not server.requests
    assert len((tmp_path / "runs").read_text()) <= 3


async def test_a_plugin_that_prints_without_end_is_ended_at_once(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    body = """
        import os
        while True:
            os.write(1, b"x" * 65536)
    """
    config = kubeconfig(tmp_path, "http://127.0.0.1:1", plugin(tmp_path, body))
    async with asyncio.timeout(20):
        with pytest.raises(ConfigError, match="printed more than 1048576 bytes"):
            async with Client.from_kubeconfig(config):
                pytest.fail("entered")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KB


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="the size of a pipe cannot be set")
async def test_a_plugin_is_ended_though_more_of_its_output_waits_than_is_read_at_once(tmp_path: Path) -> None:
    """asyncio stops reading a pipe then, and does not see its end."""
    body = """
        import fcntl, os
        fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1024 * 1024)
        while True:
            os.write(1, b"x" * 1024 * 1024)
    """
    config = kubeconfig(tmp_path, "http://127.0.0.1:1", plugin(tmp_path, body))
    async with asyncio.timeout(20):
        with pytest.raises(ConfigError, match="printed more than 1048576 bytes"):
            async with Client.from_kubeconfig(config):
                pytest.fail("entered")


@pytest.mark.parametrize("token", [5, True, ["t"], {"t": "t"}])
async def test_a_token_that_is_no_text_is_refused(tmp_path: Path, token: object) -> None:
    (tmp_path / "status").write_text(json.dumps({"token": token}))
    config = kubeconfig(tmp_path, "http://127.0.0.1:1", plugin(tmp_path, PLUGIN))
    with pytest.raises(ConfigError, match=r"users\[u\]\.user\.exec\.command: .* not a string"):
        async with Client.from_kubeconfig(config):
            pytest.fail("entered")
