"""The model of an object: functions that take an object and return one keep it, and no write drops a change of it.

Internals: an object with a model and without a version, as a server of few features gives it, which can be created.
"""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from importlib import import_module
from typing import Any

import msgspec
import pytest

from kinformer import Client, ConfigError, KubeObject, SharedInformerFactory
from kinformer.controller import Applier, Finalizer, write_status
from kinformer.objects import showable
from kinformer.objects.models.typed import Model
from kinformer.testing import APIServer
from tests.docs.public_names import DOORS, members_of, names_of

SERVICES = "v1/services"
BALANCED = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}


def service_of(color: str) -> dict[str, Any]:
    spec = {"selector": {"color": color}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "default"}, "spec": spec}


class Service(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: dict[str, Any]
    spec: dict[str, Any]


TypedService = KubeObject[Service]
Function = Callable[[Client, Applier, TypedService], Awaitable[KubeObject]]


def without_version(obj: TypedService) -> TypedService:
    document = obj.to_dict()
    del document["metadata"]["resourceVersion"], document["metadata"]["uid"]
    return Model(Service, SERVICES).read(KubeObject.from_dict(document))


async def shown(_client: Client, _applier: Applier, obj: TypedService) -> KubeObject:
    return showable(obj)


WRITES: dict[str, Function] = {
    "kinformer.client.Client.apply": lambda client, _, obj: client.apply(obj, field_manager="test"),
    "kinformer.client.Client.create": lambda client, _, obj: client.create(obj),
    "kinformer.client.Client.replace": lambda client, _, obj: client.replace(obj),
    "kinformer.controller.Applier.apply": lambda _, applier, obj: applier.apply(obj),
}
FUNCTIONS: dict[str, Function] = WRITES | {
    "kinformer.client.Client.create": lambda client, _, obj: client.create(without_version(obj)),
    "kinformer.controller.Finalizer.add": lambda client, _, obj: Finalizer(client, SERVICES, "example.com/a").add(obj),
    "kinformer.controller.write_status": lambda client, _, obj: write_status(
        client, SERVICES, obj, {"loadBalancer": {"ingress": []}}
    ),
    "kinformer.objects.showable": shown,
}


@pytest.fixture
async def service(server: APIServer, client: Client) -> AsyncIterator[TypedService]:
    """An object with a model, as a program gets it from its cache."""
    server.create(service_of("red"))
    factory = SharedInformerFactory(client)
    informer = factory.for_resource(SERVICES, model=Service)
    async with factory:
        await factory.wait_for_cache_sync()
        yield informer.lister.get("a", namespace="default")


@pytest.fixture
def applier(client: Client) -> Applier:
    informer = SharedInformerFactory(client).for_resource(SERVICES)
    return Applier(client, SERVICES, informer, field_manager="test")


def functions_of_an_object() -> Iterator[str]:
    """Return the names of the public functions that take an object of the API and return one."""
    for door in DOORS[1:]:  # the names of the root are those of packages
        for name in names_of(door):
            public = getattr(import_module(door), name)
            members = members_of(public) if inspect.isclass(public) else ()
            functions = {f"{door}.{name}.{member}": getattr(public, member, None) for member in members}
            if not members:
                functions = {f"{door}.{name}": public}
            for path, function in functions.items():
                if inspect.isfunction(function) and _takes_and_returns_one(inspect.signature(function)):
                    yield path


def _takes_and_returns_one(signature: inspect.Signature) -> bool:
    taken = [
        parameter
        for parameter in signature.parameters.values()
        if str(parameter.annotation).startswith("KubeObject") or parameter.name in ("obj", "wanted")
    ]
    return bool(taken) and str(signature.return_annotation).startswith("KubeObject")


def test_these_are_all_functions_that_take_an_object_and_return_one() -> None:
    assert {*functions_of_an_object()} - {"kinformer.cache.Indexer.advance"} == {*FUNCTIONS}


@pytest.mark.parametrize("name", FUNCTIONS)
async def test_it_returns_the_object_with_the_model_of_the_given_one(
    server: APIServer, client: Client, applier: Applier, service: TypedService, name: str
) -> None:
    if name.endswith(".create"):
        server.delete(SERVICES, "default", "a")
    returned = await FUNCTIONS[name](client, applier, service)
    assert isinstance(returned.model, Service)
    assert returned.model.metadata["name"] == "a"
    assert returned.model.spec["selector"] == {"color": "red"}


async def test_so_does_a_secret_without_its_values(server: APIServer, client: Client) -> None:
    metadata = {"name": "a", "namespace": "default"}
    server.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"k": "dg=="}})
    secret = await client.get("v1/secrets", "default/a", model=dict[str, Any])
    assert showable(secret).model["data"] == {"k": "(hidden)"}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda obj: pickle.loads(pickle.dumps(obj))])
async def test_so_do_copies(service: TypedService, copied: Callable[[TypedService], TypedService]) -> None:
    assert copied(service).model == service.model


async def test_an_applied_object_has_its_model_whether_a_request_was_made_or_not(
    applier: Applier, service: TypedService
) -> None:
    answers = [await applier.apply(service) for _ in range(2)]
    assert applier.requests == 1
    assert [answer.model.spec["selector"] for answer in answers] == [{"color": "red"}] * 2


@pytest.mark.parametrize("name", WRITES)
async def test_a_changed_model_is_not_the_object_and_no_write_drops_it(
    server: APIServer, client: Client, applier: Applier, service: TypedService, name: str
) -> None:
    service.model.spec["selector"]["color"] = "blue"
    before = len(server.requests)
    with pytest.raises(ConfigError, match=r"the model of .* was changed, not the object; pass obj\.model, or a dict"):
        await WRITES[name](client, applier, service)
    assert len(server.requests) == before


async def test_the_changed_model_itself_is_written(client: Client, service: TypedService) -> None:
    service.model.spec["selector"]["color"] = "blue"
    await client.replace(service.model)
    assert (await client.get(SERVICES, "default/a"))["spec"]["selector"] == {"color": "blue"}
