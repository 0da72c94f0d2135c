"""A holder: its connections, options and credentials, and what a new one begins with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kinformer import Client
from kinformer.exceptions import APIError
from kinformer.testing import APIServer, faults
from tests.support.forwarder import Forwarder
from tests.support.kube import config_map
from tests.support.sockets import connections_to
from tests.support.waiting import until
from tests.watchcache.share.workers import MAPS, Worker, lists_and_watches, started, workers

pytestmark = pytest.mark.virtual_time


# --- connections ------------------------------------------------------------------------------------------------------


async def test_one_watch_on_one_connection_is_left_after_the_start(server: APIServer, path: Path) -> None:
    async with workers(server, path, 3) as three:
        await asyncio.sleep(3)
        assert connections(server) == 1
        assert lists_and_watches(server)[1] == 1
        server.create(config_map("a"))
        await until(lambda: all(list(one.versions) == ["default/a"] for one in three))
        assert connections(server) == 1


def connections(server: APIServer) -> int:
    """Return how many connections the server has."""
    return connections_to(int(server.url.rpartition(":")[2]))


async def test_a_holder_that_has_lost_the_server_lets_a_process_hold_that_reaches_it(
    server: APIServer, path: Path
) -> None:
    async with Forwarder(server.url) as way:
        lost = Worker(server, path, client=Client.from_url(way.url))
        three = [lost, Worker(server, path), Worker(server, path)]
        async with started(*three):
            assert lost.share.role == "holder"
            await way.cut()
            loop = asyncio.get_running_loop()
            began = loop.time()
            server.create(config_map("a"))
            await until(lambda: all(list(worker.versions) == ["default/a"] for worker in three), 60)
            assert 30 < loop.time() - began < 45
            assert lost.share.role == "follower"
            await asyncio.sleep(60)
            assert [worker.share.role for worker in three].count("holder") == 1
            assert not any(worker.mirror.wrong for worker in three)


async def test_a_holder_stays_while_no_process_reaches_the_server(server: APIServer, path: Path) -> None:
    async with workers(server, path, 2) as two:
        await server.restart(downtime=100)
        assert [worker.share.role for worker in two] == ["holder", "follower"]
        server.create(config_map("a"))
        await until(lambda: all(list(worker.versions) == ["default/a"] for worker in two), 60)


# --- options ----------------------------------------------------------------------------------------------------------


async def test_the_holder_has_the_idle_timeout_of_its_factory(server: APIServer, path: Path) -> None:
    server.faults.add(faults.stall(), verb="watch", resource=MAPS, times=1)
    async with workers(server, path, 2, idle_timeout=5.0, watch_list=False) as two:
        server.create(config_map("a"))
        await until(lambda: all(list(one.versions) == ["default/a"] for one in two), 10)


# --- credentials ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def secured() -> AsyncIterator[APIServer]:
    async with APIServer(users=["alice", "bob"]) as server:
        server.create(config_map("a"))
        yield server


def client_by_file(server: APIServer, path: Path, user: str) -> Client:
    """Return a client that reads its token from a file."""
    give(server, path, user)
    config: dict[str, Any] = json.loads(server.kubeconfig(path.with_name("kubeconfig"), user).read_text())
    config["users"][0]["user"] = {"tokenFile": str(path.with_name("token"))}
    return Client.from_kubeconfig(config)


def give(server: APIServer, path: Path, user: str) -> None:
    """Write the token of a user into the file."""
    path.with_name("token").write_text(server.token(user) or "")


async def test_a_holder_whose_token_names_another_user_is_no_longer_read(secured: APIServer, path: Path) -> None:
    changing = Worker(secured, path, client=client_by_file(secured, path, "alice"))
    same = Worker(secured, path, user="alice")
    async with started(changing, same):
        assert [changing.share.role, same.share.role] == ["holder", "follower"]
        give(secured, path, "bob")
        await until(lambda: [changing.share.role, same.share.role] == ["alone", "holder"], 120)
        secured.create(config_map("b"))
        await until(lambda: len(changing.versions) == len(same.versions) == 2, 30)
        assert not [*changing.mirror.wrong, *same.mirror.wrong]


async def test_a_follower_whose_token_names_another_user_reads_by_itself(secured: APIServer, path: Path) -> None:
    same = Worker(secured, path, user="alice")
    changing = Worker(secured, path, client=client_by_file(secured, path, "alice"))
    async with started(same, changing):
        assert [same.share.role, changing.share.role] == ["holder", "follower"]
        give(secured, path, "bob")
        await until(lambda: changing.share.role == "alone", 120)
        assert same.share.role == "holder"


@pytest.mark.slow
async def test_a_renewed_token_of_the_same_user_changes_nothing(secured: APIServer, path: Path) -> None:
    holder = Worker(secured, path, client=client_by_file(secured, path, "alice"))
    follower = Worker(secured, path, user="alice")
    async with started(holder, follower):
        asked = reviews(secured)
        await asyncio.sleep(700)
        assert reviews(secured) == asked + 2, "each asks again after ten minutes"
        assert [holder.share.role, follower.share.role] == ["holder", "follower"]


@pytest.mark.parametrize("code", [401, 403])
async def test_a_refused_request_of_a_follower_has_the_holder_ask_who_it_is(
    server: APIServer, path: Path, code: int
) -> None:
    async with workers(server, path, 2) as (_, follower):
        assert follower.share.role == "follower"
        await asyncio.sleep(30)
        asked = reviews(server)
        server.faults.add(faults.status(code), verb="list", resource=MAPS)
        with pytest.raises(APIError):
            await follower.maps.confirm()
        await until(lambda: reviews(server) == asked + 1, 20)


def reviews(server: APIServer) -> int:
    """Return how often the server was asked who a client is."""
    return sum(request.path.endswith("/selfsubjectreviews") for request in server.requests)
