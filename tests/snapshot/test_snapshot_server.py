"""Snapshots of factories, over HTTP: the requests of a restart, and the file of each informer."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from kinformer import Backoff, ConfigError, ListOptions, ListWatch, SharedInformerFactory, Snapshot
from kinformer.testing import APIServer, faults
from tests.support.held import held_bytes
from tests.support.kube import config_map
from tests.support.resumable_source import read_file

SOON = Backoff(initial=0.01, jitter=0)


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map(f"c{number}", labels={"app": f"a{number % 2}"}) for number in range(5)]


async def one_life(server: APIServer, resource: str = "v1/configmaps", **options: Any) -> tuple[Any, dict[str, bytes]]:
    """The outcomes, and the cache at the end of it."""
    async with server.client() as client, SharedInformerFactory(client, backoff=SOON) as factory:
        informer = factory.for_resource(resource, **options)
        await factory.wait_for_cache_sync(timeout=10)
        cache = {obj.key: obj.raw for obj in informer.lister}
    return dict(informer.statistics().snapshots), cache


def requests_of(server: APIServer, since: int) -> list[Any]:
    return [request for request in server.requests[since:] if "configmaps" in request.path]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"namespace": "default"},
        {"label_selector": "app=a1"},
        {"field_selector": "metadata.name!=c3"},
        {"metadata_only": True},
        {"fields": ["data.v"]},
        {"keep_managed_fields": True},
        {"compact": True},
        {"namespaces": ["default", "kube-system"]},
        {"tweak_list_options": lambda options: options.replace(label_selector="app=a1")},
    ],
    ids=lambda options: next(iter(options), "all"),
)
async def test_a_restart_goes_on_without_a_list_whatever_the_cache_is_of(
    server: APIServer, tmp_path: Path, options: dict[str, Any]
) -> None:
    _, before = await one_life(server, snapshot=tmp_path / "s", **options)
    since = len(server.requests)
    outcomes, after = await one_life(server, snapshot=tmp_path / "s", **options)
    assert outcomes["loaded"] == len(options.get("namespaces", "1"))
    assert before
    assert after == before
    lists = [request for request in requests_of(server, since) if "watch" not in request.params]
    assert all("metadata.name=" in r.params.get("fieldSelector", "") or r.params.get("limit") == "1" for r in lists)
    watches = [request for request in requests_of(server, since) if "watch" in request.params]
    assert not any("sendInitialEvents" in request.params for request in watches)


async def test_a_cache_of_fields_is_as_small_after_a_restart(server: APIServer, tmp_path: Path) -> None:
    kept = []
    for _ in range(2):
        async with server.client() as client, SharedInformerFactory(client) as factory:
            informer = factory.for_resource("v1/configmaps", fields=["data.v"], snapshot=tmp_path / "s")
            await factory.wait_for_cache_sync(timeout=10)
            kept.append({obj.key: (type(obj), held_bytes(obj)) for obj in informer.lister})
    assert informer.statistics().snapshots == {"loaded": 1}
    assert kept[0] == kept[1]


async def test_another_selector_in_the_same_file_is_a_list(server: APIServer, tmp_path: Path) -> None:
    await one_life(server, snapshot=tmp_path / "s", label_selector="app=a1")
    outcomes, cache = await one_life(server, snapshot=tmp_path / "s", label_selector="app=a0")
    assert outcomes == {"other_contents": 1, "saved": 1}
    assert sorted(cache) == ["default/c0", "default/c2", "default/c4"]


async def test_changes_meanwhile_come_by_the_watch(server: APIServer, tmp_path: Path) -> None:
    await one_life(server, snapshot=tmp_path / "s")
    server.delete("v1/configmaps", "default", "c1")
    server.delete("v1/configmaps", "default", "c2")
    server.create(config_map("c2"))
    created = server.create(config_map("d"))
    deleted: list[str] = []
    async with server.client() as client, SharedInformerFactory(client) as factory:
        informer = factory.for_resource("v1/configmaps", snapshot=tmp_path / "s")
        informer.add_event_handler(on_delete=lambda obj: deleted.append(obj.name))
        await factory.wait_for_cache_sync(timeout=10)
        await informer.wait_for_resource_version(created["metadata"]["resourceVersion"], timeout=10)
        assert sorted(obj.name for obj in informer.lister) == ["c0", "c2", "c3", "c4", "d"]
        assert informer.statistics().snapshots == {"loaded": 1}
    assert deleted == ["c1", "c2"]


async def test_a_server_that_has_forgotten_the_version_is_listed(server: APIServer, tmp_path: Path) -> None:
    await one_life(server, snapshot=tmp_path / "s")
    server.delete("v1/configmaps", "default", "c1")
    await server.compact()
    outcomes, cache = await one_life(server, snapshot=tmp_path / "s")
    assert outcomes == {"expired": 1, "saved": 1}
    assert len(cache) == 4


async def test_a_server_that_was_restored_is_listed(server: APIServer, tmp_path: Path) -> None:
    server.create(config_map("lost"))
    await one_life(server, snapshot=tmp_path / "s")
    server.faults.add(faults.rewind(1), times=1)
    outcomes, cache = await one_life(server, snapshot=tmp_path / "s")
    assert outcomes["rewind"] == 1, outcomes
    assert "default/lost" not in cache


async def test_a_read_back_is_a_list_of_one_name_under_the_informers_own_selectors(server: APIServer) -> None:
    async with server.client() as client:
        source = ListWatch(
            client, "v1/configmaps", label_selector="app=a1", field_selector="metadata.namespace=default"
        )
        found, version = await source.read_back("default", "c1")
        assert found is not None
        assert (found.name, found.get("data")) == ("c1", None), "the metadata alone"
        page = await source.list(ListOptions())
        assert [obj.uid async for objects in page.items for obj in objects if obj.name == "c1"] == [found.uid]
        assert version == page.resource_version
        assert (await source.read_back("default", "c0")).object is None, "not selected"
        assert (await source.read_back("default", "no,such=thing\\")).object is None
    asked = [request for request in server.requests if "metadata.name=" in request.params.get("fieldSelector", "")]
    assert asked[0].path == "/api/v1/namespaces/default/configmaps"
    assert asked[0].params["fieldSelector"] == "metadata.namespace=default,metadata.name=c1"
    assert asked[-1].params["fieldSelector"].endswith("metadata.name=no\\,such\\=thing\\\\")


# --- factories ------------------------------------------------------------------------------------------------------


async def test_a_folder_as_the_factorys_default_gives_each_informer_a_file_and_leaves_secrets_out(
    server: APIServer, tmp_path: Path
) -> None:
    server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"p": "c2VjcmV0"}})
    resources = ["v1/configmaps", "v1/secrets", "v1/namespaces"]
    async with server.client() as client, SharedInformerFactory(client, snapshot=tmp_path) as factory:
        informers = [factory.for_resource(resource) for resource in resources]
        one_more = factory.for_resource("v1/configmaps", label_selector="app=a1")
        await factory.wait_for_cache_sync(timeout=10)
    assert [dict(informer.statistics().snapshots) for informer in (*informers, one_more)] == [
        {"missing": 1, "saved": 1},
        {},
        {"missing": 1, "saved": 1},
        {"missing": 1, "saved": 1},
    ]
    files = files_in(tmp_path)
    assert [path.name.partition("-")[0] for path in files] == ["v1.configmaps", "v1.configmaps", "v1.namespaces"]
    assert not any(b"c2VjcmV0" in path.read_bytes() for path in files)


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def test_secrets_are_written_when_asked_and_refused_when_it_may_be_a_mistake(
    server: APIServer, tmp_path: Path
) -> None:
    server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"p": "c2VjcmV0"}})
    async with server.client() as client:
        with pytest.raises(ConfigError, match="secrets=True"):
            SharedInformerFactory(client).for_resource("v1/secrets", snapshot=tmp_path / "s")
    outcomes, _ = await one_life(server, "v1/secrets", snapshot=Snapshot(tmp_path / "s", secrets=True))
    assert outcomes == {"missing": 1, "saved": 1}
    assert [obj.name for obj in read_file(tmp_path / "s")[1]] == ["s"]


async def test_two_informers_do_not_share_a_file(server: APIServer, tmp_path: Path) -> None:
    async with server.client() as client, SharedInformerFactory(client, snapshot=tmp_path / "s") as factory:
        informer = factory.for_resource("v1/configmaps")
        assert factory.for_resource("v1/configmaps") is informer
        with pytest.raises(ConfigError, match="same file"):
            factory.for_resource("v1/namespaces")
        with pytest.raises(ConfigError, match="snapshot"):
            factory.for_resource("v1/configmaps", snapshot=tmp_path / "other")
        assert len(factory.informers) == 1


async def test_neither_the_log_nor_the_file_has_a_credential(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    users, rules = {"t0ken-of-the-user": "user"}, [("user", "*", "*")]
    caplog.set_level(logging.DEBUG)
    async with APIServer(users=users, rules=rules) as server:
        for _ in range(2):
            async with server.client("user") as client, SharedInformerFactory(client) as factory:
                factory.for_resource("v1/namespaces", snapshot=tmp_path / "s")
                await factory.wait_for_cache_sync(timeout=10)
    assert not any(b"t0ken" in path.read_bytes() for path in files_in(tmp_path))
    assert "t0ken" not in caplog.text
