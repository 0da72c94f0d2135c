"""Faults of history: versions that are expired, not yet there, or of another past."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kinformer import ListOptions
from kinformer.exceptions import ExpiredError
from kinformer.testing import APIServer, faults
from tests.support.fault_scene import RESOURCE, Reply, Scene, listed, scene, wire
from tests.support.http_server import line
from tests.support.kube import config_map

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("arrival")]

STATUS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
GONE = {**STATUS, "message": "too old resource version: 7 (9)", "reason": "Gone", "code": 410}
TOO_LARGE = {
    **STATUS,
    "message": "Timeout: Too large resource version: 99, current: 10",
    "reason": "Timeout",
    "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
    "code": 504,
}


async def _relisted_once(s: Scene, cause: str = "expired") -> None:
    before = dict(s.cached)
    await s.until(lambda: not s.health.live)
    assert s.cached == before, "the old cache is served until the new list is there"
    assert isinstance(s.health.last_error, ExpiredError)
    await s.in_step()
    assert s.relists == {cause: 1}


async def test_fault_12_a_version_is_expired_within_the_stream() -> None:
    """A 410 comes as an ERROR event of a watch.

    One relist with the cause `expired`. The old cache is served meanwhile. Unchanged objects cause no call.
    """
    async with scene("a", "b", watch_list=False) as s:
        seen = s.informer.last_sync_resource_version
        s.server.faults.add(faults.expired(), verb="watch", times=1)
        await _relisted_once(s)
        assert s.asked("list")[1]["resourceVersion"] == seen
        assert len(s.mirror.calls) == 2


async def test_fault_13_a_version_is_expired_as_http_status() -> None:
    """A watch is answered with HTTP 410, as proxies and aggregated servers do.

    As 12.
    """
    async with scene("a", watch_timeout=5) as s:
        s.server.faults.add(faults.status(410), verb="watch", times=1)
        await _relisted_once(s)


@pytest.mark.parametrize("where", ["event", "status"])
async def test_fault_14_an_old_server_says_gone(where: str) -> None:
    """The 410 has the reason `Gone`, as from servers up to 1.17.

    As 12.
    """
    async with scene("a", watch_timeout=5) as s:
        after = 0 if where == "event" else None
        s.server.faults.add(faults.status(410, GONE), verb="watch", times=1, after_events=after)
        await _relisted_once(s)


async def test_fault_15_an_expired_version_is_not_told() -> None:
    """A watch at an expired version gets 200 and ends at once, again and again.

    After the second one relist with the cause `short_watch`.
    """
    async with scene("a") as s:
        handle = s.server.faults.add(faults.silent_close(), verb="watch")
        s.put("b")
        await asyncio.sleep(10)
        assert s.relists["short_watch"] >= 1
        assert "default/b" in s.cached, "the relist found it"
        assert handle.hits < 12, "no hot loop"
        assert s.kinds[0] == "ShortWatchError"
        handle.remove()
        s.put("c")
        await s.in_step(60)


async def test_fault_16_a_continue_token_expires(server: APIServer) -> None:
    """The continue token expires during a list in pages.

    Only a log line: the pages are dropped, and the list is made whole at once.
    """
    hits: list[Any] = []

    def spoil(options: ListOptions) -> ListOptions:
        if options.continue_token and not hits:
            hits.append(server.faults.add(faults.expired(), verb="list", times=1))
            server.delete(RESOURCE, "default", "a")  # was on the first page
        return options

    source = {"tweak_list_options": spoil}
    async with scene("a", "b", "c", "d", server=server, source=source, watch_list=False, page_size=2) as s:
        before = len(s.asked("list"))  # a list at "0" comes from the watch cache, which knows no pages
        server.faults.add(faults.expired(), verb="watch", times=1)
        await s.until(lambda: bool(hits))
        await s.in_step()
        assert [(query.get("limit"), "continue" in query) for query in s.asked("list")[before:]] == [
            ("2", False),
            ("2", True),
            (None, False),
        ]
        assert (s.kinds, s.relists) == (["ExpiredError"], {"expired": 1})
        assert s.mirror.calls[4:] == [("delete", "a", True)]


async def test_fault_17_a_version_is_larger_than_what_the_server_has() -> None:
    """A relist at the last version is answered 504, "too large".

    A list without a version follows at once. If it is older, the cause is `rewind`.
    """
    async with scene("a", watch_list=False) as s:
        s.server.faults.add(faults.status(504, TOO_LARGE), verb="list", times=1)
        s.server.faults.add(faults.expired(), verb="watch", times=1)
        s.put("b")
        await s.in_step()
        assert [query.get("resourceVersion") for query in s.asked("list")][2:] == [None]
        assert s.relists == {"expired": 1}
        assert s.kinds == ["ExpiredError", "ResourceVersionTooLargeError"]


@pytest.mark.parametrize("away", [0.0, 10.0], ids=["at once", "after seconds away"])
async def test_fault_18_the_server_goes_back_in_time(away: float) -> None:
    """etcd is restored from a backup, and the server accepts a watch from the future.

    Detected before the next watch: one relist with the cause `rewind`. The cache becomes what the backup has.
    """
    async with scene("a", "b", "c") as s:
        for number in range(10):
            s.put("a", f"changed {number}")
        s.put("d")
        s.drop("b")
        await s.in_step()
        s.server.faults.add(faults.rewind(12), verb="get", resource="v1/namespaces")
        await s.client.request("GET", "/api/v1/namespaces/default")
        if away:
            await s.server.restart(downtime=away)
        await s.in_step(away + 5)
        assert s.relists == {"rewind": 1}
        assert "RewindError" in s.kinds
        assert s.cached.keys() == {"default/a", "default/b", "default/c"}
        assert ("delete", "d", True) in s.mirror.calls
        assert s.informer.last_sync_resource_version == s.server.resource_version


async def test_fault_18_the_wait_for_a_version_of_another_past_ends() -> None:
    """See above: who waits for a version that is gone gets a WatchError."""
    async with scene("a") as s:
        version = s.put("b")
        s.server.faults.add(faults.rewind(1), verb="get", resource="v1/namespaces")
        await s.client.request("GET", "/api/v1/namespaces/default")
        with pytest.raises(Exception, match="went back") as caught:
            await s.informer.wait_for_resource_version(str(int(version) + 1), timeout=300)
        assert type(caught.value).__name__ == "WatchError"


async def test_fault_19_a_replica_that_lags_answers() -> None:
    """A relist is answered by a replica that is behind.

    The answer is dropped, and the newest state requested. The cache never goes back.
    """
    old, new = config_map("a", rv=5, uid="1"), config_map("a", rv=9, uid="1")
    stale, fresh = listed(old, rv=6), listed(new, config_map("b", rv=12), rv=12)
    error = line("ERROR", GONE)
    async with wire([listed(old, rv=7), stale, fresh], [Reply([line("MODIFIED", new), error])]) as w:
        await w.until(lambda: w.relists == {"expired": 1} and w.health.live)
        await w.check_mirror()
        assert [query.get("resourceVersion") for query in w.asked("list")] == ["0", "9", None]
        assert w.mirror.calls == [("add", "a", "5"), ("update", "a", "9"), ("add", "b", "12")]
        assert w.kinds == ["ExpiredError", "StaleListError"]


async def test_fault_22_deletes_happen_while_nobody_watches() -> None:
    """Objects are deleted while the connection is lost and the history is gone.

    The relist finds them: `on_delete` with the last known state and `final_state_unknown=True`.
    """
    async with scene("a", "b") as s:
        known = s.mirror.objects["default/b"]
        with _away(s):
            s.put("b", "never seen")
            s.drop("b")
            await s.server.compact()
        await s.in_step()
        assert s.mirror.calls[-1] == ("delete", "b", True)
        assert known["data"] == {"v": "0"}
        assert s.relists == {"expired": 1}


async def test_fault_23_an_object_is_made_anew_while_nobody_watches() -> None:
    """An object is deleted and created again while the connection is lost.

    A delete of the old object and an add of the new one, never an update.
    """
    async with scene("a", "b") as s:
        old = s.cached["default/b"][0]
        with _away(s):
            s.drop("b")
            version = s.put("b")
            await s.server.compact()
        await s.in_step()
        assert s.mirror.calls[-2:] == [("delete", "b", True), ("add", "b", version)]
        assert s.cached["default/b"][0] != old


class _away:  # noqa: N801 - reads as a word of the test
    """The watch is lost at the beginning, and what happens until the end is not seen by it."""

    def __init__(self, s: Scene) -> None:
        self._handle = s.server.faults.add(faults.status(503), verb="watch")
        s.server.faults.add(faults.reset(), verb="watch", times=1)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._handle.remove()


async def test_fault_44_another_cluster_answers_under_the_same_url() -> None:
    """Another cluster, or a copy, answers at the same URL.

    Detected by the uid of kube-system before the next watch: one relist by uid, with the cause `cluster_replaced`.
    """
    async with APIServer() as first:
        for name in ("a", "b"):
            first.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
        port = int(first.url.rpartition(":")[2])
        async with scene(server=first) as s:
            await asyncio.sleep(1)  # it asks which cluster this is beside the first watch
            await first.__aexit__(None, None, None)
            await asyncio.sleep(10)
            async with APIServer(port=port) as second:
                for number in range(50):
                    second.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"b{number}"}})
                second.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}})
                s.server = second
                await s.in_step(60)
                assert s.relists == {"cluster_replaced": 1}
                assert ("delete", "a", True) in s.mirror.calls
                assert [call[:2] for call in s.mirror.calls if call[1] == "b"] == [
                    ("add", "b"),
                    ("delete", "b"),
                    ("add", "b"),
                ]
