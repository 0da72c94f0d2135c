"""Sockets of requests that were cancelled while they connected, or left while their connection was lost."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from kinformer import Client, ConnectError
from tests.support.certificates import server_side
from tests.support.http_server import HttpServer
from tests.support.sockets import connections_to


class ShakesHands:
    """Ends the TLS handshake of each connection, calls `then` at that moment, and is silent for ever."""

    def __init__(self, certificates: Path) -> None:
        self._context = server_side(certificates)
        self._context.maximum_version = ssl.TLSVersion.TLSv1_2  # there the server is the last to speak
        self._task: asyncio.Task[None] | None = None
        self._kept: list[socket.socket] = []

    @contextmanager
    def serving(self, loop: asyncio.AbstractEventLoop) -> Iterator[int]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=self._serve, args=(listener, loop))
            thread.start()
            try:
                yield listener.getsockname()[1]
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                thread.join()
        for one in self._kept:
            one.close()

    def cancels(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def _serve(self, listener: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return  # it has been shut down
            try:
                self._kept.append(self._context.wrap_socket(accepted, server_side=True))
            except OSError:
                accepted.close()
            assert self._task is not None
            loop.call_soon_threadsafe(self._task.cancel)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the sockets as Linux shows them")
@pytest.mark.parametrize("way", ["request", "stream", "ApiClient"])
async def test_a_request_that_is_cancelled_as_the_handshake_ends_leaves_no_socket(way: str, certificates: Path) -> None:
    async def ask(client: Client) -> None:
        if way == "request":
            await client.request("GET", "/x")
        elif way == "stream":
            async with client.stream("/x"):
                pytest.fail("there was an answer")
        else:
            await client.api_client.call_api("/x", "GET")

    server = ShakesHands(certificates)
    with server.serving(asyncio.get_running_loop()) as port:
        for _ in range(10):
            async with Client.from_url(f"https://127.0.0.1:{port}", ssl=False) as client:
                if way == "ApiClient":
                    assert client.api_client
                task = asyncio.create_task(ask(client))
                server.cancels(task)
                await asyncio.wait([task])
                assert task.cancelled()
            assert connections_to(port) == 0


@pytest.mark.parametrize("way", ["request", "stream"])
async def test_an_answer_may_be_left_in_any_turn_of_the_loop_after_its_connection_was_lost(
    way: str, certificates: Path
) -> None:
    """In one of them asyncio's transport knows that it is closed, and aiohttp does not know it yet."""
    lost = asyncio.Event()

    async def lose(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"[")
        await lost.wait()
        assert request.transport is not None
        request.transport.abort()
        return response

    async def ask(client: Client) -> None:
        if way == "request":
            await client.request("GET", "/x", retries=0)
        else:
            async with client.stream("/x", watch=True) as body:
                while await body.read():
                    pass

    async with (
        HttpServer(lose, ssl_context=server_side(certificates)) as server,
        Client.from_url(server.url, ssl=False) as client,
    ):
        for turns in range(30):
            lost.clear()
            task = asyncio.create_task(ask(client))
            await server.until_asked()
            await asyncio.sleep(0.01)  # until the head has come
            lost.set()
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                assert isinstance(error, ConnectError)
