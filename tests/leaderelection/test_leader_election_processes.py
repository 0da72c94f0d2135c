"""Leader election with real processes: one is stopped, one blocks its loop, one's server is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import groupby
from typing import Any

import pytest
import pytest_asyncio

from kinformer.testing import APIServer
from tests.support.candidates import BLOCK, Candidate, check_never_both
from tests.support.kube import config_map
from tests.support.line_process import ROOT
from tests.support.ports import reserved_port
from tests.support.waiting import until

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(60),
    pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="this system has no SIGSTOP"),
]


Start = Callable[..., Awaitable[Candidate]]


@pytest_asyncio.fixture
async def start() -> AsyncIterator[Start]:
    candidates: list[Candidate] = []

    async def started(url: str, name: str) -> Candidate:
        candidates.append(await Candidate.of_kinformer(name, url))
        return candidates[-1]

    yield started
    for candidate in candidates:
        await candidate.end()


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map("written-by-leaders")]


async def leader_and_follower(start: Start, url: str) -> tuple[Candidate, Candidate]:
    leader = await start(url, "first")
    await until(lambda: len(leader.acts) > 2, 30, what="the first candidate leads")
    follower = await start(url, "second")
    await until(lambda: follower.count("ready") == 1, 30, what="the second candidate runs")
    return leader, follower


def writes(server: APIServer) -> list[str]:
    """Who wrote, one after the other."""
    return [entry.params["fieldManager"] for entry in server.requests if entry.method == "PATCH"]


def writers(server: APIServer) -> list[str]:
    """The same, repetitions left out."""
    return [name for name, _ in groupby(writes(server))]


async def test_a_leader_that_was_stopped_for_two_leases_does_nothing_when_it_goes_on(
    server: APIServer, start: Start
) -> None:
    leader, follower = await leader_and_follower(start, server.url)
    leader.stop()
    await until(lambda: follower.count("sent") > 2, 30, what="the second one leads")
    stopped_for = asyncio.get_running_loop().time() + BLOCK - 2
    await until(lambda: asyncio.get_running_loop().time() > stopped_for, 30, what="two leases have passed")
    leader.go_on()
    await leader.says("lost")
    await follower.says("sent", 10)
    check_never_both(leader, follower)
    late = writes(server)[writes(server).index("second") :].count("first")
    assert late <= 1, (
        "at most the one that was on its way to the socket when it was stopped, which no client can hold back"
    )


async def test_a_leader_that_blocked_its_loop_for_two_leases_does_nothing_when_it_goes_on(
    server: APIServer, start: Start
) -> None:
    leader, follower = await leader_and_follower(start, server.url)
    leader.process.send_signal(signal.SIGUSR1)
    await until(lambda: follower.count("sent") > 2, 30, what="the second one leads")
    await leader.says("lost")
    await follower.says("sent", 10)
    check_never_both(leader, follower)
    assert writers(server) == ["first", "second"]


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as port:
        yield port


async def test_when_the_server_is_killed_nobody_leads_and_when_it_is_back_somebody_does(
    start: Start, port: int
) -> None:
    server = await run_server(port)
    try:
        url = f"http://127.0.0.1:{port}"
        leader, follower = await leader_and_follower(start, url)
        server.kill()
        await server.wait()
        await until(lambda: leader.count("lost") == 1, 30, what="the leader knows that it has lost")
        acts = len(leader.acts)
        server = await run_server(port)  # one that remembers nothing, the Lease neither
        await until(lambda: len(leader.acts) + len(follower.acts) > acts + 5, 30, what="one of the two leads")
        check_never_both(leader, follower)
    finally:
        server.kill()
        await server.wait()


async def run_server(port: int) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "kinformer.cli", "serve", "--port", str(port)]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=os.environ, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    await until(answers, 30, what="the server answers")
    return process
