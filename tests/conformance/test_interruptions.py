"""The data that a server forgets, and the data that survives its restart; on a server of its own."""

from __future__ import annotations

import asyncio

from kinformer.testing import ClusterServer
from tests.conformance.site import Site
from tests.conformance.test_objects import configmap


async def site_on(server: ClusterServer) -> Site:
    site = Site(server, "")
    await site.make("/api/v1/namespaces", {"metadata": {"name": "here"}})
    site.namespace = "here"
    return site


async def test_data_and_identity_survive_a_restart(own_server: ClusterServer) -> None:
    site = await site_on(own_server)
    url = own_server.url
    made = await site.make(site.configmaps, configmap("a", x="1"))
    await own_server.restart()
    assert own_server.url == url
    assert (await site.get(f"{site.configmaps}/a")).json == made


async def test_a_watch_that_is_open_ends_at_a_restart(own_server: ClusterServer) -> None:
    site = await site_on(own_server)
    await site.make(site.configmaps, configmap("a"))
    async with site.watch(f"{site.configmaps}?watch=1&resourceVersion=0") as stream:
        await stream.event()
        restarting = asyncio.create_task(own_server.restart())
        rest = await stream.remainder()
        await restarting
    assert [event for event in rest if event["type"] != "BOOKMARK"] == []


async def test_after_a_compaction_and_a_restart_an_old_version_is_gone_everywhere(own_server: ClusterServer) -> None:
    site = await site_on(own_server)
    old = (await site.make(site.configmaps, configmap("a")))["metadata"]["resourceVersion"]
    for name in ("b", "c"):
        await site.make(site.configmaps, configmap(name))
    token = (await site.get(f"{site.configmaps}?limit=1")).json["metadata"]["continue"]
    await site.make(site.configmaps, configmap("d"))
    revision = await own_server.compact()
    assert revision > int(old)
    await own_server.restart()
    async with site.watch(f"{site.configmaps}?watch=1&resourceVersion={old}") as stream:
        event = await stream.event()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {old} (")
    exact = await site.get(f"{site.configmaps}?resourceVersion={old}&resourceVersionMatch=Exact")
    assert (exact.status, exact.json["reason"]) == (410, "Expired")
    page = await site.get(f"{site.configmaps}?limit=1&continue={token}")
    assert (page.status, page.json["reason"]) == (410, "Expired")
    going_on = page.json["metadata"]["continue"]  # the server offers to go on in the present
    rest = await site.get(f"{site.configmaps}?limit=10&continue={going_on}")
    names = [item["metadata"]["name"] for item in rest.json["items"] if item["metadata"]["name"] in "abcd"]
    assert names == ["b", "c", "d"]  # one after the last that was read


async def test_the_newest_version_can_be_watched_from_after_a_restart(own_server: ClusterServer) -> None:
    site = await site_on(own_server)
    await site.make(site.configmaps, configmap("a"))
    await own_server.restart()
    version = await site.revision(site.configmaps)
    async with site.watch(f"{site.configmaps}?watch=1&resourceVersion={version}") as stream:
        await site.make(site.configmaps, configmap("b"))
        assert (await stream.event())["object"]["metadata"]["name"] == "b"


async def test_versions_go_on_growing_over_a_restart(own_server: ClusterServer) -> None:
    site = await site_on(own_server)
    before = await site.make(site.configmaps, configmap("a"))
    await own_server.restart()
    after = await site.make(site.configmaps, configmap("b"))
    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
