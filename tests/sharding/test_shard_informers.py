"""Informers of shards: each object is in one of them, whether the server filters or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kinformer import Client, ConfigError, Controller, Fleet, ListWatch, Request, SharedInformer, SharedInformerFactory
from kinformer.controller import Applier
from kinformer.list_watcher import ListOptions
from kinformer.sharding import Shard
from kinformer.testing import APIServer, Features
from kinformer.watchcache import Share
from tests.support.kube import config_map, pod
from tests.support.log_records import said
from tests.support.mirror import Mirror
from tests.support.waiting import settle, until

COUNT = 3
SHARDS = [Shard(index, COUNT) for index in range(COUNT)]
MAPS, PODS, SETS = "v1/configmaps", "v1/pods", "apps/v1/replicasets"


@pytest.fixture(params=[True, False], ids=["the server filters", "the server sends everything"])
def filters(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map(f"m{number}") for number in range(60)]


@pytest_asyncio.fixture
async def either(filters: bool, initial_objects: list[dict[str, Any]]) -> AsyncIterator[APIServer]:
    """A server that filters by shards, or one that does not."""
    async with APIServer(features=Features(sharding=filters)) as server:
        for document in initial_objects:
            server.create(document)
        yield server


class Shares:
    """An informer for each shard, with a handler that finds contradictions."""

    def __init__(self, factory: SharedInformerFactory, resource: str, shards: list[Shard], **options: Any) -> None:
        self.informers = [factory.for_resource(resource, shard=shard, **options) for shard in shards]
        self.mirrors = [Mirror() for _ in shards]
        for informer, mirror in zip(self.informers, self.mirrors, strict=True):
            informer.add_event_handler(mirror)

    def of(self, name: str) -> list[int]:
        """Return the numbers of the shards that have an object of this name."""
        return [number for number, informer in enumerate(self.informers) if name in self.names(informer)]

    @staticmethod
    def names(informer: SharedInformer) -> set[str]:
        return {obj.name for obj in informer.lister}

    def versions(self) -> dict[str, str]:
        """Return the version of each object, or nothing if a handler, or a shard that an object left, is behind."""
        caches = [{obj.key: obj for obj in informer.lister} for informer in self.informers]
        uids = [obj.uid for cache in caches for obj in cache.values()]
        assert len(uids) == len(set(uids)), "an object is in two shards"
        assert not [wrong for mirror in self.mirrors for wrong in mirror.wrong]
        versions = {key: obj.resource_version for cache in caches for key, obj in cache.items()}
        told = {key: version for mirror in self.mirrors for key, (_, version) in mirror.known.items()}
        return versions if told == versions and len(versions) == len(uids) else {}


async def on_server(client: Client, path: str) -> dict[str, str]:
    items = (await client.request("GET", path))["items"]
    found = [item["metadata"] for item in items]
    return {f"{metadata['namespace']}/{metadata['name']}": metadata["resourceVersion"] for metadata in found}


@pytest.mark.slow
@pytest.mark.parametrize("watch_list", [True, False], ids=["streams", "lists"])
async def test_the_shards_together_follow_all_objects_and_each_has_one_place(
    either: APIServer, watch_list: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    async with either.client() as client, SharedInformerFactory(client, watch_list=watch_list) as factory:
        shares = Shares(factory, MAPS, SHARDS, namespace="default")
        await factory.wait_for_cache_sync(timeout=20)
        assert min(len(shares.names(informer)) for informer in shares.informers) > 5
        for number in range(0, 60, 2):  # one after the other, so that many events come alone
            either.update(config_map(f"m{number}", data={"changed": "yes"}))
            await asyncio.sleep(0.005)
        for number in range(0, 60, 3):
            either.delete(MAPS, "default", f"m{number}")
        for number in range(60, 90):
            either.create(config_map(f"m{number}"))
        wanted = await on_server(client, path)
        await until(lambda: shares.versions() == wanted)
        await either.restart()  # all watches are opened again
        either.create(config_map("late"))
        wanted = await on_server(client, path)
        await until(lambda: shares.versions() == wanted)
    assert not said(caplog, "shards_ignored")


async def test_a_server_that_can_is_asked_to_filter(either: APIServer, filters: bool) -> None:
    async with either.client() as client:
        whole = ListWatch(client, MAPS, namespace="default")
        sizes = []
        for shard in SHARDS:
            source = ListWatch(client, MAPS, namespace="default", part=shard)
            page = await source.list(ListOptions())
            names = {obj.name async for items in page.items for obj in items}  # type: ignore[union-attr]
            sizes.append((len(names), source.stats.bytes))
        page = await whole.list(ListOptions())
        assert sum(count for count, _ in sizes) == len([obj async for items in page.items for obj in items])  # type: ignore[union-attr]
        assert (max(size for _, size in sizes) < whole.stats.bytes * 0.7) is filters


async def test_an_object_that_is_made_again_under_its_name_may_move(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        shares = Shares(factory, MAPS, SHARDS)
        await factory.wait_for_cache_sync(timeout=20)
        places = set()
        for number in range(40):
            server.delete(MAPS, "default", "m1")
            made = server.create(config_map("m1"))["metadata"]
            await until(lambda made=made: shares.versions().get("default/m1") == made["resourceVersion"])
            places.add(shares.of("m1")[0])
            if number > 5 and len(places) == COUNT:
                break
        assert places == set(range(COUNT))


def owned_by(owner: dict[str, Any] | None, name: str, **fields: Any) -> dict[str, Any]:
    document = pod(name, **fields)
    if owner is not None:
        metadata = owner["metadata"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]}
        document["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return document


async def get(client: Client, name: str) -> dict[str, Any]:
    return dict(await client.request("GET", f"/api/v1/namespaces/default/configmaps/{name}"))


@pytest.mark.parametrize(
    "options", [{}, {"fields": ["spec.nodeName"]}, {"metadata_only": True}, {"compact": True}], ids=str
)
async def test_owned_objects_are_in_the_shard_of_their_owner_in_each_form(
    server: APIServer, client: Client, options: dict[str, Any]
) -> None:
    for number in range(60):
        server.create(owned_by(await get(client, f"m{number}"), f"of-m{number}"))
    server.create(owned_by(None, "alone"))
    async with SharedInformerFactory(client) as factory:
        owners = Shares(factory, MAPS, SHARDS)
        pods = Shares(factory, PODS, [shard.of_owners() for shard in SHARDS], **options)
        await factory.wait_for_cache_sync(timeout=20)
        for mine, theirs in zip(owners.informers, pods.informers, strict=True):
            assert pods.names(theirs) == {f"of-{name}" for name in owners.names(mine)}
        assert not pods.of("alone")


async def test_an_owned_object_moves_with_its_owner_and_no_other_shard_hears_of_it(
    server: APIServer, client: Client
) -> None:
    async with SharedInformerFactory(client) as factory:
        owners = Shares(factory, MAPS, SHARDS)
        pods = Shares(factory, PODS, [shard.of_owners() for shard in SHARDS])
        await factory.wait_for_cache_sync(timeout=20)
        first, second = [await get(client, min(owners.names(informer))) for informer in owners.informers[:2]]
        steps = [(first, [0]), (second, [1]), (None, []), (first, [0])]
        for number, (owner, places) in enumerate(steps):
            (server.update if number else server.create)(owned_by(owner, "moving"))
            await until(lambda places=places: pods.of("moving") == places)
        server.update(owned_by(first, "moving", labels={"a": "b"}))
        server.delete(PODS, "default", "moving")
        await until(lambda: not pods.of("moving"))
        assert [[kind for kind, _, _ in mirror.calls] for mirror in pods.mirrors] == [
            ["add", "delete", "add", "update", "delete"],
            ["add", "delete"],
            [],
        ]
        # What an object became in another shard is not told: a handler would look for an owner that is not here.
        assert [final for kind, _, final in pods.mirrors[0].calls if kind == "delete"] == [True, False]
        assert not [wrong for mirror in pods.mirrors for wrong in mirror.wrong]


class Children:
    """Each config map has a secret of its name."""

    def __init__(self, maps: SharedInformer, secrets: SharedInformer, applier: Applier, made: list[str]) -> None:
        self.maps = maps
        self.secrets = secrets
        self.applier = applier
        self.made = made

    async def reconcile(self, request: Request) -> None:
        owner = self.maps.by_key[request.key]
        if self.secrets.by_key.get(request.key) is None:
            self.made.append(request.key)
        metadata = {"name": request.name, "namespace": request.namespace}
        await self.applier.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}, owner=owner)


async def test_a_controller_of_a_shard_makes_each_child_once_and_knows_its_own_writes(
    server: APIServer, client: Client
) -> None:
    made: list[str] = []
    async with AsyncExitStack() as stack:
        for shard in SHARDS:
            factory = await stack.enter_async_context(SharedInformerFactory(client, namespace="default"))
            maps = factory.for_resource(MAPS, shard=shard)
            secrets = factory.for_resource("v1/secrets", shard=shard.of_owners())
            applier = Applier(client, "v1/secrets", secrets, field_manager="test")

            reconcile = Children(maps, secrets, applier, made).reconcile
            controller = Controller(reconcile, name=f"shard {shard.index}").for_(maps).owns(secrets, "ConfigMap")
            running = asyncio.create_task(controller.run())
            stack.push_async_callback(asyncio.wait, {running})
            stack.callback(running.cancel)
        await until(lambda: len(made) == 60)
        server.update(config_map("m7", data={"changed": "yes"}))
        await asyncio.sleep(0.3)
    assert len(made) == len(set(made)) == 60


async def test_small_requests_see_the_part_too(server: APIServer, client: Client) -> None:
    sources = [ListWatch(client, MAPS, namespace="default", part=shard) for shard in SHARDS]
    names = [{obj.name for obj in (await source.list_metadata()).objects} for source in sources]
    assert sum(map(len, names)) == len(set().union(*names)) == 60
    place = next(number for number, of_one in enumerate(names) if "m1" in of_one)
    obj = (await sources[place].list_metadata("default", name="m1")).objects[0]
    for number, source in enumerate(sources):
        read = await source.read_back("default", "m1")
        assert (read.object is not None) == source.selects(obj) == (number == place)
        assert not source.selects_all
    owned = [ListWatch(client, MAPS, namespace="default", part=shard.of_owners()) for shard in SHARDS]
    assert not any(source.selects_all for source in owned)
    assert len({str(source.contents) for source in sources + owned}) == 2 * COUNT


async def test_a_snapshot_of_another_shard_is_not_used(client: Client, tmp_path: Path) -> None:
    names = []
    for shard in SHARDS[:2]:
        async with SharedInformerFactory(client) as factory:
            informer = factory.for_resource(MAPS, shard=shard, snapshot=tmp_path / "maps")
            await factory.wait_for_cache_sync(timeout=20)
            names.append(Shares.names(informer))
    assert not names[0] & names[1]
    assert all(names)


async def test_a_shared_cache_is_not_asked_for_shards(client: Client, server: APIServer, tmp_path: Path) -> None:
    async with SharedInformerFactory(client, share=Share(tmp_path / "cache.sock")) as factory:
        whole, informer = factory.for_resource(MAPS), factory.for_resource(MAPS, shard=SHARDS[0])
        await factory.wait_for_cache_sync(timeout=20)
        assert whole.health().holder is not None
        assert informer.health().holder is None
        assert 0 < len(informer.lister) < len(whole.lister) == 60


@pytest.mark.parametrize("make", [SharedInformerFactory, lambda client, **options: Fleet({}, **options)])
async def test_a_shard_is_no_default_of_all_informers(client: Client, make: Any) -> None:
    with pytest.raises(ConfigError, match="shard cannot be a default"):
        make(client, shard=SHARDS[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shard": SHARDS[0], "shard_selector": "shardRange(object.metadata.uid,'0x0','0x8')"}, "v1/pods: .*not both"),
        ({"shard": "0 of 3"}, "v1/pods: .*Shard.*'0 of 3'"),
    ],
)
async def test_a_shard_that_cannot_be_is_refused_with_the_resource(client: Client, options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SharedInformerFactory(client).for_resource(PODS, **options)
    with pytest.raises(ConfigError, match=words):
        ListWatch(client, PODS, **{"part" if name == "shard" else name: value for name, value in options.items()})


async def test_equal_shards_have_one_informer(client: Client) -> None:
    factory = SharedInformerFactory(client)
    informers = {id(factory.for_resource(PODS, shard=Shard(1, 3))) for _ in range(2)}
    assert len(informers) == 1
    others = (None, Shard(1, 4), Shard(1, 3).of_owners())
    assert len({id(factory.for_resource(PODS, shard=shard)) for shard in others} | informers) == 4
    await settle()
