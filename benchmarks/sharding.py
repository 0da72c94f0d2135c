"""What one replica of a sharded controller costs, among 1, 2, 4 and 8 of them.

The main resource is asked for by shards where the server filters by them, and checked here where it does not; an
owned resource comes whole in any case, and what belongs to others is dropped. Of the replicas one is real, in a process
of its own; the others are memberships without work, since what they do is not what is measured.

    python -m benchmarks.sharding
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.data import KINDS
from benchmarks.harness import Figure, resident, run, until
from kinformer import Client, Request, ShardedController
from kinformer.lease import LeaseTimes
from kinformer.shard_members import ShardMembers
from kinformer.shard_membership import ShardMembership
from kinformer.testing import APIServer
from kinformer.testing.features import Features

OBJECTS, OWNERS, EVENTS = 3_000, 300, 3_000
REPLICAS = (1, 2, 4, 8)
SECONDS = 0.5  # that the process must do next to nothing for, to count as idle


class NoWork:
    """The work of a replica that has none; it has always seen everything."""

    def joined(self) -> None: ...
    def taken(self, slots: frozenset[int]) -> None: ...
    async def leave(self, slots: frozenset[int]) -> None: ...
    def lapsed(self) -> None: ...
    async def idle(self) -> None: ...
    def heard(self, members: ShardMembers) -> None: ...
    def seen(self) -> int | None:
        return 2**53


async def serve(filters: bool) -> None:
    """The server's process: makes the objects, says where it is, and changes some at each line that it reads."""
    async with APIServer(features=Features(sharding=filters)) as server:
        owners = []
        for number in range(OWNERS):
            template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
            spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
            metadata = {"name": f"rs-{number}", "namespace": "default"}
            owners.append(
                server.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec})
            )
        pods = []
        for index in range(OBJECTS):
            pod = json.loads(b'{"apiVersion":"v1","kind":"Pod",' + KINDS["pods"].item(index)[1:])
            for container in pod["spec"]["containers"]:
                container.pop("resources", None)  # drawn by lot, so requests may be above limits
            owner = owners[index % OWNERS]["metadata"]
            reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner["name"], "uid": owner["uid"]}
            pod["metadata"] = {
                "name": f"pod-{index}",
                "namespace": "default",
                "labels": pod["metadata"].get("labels", {}),
                "ownerReferences": [{**reference, "controller": True}],
            }
            pods.append(server.create(pod))
        print(server.url, flush=True)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while await reader.readline():
            for number in range(EVENTS):
                pod = pods[number * 7919 % OBJECTS]
                pod = {key: value for key, value in pod.items() if key != "status"}
                metadata = {key: value for key, value in pod["metadata"].items() if key != "resourceVersion"}
                server.update({**pod, "metadata": {**metadata, "annotations": {"change": str(time.perf_counter())}}})
                if number % 20 == 0:
                    await asyncio.sleep(0.002)
            print("done", flush=True)


async def nothing(request: Request) -> None:
    """A reconcile."""


async def until_idle() -> float:
    """Until this process does next to nothing; its CPU seconds then."""
    while True:
        before = time.process_time()
        await asyncio.sleep(SECONDS)
        if time.process_time() - before < SECONDS / 10:
            return time.process_time()


async def replica(url: str, number: int, resource: str) -> None:
    """The measured process: `resource` is main, or owned by the ReplicaSets that are."""
    async with Client.from_url(url) as client:
        await client.request("GET", "/version")
        before = resident()
        main = "v1/pods" if resource == "main" else "apps/v1/replicasets"
        controller = ShardedController(nothing, client, main, namespace="default", identity="replica-0", workers=20)
        informer = controller.informer
        if resource == "owned":
            informer = controller.owns("v1/pods", "ReplicaSet")
        tasks = [asyncio.create_task(controller.run())]
        for other in range(1, number):
            member = ShardMembership(
                client,
                namespace="default",
                group=controller.membership.group,
                identity=f"replica-{other}",
                work=NoWork(),
                times=LeaseTimes(),
            )
            tasks.append(asyncio.create_task(member.run()))
        await until(lambda: controller.health().balanced and len(informer.lister) > OBJECTS / number / 3)
        began = await until_idle()
        answer = {"bytes": resident() - before, "objects": len(informer.lister), "start_cpu": began}
        print(json.dumps(answer), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        print(json.dumps({"cpu": await until_idle() - began, "dropped": controller.dropped}), flush=True)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@dataclass
class Child:
    """A process that answers in lines."""

    process: asyncio.subprocess.Process

    async def line(self) -> str:
        assert self.process.stdout is not None
        line = (await self.process.stdout.readline()).decode().strip()
        if not line:
            raise RuntimeError("a process of the benchmark ended; what it said stands above")
        return line

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")


@asynccontextmanager
async def child(*arguments: str) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benchmarks.sharding", *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def one(filters: bool, number: int, resource: str) -> dict[str, Any]:
    """The figures of one replica among so many."""
    async with child("serve", *(["--filters"] if filters else [])) as server:
        url = await server.line()
        async with child("replica", "--url", url, "--number", str(number), "--resource", resource) as measured:
            figures = json.loads(await measured.line())
            server.tell()
            await server.line()
            measured.tell()
            return {**figures, **json.loads(await measured.line())}


async def measure() -> list[Figure]:
    figures = []
    for name, filters, resource in (
        ("main, filtered by the server", True, "main"),
        ("main, filtered here", False, "main"),
        ("owned", False, "owned"),
    ):
        for number in REPLICAS:
            print(f"{name}, 1 of {number} ...", file=sys.stderr, flush=True)
            found = await one(filters, number, resource)
            text = f"{found['objects']} of {OBJECTS} objects"
            cpu = found["cpu"] / EVENTS * 1e6
            title = f"{name}, 1 of {number}"
            figures.append(Figure(f"{title}: memory", found["bytes"] / 1e6, "MB", [], reference=text, details=found))
            figures.append(Figure(f"{title}: CPU of an event", cpu, "us", []))
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="measure", choices=["measure", "serve", "replica"])
    parser.add_argument("--filters", action="store_true")
    parser.add_argument("--url", default="")
    parser.add_argument("--number", type=int, default=1)
    parser.add_argument("--resource", default="main")
    options = parser.parse_args()
    if options.what == "serve":
        asyncio.run(serve(options.filters))
    elif options.what == "replica":
        asyncio.run(replica(options.url, options.number, options.resource))
    else:
        return run("sharding", measure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
