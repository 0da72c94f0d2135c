"""Readers of a watch cache that ask nonsense, vanish, or do not read."""

from __future__ import annotations

import asyncio
import json
import socket
import tracemalloc
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import aiohttp
import pytest

from kinformer import Client
from kinformer.testing import APIServer
from tests.support.apiserver_http import watch
from tests.support.kube import config_map, pod
from tests.support.waiting import until
from tests.watchcache.front import Front, front_of

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def front(server: APIServer, client: Client) -> AsyncIterator[Front]:
    async with front_of(server, client) as front:
        yield front


def watchers(front: Front, plural: str) -> int:
    return len(front.caches[plural].storage.collection("objects").watchers)


async def test_a_watch_whose_client_has_vanished_is_closed(server: APIServer, front: Front) -> None:
    streams = [await watch(front.url, f"{PODS}?watch=1&resourceVersion={server.resource_version}") for _ in range(5)]
    await until(lambda: watchers(front, "pods") == 5)
    for stream in streams:
        await stream.close()
    server.create(pod("web"))
    await until(lambda: watchers(front, "pods") == 0)


@pytest.mark.slow
async def test_a_reader_that_does_not_read_is_let_go_and_others_go_on(server: APIServer, front: Front) -> None:
    path = f"{MAPS}?watch=1&resourceVersion={server.resource_version}"
    parts = urlsplit(front.url)
    loop = asyncio.get_running_loop()
    sent = 0
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.setblocking(False)
        await loop.sock_connect(stuck, (parts.hostname, parts.port))
        await loop.sock_sendall(stuck, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        async with aiohttp.ClientSession() as session, session.get(f"{front.url}{path}") as response:
            await until(lambda: watchers(front, "configmaps") == 2)
            while watchers(front, "configmaps") == 2 and sent < 20_000:
                for number in range(sent, sent + 100):
                    server.create(config_map(f"m-{number}", data={"k": "v" * 8000}))
                for number in range(sent, sent + 100):
                    line = json.loads(await response.content.readline())
                    assert line["object"]["metadata"]["name"] == f"m-{number}"
                sent += 100
            assert watchers(front, "configmaps") == 1


@pytest.mark.parametrize("query", ["watch=1&resourceVersion=0", "resourceVersion=0"])
async def test_readers_that_do_not_read_hold_no_copy_of_the_cache(
    server: APIServer, client: Client, query: str
) -> None:
    for number in range(100):
        server.create(config_map(f"m-{number}", data={"k": "v" * 50_000}))
    readers = []
    async with front_of(server, client) as front:
        parts = urlsplit(front.url)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(20):
                reader = socket.socket()
                readers.append(reader)
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                reader.setblocking(False)
                await asyncio.get_running_loop().sock_connect(reader, (parts.hostname, parts.port))
                reader.send(f"GET {MAPS}?{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await until(lambda: front.answered == 20)
            await asyncio.sleep(0.5)
            after, _ = tracemalloc.get_traced_memory()
            assert after - before < 20 * 1_000_000, "each may have a piece, of the 5 MB that it has not read"
            if "watch" in query:  # nor of what changes meanwhile
                await until(lambda: watchers(front, "configmaps") == 20)
                for number in range(100):
                    server.delete("v1/configmaps", "default", f"m-{number}")
                await front.caught_up()
                later, _ = tracemalloc.get_traced_memory()
                assert later - after < 20 * 1_000_000
        finally:
            tracemalloc.stop()
            for reader in readers:
                reader.close()
