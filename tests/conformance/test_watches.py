"""Watches: their start, their events, and their end."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.site import Site
from tests.conformance.test_lists import ONE_METADATA, TABLE
from tests.conformance.test_objects import configmap, pod

pytestmark = pytest.mark.virtual_time

INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


async def label(site: Site, name: str, value: str) -> None:
    await site.patch(f"{site.configmaps}/{name}", {"metadata": {"labels": {"app": value}}}, kept=False)


async def test_a_watch_from_a_version_tells_what_came_after_it(site: Site) -> None:
    first = await site.make(site.configmaps, configmap("a"))
    version = first["metadata"]["resourceVersion"]
    await site.make(site.configmaps, configmap("b"))
    async with site.watch(f"{site.configmaps}?watch=1&resourceVersion={version}") as stream:
        await stream.event()
        await label(site, "a", "x")
        await site.delete(f"{site.configmaps}/b", kept=False)
        changed, deleted = await stream.events(2)
        assert (changed["type"], deleted["type"]) == ("MODIFIED", "DELETED")
        assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(
            changed["object"]["metadata"]["resourceVersion"]
        )


async def test_a_watch_from_any_version_tells_what_there_is_first(site: Site) -> None:
    await site.make(site.configmaps, configmap("b"))
    await site.make(site.configmaps, configmap("a"))
    async with site.watch(f"{site.configmaps}?watch=1&resourceVersion=0") as stream:
        await stream.events(2)
        await site.make(site.configmaps, configmap("c"))
        await stream.event()


async def test_a_watch_from_no_version_tells_what_there_is_first(site: Site) -> None:
    await site.make(site.configmaps, configmap("a"))
    async with site.watch(f"{site.configmaps}?watch=true") as stream:
        await stream.event()
        await label(site, "a", "x")
        await stream.event()


async def test_a_watch_ends_at_its_timeout(site: Site) -> None:
    async with site.watch(f"{site.configmaps}?watch=1&timeoutSeconds=1") as stream:
        await stream.end()


async def test_a_selector_turns_changes_into_adds_and_deletes(site: Site) -> None:
    for name, value in (("a", "x"), ("b", "y")):
        await site.make(site.configmaps, {**configmap(name), "metadata": {"name": name, "labels": {"app": value}}})
    version = await site.revision(site.configmaps)
    query = f"watch=1&labelSelector=app%3Dx&resourceVersion={version}"
    site.transcript.name(f"resourceVersion={version}", "resourceVersion=BEFORE")
    async with site.watch(f"{site.configmaps}?{query}") as stream:
        await label(site, "b", "x")
        await label(site, "a", "y")
        await label(site, "a", "z")
        await label(site, "a", "x")
        await site.patch(f"{site.configmaps}/b", {"data": {"n": "1"}}, kept=False)
        await site.delete(f"{site.configmaps}/b", kept=False)
        kinds = [event["type"] for event in await stream.events(5)]
    assert kinds == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]


async def test_a_field_selector_turns_changes_into_adds_and_deletes(site: Site) -> None:
    await site.make(site.pods, pod("a"))
    version = await site.revision(site.pods)
    site.transcript.name(f"resourceVersion={version}", "resourceVersion=BEFORE")
    query = f"watch=1&fieldSelector=status.phase%3DRunning&resourceVersion={version}"
    async with site.watch(f"{site.pods}?{query}") as stream:
        for phase in ("Running", "Succeeded"):
            await site.patch(f"{site.pods}/a/status", {"status": {"phase": phase}}, kept=False)
        await stream.events(2)
    async with site.watch(f"{site.pods}?watch=1&fieldSelector=metadata.name%3Da&resourceVersion={version}") as stream:
        await stream.events(2)


async def test_a_streamed_list_ends_with_its_bookmark(site: Site) -> None:
    await site.make(site.configmaps, configmap("b"))
    await site.make(site.configmaps, configmap("a"))
    async with site.watch(f"{site.configmaps}?watch=1&{INITIAL}") as stream:
        *_, bookmark = await stream.events(3, bookmarks=True)
        assert bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
        await label(site, "a", "x")
        await stream.event()


async def test_a_streamed_list_of_nothing_is_a_bookmark(site: Site) -> None:
    async with site.watch(f"{site.configmaps}?watch=1&{INITIAL}&timeoutSeconds=1") as stream:
        await stream.event(bookmarks=True)
        await stream.end()


async def test_a_streamed_list_needs_its_parameters_together(site: Site) -> None:
    for query in (
        "watch=1&sendInitialEvents=true",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
        "watch=1&sendInitialEvents=true&resourceVersion=1&resourceVersionMatch=Exact",
        "watch=1&resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "watch=1&sendInitialEvents=words&resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=false",
    ):
        await site.get(f"{site.configmaps}?{query}&timeoutSeconds=1")


async def test_a_streamed_list_without_bookmarks_has_no_end(site: Site) -> None:
    await site.make(site.configmaps, configmap("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    async with site.watch(f"{site.configmaps}?{query}") as stream:
        await stream.end()


async def test_a_watch_without_initial_events_starts_now(site: Site) -> None:
    await site.make(site.configmaps, configmap("a"))
    query = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    async with site.watch(f"{site.configmaps}?{query}") as stream:
        await asyncio.sleep(0.05)
        await site.make(site.configmaps, configmap("b"))
        event = await stream.event()
        assert event["object"]["metadata"]["name"] == "b"


async def test_a_watch_of_one_object_is_of_that_one(site: Site) -> None:
    await site.make(site.configmaps, configmap("a"))
    await site.make(site.configmaps, configmap("b"))
    await site.get(f"{site.configmaps}/a?watch=1")  # of a name it is a get
    old = f"/api/v1/watch/namespaces/{site.namespace}/configmaps"
    async with site.watch(f"{old}/b?resourceVersion=0&timeoutSeconds=1") as stream:
        await stream.end()


async def test_a_watch_comes_as_metadata_alone(site: Site) -> None:
    await site.make(site.configmaps, configmap("a"))
    async with site.watch(f"{site.configmaps}?watch=1&{INITIAL}", accept=ONE_METADATA) as stream:
        await stream.events(2, bookmarks=True)
        await site.delete(f"{site.configmaps}/a", kept=False)
        await stream.event()


async def test_a_watch_comes_as_tables(site: Site) -> None:
    await site.make(site.configmaps, configmap("a"))
    async with site.watch(f"{site.configmaps}?watch=1&resourceVersion=0", accept=TABLE) as stream:
        await stream.event()
        await site.make(site.configmaps, configmap("b"))
        await stream.event()


async def test_what_a_watch_cannot_be_asked(site: Site) -> None:
    await site.get(f"{site.configmaps}?watch=1&resourceVersion=words")
    await site.get(f"{site.configmaps}?watch=1&resourceVersion=-5")
    await site.get(f"{site.configmaps}?watch=1&timeoutSeconds=words")
    await site.get(f"{site.configmaps}?watch=1&labelSelector=!!")
    await site.get(f"{site.configmaps}?watch=1&fieldSelector=data.x%3D1")
    await site.get(f"{site.configmaps}?watch=1&timeoutSeconds=1", accept="text/html")
    await site.get("/api/v1/nothings?watch=1")


async def test_a_watch_from_a_version_that_is_still_to_come_waits_for_it(site: Site) -> None:
    future = str(int(await site.revision(site.configmaps)) + 100_000)
    site.transcript.name(future, "FUTURE")
    async with site.watch(f"{site.configmaps}?watch=1&resourceVersion={future}&timeoutSeconds=1") as stream:
        await site.make(site.configmaps, configmap("a"))
        assert await stream.end() == []


async def test_an_object_that_waits_for_its_finalizers_is_modified_and_then_deleted(site: Site) -> None:
    made = await site.make(
        site.configmaps, {**configmap("a"), "metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
    )
    version = made["metadata"]["resourceVersion"]
    async with site.watch(f"{site.configmaps}?watch=1&resourceVersion={version}") as stream:
        await site.delete(f"{site.configmaps}/a", kept=False)
        await stream.event()
        await site.patch(f"{site.configmaps}/a", {"metadata": {"finalizers": []}}, kept=False)
        await stream.event()


async def test_a_deleted_collection_is_a_delete_for_each(site: Site) -> None:
    for name in ("a", "b", "c"):
        await site.make(site.configmaps, configmap(name))
    version = await site.revision(site.configmaps)
    site.transcript.name(f"resourceVersion={version}", "resourceVersion=BEFORE")
    async with site.watch(f"{site.configmaps}?watch=1&resourceVersion={version}") as stream:
        await site.delete(site.configmaps, kept=False)
        events = await stream.events(3)
    assert sorted(event["object"]["metadata"]["name"] for event in events) == ["a", "b", "c"]


async def test_a_write_that_changes_nothing_is_no_event(site: Site) -> None:
    made = await site.make(site.configmaps, configmap("a", n="1"))
    version = made["metadata"]["resourceVersion"]
    async with site.watch(f"{site.configmaps}?watch=1&resourceVersion={version}&timeoutSeconds=1") as stream:
        await site.patch(f"{site.configmaps}/a", {"data": {"n": "1"}}, kept=False)
        assert await stream.end() == []
