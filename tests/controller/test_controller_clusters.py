"""A controller for a union: its keys have the name of a cluster, also those of owners and of mappers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kinformer import Controller, Request, SharedInformer, union
from tests.support.memory_source import MemorySource
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time


def owned_by(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": f"uid-of-{name}", "controller": True}


async def test_an_object_of_a_union_leads_to_its_owner_in_the_same_cluster() -> None:
    sources = {name: (MemorySource(), MemorySource()) for name in ("east", "west")}
    for name, (owners, owned) in sources.items():
        owners.set("a", uid="uid-of-a")
        owned.set(f"of-{name}", ownerReferences=[owned_by("a")])
    seen: list[Request] = []

    async def reconcile(request: Request) -> None:
        seen.append(request)

    informers = {
        name: (SharedInformer(one, name="o"), SharedInformer(two, name="p")) for name, (one, two) in sources.items()
    }
    owners_of_all = union({name: one for name, (one, _) in informers.items()})
    owned_of_all = union({name: two for name, (_, two) in informers.items()})
    (a, b), (c, d) = informers.values()
    async with a, b, c, d, owners_of_all, owned_of_all:
        controller = (
            Controller(reconcile)
            .for_(owners_of_all)
            .owns(owned_of_all, "ConfigMap")
            .watches(owned_of_all, lambda obj: [Request("default", "mapped"), "other/default/named", "no-namespace"])
        )
        task = asyncio.ensure_future(controller.run())
        await until(lambda: len(seen) >= 7)
        seen.clear()
        sources["west"][1].set("of-west", ownerReferences=[owned_by("a")], data={"v": "2"})
        await until(lambda: len(seen) >= 4)
        task.cancel()
        await asyncio.wait({task})
    assert sorted(request.key for request in seen) == [
        "other/default/named",
        "west//no-namespace",
        "west/default/a",
        "west/default/mapped",
    ]


async def test_a_union_leads_to_the_keys_of_a_hub_as_they_are() -> None:
    hub, east = MemorySource(), MemorySource()
    hub.set("job")
    east.set("pod")
    seen: list[str] = []

    async def reconcile(request: Request) -> None:
        seen.append(request.key)

    jobs, pods = SharedInformer(hub, name="jobs"), SharedInformer(east, name="pods")
    async with jobs, pods, union({"east": pods}) as everywhere:
        controller = Controller(reconcile).for_(jobs).watches(everywhere, lambda pod: ["default/job"])
        task = asyncio.ensure_future(controller.run())
        await until(lambda: seen)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait({task})
    assert set(seen) == {"default/job"}
