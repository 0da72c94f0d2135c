"""A requeue storm: each reconcile writes when it was, and this change of the object is the reason for the next one.

stackabletech/operator-rs#1032, rabbitmq/messaging-topology-operator#251.
"""

from __future__ import annotations

from datetime import UTC, datetime

from kinformer import Client, Controller, Request, SharedInformerFactory
from kinformer.controller import write_status
from kinformer.objects import Condition, with_conditions
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import custom, definition

FINDS = "never comes to rest"
STORY = r"(?s)(changes example.com/v1/users default/a.*){3}"
USERS = "example.com/v1/users"


class Operator:
    def __init__(self, *, mended: bool) -> None:
        self.mended = mended

    async def run(self, client: Client) -> None:
        async with SharedInformerFactory(client) as factory:
            users = factory.for_resource(USERS)

            async def reconcile(request: Request) -> None:
                user = users.by_key.get(request.key)
                if user is None:
                    return
                # with_conditions() leaves the time alone if nothing else differs.
                conditions = with_conditions(user, Condition("Ready", True, "Made", "it is there"))
                if not self.mended:
                    conditions[0]["lastTransitionTime"] = datetime.now(UTC).isoformat()
                await write_status(client, USERS, user, {"conditions": conditions})

            await Controller(reconcile).for_(users).run()


def all_are_ready(state: ClusterState) -> None:
    assert all(user["status"]["conditions"][0]["status"] == "True" for user in state.list(USERS))


def declare(world: World, *, mended: bool) -> None:
    world.apply(definition("User"))
    world.run(Operator(mended=mended).run)
    world.script(world.create(custom("User", "a")), world.create(custom("User", "b")))
    world.script(world.delete(USERS, "default/a"))
    world.eventually(all_are_ready)
