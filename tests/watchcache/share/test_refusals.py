"""Processes that must not or cannot share a cache: an error that says what to do, or reads of their own.

Internals: identity, listener, session and socket_path, because one process has neither two uids nor two versions.
"""

# ruff: noqa: ASYNC240 - the socket is on a local file system

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from kinformer import Client, SharedInformerFactory
from kinformer.exceptions import ConfigError
from kinformer.testing import APIServer
from kinformer.watchcache import Share
from kinformer.watchcache.share import listener, session, socket_path
from kinformer.watchcache.share.identity import Account
from tests.support.kube import config_map
from tests.support.waiting import until
from tests.watchcache.share.workers import Worker, workers


async def is_alone(worker: Worker, caplog: pytest.LogCaptureFixture, why: str) -> None:
    """Check that a worker reads by itself, and says why."""
    await until(lambda: worker.share.role == "alone" and list(worker.versions) == ["default/a"])
    await until(lambda: any(why in one.getMessage() for one in caplog.records if one.levelname == "WARNING"))


async def test_another_user_is_refused(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with APIServer(users=["alice", "bob"]) as secured:
        secured.create(config_map("a"))
        first, second = Worker(secured, path, user="alice"), Worker(secured, path, user="bob")
        try:
            await first.start()
            await second.start()
            assert first.share.role == "holder"
            await is_alone(second, caplog, "give each user its own path")
        finally:
            await second.stop()
            await first.stop()


@pytest.mark.virtual_time
async def test_a_process_that_starts_after_the_kubeconfig_changed_reads_its_own_cluster(
    server: APIServer, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kubeconfig = path.with_name("config")
    async with APIServer() as other, AsyncExitStack() as later:
        server.create(config_map("before"))
        other.create(config_map("a"))
        async with AsyncExitStack() as first:
            kubeconfig.write_text(json.dumps(kubeconfig_of(server.url)))
            before = await first.enter_async_context(shared(kubeconfig, path))
            kubeconfig.write_text(json.dumps(kubeconfig_of(other.url)))
            after = await later.enter_async_context(shared(kubeconfig, path))
            await until(lambda: names(before) == ["before"] and names(after) == ["a"])
            assert (role(before), role(after)) == ("holder", "alone")
            assert any("another cluster" in one.getMessage() for one in caplog.records)
            server.create(config_map("between"))
            await until(lambda: names(before) == ["before", "between"])
        await until(lambda: role(after) == "holder", 20)
        assert names(after) == ["a"]


@asynccontextmanager
async def shared(kubeconfig: Path, path: Path) -> AsyncIterator[SharedInformerFactory]:
    """A factory whose client reads a kubeconfig."""
    async with (
        Client.from_kubeconfig(kubeconfig) as client,
        SharedInformerFactory(client, share=Share(path)) as factory,
    ):
        factory.for_resource("v1/configmaps")
        await factory.wait_for_cache_sync(10)
        yield factory


def names(factory: SharedInformerFactory) -> list[str]:
    return sorted(obj.name for obj in factory.for_resource("v1/configmaps").lister.list())


def role(factory: SharedInformerFactory) -> str:
    assert factory.shared_cache is not None
    return factory.shared_cache.role


def kubeconfig_of(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }


class _Reviewed:
    """A client whose server names its user so."""

    server = "https://api.example"

    def __init__(self, **user: Any) -> None:
        self._user = user

    async def _probe(self, *_: object, **__: object) -> tuple[dict[str, Any], str]:
        return {"status": {"userInfo": self._user}}, ""


async def test_every_field_of_a_user_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoCluster:
        def __init__(self, _: object) -> None: ...

        async def uid(self) -> None: ...

    async def identity_of(**user: Any) -> Account:
        return await Account.of(cast("Client", _Reviewed(**user)))

    monkeypatch.setattr("kinformer.watchcache.share.identity.KubeSystemProbe", NoCluster)
    alice: dict[str, Any] = {"username": "alice", "uid": "1", "groups": ["a", "b"], "extra": {"scope": ["x", "y"]}}
    credential = {"authentication.kubernetes.io/credential-id": ["JTI=1"]}
    same: list[dict[str, Any]] = [{"groups": ["b", "a"]}, {"extra": {"scope": ["y", "x"], **credential}}]
    for change in same:  # the order, and the token that was renewed
        assert not (await identity_of(**alice)).refusal(await identity_of(**{**alice, **change}))
    others: list[dict[str, Any]] = [
        {"username": "bob"},
        {"uid": "2"},
        {"groups": ["a"]},
        {"extra": {"scope": ["x"]}},
        {"extra": {}},
        {"extra": {"scope": ["x", "y"], "authentication.kubernetes.io/pod-name": ["web"]}},
    ]
    for change in others:
        why = (await identity_of(**alice)).refusal(await identity_of(**{**alice, **change}))
        assert "give each user its own path" in why, change


async def test_another_version_of_the_protocol_is_refused(
    server: APIServer, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.create(config_map("a"))
    monkeypatch.setattr(session, "PROTOCOL", "0")
    async with workers(server, path, 2) as (_, second):
        await is_alone(second, caplog, "restart the older one")
    assert listener.PROTOCOL != "0"


async def test_a_holder_of_another_uid_is_not_read(
    server: APIServer, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.create(config_map("a"))
    async with workers(server, path, 1):
        monkeypatch.setattr(socket_path, "peer_uid", lambda _: os.geteuid() + 1)
        async with workers(server, path, 1) as (second,):
            await is_alone(second, caplog, "run the processes as one user")


async def test_a_follower_of_another_uid_is_refused(
    server: APIServer, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.create(config_map("a"))
    async with workers(server, path, 1):
        monkeypatch.setattr(listener, "peer_uid", lambda _: os.geteuid() + 1)
        async with workers(server, path, 1) as (second,):
            await is_alone(second, caplog, "the cache belongs to uid")


async def test_without_flock_each_process_reads_by_itself(
    server: APIServer, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    server.create(config_map("a"))
    monkeypatch.setattr(fcntl, "flock", refuse)
    async with workers(server, path, 1) as (only,):
        await is_alone(only, caplog, "use a local one such as /run")


@pytest.mark.slow
async def test_a_socket_of_another_program_is_not_read(
    server: APIServer, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.create(config_map("a"))
    with path.with_name("cache.sock.lock").open("w") as lock, socket.socket(socket.AF_UNIX) as other:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other.bind(str(path))  # and never listens
        worker = Worker(server, path)
        try:
            await worker.start()
            await is_alone(worker, caplog, str(path))
        finally:
            await worker.stop()


HELLO = b'{"pid": 1}'
ANSWERS = {
    "a number without an end": b'{"pid": 1e999}\n',
    "brackets": b"[" * 100_000 + b"\n",
    "a text": b'{"pid": "x"}\n',
    "another program's page": b"<html></html>\n",
    "no line": b"x" * (2 << 20),
    "bytes that are no text": b'{"pid": "\xff"}\n',
}


@asynccontextmanager
async def holding(path: Path, answer: bytes, *, heartbeats: bytes | None = b"[]\n") -> AsyncIterator[None]:
    """Hold the lock, and answer the handshake so. Other requests are refused by closing their connection."""

    open_: list[tuple[asyncio.StreamWriter, asyncio.Task[None]]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_.append((writer, task))
        with suppress(OSError, asyncio.IncompleteReadError):
            if b"/session" in await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + answer)
                while answer.startswith(HELLO) and heartbeats is not None:
                    writer.write(heartbeats)
                    await writer.drain()
                    await asyncio.sleep(1)
                await writer.drain()
        writer.close()

    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        serving = await asyncio.start_unix_server(serve, path)
        try:
            yield
        finally:
            serving.close()
            path.unlink(missing_ok=True)
            for writer, task in open_:
                task.cancel()
                writer.transport.abort()
            await asyncio.wait({task for _, task in open_})


@pytest.mark.virtual_time
@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_process_is_alone_beside_a_program_that_answers_anything_and_shares_later(
    server: APIServer, path: Path, caplog: pytest.LogCaptureFixture, answer: str
) -> None:
    server.create(config_map("a"))
    worker = Worker(server, path)
    try:
        async with holding(path, ANSWERS[answer]):
            await worker.start()
            await is_alone(worker, caplog, "is served by another program")
        await until(lambda: worker.share.role == "holder", 30)
    finally:
        await worker.stop()


@pytest.mark.virtual_time
@pytest.mark.parametrize("heartbeats", [b"[" * 100_000 + b"\n", b"1e999\n", b'{"a": 1}\n', b"\xff\n", None])
async def test_a_process_is_alone_beside_a_holder_without_heartbeats_and_shares_later(
    server: APIServer, path: Path, heartbeats: bytes | None
) -> None:
    server.create(config_map("a"))
    worker = Worker(server, path)
    try:
        async with holding(path, HELLO + b"\n", heartbeats=heartbeats):
            await worker.start()
            await until(lambda: worker.share.role == "alone" and list(worker.versions) == ["default/a"])
        await until(lambda: worker.share.role == "holder", 30)
    finally:
        await worker.stop()


@pytest.mark.virtual_time
async def test_a_holder_that_refuses_connections_is_left_after_five_seconds(
    server: APIServer, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.create(config_map("a"))
    worker = Worker(server, path)
    try:
        async with holding(path, HELLO + b"\n"):
            await worker.start()
            await is_alone(worker, caplog, "the holder, process 1, refuses connections")
        await until(lambda: worker.share.role == "holder", 30)
        server.create(config_map("b"))
        await until(lambda: len(worker.versions) == 2)
    finally:
        await worker.stop()


async def test_a_socket_that_disappears_is_no_error(server: APIServer, path: Path) -> None:
    server.create(config_map("a"))
    async with workers(server, path, 2) as two:
        path.unlink()
        server.create(config_map("b"))
        await until(lambda: all(len(one.versions) == 2 for one in two))


def test_a_system_without_unix_sockets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(ConfigError, match="start one process instead"):
        Share("/run/cache.sock")
