"""The ordinary faults of a real server: an informer's cache equals the server after each.

A kill, a compaction, a history that is gone and a server without WatchList are in test_informers, a data directory that
was restored between two runs of a program in test_snapshots, a network that is cut in test_informers_on_both.
"""

from __future__ import annotations

import asyncio
import copy
import csv
import json
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kinformer import Client, ForbiddenError, ListOptions, NotFoundError, SharedInformerFactory, UnauthorizedError
from kinformer.exceptions import NotWatchableError, TooManyRequestsError
from kinformer.testing import ClusterServer, ControlPlane
from tests.client.test_security import manifests
from tests.conformance.api import WIDGETS, Api, collection, manifest, read_configmaps
from tests.conformance.conftest import OpenApi, StartControlPlane
from tests.conformance.history import History, assert_equal
from tests.conformance.test_informers import IMPATIENT
from tests.support.forwarder import Forwarder
from tests.support.mirror import Mirror
from tests.support.waiting import until

CONFIGMAPS = "v1/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HARD = [
    "--goaway-chance=0.02",  # the most that may be asked for; of HTTP/2 only, so nothing may come of it
    "--min-request-timeout=1",  # what a watch lasts that names no time of its own
    "--enable-priority-and-fairness=false",  # with it requests wait in queues; without it, at once:
    "--max-requests-inflight=1",  # 429 for what is more, watches and administrators apart
]


@pytest.fixture(scope="module")
def hard_server(assets: Path) -> Iterator[ControlPlane]:
    """A server that ends watches soon and answers one request at a time; each test has a namespace of its own in it."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        control_plane = ControlPlane(assets, users=["alice", "reader"], api_server_flags=HARD)
        runner.run(control_plane.__aenter__())
        try:
            yield control_plane
        finally:
            runner.run(control_plane.__aexit__(None, None, None))


async def made_namespace(api: Api, name: str) -> str:
    await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


async def give(api: Api, user: str, namespace: str) -> None:
    """A role that may read config maps."""
    for kind, body in read_configmaps(user).items():
        await api.create(f"{RBAC}/namespaces/{namespace}/{kind}", body)


def unnamed(options: ListOptions) -> ListOptions:
    """How long a watch lasts is the server's to say."""
    return options.replace(timeout_seconds=None)


async def test_watches_that_end_every_second_and_a_server_that_sends_connections_away_are_not_noticed(
    hard_server: ControlPlane, open_api: OpenApi
) -> None:
    api = await open_api(hard_server)
    namespace = await made_namespace(api, "short-watches")
    history = History(api, CONFIGMAPS, namespace=namespace)
    async with (
        hard_server.client() as client,
        SharedInformerFactory(client, namespace=namespace, backoff=IMPATIENT) as factory,
    ):
        own, servers = Mirror(), Mirror()
        by_itself = factory.for_resource(CONFIGMAPS, watch_timeout=1)
        by_itself.add_event_handler(own)
        by_the_server = factory.for_resource(CONFIGMAPS, label_selector="!none", tweak_list_options=unnamed)
        by_the_server.add_event_handler(servers)
        await factory.wait_for_cache_sync(timeout=30)
        informers = {by_itself: own, by_the_server: servers}
        async with asyncio.timeout(30):
            while any(informer.health().watches < 4 for informer in informers):
                await history.go_on(20)
                await asyncio.sleep(0.05)
        for informer, mirror in informers.items():
            await assert_equal(api, CONFIGMAPS, informer, mirror, namespace=namespace)
            assert informer.statistics().relists == {}
            assert (informer.health().live, informer.health().last_error) == (True, None)


async def test_a_server_that_is_full_is_asked_again_until_all_have_what_they_asked_for(
    hard_server: ControlPlane, open_api: OpenApi
) -> None:
    api = await open_api(hard_server)
    namespace = await made_namespace(api, "full")
    await give(api, "alice", namespace)
    for number in range(40):
        body = manifest(CONFIGMAPS, f"large-{number}", str(number))
        await api.create(collection(CONFIGMAPS, namespace), {**body, "data": {"text": "x" * 50_000}})
    errors: list[BaseException] = []
    async with (
        hard_server.client("alice") as client,
        SharedInformerFactory(
            client,
            namespace=namespace,
            watch_list=False,
            backoff=IMPATIENT,
            on_error=lambda _, error: errors.append(error),
        ) as factory,
    ):
        mirrors = {}
        for number in range(25):
            informer = factory.for_resource(CONFIGMAPS, label_selector=f"shard!={number}")
            mirrors[informer] = Mirror()
            informer.add_event_handler(mirrors[informer])
        await factory.wait_for_cache_sync(timeout=60, handlers=True)
        assert any(isinstance(error, TooManyRequestsError) for error in errors)
        await api.create(collection(CONFIGMAPS, namespace), manifest(CONFIGMAPS, "last", "1"))
        for informer, mirror in mirrors.items():
            await assert_equal(api, CONFIGMAPS, informer, mirror, namespace=namespace)
        await until(lambda: all(informer.health().live for informer in mirrors), 20)


async def test_a_role_that_is_revoked_and_granted_again(hard_server: ControlPlane, open_api: OpenApi) -> None:
    api = await open_api(hard_server)
    namespace = await made_namespace(api, "roles")
    await give(api, "alice", namespace)
    history = History(api, CONFIGMAPS, namespace=namespace)
    await history.go_on(20)
    async with (
        hard_server.client("alice") as client,
        SharedInformerFactory(client, namespace=namespace, backoff=IMPATIENT, watch_timeout=1) as factory,
    ):
        informer, mirror = factory.for_resource(CONFIGMAPS), Mirror()
        informer.add_event_handler(mirror)
        await factory.wait_for_cache_sync(timeout=30, handlers=True)
        await api.remove(f"{RBAC}/namespaces/{namespace}/rolebindings/alice-reads")
        await until(lambda: informer.health().state == "forbidden", 20)
        known = dict(mirror.known)
        await history.go_on(20)
        health = informer.health()
        assert (health.state, health.live, health.synced) == ("forbidden", False, True)
        assert isinstance(health.last_error, ForbiddenError)
        assert mirror.known == known  # the last good state stays
        assert known
        await give(api, "alice", namespace)
        await until(lambda: informer.health().live, 20)
        await assert_equal(api, CONFIGMAPS, informer, mirror, namespace=namespace)
        assert informer.statistics().relists == {}


async def test_the_rights_in_the_documentation_are_enough(hard_server: ControlPlane, open_api: OpenApi) -> None:
    api = await open_api(hard_server)
    for body in manifests():
        if "subjects" in body:
            body["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}]
        await api.create(f"{RBAC}/{body['kind'].lower()}s", body)
    history = History(api, CONFIGMAPS)
    errors: list[BaseException] = []
    async with (
        hard_server.client("reader") as client,
        SharedInformerFactory(client, backoff=IMPATIENT, watch_timeout=1) as factory,
    ):
        factory.for_resource("apps/v1/deployments")
        informer, mirror = factory.for_resource(CONFIGMAPS, namespace="default"), Mirror()
        informer.add_event_handler(mirror)
        listed = factory.for_resource(CONFIGMAPS, watch_list=False, on_error=lambda _, error: errors.append(error))
        await until(lambda: factory.informers and all(one.has_synced for one in factory.informers), 30)
        errors.clear()  # a role takes a moment
        await history.go_on(40)
        await until(lambda: listed.health().watches > 2, 20)
        await assert_equal(api, CONFIGMAPS, informer, mirror, namespace="default")
        assert not any(isinstance(error, ForbiddenError) for error in errors)
        system: Any = await client.request("GET", "/api/v1/namespaces/kube-system")
        assert system.uid  # which cluster this is
        with pytest.raises(ForbiddenError):
            await client.request("GET", "/api/v1/secrets")


async def test_an_orderly_shutdown_in_the_middle_of_changes_and_a_token_that_is_another_one_afterwards(
    start_control_plane: StartControlPlane, open_api: OpenApi, tmp_path: Path
) -> None:
    control_plane = await start_control_plane(users={"first-token": "alice"})
    api = await open_api(control_plane)
    await give(api, "alice", "default")
    history = History(api, CONFIGMAPS)
    await history.go_on(40)
    token = tmp_path / "token"
    token.write_text("first-token")
    kubeconfig = with_token_file(control_plane, tmp_path, token)
    async with (
        Client.from_kubeconfig(kubeconfig) as client,
        SharedInformerFactory(client, namespace="default", backoff=IMPATIENT) as factory,
    ):
        informer, mirror = factory.for_resource(CONFIGMAPS), Mirror()
        informer.add_event_handler(mirror)
        await factory.wait_for_cache_sync(timeout=30, handlers=True)
        changes = asyncio.create_task(history.go_on(150))
        await asyncio.sleep(0.05)  # they are under way
        assert not changes.done()
        await control_plane.stop_api_server()
        await until(lambda: not informer.health().live, 20)
        change_token(control_plane, "first-token", "second-token")
        await control_plane.start_api_server()
        await changes
        await until(lambda: informer.health().state == "unauthorized", 20)
        assert isinstance(informer.health().last_error, UnauthorizedError)
        assert not informer.health().live
        assert mirror.known  # the last good state stays
        token.write_text("second-token")
        await until(lambda: informer.health().live, 20)
        await assert_equal(api, CONFIGMAPS, informer, mirror, namespace="default")
        assert sum(informer.statistics().relists.values()) <= 1


async def test_a_data_directory_that_is_restored_under_a_running_informer(
    start_control_plane: StartControlPlane, open_api: OpenApi, tmp_path: Path
) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    control_plane = await start_control_plane(data_dir=data)
    api = await open_api(control_plane)
    history = History(api, CONFIGMAPS)
    await history.go_on(40)

    async def while_stopped(source: Path, target: Path) -> None:
        await control_plane.stop_api_server()
        await control_plane.stop_etcd()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        await asyncio.sleep(2)  # nobody restores a backup in less; a server that was away for less is not asked
        await control_plane.start_etcd()
        await control_plane.start_api_server()

    await while_stopped(data, backup)
    async with control_plane.client() as client, SharedInformerFactory(client, backoff=IMPATIENT) as factory:
        informer, mirror = factory.for_resource(CONFIGMAPS), Mirror()
        informer.add_event_handler(mirror)
        await factory.wait_for_cache_sync(timeout=30, handlers=True)
        await history.go_on(600)  # more than the server itself writes as it starts
        reached = int(informer.last_sync_resource_version)
        await while_stopped(backup, data)
        # A server that is just starting may take a question and not answer it, which is given up after 30 s.
        await until(lambda: informer.statistics().relists.get("rewind"), 90)
        assert int(informer.last_sync_resource_version) < reached
        await until(lambda: informer.health().live, 20)
        await assert_equal(api, CONFIGMAPS, informer, mirror)


def with_token_file(control_plane: ControlPlane, folder: Path, token: Path) -> Path:
    path = folder / "config"
    cluster = {"server": control_plane.url, "certificate-authority": str(control_plane.ca_file)}
    document = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"tokenFile": str(token)}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document))
    return path


def change_token(control_plane: ControlPlane, old: str, new: str) -> None:
    """In the file that the server reads when it starts."""
    path = control_plane.folder / "tokens.csv"
    rows = list(csv.reader(path.read_text().splitlines()))
    assert old in [row[0] for row in rows]
    with path.open("w") as file:
        csv.writer(file).writerows([new if row[0] == old else row[0], *row[1:]] for row in rows)


async def test_a_definition_is_edited_deleted_and_made_anew(
    server: ClusterServer, open_api: OpenApi, namespace: str
) -> None:
    """On both servers: the cache follows, is empty without it, and has what is new under the old names afterwards."""
    api = await open_api(server)
    text = json.dumps(WIDGETS).replace("example.com", "faults.example.com")
    definition: dict[str, Any] = json.loads(text)
    resource, path = "faults.example.com/v1/widgets", f"/apis/faults.example.com/v1/namespaces/{namespace}/widgets"
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.faults.example.com"

    def widget(name: str, value: str) -> dict[str, Any]:
        body = manifest("example.com/v1/widgets", name, value)
        return {**body, "apiVersion": "faults.example.com/v1"}

    await server.install_crds(definition)
    for name in ("a", "b"):
        await api.create(path, widget(name, "1"))
    context = ssl.create_default_context(cafile=server.ca_file) if server.ca_file else None
    async with (
        Client.from_url(server.url, token=server.token(), ssl=context) as client,
        SharedInformerFactory(client, namespace=namespace, backoff=IMPATIENT) as factory,
    ):
        informer, mirror = factory.for_resource(resource), Mirror()
        informer.add_event_handler(mirror)
        await factory.wait_for_cache_sync(timeout=30, handlers=True)
        first = dict(mirror.known)
        assert len(first) == 2

        edited = copy.deepcopy(definition)
        column = {"name": "Value", "type": "string", "jsonPath": ".spec.value"}
        edited["spec"]["versions"][0]["additionalPrinterColumns"] = [column]
        await server.install_crds(edited)
        await api.create(path, widget("c", "1"))
        await until(lambda: f"{namespace}/c" in mirror.known, 20)
        assert mirror.known.items() >= first.items()

        await api.remove(definitions)
        await until(lambda: mirror.known == {}, 30)
        await until(lambda: not informer.health().live, 30)
        assert len(informer.lister) == 0

        await server.install_crds(definition)
        made = await api.create(path, widget("a", "2"))
        await until(lambda: set(mirror.known) == {f"{namespace}/a"}, 40)
        assert mirror.known[f"{namespace}/a"] == (made["metadata"]["uid"], made["metadata"]["resourceVersion"])
        assert mirror.known[f"{namespace}/a"][0] != first[f"{namespace}/a"][0]
        await until(lambda: informer.health().live, 20)
        assert mirror.wrong == []
    await api.remove(definitions)


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_objects_of_a_version_that_is_no_longer_served_stay_until_their_definition_is_gone(
    start_control_plane: StartControlPlane, open_api: OpenApi
) -> None:
    """Both a version that ends, beside an informer of another one, and a definition that goes unseen."""
    control_plane = await start_control_plane()
    api = await open_api(control_plane)
    definition = copy.deepcopy(WIDGETS)
    [v1] = definition["spec"]["versions"]
    definition["spec"]["versions"] = [{**v1, "name": "v1alpha1", "storage": False}, v1]
    await control_plane.install_crds(definition)
    await History(api, "example.com/v1/widgets").go_on(20)
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{WIDGETS['metadata']['name']}"
    async with Forwarder(control_plane.url) as forwarder:
        context = ssl.create_default_context(cafile=control_plane.ca_file)
        client = Client.from_url(forwarder.url, token=control_plane.token(), ssl=context)
        async with client, SharedInformerFactory(client, backoff=IMPATIENT, watch_timeout=2) as factory:
            old, new = (factory.for_resource(f"example.com/{version}/widgets") for version in ("v1alpha1", "v1"))
            mirror = Mirror()
            old.add_event_handler(mirror)
            await factory.wait_for_cache_sync(timeout=30, handlers=True)
            there = set(new.by_key)
            assert set(old.by_key) == there
            definition["spec"]["versions"][0]["served"] = False
            await api.merge(path, {"spec": definition["spec"]})
            await until(lambda: old.health().state == "absent", 30)
            await asyncio.sleep(60)
            error = old.health().last_error
            assert isinstance(error, NotFoundError)
            assert error.nearest == "example.com/v1/widgets"
            assert (set(old.by_key), mirror.of("delete"), old.health().live) == (there, [], False)
            assert new.health().live
            await forwarder.cut()
            await api.remove(path)
            await until(lambda: api.call("GET", path), 60, holds=lambda answer: answer[0] == 404)
            await forwarder.restore()
            await until(lambda: new.health().state == "absent", 30)
            assert set(new.by_key) == set(old.by_key) == there
            await until(lambda: not len(old.lister) and not len(new.lister), 120)
            assert (set(mirror.known), mirror.wrong) == (set(), [])


@pytest.mark.timeout(120)
async def test_a_resource_without_the_verb_watch_says_so_or_is_polled(
    start_control_plane: StartControlPlane,
) -> None:
    control_plane = await start_control_plane()
    async with control_plane.client() as client, SharedInformerFactory(client, backoff=IMPATIENT) as factory:
        statuses = factory.for_resource("v1/componentstatuses")
        with pytest.raises(NotWatchableError, match=r"get, list.*poll=30"):
            await factory.wait_for_cache_sync(timeout=30)
        assert not statuses.health().live
        await factory.release(statuses)
        polled = factory.for_resource("v1/componentstatuses", poll=2)
        await factory.wait_for_cache_sync(timeout=30)
        names = {obj.name for obj in await polled.confirm()}
        assert "etcd-0" in names
        await asyncio.sleep(10)
        assert (polled.health().state, polled.health().live) == ("polling", True)
        assert polled.statistics().relists["poll"] >= 3
        assert set(polled.by_key) == names
