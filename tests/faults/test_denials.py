"""Faults of being let in: too many requests, credentials that end, rights that are taken away."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kinformer import Client, ForbiddenError, ListWatch, SharedInformer, UnauthorizedError
from kinformer.exceptions import NotWatchableError, TooManyRequestsError
from kinformer.testing import APIServer, faults
from tests.support.fault_scene import EVEN, RESOURCE, Reply, event, listed, scene
from tests.support.http_server import HttpServer, status_answer
from tests.support.metrics_server import METRICS, MetricsServer

pytestmark = pytest.mark.virtual_time

TEXT = "Too many requests, please try again later."


@pytest.mark.parametrize("body", [None, TEXT], ids=["json", "text"])
async def test_fault_30_the_server_asks_to_come_back_later(body: Any) -> None:
    """429 with a Retry-After, as JSON or plain text.

    A TooManyRequestsError. The next request follows when the server asked for it, at most a minute later plus a
    quarter. No relist.
    """
    async with scene("a", watch_timeout=10) as s:
        loop = asyncio.get_running_loop()
        s.server.faults.add(faults.status(429, body, retry_after=20), verb="watch", times=1)
        await s.until(lambda: not s.health.live)
        started = loop.time()
        error = s.health.last_error
        assert isinstance(error, TooManyRequestsError)
        assert (error.message, error.retry_after) == (TEXT, 20)
        s.put("b")
        await s.in_step()
        assert 19.8 <= loop.time() - started <= 26
        assert s.relists == {}


async def test_fault_32_the_token_is_rotated(tmp_path: Path) -> None:
    """A token expires and its file is rewritten. Later it is not.

    Nothing while the file is good: it is read at the first 401 and every minute. Then `unauthorized`, not live. It
    recovers by itself.
    """
    good = {"one"}
    lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in good:
            return status_answer(401, "Unauthorized")
        if not request.path.endswith("/configmaps"):
            return status_answer(404, "NotFound")
        if "watch" in request.query:
            pieces: list[Any] = [] if lines.empty() else [lines.get_nowait()]
            return await Reply([*pieces, float(request.query["timeoutSeconds"])]).give(request)
        return await listed(rv=8 if request.query.get("limit") == "1" else 7).give(request)

    token = tmp_path / "token"
    token.write_text("one")
    async with HttpServer(answer) as server:
        config = tmp_path / "config"
        config.write_text(_kubeconfig(server.url, token))
        errors: list[Any] = []
        async with Client.from_kubeconfig(config) as client:
            source = ListWatch(client, RESOURCE, namespace="default")
            options: dict[str, Any] = {"watch_list": False, "watch_timeout": 20, "backoff": EVEN}
            async with SharedInformer(source, **options, on_error=lambda _, e: errors.append(e)) as informer:
                await informer.wait_synced(timeout=10)
                await asyncio.sleep(5)
                token.write_text("two")
                good.clear()
                good.add("two")
                await asyncio.sleep(1)
                assert informer.health().live, "the open watch is not cut"
                lines.put_nowait(event("ADDED", "b", 8))
                await asyncio.sleep(60)
                assert informer.health().live
                assert [error for error in errors if not isinstance(error, UnauthorizedError)] == []
                assert len(informer.lister) == 1
                good.clear()
                await asyncio.sleep(60)
                assert (informer.health().state, informer.health().live) == ("unauthorized", False)
                assert isinstance(informer.health().last_error, UnauthorizedError)
                assert len(informer.lister) == 1
                good.add("three")
                token.write_text("three")
                await asyncio.sleep(130)
                assert (informer.health().state, informer.health().live) == ("watching", True)
                assert dict(informer.statistics().relists) == {}


def _kubeconfig(url: str, token: Path) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"tokenFile": str(token)}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
    )


async def test_fault_33_the_permission_is_revoked() -> None:
    """The right to list and watch is revoked, and granted again.

    The open watch goes on to its end. Then `forbidden`, not live, with the missing right. The cache stays, and the
    watch continues from its version.
    """
    async with scene("a", watch_timeout=5) as s:
        handle = s.server.faults.add(faults.status(403), resource=RESOURCE)
        s.put("b")
        await s.until(lambda: "default/b" in s.cached, what="an event of the watch that is open")
        await s.until(lambda: s.health.state == "forbidden")
        await asyncio.sleep(300)
        assert (s.health.live, s.health.synced) == (False, True)
        assert isinstance(s.health.last_error, ForbiddenError)
        assert s.cached.keys() == {"default/a", "default/b"}
        assert len(s.errors) < 20, "no storm"
        s.put("c")
        handle.remove()
        await s.in_step(90)
        assert s.relists == {}


async def test_fault_34_list_is_allowed_and_watch_is_not() -> None:
    """Listing is allowed, and watching is not.

    One list, synced, then `forbidden` and not live. Waits raise the 403 once it lasts: it names
    [`poll=`](concepts.md#resources-that-cannot-be-watched).
    """
    users, rules = {"t": "bob"}, [("bob", "list", RESOURCE)]
    async with APIServer(users=users, rules=rules) as server:
        for watch_list in (None, False):
            async with scene("a", server=server, user="bob", watch_list=watch_list, synced=False) as s:
                await s.until(lambda: s.health.synced and s.health.state == "forbidden")
                with pytest.raises(ForbiddenError, match=r'User "bob" cannot watch .*poll=30'):
                    await s.informer.wait_synced(timeout=60)
                asked = len(s.asked("list"))
                await asyncio.sleep(600)
                assert 'User "bob" cannot watch resource "configmaps"' in str(s.health.last_error)
                assert (s.health.state, s.health.live, s.health.synced) == ("forbidden", False, True)
                assert (s.cached.keys(), s.relists) == ({"default/a"}, {})
                assert len(s.asked("list")) == asked
            server.delete(RESOURCE, "default", "a")
        async with scene("a", server=server, user="bob", poll=30) as s:
            s.put("b")
            await s.in_step(40)


async def test_fault_56_a_resource_cannot_be_watched() -> None:
    """A resource has no verb `watch`, as those of `metrics.k8s.io`: a watch is answered 405.

    Never live. Each wait raises a NotWatchableError that names [`poll=`](concepts.md#resources-that-cannot-be-watched).
    With `poll=30` it is listed every 30 s, and live.
    """
    async with HttpServer(metrics := MetricsServer()) as server, Client.from_url(server.url) as client:
        async with SharedInformer(ListWatch(client, METRICS)) as informer:
            with pytest.raises(NotWatchableError, match="poll=30"):
                await informer.wait_synced(timeout=60)
            assert not informer.health().live
        async with SharedInformer(ListWatch(client, METRICS), poll=30) as informer:
            await informer.wait_synced(timeout=60)
            metrics.usage["web-3"] = "1m"
            await asyncio.sleep(40)
            assert (informer.health().live, len(informer.lister)) == (True, 3)
