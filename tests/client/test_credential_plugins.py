"""Credential plugins that misbehave, and clocks that disagree with theirs."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import gc
import json
import resource
from pathlib import Path

import pytest
from aiohttp import web

from kinformer import Backoff, Client, ConfigError, ConnectError, SharedInformerFactory, UnauthorizedError
from kinformer.testing import APIServer, faults
from tests.client.test_client import PLUGIN, json_answer, kubeconfig, plugin, require_token
from tests.support.http_server import HttpServer
from tests.support.waiting import until

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
            for _ in range(20):
                with pytest.raises(UnauthorizedError, match="ended with status 1"):
                    await client.request("GET", "/x")
    assert (tmp_path / "runs").read_text() == "xx"


HANGS_LATER = FAILS_LATER.replace('sys.exit("no session")', "import time; time.sleep(600)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status"),
    [(FAILS_LATER, {"token": "old"}), (FAILS_LATER, {"token": "old", "expirationTimestamp": "2020-01-01T00:00:00Z"})],
    ids=["refused", "expired"],
)
async def test_a_login_that_has_expired_is_one_state_with_its_reason(
    tmp_path: Path, body: str, status: dict[str, str]
) -> None:
    (tmp_path / "status").write_text(json.dumps(status))
    fast = Backoff(initial=0.05, maximum=0.3)
    async with APIServer(users={"old": "ann", "new": "ann"}, rules=[("ann", "*", "*")]) as server:
        config = kubeconfig(tmp_path, server.url, plugin(tmp_path, body))
        async with (
            Client.from_kubeconfig(config) as client,
            SharedInformerFactory(client, watch_timeout=1, backoff=fast) as factory,
        ):
            maps = factory.for_resource("v1/configmaps")
            await maps.wait_synced(10)
            (tmp_path / "fails").touch()
            refused = server.faults.add(faults.status(401))
            await until(lambda: "ended with status 1" in str(maps.health().last_error))
            looks = set()
            for _ in range(160):  # longer than the rest between two runs of the plugin
                await asyncio.sleep(0.05)
                now = maps.health()
                looks.add((now.state, now.live, "ended with status 1" in str(now.last_error)))
            assert looks == {("unauthorized", False, True)}
            (tmp_path / "status").write_text(json.dumps({"token": "new"}))
            (tmp_path / "fails").unlink()
            refused.remove()
            await until(lambda: maps.health().live)


@pytest.mark.slow
async def test_a_plugin_that_failed_and_hangs_now_delays_no_answer_for_long(tmp_path: Path) -> None:
    (tmp_path / "status").write_text(json.dumps({"token": "old"}))
    async with HttpServer(require_token({"token": "new"})) as server:
        config = kubeconfig(tmp_path, server.url, plugin(tmp_path, FAILS_LATER))
        async with Client.from_kubeconfig(config) as client:
            (tmp_path / "fails").touch()
            with pytest.raises(UnauthorizedError, match="ended with status 1"):
                await client.request("GET", "/x")
            plugin(tmp_path, HANGS_LATER)
            await asyncio.sleep(5.1)
            for _ in range(2):
                with pytest.raises(UnauthorizedError, match="ended with status 1"):
                    await client.request("GET", "/x", timeout=10)
            assert (tmp_path / "runs").read_text() == "xxx"


async def test_a_token_file_that_has_vanished_explains_the_refusal(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    async with HttpServer(require_token({"token": "new"})) as server:
        config = kubeconfig(tmp_path, server.url, {"tokenFile": str(token)})
        async with Client.from_kubeconfig(config) as client:
            with pytest.raises(UnauthorizedError, match=r"^401 Unauthorized: [^;]*$"):
                await client.request("GET", "/x")
            token.unlink()
            for _ in range(3):
                with pytest.raises(
                    UnauthorizedError, match=r"users\[u\].user.tokenFile: cannot read .*/token: No such file"
                ):
                    await client.request("GET", "/x")
            token.write_text("new")
            assert await client.request("GET", "/x") == {"fine": True}


async def test_a_renewal_that_is_given_up_returns_its_connection(tmp_path: Path) -> None:
    (tmp_path / "status").write_text(json.dumps({"token": "old"}))
    async with HttpServer(require_token({"token": "new"})) as server:
        config = kubeconfig(tmp_path, server.url, plugin(tmp_path, HANGS_LATER))
        async with Client.from_kubeconfig(config) as client:
            (tmp_path / "fails").touch()
            for _ in range(3):
                with pytest.raises(ConnectError, match=r"no response within 0\.5 s"):
                    await client.request("GET", "/x", timeout=0.5)
            gc.collect()  # warns of a response that was not closed


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


async def test_a_provider_that_fails_later_explains_the_refusal(tmp_path: Path) -> None:
    claims = base64.urlsafe_b64encode(b'{"exp": 32503680000}').decode().rstrip("=")
    provider = {"auth-provider": {"name": "oidc", "config": {"id-token": f"a.{claims}.c"}}}
    async with (
        HttpServer(require_token({"token": "new"})) as server,
        Client.from_kubeconfig(kubeconfig(tmp_path, server.url, provider)) as client,
    ):
        for _ in range(3):
            with pytest.raises(
                UnauthorizedError, match="auth-provider: no credential: oidc: there is no valid id-token"
            ):
                await client.request("GET", "/x")
