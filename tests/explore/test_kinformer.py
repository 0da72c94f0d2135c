"""kinformer's own parts, and the operator in examples/, under every order of events."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kinformer import Client
from kinformer.exceptions import LeadershipLostError
from kinformer.testing.explore import ClusterState, World, explore
from tests.explore import widgets
from tests.support.operator_process import CONFIG_MAPS, DEPLOYMENTS, FOLDER

SCHEDULES = int(os.environ.get("KINFORMER_SCHEDULES", "20"))  # 5,000 for a proof
WEBSITES = "example.com/v1/websites"


@pytest.mark.search
@pytest.mark.parametrize(
    "program",
    [widgets.controller, widgets.finalizer, widgets.leader_elector, widgets.sharded_controller],
    ids=lambda one: one.__name__,
)
def test_a_generic_program_survives(program: Callable[..., Any]) -> None:
    explore(schedules=SCHEDULES, seed=SCHEDULES)(program)()


def website_operator() -> ModuleType:
    name = "explored_website_operator"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, FOLDER / "website_operator.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def website(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    body = {"host": f"{name}.example.com", "pages": {"index.html": "hello"}, **spec}
    return {"apiVersion": "example.com/v1", "kind": "Website", "metadata": metadata, "spec": body}


def each_website_is_served(state: ClusterState) -> None:
    websites = {one["metadata"]["name"]: one for one in state.list(WEBSITES)}
    deployments = {one["metadata"]["name"]: one for one in state.list(DEPLOYMENTS)}
    maps = {one["metadata"]["name"]: one.get("data", {}) for one in state.list(CONFIG_MAPS, "default")}
    directory = maps.pop("websites", {})
    assert deployments.keys() == websites.keys()
    assert maps == {f"{name}-pages": one["spec"]["pages"] for name, one in websites.items()}
    assert directory == {f"default.{name}": one["spec"]["host"] for name, one in websites.items()}
    for name, one in websites.items():
        assert deployments[name]["spec"]["replicas"] == one["spec"]["replicas"] == one["status"]["replicas"]
        [condition] = one["status"]["conditions"]
        assert condition["status"] == "True", condition


async def the_operator_in_examples(world: World) -> None:
    operator = website_operator()

    async def main(client: Client) -> None:
        await operator.run(client, namespace="default", listen=None, registry=CollectorRegistry())

    world.apply(FOLDER / "base" / "manifests" / "10-crd.yaml")
    world.run(main, replicas=2, may_raise=LeadershipLostError)
    world.run(widgets.ready_deployments, faults=False)
    world.script(world.create(website("a")), world.create(website("b")))
    world.script(world.patch(WEBSITES, "default/a", {"spec": {"replicas": 2, "pages": {"index.html": "more"}}}))
    world.script(world.delete(WEBSITES, "default/b"))
    world.eventually(each_website_is_served)


@pytest.mark.search
def test_the_operator_in_examples_survives() -> None:
    explore(schedules=SCHEDULES, seed=SCHEDULES)(the_operator_in_examples)()
