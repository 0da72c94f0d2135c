"""The addresses and unix sockets on which servers listen.

Internals: the parser of addresses and the binding of unix sockets, which all servers share.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from pathlib import Path

import pytest
from aiohttp import web

from kinformer import Client, ConfigError, Manager
from kinformer.listening import Connections, Listener
from kinformer.listening.address import bind_unix, is_loopback, parse_address
from tests.support.bare_http import ask
from tests.support.sockets import listening


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("[::1]:0", "::1", 0),
        ("[fe80::1%eth0]:80", "fe80::1%eth0", 80),
        (":65535", None, 65535),
        ("ops.example.com:08080", "ops.example.com", 8080),
    ],
)
def test_an_address_has_a_host_and_a_port(address: str, host: str | None, port: int) -> None:
    assert parse_address(address) == (host, port)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "8080",
        "::1:8080",
        "[::1:8080",
        "::1]:8080",
        "[]:80",
        "a:b:80",
        "a:65536",
        "a:-1",
        "a:+1",
        "a:٣",
        "a: 80",
        "a:",
    ],
)
def test_anything_else_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="expected an address"):
        parse_address(address)
    with pytest.raises(ConfigError, match="expected an address"):
        Manager(Client(), listen=address)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True)),
        *((None, False), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("localhost.example", False)),
    ],
)
def test_only_addresses_of_this_machine_are_loopback(host: str | None, expected: bool) -> None:
    assert is_loopback(host) is expected


def listener() -> Listener:
    async def handle(_: web.BaseRequest) -> web.Response:
        return web.Response(text="here")

    return Listener(web.Server(handle), Connections())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", None])
async def test_port_zero_is_one_port_that_ipv4_reaches(host: str | None) -> None:
    server = listener()
    assert server.port is None
    await server.listen(host, 0)
    try:
        assert server.port
        assert await ask(server.port, "GET / HTTP/1.1\nHost: localhost\nConnection: close") == 200
    finally:
        await server.stop()
    assert server.port is None


async def test_all_interfaces_are_those_of_both_families() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = listener()
    await server.listen(None, port)
    try:
        for address in ("127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])):
            _, writer = await asyncio.open_connection(address, port)
            writer.close()
    finally:
        await server.stop()


@pytest.mark.parametrize(("host", "words"), [("192.0.2.1", "192.0.2.1 port"), ("no.such.example.invalid", "no.such")])
async def test_an_address_of_another_machine_is_an_error_that_names_it(host: str, words: str) -> None:
    with pytest.raises(OSError, match=f"cannot listen on {words}"):
        await listener().listen(host, 8080)


async def test_a_listen_that_is_cancelled_leaves_no_socket_open() -> None:
    before = listening()
    for steps in range(8):
        server = listener()
        task = asyncio.create_task(server.listen("127.0.0.1", 0))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        await server.stop()
        assert listening() == before


# --- unix sockets --------------------------------------------------------------------------------------------------


def test_a_unix_socket_is_for_its_user_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with bind_unix(tmp_path / "a.sock"):
            assert stat.S_IMODE((tmp_path / "a.sock").stat().st_mode) == 0o600
            assert os.umask(0) == 0  # which threads share
    finally:
        os.umask(before)


def test_a_socket_that_a_process_listens_on_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with bind_unix(path) as first:
        first.listen()
        with pytest.raises(OSError, match=f"cannot listen on {path}: Address already in use"):
            bind_unix(path)
    with bind_unix(path):  # which nothing listens on any more
        assert path.is_socket()


def test_what_is_no_socket_stays(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("mine")
    link.symlink_to(tmp_path / "nowhere")
    for path in (file, link):
        with pytest.raises(OSError, match="cannot listen on"):
            bind_unix(path)
    assert file.read_text() == "mine"
    assert link.is_symlink()
