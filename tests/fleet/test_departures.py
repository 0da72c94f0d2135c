"""Clusters that leave a fleet: the collections that read them go on, and handlers of theirs cannot remove them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kinformer import Fleet, KubeObject, SharedInformer, StoppedError, derive, union
from kinformer.derived import filtered, mapped
from kinformer.fleet import Cluster
from tests.derived.test_derived_properties import Told
from tests.fleet.clusters import CONFIG_MAPS, clusters, kubeconfig, write
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource
from tests.support.waiting import settle, until

OWN: Any = {"namespace": "default", "field_selector": "metadata.name!=kube-root-ca.crt"}


def maps_of(cluster: Cluster) -> SharedInformer[Any]:
    return cluster.factory.for_resource(CONFIG_MAPS, **OWN)


def names(found: list[KubeObject]) -> list[str]:
    return sorted(obj.name for obj in found)


def one_object(name: str = "one") -> SharedInformer[Any]:
    source = MemorySource()
    source.set(name)
    return SharedInformer(source, name="objects")


@pytest.mark.parametrize("way", ["informers", "present clusters", "values"])
async def test_a_collection_that_fetches_from_each_cluster_loses_what_a_cluster_takes_along(way: str) -> None:
    async with clusters("east", "west") as servers:
        given = {name: server.client() for name, server in servers.items()}
        async with Fleet(given) as fleet, one_object() as objects:
            await fleet.wait_synced(10)
            informers = {name: maps_of(cluster) for name, cluster in fleet.items()}
            values = {
                name: cluster.factory.add(mapped(informers[name], lambda one: one)) for name, cluster in fleet.items()
            }
            ways: dict[str, Callable[[], list[Any]]] = {
                "informers": lambda: list(informers.values()),
                "present clusters": lambda: [informers[name] for name in fleet],
                "values": lambda: list(values.values()),
            }

            def everywhere(_: KubeObject, fetch: Any) -> list[str]:
                return sorted(name for one in ways[way]() for name in names(fetch(one)))

            async with derive(objects, everywhere, name="everywhere") as collection:
                await collection.wait_synced(10)
                assert collection.by_key["default/one"] == ["east", "west"]
                async with collection.events() as events:
                    await anext(events)
                    await fleet.remove("west")
                    event = await asyncio.wait_for(anext(events), 10)
                assert (event.old, event.object) == (["east", "west"], ["east"])
                servers["east"].create(config_map("more"))
                await until(lambda: collection.by_key["default/one"] == ["east", "more"])
                assert collection.health().live
                assert all("west" not in name for name in collection.reads)
                assert len(collection.reads) == 2
            assert collection.statistics().failures == 0


async def test_a_collection_over_a_union_that_fetches_from_the_cluster_of_each_object_goes_on() -> None:
    async with clusters("east", "west") as servers:
        given = {name: server.client() for name, server in servers.items()}
        async with Fleet(given) as fleet:
            maps = fleet.union(CONFIG_MAPS, **OWN)
            await fleet.wait_synced(10)
            namespaces = {name: cluster.factory.for_resource("v1/namespaces") for name, cluster in fleet.items()}
            hosts = {obj.uid: name for name in namespaces for obj in maps_of(fleet[name]).lister.list()}

            def with_namespace(obj: KubeObject, fetch: Any) -> str | None:
                cluster = hosts[obj.uid]
                found = fetch(namespaces[cluster], key=obj.namespace)
                return None if found is None else f"{cluster}/{found.name}/{obj.name}"

            async with derive(maps, with_namespace) as collection:
                await collection.wait_synced(10)
                told = Told()
                collection.add_event_handler(told)
                await until(lambda: len(told.values) == 2)
                await fleet.remove("west")
                await until(lambda: set(told.values) == {"east/default/east"})
                assert dict(collection.by_key) == {"east/default/east": "east/default/east"}
                assert told.wrong == []
                assert collection.health().live
            assert collection.statistics().failures == 0


async def test_a_plain_union_loses_the_objects_of_a_cluster_that_leaves() -> None:
    async with clusters("east", "west") as servers:
        given = {name: server.client() for name, server in servers.items()}
        async with Fleet(given) as fleet:
            await fleet.wait_synced(10)
            async with union(*(maps_of(fleet[name]) for name in ("west", "east"))) as both:
                await both.wait_synced(10)
                assert set(both.by_key) == {"default/east", "default/west"}
                told = Told()
                both.add_event_handler(told)
                await fleet.remove("west")
                await until(lambda: set(told.values) == {"default/east"})
                assert set(both.by_key) == {"default/east"}
                assert told.wrong == []
                assert both.health().live


async def test_a_cluster_that_is_connected_anew_takes_along_what_was_fetched_from_before(tmp_path: Path) -> None:
    file = tmp_path / "clusters"
    async with clusters("east", "other") as servers:
        write(file, kubeconfig({"east": servers["east"]}))
        async with Fleet.from_kubeconfig(file, poll=0.02) as fleet, one_object() as objects:
            await fleet.wait_synced(10)

            def current(_: KubeObject, fetch: Any) -> list[str]:
                return names(fetch(maps_of(fleet["east"])))

            async with derive(objects, current) as collection:
                await collection.wait_synced(10)
                seen: list[list[str]] = []
                collection.add_event_handler(on_update=lambda _, new: seen.append(new))
                await settle()
                write(file, kubeconfig({"east": servers["other"]}))
                await until(lambda: seen)
                assert seen == [["other"]]
                assert collection.statistics().failures == 0


async def test_leaving_the_fleet_before_what_reads_it_takes_nothing_along() -> None:
    told = Told()
    async with clusters("east") as servers, AsyncExitStack() as stack:
        async with Fleet({"east": servers["east"].client()}) as fleet:
            await fleet.wait_synced(10)
            maps = maps_of(fleet["east"])
            objects = await stack.enter_async_context(one_object())
            derived = derive(objects, lambda _, fetch: names(fetch(maps)), name="derived")
            collection = await stack.enter_async_context(derived)
            await collection.wait_synced(10)
            collection.add_event_handler(told)
            await until(lambda: told.values)
        await settle()
        assert dict(collection.by_key) == told.values == {"default/one": ["east"]}
        assert not collection.health().live
        with pytest.raises(StoppedError, match="because v1/configmaps was exited"):
            collection.add_event_handler(on_add=print)


async def test_what_leaves_with_its_cluster_tells_no_change_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    async with clusters("east", "west") as servers:
        given = {name: server.client() for name, server in servers.items()}
        async with Fleet(given) as fleet:
            await fleet.wait_synced(10)
            factory = fleet["west"].factory
            maps = factory.for_resource(CONFIG_MAPS, **OWN)
            own = factory.add(filtered(maps, lambda _: True, name="own"))
            pairs = factory.add(derive(own, lambda one, fetch: (one.name, len(fetch(maps))), name="pairs"))
            await pairs.wait_synced(10)
            told = Told()
            pairs.add_event_handler(told)
            await until(lambda: told.values)
            await fleet.remove("west")
        assert told.values == {"default/west": ("west", 1)}
        assert told.wrong == []
    assert "no longer changes" not in caplog.text


# --- handlers of a cluster -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["an informer", "a derived collection"])
@pytest.mark.parametrize("way", ["remove", "leave"])
async def test_a_handler_of_a_cluster_is_refused_what_would_wait_for_it(of: str, way: str) -> None:
    refused: list[str] = []
    async with clusters("east", "west") as servers:
        given = {name: server.client() for name, server in servers.items()}
        async with Fleet(given) as fleet:
            await fleet.wait_synced(10)
            maps: Any = maps_of(fleet["west"])
            if of == "a derived collection":
                maps = fleet["west"].factory.add(filtered(maps, lambda _: True, name="own"))

            async def on_add(_: Any) -> None:
                try:
                    await (fleet.remove("west") if way == "remove" else fleet.__aexit__(None, None, None))
                except RuntimeError as error:
                    refused.append(str(error))

            maps.add_event_handler(on_add=on_add, name="eager")
            await until(lambda: refused or "west" not in fleet)
            assert "cannot be exited from inside its handler eager" in refused[0]
            assert list(fleet) == ["east", "west"]
            await fleet.remove("west")
            assert await maps_synced(fleet)


async def maps_synced(fleet: Fleet) -> bool:
    """True if the rest of the fleet works."""
    maps = maps_of(fleet["east"])
    await maps.wait_synced(10)
    return maps.health().live


async def test_a_handler_of_another_cluster_or_of_a_union_may_remove_one() -> None:
    async with clusters("east", "west", "north") as servers:
        given = {name: server.client() for name, server in servers.items()}
        async with Fleet(given) as fleet:
            maps = fleet.union(CONFIG_MAPS, **OWN)
            await fleet.wait_synced(10)

            async def remove(name: str) -> None:
                if name in fleet:
                    await fleet.remove(name)

            maps_of(fleet["east"]).add_event_handler(on_add=lambda _: remove("west"))
            await until(lambda: list(fleet) == ["east", "north"])
            maps.add_event_handler(on_add=lambda _: remove("north"))
            await until(lambda: list(fleet) == ["east"])
            await until(lambda: set(maps.by_key) == {"east/default/east"})


async def test_a_handler_of_a_member_is_refused_the_release_that_would_end_it_and_the_union_stays() -> None:
    refused: list[str] = []
    async with clusters("east", "west") as servers:
        given = {name: server.client() for name, server in servers.items()}
        async with Fleet(given) as fleet:
            maps = fleet.union(CONFIG_MAPS, **OWN)
            await fleet.wait_synced(10)

            async def on_add(_: Any) -> None:
                try:
                    await fleet.release(maps)
                except RuntimeError as error:
                    refused.append(str(error))

            (member,) = fleet["west"].factory.informers
            member.add_event_handler(on_add=on_add, name="eager")
            await until(lambda: refused)
            assert refused == ["informer v1/configmaps cannot be exited from inside its handler eager"]
            assert maps.health().live
            assert set(maps.by_key) == {"east/default/east", "west/default/west"}
            await fleet.release(maps)
            assert maps.health().state == "stopped"
            assert [len(cluster.factory.informers) for cluster in fleet.values()] == [0, 0]


async def test_a_handler_of_a_member_that_has_other_holders_may_release_the_union() -> None:
    released: list[bool] = []
    async with clusters("east") as servers, Fleet({"east": servers["east"].client()}) as fleet:
        maps = fleet.union(CONFIG_MAPS, **OWN)
        await fleet.wait_synced(10)

        async def on_add(_: Any) -> None:
            await fleet.release(maps)
            released.append(True)

        own = maps_of(fleet["east"])
        own.add_event_handler(on_add=on_add)
        await until(lambda: released)
        assert maps.health().state == "stopped"
        assert own.health().live


async def test_a_change_that_concerns_many_values_may_be_the_last_of_its_cluster() -> None:
    source = MemorySource()
    for number in range(600):
        source.set(f"object-{number}")
    objects: SharedInformer[Any] = SharedInformer(source, name="objects")
    async with clusters("east", "west") as servers:
        given = {name: server.client() for name, server in servers.items()}
        async with Fleet(given) as fleet, objects:
            await fleet.wait_synced(10)
            east, west = maps_of(fleet["east"]), maps_of(fleet["west"])
            west.add_indexers({"of": lambda obj: [obj.namespace], "also": lambda obj: [obj.namespace]})
            removing: list[asyncio.Future[None]] = []

            def is_last(obj: KubeObject) -> bool:
                if obj.name == "last" and not removing:
                    removing.append(asyncio.ensure_future(fleet.remove("west")))
                return False

            west.add_event_handler(on_add=print, filter=is_last)  # before the collection, which the change wakes

            def of_both(_: KubeObject, fetch: Any) -> int:
                assert fetch(west, index=("of", "default")) == fetch(west, index=("also", "default"))
                return len(fetch(east)) + len(fetch(west, index=("of", "default")))

            async with derive(objects, of_both) as collection:
                await collection.wait_synced(10)
                assert set(collection.by_key.values()) == {2}
                servers["west"].create(config_map("last"))
                await until(lambda: set(collection.by_key.values()) == {1})
                assert collection.health().live
                await removing[0]
