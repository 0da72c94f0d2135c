"""The spellings of kinds and resources: each door takes the right ones, and refuses others with the right one.

A door is a public function or option that takes the name of a resource or of a kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from kinformer import (
    Client,
    ConfigError,
    Controller,
    Fleet,
    GroupVersionResource,
    KubeObject,
    ListWatch,
    NotFoundError,
    Request,
    SharedInformer,
    SharedInformerFactory,
    blocking,
)
from kinformer.client import discover
from kinformer.conditions import is_deleted
from kinformer.contrib.changes import Changes
from kinformer.contrib.fastapi import informer_of, lister_of
from kinformer.contrib.problems import Problems
from kinformer.controller import Applier, Finalizer, write_status
from kinformer.kinds import columns_of, is_namespaced
from kinformer.testing import APIServer, MakeObject, faults
from kinformer.testing.explore import ExplorationError, World, explore
from tests.support.cli import CommandLine
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource

DEPLOYMENTS, SERVICES, WEBSITES = "apps/v1/deployments", "v1/services", "example.com/v1/websites"

# What a server cannot be asked about, by the resource that is meant.
NO_RESOURCES = {
    "Deployment": DEPLOYMENTS,
    "apps/Deployment": DEPLOYMENTS,
    "apps/v1/Deployment": DEPLOYMENTS,
    "v1/Deployment": DEPLOYMENTS,
    "deployment": DEPLOYMENTS,
    "deployments": DEPLOYMENTS,
    "apps/deployments": DEPLOYMENTS,
    "deploy": DEPLOYMENTS,
    "deployments.apps": DEPLOYMENTS,
    "deployments.v1.apps": DEPLOYMENTS,
    "Service": SERVICES,
    "v1/Service": SERVICES,
    "svc": SERVICES,
    "events": "v1/events or events.k8s.io/v1/events",
    "v1/pods/log": "v1/pods",
    "example.com/v1/Website": WEBSITES,
    "example.com/Website": "example.com/VERSION/websites",
    "websites.v1.example.com": WEBSITES,
    "Website": "GROUP/VERSION/websites",
    "serving.knative.dev/v1/Service": "serving.knative.dev/v1/services",
}
# What has the form of a resource, and is none. A server says that it lacks it.
NEARLY = {
    "v1/deployments": DEPLOYMENTS,
    "apps/v1/deployment": DEPLOYMENTS,
    "apps/v1/deploy": DEPLOYMENTS,
    "v1/service": SERVICES,
    "apps/v1/svc": SERVICES,
}
# What no kind is, by the kind that is meant.
NO_KINDS = {
    "deployments": "Deployment",
    "deployment": "Deployment",
    "deploy": "Deployment",
    "apps/deployments": "apps/Deployment",
    "apps/v1/deployments": "apps/Deployment",
    "deployments.apps": "apps/Deployment",
    "Deployment.apps": "apps/Deployment",
    "v1/deployments": "apps/Deployment",
    "v1/Deployment": "apps/Deployment",
    "apps/Service": "v1/Service",
    "v1/services": "v1/Service",
    "svc": "Service",
    "events": "Event",
}

Door = Callable[[str], object]


def absent() -> Client:
    """Return a client of no server."""
    return Client.from_url("http://127.0.0.1:1")


async def first(objects: AsyncIterator[object]) -> object:
    return await anext(objects, None)


def strike(resource: str) -> object:
    return APIServer().faults.add(faults.expired(), resource=resource)


def problems(resource: str) -> object:
    return Problems(SharedInformerFactory(absent()), resources=[resource])


def fleet_union(resource: str) -> object:
    return Fleet({}).union(resource)


OBJECT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "default"}}

# Doors to a server, or to informers of one.
RESOURCE_DOORS: Mapping[str, Door] = {
    "GroupVersionResource.parse": GroupVersionResource.parse,
    "ListWatch": lambda name: ListWatch(absent(), name),
    "SharedInformerFactory.for_resource": lambda name: SharedInformerFactory(absent()).for_resource(name),
    "fastapi.informer_of": informer_of,
    "fastapi.lister_of": lister_of,
    "Problems(resources=)": problems,
    "Client.get": lambda name: absent().get(name, "default/a"),
    "Client.list": lambda name: absent().list(name),
    "Client.patch": lambda name: absent().patch(name, "default/a", {}),
    "Client.delete": lambda name: absent().delete(name, "default/a"),
    "Client.wait_for": lambda name: absent().wait_for(name, "default/a", is_deleted(), timeout=1),
    "Fleet.union": fleet_union,
}
# Doors that ask no server, or not for a hint.
LOCAL_DOORS: Mapping[str, Door] = {
    "Applier": lambda name: Applier(absent(), name, SharedInformer(MemorySource()), field_manager="test"),
    "Finalizer": lambda name: Finalizer(absent(), name, "example.com/x"),
    "write_status": lambda name: write_status(absent(), name, deployment_object(), {}),
    "kinds.is_namespaced": is_namespaced,
    "kinds.columns_of": columns_of,
    "Changes.list(resource=)": lambda name: Changes({}).list(resource=name),
    "APIServer.get": lambda name: APIServer().get(name, "default", "a"),
    "APIServer.list": lambda name: APIServer().list(name),
    "APIServer.delete": lambda name: APIServer().delete(name, "default", "a"),
    "APIServer.generate": lambda name: list(APIServer().generate(name, 1)),
    "APIServer(rules=)": lambda name: APIServer(users={"t": "u"}, rules=[("u", "list", name)]),
    "APIServer.faults.add(resource=)": strike,
}
TAKE_SUBRESOURCES = ("APIServer(rules=)", "APIServer.faults.add(resource=)")


def deployment_object() -> Any:
    return KubeObject.from_dict(OBJECT)


async def through(door: Door, name: str) -> object:
    result = door(name)
    return await result if isinstance(result, Awaitable) else result


# --- resources --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", [*RESOURCE_DOORS, *LOCAL_DOORS])
async def test_a_name_that_is_no_resource_is_refused_with_the_right_one(door: str) -> None:
    for name, right in NO_RESOURCES.items():
        if name == "v1/pods/log" and door in TAKE_SUBRESOURCES:
            continue
        with pytest.raises(ConfigError) as caught:
            await through({**RESOURCE_DOORS, **LOCAL_DOORS}[door], name)
        assert str(caught.value).endswith(f" is {right}"), f"{door}({name!r}): {caught.value}"


@pytest.mark.parametrize("door", LOCAL_DOORS)
async def test_where_no_server_is_asked_what_is_nearly_a_resource_is_refused_with_the_right_one(door: str) -> None:
    for name, right in NEARLY.items():
        with pytest.raises(ConfigError) as caught:
            await through(LOCAL_DOORS[door], name)
        assert str(caught.value).endswith(f" is {right}"), f"{door}({name!r}): {caught.value}"


async def test_what_is_nearly_a_resource_is_refused_by_the_server_with_the_nearest(client: Client) -> None:
    for name, right in NEARLY.items():
        for request in (
            client.get(name, "default/a"),
            client.delete(name, "default/a"),
            client.patch(name, "default/a", {}),
            first(client.list(name)),
        ):
            with pytest.raises(NotFoundError) as caught:
                await request
            assert caught.value.nearest == right or right in str(caught.value), f"{name}: {caught.value}"


@pytest.mark.parametrize("name", [DEPLOYMENTS, SERVICES, WEBSITES, "serving.knative.dev/v1/services"])
@pytest.mark.parametrize("form", [str, GroupVersionResource.parse])
async def test_a_resource_is_taken_as_text_and_parsed(name: str, form: Callable[[str], Any], server: APIServer) -> None:
    server.register("example.com/v1", "Website", "websites")
    server.register("serving.knative.dev/v1", "Service", "services")
    resource = form(name)
    assert str(GroupVersionResource.parse(resource)) == name
    async with server.client() as client, SharedInformerFactory(client) as factory:
        informer = factory.for_resource(resource)
        await informer.wait_synced(10)
        assert str(informer.resource) == name
        assert [obj async for obj in client.list(resource)] == server.list(resource) == []
    assert is_namespaced(resource) is (True if name in (DEPLOYMENTS, SERVICES) else None)
    assert bool(columns_of(resource)) == (name in (DEPLOYMENTS, SERVICES))
    fault = server.faults.add(faults.expired(), resource=resource)
    assert fault.resource == name
    for wanted in (name, f"{name}/status", "*"):
        assert APIServer(users={"t": "u"}, rules=[("u", "get", wanted)])


async def test_a_blocking_program_gets_the_same_errors(server: APIServer) -> None:
    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            doors: dict[str, Door] = {
                "for_resource": informers.for_resource,
                "get": lambda name: informers.get(name, "default/a"),
                "list": lambda name: list(informers.list(name)),
                "patch": lambda name: informers.patch(name, "default/a", {}),
                "delete": lambda name: informers.delete(name, "default/a"),
                "wait_for": lambda name: informers.wait_for(name, "default/a", is_deleted(), timeout=1),
            }
            for door, call in doors.items():
                for name, right in NO_RESOURCES.items():
                    with pytest.raises(ConfigError) as caught:
                        call(name)
                    assert str(caught.value).endswith(f" is {right}"), f"{door}({name!r}): {caught.value}"

    await asyncio.to_thread(program)


@pytest.mark.parametrize("door", ["patch", "delete", "state.list", "state.get"])
def test_an_exploration_refuses_what_is_no_resource(door: str) -> None:
    def exploration(name: str) -> Callable[[], None]:
        async def idle(client: Client) -> None:
            await asyncio.sleep(3600)

        async def test(world: World) -> None:
            world.run(idle)
            if door == "patch":
                world.script(world.patch(name, "default/a", {}))
            elif door == "delete":
                world.script(world.delete(name, "default/a"))
            elif door == "state.list":
                world.eventually(lambda state: state.list(name) == [])
            else:
                world.eventually(lambda state: state.get(name, "default/a") is None)

        return explore(schedules=1)(test)

    for name, right in {"apps/Deployment": DEPLOYMENTS, "deploy": DEPLOYMENTS, **NEARLY}.items():
        with pytest.raises((ConfigError, ExplorationError)) as caught:
            exploration(name)()
        assert f" is {right}" in str(caught.value), f"{door}({name!r}): {caught.value}"


def test_a_rule_for_a_subresource_is_told_as_one() -> None:
    server = APIServer(users={"t": "u"}, rules=[("u", "get", "apps/v1/deployments/scale"), ("u", "get", "v1/pods/log")])
    assert server is not None
    for name, right in {"v1/Pod/log": "v1/pods", "apps/v1/deploy/scale": DEPLOYMENTS}.items():
        with pytest.raises(ConfigError, match=f" is {right}$"):
            strike(name)


# --- names as kubectl takes them --------------------------------------------------------------------------------------


KUBECTL = {
    "deployments": DEPLOYMENTS,
    "deployment": DEPLOYMENTS,
    "deploy": DEPLOYMENTS,
    "Deployment": DEPLOYMENTS,
    "deployments.apps": DEPLOYMENTS,
    "deployments.v1.apps": DEPLOYMENTS,
    "apps/v1/deployments": DEPLOYMENTS,
    "apps/v1/Deployment": DEPLOYMENTS,
    "Service": SERVICES,
    "v1/Service": SERVICES,
    "v1/services": SERVICES,
    "svc": SERVICES,
    "Website": WEBSITES,
    "websites.example.com": WEBSITES,
    "example.com/v1/Website": WEBSITES,
}
NOT_FOR_KUBECTL = {
    "apps/Deployment": DEPLOYMENTS,
    "apps/deployments": DEPLOYMENTS,
    "v1/Deployment": DEPLOYMENTS,
    "example.com/Website": WEBSITES,
}


async def test_discovery_finds_a_resource_as_kubectl_does(server: APIServer, client: Client) -> None:
    server.register("example.com/v1", "Website", "websites")
    served = await discover(client)
    assert {name: str(served.find(name)) for name in KUBECTL} == KUBECTL
    for name, right in NOT_FOR_KUBECTL.items():
        with pytest.raises(ConfigError, match=f"the nearest is {right}"):
            served.find(name)


@pytest.fixture
def kinformer(server: APIServer, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    server.register("example.com/v1", "Website", "websites")
    return CommandLine(capsys, server.url)


COMMANDS = {
    "watch": ("watch", "{}", "--once"),
    "wait": ("wait", "{}", "--for", "delete", "--timeout", "1"),
    "changes": ("changes", "{}", "--duration", "5"),
    "stats": ("stats", "{}", "--duration", "5"),
    "doctor": ("doctor", "{}"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NOT_FOR_KUBECTL)
async def test_a_command_refuses_a_group_and_a_kind_with_the_resource(
    command: str, name: str, kinformer: CommandLine
) -> None:
    words = f"{name}/web" if command == "wait" and name.startswith("v1/") else name
    result = await kinformer(*(word.format(words) for word in COMMANDS[command]))
    assert result.status != 0
    assert NOT_FOR_KUBECTL[name] in result.err + result.out


# --- kinds ------------------------------------------------------------------------------------------------------------


async def reconcile(request: Request) -> None: ...


def owns(kind: str) -> object:
    return Controller(reconcile).owns(SharedInformer(MemorySource()), kind)


KIND_DOORS: Mapping[str, Door] = {
    "Controller.owns": owns,
    "Changes.list(kind=)": lambda kind: Changes({}).list(kind=kind),
}


@pytest.mark.parametrize("door", KIND_DOORS)
def test_a_name_that_is_no_kind_is_refused_with_the_right_one(door: str) -> None:
    for name, right in NO_KINDS.items():
        with pytest.raises(ConfigError) as caught:
            KIND_DOORS[door](name)
        assert str(caught.value).endswith(f"is {right}"), f"{door}({name!r}): {caught.value}"


@pytest.mark.parametrize("door", KIND_DOORS)
@pytest.mark.parametrize(
    "kind", ["Deployment", "apps/Deployment", "apps/v1/Deployment", "v1/Service", "example.com/Website", "apps/NewKind"]
)
def test_a_kind_is_taken_alone_and_with_its_group(door: str, kind: str) -> None:
    KIND_DOORS[door](kind)


async def test_changes_are_listed_by_kind_and_group(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        factory.for_resource("v1/configmaps")
        await factory.wait_for_cache_sync(10)
        async with Changes(factory) as changes:
            server.create(config_map("a"))
            assert await changes.wait(0, 10)
            for kind in ("ConfigMap", "v1/ConfigMap"):
                assert [change.name for change in changes.list(kind=kind)] == ["a"]
            assert changes.list(kind="example.com/ConfigMap") == []
            assert changes.list(resource=SERVICES) == []


@pytest.mark.parametrize(
    ("kind", "plural"), [("websites", "Website"), ("Website", "Website"), ("websites", "websites")]
)
def test_a_kind_and_its_resource_are_not_registered_for_one_another(kind: str, plural: str) -> None:
    with pytest.raises(ConfigError, match=r"expected a kind such as|is example\.com/v1/websites"):
        APIServer().register("example.com/v1", kind, plural)


async def test_an_object_whose_kind_is_a_resource_is_refused_with_the_kind(
    client: Client, make_object: MakeObject
) -> None:
    for kind in ("deployments", "deployment", "deploy"):
        with pytest.raises(ConfigError, match="the nearest is apps/v1 Deployment"):
            await client.create({**OBJECT, "kind": kind})
        with pytest.raises(ConfigError, match="is apps/Deployment"):
            await make_object(api_version="apps/v1", kind=kind)


@pytest.mark.parametrize("kind", ["Deployment", "deployment", "deployments", "deploy", "deployments.apps"])
async def test_the_command_changes_takes_a_kind_as_kubectl_takes_a_resource(kind: str, kinformer: CommandLine) -> None:
    result = await kinformer("changes", "--kind", kind, "--duration", "0.1")
    assert (result.status, result.err) == (0, "")
    result = await kinformer("changes", "--kind", "apps/Deployment", "--duration", "5")
    assert result.status != 0
    assert DEPLOYMENTS in result.err
