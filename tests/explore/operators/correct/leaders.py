"""Operators of two replicas, whose lead ends in the ways that programs let it end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from kinformer import Client, Controller, LeaderElector, Manager, Request, SharedInformerFactory
from kinformer.controller import Applier
from kinformer.exceptions import LeadershipLostError
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import names
from tests.explore.operators.sites import APPLY, PAGES, PAGES_PATH, SITES, Main, declare, page_of


def elector_of(client: Client, name: str = "sites") -> LeaderElector:
    return LeaderElector(client, namespace="default", name=name)


async def serve(client: Client, while_leading: Callable[[Controller], Awaitable[None]]) -> None:
    """Keep caches of Sites and pages, and have a controller run by `while_leading`."""
    async with SharedInformerFactory(client) as factory:
        sites, pages = factory.for_resource(SITES), factory.for_resource(PAGES)
        applier = Applier(client, PAGES, pages, field_manager="sites")

        async def reconcile(request: Request) -> None:
            one = sites.by_key.get(request.key)
            if one is not None:
                await applier.apply(page_of(one))

        await while_leading(Controller(reconcile).for_(sites).owns(pages, "Site"))


async def run_while_leading(client: Client) -> None:
    async def lead(controller: Controller) -> None:
        async with elector_of(client).leading():
            await controller.run()

    await serve(client, lead)


def declare_pair(world: World, main: Main, **options: Any) -> None:
    declare(world, main, replicas=2, **options)


async def restarted_by_its_error(world: World) -> None:
    """The error of a lost lead ends the program."""
    declare_pair(world, run_while_leading, may_raise=LeadershipLostError)


async def restarted_in_a_group(world: World) -> None:
    """The same in a task group, which ends with an ExceptionGroup."""

    async def main(client: Client) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(run_while_leading(client))
            group.create_task(asyncio.Event().wait())

    declare_pair(world, main, may_raise=LeadershipLostError)


async def exits_with_a_status(world: World) -> None:
    """client-go's examples call `os.Exit` when the lead is lost."""

    async def main(client: Client) -> None:
        try:
            await run_while_leading(client)
        except LeadershipLostError as error:
            raise SystemExit(1) from error

    declare_pair(world, main)


async def exits_at_once(world: World) -> None:
    """The same without any cleanup."""

    async def main(client: Client) -> None:
        try:
            await run_while_leading(client)
        except LeadershipLostError:
            os._exit(1)

    declare_pair(world, main)


async def returns(world: World) -> None:
    """The program just ends."""

    async def main(client: Client) -> None:
        with contextlib.suppress(LeadershipLostError):
            await run_while_leading(client)

    declare_pair(world, main)


async def leads_again(world: World) -> None:
    """The program waits for the lead again."""

    async def main(client: Client) -> NoReturn:
        while True:
            with contextlib.suppress(LeadershipLostError):
                await run_while_leading(client)

    declare_pair(world, main)


async def works_in_every_replica(world: World) -> None:
    """Beside the leader's work each replica signs in, and writes when it has seen the lead."""

    async def main(client: Client) -> None:
        name = f"replica-{uuid.uuid4().hex[:8]}"
        elector = elector_of(client)
        async with Manager(client, elector=elector) as manager:
            sites, pages = manager.factory.for_resource(SITES), manager.factory.for_resource(PAGES)
            applier = Applier(client, PAGES, pages, field_manager="sites")

            async def reconcile(request: Request) -> None:
                one = sites.by_key.get(request.key)
                if one is not None:
                    await applier.apply(page_of(one))

            async def sign_in() -> None:
                was = None
                for _ in range(40):
                    if elector.is_leader is not was:
                        was = elector.is_leader
                        body = {
                            "apiVersion": "v1",
                            "kind": "ConfigMap",
                            "metadata": {"name": name},
                            "data": {"led": str(was)},
                        }
                        params = {"fieldManager": name}
                        with contextlib.suppress(Exception):  # it is only informative
                            await client.request(
                                "PATCH", f"{PAGES_PATH}/{name}", body=body, params=params, headers=APPLY
                            )
                    await asyncio.sleep(2)

            manager.add(sign_in, needs_leadership=False)
            manager.add(Controller(reconcile).for_(sites).owns(pages, "Site"))
            await manager.run()

    declare_pair(world, main, may_raise=LeadershipLostError)


async def leads_two_leases(world: World) -> None:
    """Two parts of a program, each with a Lease of its own."""

    async def main(client: Client) -> None:
        async def count() -> None:
            while True:
                with contextlib.suppress(LeadershipLostError):
                    async with elector_of(client, "counts").leading(), SharedInformerFactory(client) as factory:
                        sites, pages = factory.for_resource(SITES), factory.for_resource(PAGES)
                        applier = Applier(client, PAGES, pages, field_manager="counts")

                        async def reconcile(_: Request) -> None:
                            metadata = {"name": "counts", "namespace": "default"}
                            data = {one.name: "there" for one in sites.lister}  # noqa: B023
                            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
                            await applier.apply(body)  # noqa: B023

                        every = lambda one: ["default/counts"]  # noqa: E731
                        await Controller(reconcile).watches(sites, every).watches(pages, every).run()

        async with asyncio.TaskGroup() as group:
            group.create_task(count())
            group.create_task(run_while_leading(client))

    def the_counts_are_right(state: ClusterState) -> None:
        counts = state.get(PAGES, "default/counts")
        assert set((counts or {}).get("data", {})) == names(state.list(SITES))

    declare_pair(world, main, may_raise=LeadershipLostError)
    world.eventually(the_counts_are_right)


CORRECT = [
    restarted_by_its_error,
    restarted_in_a_group,
    exits_with_a_status,
    exits_at_once,
    returns,
    leads_again,
    works_in_every_replica,
    leads_two_leases,
]
