"""A fleet that follows the Secrets of a hub cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kinformer import Client, Fleet, Manager, SharedInformerFactory, StoppedError
from kinformer.derived import mapped
from kinformer.testing import APIServer
from tests.derived.test_derived_properties import Told
from tests.fleet.clusters import CONFIG_MAPS, clusters, kubeconfig, secret
from tests.support.log_records import Said, message_of, said
from tests.support.turns import Turns
from tests.support.waiting import settle, until

SECRETS = "v1/secrets"


async def test_secrets_that_come_change_and_go_are_clusters_that_do(server: APIServer, client: Client) -> None:
    async with clusters("east", "west", "north") as servers, SharedInformerFactory(client) as hub:
        server.create(secret("east", kubeconfig({"it": servers["east"]})))
        server.create(secret("west", kubeconfig({"it": servers["west"]})))
        secrets = hub.for_resource(SECRETS, label_selector="cluster=true")
        async with Fleet.from_secrets(secrets, namespace="default") as fleet:
            maps = fleet.union(CONFIG_MAPS, field_selector="metadata.name!=kube-root-ca.crt")
            await fleet.wait_synced(10)
            assert set(maps.by_key) == {"east/default/east", "west/default/west"}
            told = Told()
            maps.add_event_handler(told)
            await until(lambda: len(told.values) == 2)
            server.create(secret("north", kubeconfig({"it": servers["north"]})))
            await until(lambda: "north/default/north" in told.values)
            server.delete(SECRETS, "default", "west")
            await until(lambda: "west/default/west" not in told.values)
            before = fleet["east"]
            server.update(secret("east", kubeconfig({"it": servers["west"]})))
            await until(lambda: set(told.values) == {"east/default/west", "north/default/north"})
            assert fleet["east"] is not before
            current = fleet["east"]
            labelled = secret("east", kubeconfig({"it": servers["west"]}))
            labelled["metadata"]["labels"]["more"] = "labels"
            server.update(labelled)
            await settle()
            assert fleet["east"] is current
            assert told.wrong == []
            figures = fleet.statistics()
            assert (figures.clusters, figures.joined, figures.replaced, figures.left) == (2, 3, 1, 1)


def grown(line: str) -> str:
    """Less than 600 bytes of YAML in which each line has eight times as many values as the line before."""
    lines = [f"a{level}: &a{level} {line.format(', '.join([f'*a{level - 1}'] * 8))}" for level in range(1, 11)]
    return "\n".join(["a0: &a0 {k: v}", *lines])


BROKEN: dict[str, tuple[Any, str]] = {
    "no key": ({"stringData": {}}, "data.kubeconfig: is missing"),
    "no server": (kubeconfig({"it": ""}), "clusters[it].cluster.server: is missing"),
    "no yaml": ("a: [", "data.kubeconfig: line "),
    "no mapping": ("- a", "the document: must be a mapping, is a list"),
    "no context": ({"clusters": []}, "current-context: is missing"),
    "no number": ('a: !!int ""', "data.kubeconfig: line 1, column 4: not a kubeconfig: a value is not of its type"),
    "no bool": ('a: !!bool "x"', "data.kubeconfig: line 1, column 4: not a kubeconfig: a value is not of its type"),
    "aliases": (grown("[{}]"), "data.kubeconfig: line 5, column 5: not a kubeconfig: more than 20000 values"),
    "merges": (grown("{{<<: [{}]}}"), "data.kubeconfig: line 5, column 5: not a kubeconfig: more than 20000 values"),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_broken_secret_is_named_counted_and_hides_no_other(
    server: APIServer, client: Client, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    content, reason = BROKEN[what]
    broken = secret("broken", content)
    if isinstance(content, dict) and content.keys() & {"data", "stringData"}:
        broken["data"] = content.get("data", {})
    async with clusters("east") as servers, SharedInformerFactory(client) as hub:
        server.create(secret("east", kubeconfig({"it": servers["east"]})))
        server.create(broken)
        async with Fleet.from_secrets(hub.for_resource(SECRETS)) as fleet:
            maps = fleet.union(CONFIG_MAPS)
            await fleet.wait_synced(10)
            assert "east/default/east" in maps.by_key
            await until(lambda: "broken" in fleet.health())  # it is read in a thread
            health = fleet.health()["broken"]
            assert (health.state, health.live) == ("failed", False)
            assert str(health.last_error).startswith("Secret default/broken: ")
            assert reason in str(health.last_error)
            assert fleet.statistics().failures == 1
            assert said(caplog, "config") == [Said("ERROR", "kinformer.fleet", "broken")]
            assert str(health.last_error) in message_of(caplog, "config")
            server.update(secret("broken", kubeconfig({"it": servers["east"]})))
            await until(lambda: "broken" in fleet and fleet.health()["broken"].live)
            assert fleet.health()["broken"].last_error is None
            server.update(broken)
            await until(lambda: fleet.health()["broken"].last_error)
            assert fleet.health()["broken"].live  # it goes on as it was
            server.delete(SECRETS, "default", "broken")
            await until(lambda: set(fleet.health()) == {"east"})


LOCAL = [
    {"exec": {"command": "/bin/sh", "apiVersion": "client.authentication.k8s.io/v1"}},
    {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"},
    {"client-key": "/etc/key"},
    {"auth-provider": {"name": "oidc"}},
]


@pytest.mark.parametrize("user", LOCAL, ids=lambda user: next(iter(user)))
async def test_a_secret_that_would_use_this_machine_is_refused_unless_all_are_trusted(
    server: APIServer, client: Client, user: dict[str, Any]
) -> None:
    server.create(secret("evil", kubeconfig({"it": "http://127.0.0.1:1"}, user=user)))
    async with SharedInformerFactory(client) as hub, Fleet.from_secrets(hub.for_resource(SECRETS)) as fleet:
        await fleet.wait_synced(10)
        text = str(fleet.health()["evil"].last_error)
        assert f"users[me].user.{next(iter(user))}: uses local files or programs" in text
        assert len(fleet) == 0


async def test_a_trusted_secret_may_name_a_file(server: APIServer, client: Client, tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("a token")
    async with clusters("east") as servers, SharedInformerFactory(client) as hub:
        server.create(secret("east", kubeconfig({"it": servers["east"]}, user={"tokenFile": str(token)}), key="value"))
        secrets = hub.for_resource(SECRETS)
        async with Fleet.from_secrets(secrets, key="value", trusted=True) as fleet:
            maps = fleet.union(CONFIG_MAPS)
            await fleet.wait_synced(10)
            assert "east/default/east" in maps.by_key


async def test_secrets_are_named_by_the_program_and_of_two_with_one_name_the_first_counts(
    server: APIServer, client: Client
) -> None:
    def cluster_of(one: Any) -> str | None:
        if one.name == "bug":
            raise ZeroDivisionError("a bug of the program")
        if one.name == "list":
            return ["east"]  # type: ignore[return-value]
        return None if one.name == "other" else str(one.name).removesuffix("-kubeconfig")

    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "zone"}})
    async with clusters("east", "west") as servers, SharedInformerFactory(client) as hub:
        server.create(secret("east-kubeconfig", kubeconfig({"it": servers["east"]})))
        server.create(secret("east", kubeconfig({"it": servers["west"]}), namespace="zone"))
        for name in ("other", "bug", "list"):
            server.create(secret(name, "nothing"))
        async with Fleet.from_secrets(hub.for_resource(SECRETS), cluster_of=cluster_of) as fleet:
            await fleet.wait_synced(10)
            assert list(fleet) == ["east"]
            assert fleet["east"].client.server == servers["east"].url
            errors = {name: str(health.last_error) for name, health in fleet.health().items() if not health.live}
            assert errors == {
                "default/bug": "Secret default/bug: cluster_of raised ZeroDivisionError: a bug of the program",
                "default/list": "Secret default/list: cluster_of returned list, expected a string or None",
                "zone/east": "Secret zone/east: Secret default/east-kubeconfig already defines cluster 'east'",
            }
            server.delete(SECRETS, "default", "east-kubeconfig")
            await until(lambda: fleet.get("east") and fleet["east"].client.server == servers["west"].url)


async def test_the_clusters_go_on_when_the_hub_is_left_first(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with clusters("east") as servers:
        server.create(secret("east", kubeconfig({"it": servers["east"]})))
        hub = SharedInformerFactory(client)
        secrets = hub.for_resource(SECRETS)
        async with Fleet.from_secrets(secrets) as fleet:
            async with hub:
                await fleet.wait_synced(10)
            await until(lambda: fleet.source_error)
            assert isinstance(fleet.source_error, StoppedError)
            assert list(fleet) == ["east"]
    assert said(caplog, "stopped") == [Said("ERROR", "kinformer.fleet", "fleet")]
    assert "the Secrets of v1/secrets" in message_of(caplog, "stopped")


async def test_a_manager_enters_a_fleet_after_the_secrets_and_leaves_it_before(
    server: APIServer, client: Client
) -> None:
    async with clusters("east") as servers:
        server.create(secret("east", kubeconfig({"it": servers["east"]})))
        async with Manager(client) as manager:
            fleet = manager.add(Fleet.from_secrets(manager.factory.for_resource(SECRETS)))
            names = manager.add(mapped(fleet.union(CONFIG_MAPS), lambda one: one.name))
            await names.wait_synced(10)
            assert names.by_key["east/default/east"] == "east"
    assert names.health().state == "stopped"
    assert len(fleet) == 0


async def test_many_secrets_hold_the_loop_for_a_slice_of_them_at_most(server: APIServer, client: Client) -> None:
    for number in range(20):
        server.create(secret(f"c{number}", {}))
    turns = Turns()
    async with SharedInformerFactory(client) as hub:
        secrets = hub.for_resource(SECRETS, label_selector="cluster=true")
        async with Fleet.from_secrets(secrets, cluster_of=turns.seen_slowly):
            await until(lambda: len(turns.seen) >= 20)
    assert len(set(turns.seen[:20])) > 10
