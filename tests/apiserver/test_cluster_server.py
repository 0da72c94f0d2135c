"""Both servers are behind one door: a function that takes the protocol takes either."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kinformer import Client, ConfigError, UnauthorizedError
from kinformer.testing import APIServer, ClusterServer, ControlPlane


def test_both_servers_have_every_member_of_the_protocol() -> None:
    members = [name for name in vars(ClusterServer) if not name.startswith("_")]
    assert members == ["url", "ca_file", "token", "client", "kubeconfig", "install_crds", "compact", "restart"]
    for kind in (APIServer, ControlPlane):
        assert [name for name in members if not hasattr(kind, name)] == []


async def test_users_may_be_given_by_name_alone_as_to_the_control_plane() -> None:
    async with APIServer(users=["alice"], rules=[("alice", "list", "v1/pods")]) as server:
        assert server.token("alice") != server.token()
        async with server.client("alice") as alice:
            assert (await alice.request("GET", "/api/v1/pods"))["items"] == []
        with pytest.raises(ConfigError, match="bob"):
            server.token("bob")
        async with Client.from_url(server.url, token="made up") as stranger:
            with pytest.raises(UnauthorizedError):
                await stranger.request("GET", "/api/v1/pods")
    with pytest.raises(ConfigError, match="several strings"):
        APIServer(users="alice")


async def test_compact_says_at_which_revision(server: APIServer) -> None:
    server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    assert str(await server.compact()) == server.resource_version
    assert server.ca_file is None


@pytest.mark.process
def test_the_package_imports_no_server_until_one_is_asked_for() -> None:
    program = "import sys, kinformer.testing; print([m for m in ('aiohttp', 'asyncio', 'yaml') if m in sys.modules])"
    root = Path(__file__).parents[2]
    answer = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
