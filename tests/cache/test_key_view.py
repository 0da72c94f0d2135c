"""The cache as a mapping.

Internals: the informer with a model, which otherwise a factory makes, over a source of the test.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import msgspec
import pytest

from kinformer import Client, KubeObject, SharedInformer, SharedInformerFactory
from kinformer.informer.typed import ModelInformer
from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource
from tests.support.waiting import settle

pytestmark = pytest.mark.virtual_time


async def test_it_is_a_mapping_that_follows_the_cache() -> None:
    source = MemorySource()
    a, b = source.set("a"), source.set("b", namespace="prod")
    async with SharedInformer(source) as informer:
        by_key = informer.by_key
        assert not by_key
        await informer.wait_synced(10)
        assert isinstance(by_key, Mapping)
        assert by_key is informer.by_key
        assert by_key["default/a"] == a
        assert "default/a" in by_key
        assert "default/b" not in by_key
        assert 7 not in by_key
        assert by_key.get("default/b") is None
        assert by_key.get("default/b", "none") == "none"
        assert by_key.get("prod/b", "none") == b
        assert sorted(by_key) == sorted(by_key.keys()) == ["default/a", "prod/b"]
        assert dict(by_key) == dict(by_key.items()) == by_key == {"default/a": a, "prod/b": b}
        assert {obj.key for obj in by_key.values()} == {"default/a", "prod/b"}
        assert len(by_key) == 2
        source.delete("a")
        await settle()
        assert list(by_key) == ["prod/b"]
        with pytest.raises(KeyError, match="default/a"):
            by_key["default/a"]
        with pytest.raises(KeyError, match="'b': the keys here are 'namespace/name'"):
            by_key["b"]
        with pytest.raises(TypeError):
            by_key["prod/b"] = b  # type: ignore[index]
    assert list(by_key) == ["prod/b"]


async def test_iterating_is_a_snapshot() -> None:
    source = MemorySource()
    for number in range(20):
        source.set(f"a-{number}")
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        views = [iter(informer.by_key), iter(informer.by_key.items()), iter(informer.by_key.values())]
        kept = informer.by_key.keys()
        for number in range(20):
            source.delete(f"a-{number}")
            await settle()
        assert [len(list(view)) for view in views] == [20, 20, 20]
        assert len(kept) == 20
        assert not informer.by_key


async def test_the_objects_of_a_typed_informer_have_their_model() -> None:
    class ConfigMap(msgspec.Struct):
        data: dict[str, str]

    source = MemorySource()
    source.set("a", data={"x": "1"})
    async with SharedInformer(source) as informer:
        typed = ModelInformer(informer, ConfigMap)
        await informer.wait_synced(10)
        assert typed.by_key["default/a"].model.data == {"x": "1"}
        assert [obj.model.data["x"] for obj in typed.by_key.values()] == ["1"]
        assert dict(informer.by_key) == {"default/a": informer.lister.get("a", namespace="default")}
        with pytest.raises(AttributeError, match="without a model"):
            informer.by_key["default/a"].model  # noqa: B018


async def test_other_threads_iterate_while_it_changes(server: APIServer, client: Client) -> None:
    for number in range(50):
        server.create({"apiVersion": "v1", "kind": "ConfigMap", **config_map(f"a-{number}")})
    async with SharedInformerFactory(client) as factory:
        maps = factory.for_resource("v1/configmaps", namespace="default")
        await factory.wait_for_cache_sync(10)
        stop, lengths, failed = threading.Event(), [0], []

        def read() -> None:
            while not stop.is_set():
                try:
                    items: list[tuple[str, KubeObject]] = list(maps.by_key.items())
                    assert all(key == obj.key for key, obj in items)
                    lengths.append(len(items))
                except Exception as error:
                    failed.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        for number in range(50):
            server.delete("v1/configmaps", "default", f"a-{number}")
            await settle()
        stop.set()
        thread.join(10)
    assert not failed
    assert max(lengths) > 0
