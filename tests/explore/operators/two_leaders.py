"""Two leaders: a replica that was stopped for longer than its Lease is good goes on to write when it wakes up.

client-go's leader election says of itself that it has no fencing (tools/leaderelection/leaderelection.go). The buggy
one takes a Lease with a few lines of its own; the mended one has a `LeaderElector`.
"""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from kinformer import (
    APIError,
    Client,
    ConnectError,
    Controller,
    KubeObject,
    LeaderElector,
    Request,
    SharedInformerFactory,
)
from kinformer.exceptions import LeadershipLostError
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import custom, definition, names

FINDS = "had taken the Lease"
STORY = r"executes nothing for|pause|stopped"
TASKS, RESULTS = "example.com/v1/tasks", "v1/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LASTS = timedelta(seconds=15)


class Lease:
    """A Lease, held as a few lines by hand hold it: what is true when it is looked at may be past when it is used."""

    def __init__(self, client: Client, identity: str) -> None:
        self.client = client
        self.identity = identity
        self.held = asyncio.Event()

    async def keep(self) -> None:
        while True:
            try:
                self.held.set() if await self.take() else self.held.clear()
            except (APIError, ConnectError):
                self.held.clear()
            await asyncio.sleep(2)

    async def take(self) -> bool:
        now = datetime.now(UTC)
        spec = {"holderIdentity": self.identity, "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        body: dict[str, Any] = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "tasks"}}
        try:
            lease = await self.client.request("GET", f"{LEASES}/tasks")
        except APIError:
            await self.client.request("POST", LEASES, body={**body, "spec": spec})
            return True
        renewed = datetime.fromisoformat(lease["spec"]["renewTime"])
        if lease["spec"]["holderIdentity"] != self.identity and now < renewed + LASTS:
            return False
        body["metadata"]["resourceVersion"] = lease.resource_version
        await self.client.request("PUT", f"{LEASES}/tasks", body={**body, "spec": spec})
        return True


class Operator:
    def __init__(self, *, mended: bool) -> None:
        self.mended = mended

    async def run(self, client: Client) -> None:
        identity = uuid.uuid4().hex[:6]
        async with SharedInformerFactory(client) as factory:
            tasks = factory.for_resource(TASKS)

            async def reconcile(request: Request) -> None:
                task = tasks.by_key.get(request.key)
                if task is not None:
                    await self.write(client, task, identity)

            controller = Controller(reconcile).for_(tasks)
            if self.mended:
                async with LeaderElector(client, namespace="default", name="tasks", identity=identity).leading():
                    await controller.run()
            lease = Lease(client, identity)
            async with asyncio.TaskGroup() as group:
                group.create_task(lease.keep())
                await lease.held.wait()
                await controller.run()

    async def write(self, client: Client, task: KubeObject, identity: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": task.name}, "data": {"by": identity}}
        path = f"/api/v1/namespaces/{task.namespace}/configmaps/{task.name}"
        options = {"params": {"fieldManager": "tasks", "force": "true"}}
        headers = {"Content-Type": "application/apply-patch+yaml"}
        await client.request("PATCH", path, body=body, headers=headers, **options)


def all_are_done(state: ClusterState) -> None:
    assert names(state.list(TASKS)) <= names(state.list(RESULTS))


def declare(world: World, *, mended: bool) -> None:
    world.apply(definition("Task"))
    world.run(Operator(mended=mended).run, replicas=2, may_raise=LeadershipLostError)
    world.script(*(world.create(custom("Task", name)) for name in "abc"))
    world.eventually(all_are_done)
