"""The feed in examples/event_feed: Events from now on, for any number of browsers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from kinformer import KubeObject
from kinformer.testing import APIServer
from tests.examples.example_program import imported
from tests.support.waiting import until
from tests.support.web_server import reading, serving


@pytest.fixture
def module(server: APIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
    return imported("event_feed/feed.py", monkeypatch)


@pytest_asyncio.fixture
async def service(server: APIServer, module: Any) -> AsyncIterator[str]:
    say(server, "old")
    async with serving(module.app, graceful=1) as url, httpx.AsyncClient(base_url=url, timeout=60) as browser:

        async def ready() -> int:
            return (await browser.get("/readyz")).status_code

        await until(ready, holds=lambda status: status == 200)
        yield url


def document(name: str) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "default", "name": "web-1"}
    fixed = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"}}
    told = {"reason": "Started", "note": name, "type": "Normal", "action": "Start", "regarding": about}
    source = {"reportingController": "example.com/kubelet", "reportingInstance": "node-1"}
    return {**fixed, **told, **source, "eventTime": "2026-01-01T00:00:00.000000Z"}


def say(server: APIServer, name: str) -> None:
    server.create(document(name))


async def test_a_browser_reads_what_happens_from_now_on_and_nothing_of_before(
    server: APIServer, module: Any, service: str
) -> None:
    async with reading(f"{service}/events") as one:
        await until(lambda: module.app.state.feed.readers == 1)
        say(server, "first")
        expected = {"type": "Normal", "reason": "Started", "object": "Pod/web-1", "note": "first"}
        assert (await one.next()).data == expected
        async with reading(f"{service}/events") as other:
            await until(lambda: module.app.state.feed.readers == 2)
            say(server, "second")
            assert [(await reader.next()).data["note"] for reader in (one, other)] == ["second", "second"]
    await until(lambda: module.app.state.feed.readers == 0)
    watches = [request for request in server.requests if "watch" in request.params]
    assert len(watches) == 1


@pytest.mark.slow
async def test_after_a_gap_each_event_that_was_missed_is_told_once_and_no_other(
    server: APIServer, module: Any, service: str
) -> None:
    async with reading(f"{service}/events") as browser:
        await until(lambda: module.app.state.feed.readers == 1)
        say(server, "before")
        assert (await browser.next()).data["note"] == "before"
        away = asyncio.create_task(server.restart(0.5))
        await asyncio.sleep(0.1)
        say(server, "missed")
        server.delete("events.k8s.io/v1/events", "default", "old")
        await server.compact()
        await away
        assert (await browser.next(20)).data["note"] == "missed"
        say(server, "after")
        assert (await browser.next(20)).data["note"] == "after"


async def test_a_browser_that_is_too_slow_is_let_go_and_holds_up_no_other(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING", 2)
    feed = module.Feed()
    with feed.reading() as slow, feed.reading() as quick:
        for number in range(4):
            feed.tell(str(number))
            assert await quick.get() == str(number)
        assert [slow.get_nowait() for _ in range(2)] == ["1", None]
        assert slow.empty()


async def test_an_event_without_an_object_is_a_line_all_the_same(module: Any) -> None:
    line = module.line_of(KubeObject.from_dict({"metadata": {"name": "a"}, "note": "n"}))
    assert line == {"type": None, "reason": None, "object": "None/None", "note": "n"}
