"""Workers of the real uvicorn and gunicorn: one cache, also if the holder is killed and replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.ports import reserved_port
from tests.support.waiting import until
from tests.watchcache.share.workers import lists_and_watches

pytestmark = [pytest.mark.process, pytest.mark.slow]

APP = "tests.watchcache.share.worker_app:app"
WORKERS = 3
SOON = 60.0  # seconds within which a busy machine starts or replaces a worker
UVICORN = ["uvicorn", APP, "--workers", str(WORKERS), "--host", "127.0.0.1", "--log-level", "error", "--port", "{}"]
GUNICORN = ["gunicorn", APP, "-k", "uvicorn.workers.UvicornWorker", "-w", str(WORKERS), "-b", "127.0.0.1:{}"]
COMMANDS = {"uvicorn": UVICORN, "gunicorn": GUNICORN, "gunicorn with preload": [*GUNICORN, "--preload"]}


@asynccontextmanager
async def web_server(command: list[str], server: APIServer, path: Path) -> AsyncIterator[tuple[int, int]]:
    """Give the pid and the port of a web server."""
    with reserved_port() as port:
        arguments = [one.format(port) for one in command]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            "-m",
            *arguments,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "KUBERNETES_URL": server.url, "SOCKET": str(path)},
        )
        try:
            yield process.pid, port
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(15):
                    await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()


class Front:
    """What the workers behind a port answer."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/"

    async def workers(self) -> dict[int, dict[str, Any]]:
        """Return the answers of all workers that could be reached, by pid."""
        found: dict[int, dict[str, Any]] = {}
        for _ in range(4):
            async with httpx.AsyncClient() as client:
                asked = await asyncio.gather(*(client.get(self._url) for _ in range(8)), return_exceptions=True)
            for answer in asked:
                if isinstance(answer, httpx.Response):
                    found[answer.json()["pid"]] = answer.json()
        return found


def is_one_cache(found: dict[int, dict[str, Any]]) -> bool:
    """Return True if all workers answered, and agree on a holder that is one of them."""
    roles = sorted(one["role"] for one in found.values())
    holders = {one["holder"] for one in found.values()}
    return roles == ["follower"] * (WORKERS - 1) + ["holder"] and len(holders) == 1 and holders <= set(found)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
async def test_workers_have_one_cache_and_a_killed_holder_is_replaced(
    server: APIServer, path: Path, command: list[str]
) -> None:
    server.create(config_map("a"))
    async with web_server(command, server, path) as (_, port):
        front = Front(port)
        found = await until(front.workers, SOON, holds=is_one_cache)
        before = lists_and_watches(server)[0]  # more than 1 if a worker was late, and did not wait for the holder
        killed = next(iter(found.values()))["holder"]
        os.kill(killed, signal.SIGKILL)
        server.create(config_map("b"))

        def is_replaced(found: dict[int, dict[str, Any]]) -> bool:
            return (
                is_one_cache(found)
                and killed not in found
                and all(one["names"] == ["a", "b"] for one in found.values())
            )

        await until(front.workers, SOON, holds=is_replaced)
        assert lists_and_watches(server)[0] == before


async def test_a_worker_that_is_reloaded_holds_the_cache_again(server: APIServer, path: Path) -> None:
    server.create(config_map("a"))
    source = path.with_name("source.py")
    source.write_text("")
    options = ["--reload", "--reload-dir", str(path.parent), "--host", "127.0.0.1", "--log-level", "error"]
    async with web_server(["uvicorn", APP, *options, "--port", "{}"], server, path) as (_, port):
        front = Front(port)

        def is_holder(found: dict[int, dict[str, Any]]) -> bool:
            return [one["role"] for one in found.values()] == ["holder"]

        (first,) = await until(front.workers, SOON, holds=is_holder)
        server.create(config_map("b"))
        source.write_text("changed = True")
        found = await until(front.workers, SOON, holds=lambda found: is_holder(found) and first not in found)
        ((pid, told),) = found.items()
        assert (told["holder"], told["names"]) == (pid, ["a", "b"])
