"""The cost of a replica of a sharded controller, among 1, 2, 4 and 8 of them: memory, CPU of the start, CPU of events.

The main resource is asked for by shards if the server filters by them, and checked here if it does not; an
owned resource comes whole in any case, and what belongs to others is dropped. Of the replicas one is real, in a process
of its own; the others are memberships without work, in the process of the server, since what they do is not what is
measured. Their heartbeats come four times as often as by default, so that a share moves soon; those of the measured one
do not.

    python -m benchmarks.sharding                       2000 pods of 8 KB, below a minute on a quiet machine
    python -m benchmarks.sharding --objects 20000       more of them
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.data import KINDS
from benchmarks.harness import CORES, Figure, resident, run, until
from kinformer import Client, Request
from kinformer.leaderelection.lease import LeaseOptions
from kinformer.sharding import ShardedController
from kinformer.sharding.members import ShardMembers
from kinformer.sharding.membership import ShardMembership
from kinformer.sharding.slots import slot_of
from kinformer.testing import APIServer
from kinformer.testing.features import Features

OBJECTS, EVENTS = 2_000, 1_000
OBJECTS_OF_AN_OWNER = 10
REPLICAS = (1, 2, 4, 8)
WINDOW = 0.3  # seconds that the process must do next to nothing for, to count as idle
OTHERS = LeaseOptions(retry_period=0.5)
FILTERED, CHECKED, OWNED = "main, filtered by the server", "main, filtered here", "owned"


class NoWork:
    """The work of a replica that has none; it has always seen everything."""

    def begin_membership(self) -> None: ...
    def take_slots(self, slots: frozenset[int]) -> None: ...
    async def release_slots(self, slots: frozenset[int]) -> None: ...
    def drop_all_slots(self) -> None: ...
    async def wait_idle(self) -> None: ...
    def update_members(self, members: ShardMembers) -> None: ...
    def version_seen(self) -> int | None:
        return 2**53


# --- the process of the server -----------------------------------------------------------------------------------


class Site:
    """The server, its objects, and the replicas that are not measured."""

    def __init__(self, server: APIServer, client: Client) -> None:
        self._server = server
        self._client = client
        self._pods: list[dict[str, Any]] = []
        self._others: list[asyncio.Task[None]] = []
        self._changes = 0

    async def fill(self, objects: int) -> None:
        """Pods, each owned by a ReplicaSet."""
        owners = [self._owner(number) for number in range(max(1, objects // OBJECTS_OF_AN_OWNER))]
        for index in range(objects):
            pod = json.loads(b'{"apiVersion":"v1","kind":"Pod",' + KINDS["pods"].item(index)[1:])
            for container in pod["spec"]["containers"]:
                container.pop("resources", None)  # drawn by lot, so requests may be above limits
            owner = owners[index % len(owners)]["metadata"]
            reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner["name"], "uid": owner["uid"]}
            pod["metadata"] = {
                "name": f"pod-{index}",
                "namespace": "default",
                "labels": pod["metadata"].get("labels", {}),
                "ownerReferences": [{**reference, "controller": True}],
            }
            self._pods.append(self._server.create(pod))

    def _owner(self, number: int) -> dict[str, Any]:
        template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
        metadata = {"name": f"rs-{number}", "namespace": "default"}
        return self._server.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec})

    async def others(self, number: int, group: str) -> None:
        """So many replicas without work, in place of those before."""
        for task in self._others:
            task.cancel()
        if self._others:
            await asyncio.wait(self._others)
        members = [
            ShardMembership(
                self._client,
                namespace="default",
                group=group,
                identity=f"other-{other}",
                work=NoWork(),
                options=OTHERS,
            )
            for other in range(number)
        ]
        self._others = [asyncio.create_task(member.run()) for member in members]

    async def change(self, events: int) -> str:
        """Change so many objects, in turn; the version of the last."""
        version = ""
        for number in range(events):
            self._changes += 1
            pod = self._pods[self._changes * 7919 % len(self._pods)]
            metadata = {key: value for key, value in pod["metadata"].items() if key != "resourceVersion"}
            metadata["annotations"] = {"change": str(self._changes)}
            document = {key: value for key, value in pod.items() if key != "status"}
            version = self._server.update({**document, "metadata": metadata})["metadata"]["resourceVersion"]
            if number % 20 == 0:
                await asyncio.sleep(0.002)
        return version


async def serve(filters: bool, objects: int) -> None:
    """Make the objects, print the server's URL, and follow the commands of each line."""
    async with APIServer(features=Features(sharding=filters)) as server, server.client() as client:
        site = Site(server, client)
        await site.fill(objects)
        print(server.url, flush=True)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := (await reader.readline()).decode().split():
            if line[0] == "others":
                await site.others(int(line[1]), line[2])
                print("ready", flush=True)
            else:
                print(await site.change(int(line[1])), flush=True)


# --- the measured process ----------------------------------------------------------------------------------------


async def nothing(request: Request) -> None:
    """A reconcile."""


async def until_idle() -> float:
    """Until this process does next to nothing; its CPU seconds then."""
    while True:
        before = time.process_time()
        await asyncio.sleep(WINDOW)
        cpu = time.process_time()
        if cpu - before < WINDOW / 10:
            return cpu


async def replica(url: str, number: int, resource: str, group: str) -> None:
    """`resource` is main, or owned by the ReplicaSets that are."""
    async with Client.from_url(url) as client:
        await client.request("GET", "/version")
        before, cpu = resident(), time.process_time()
        controller = ShardedController(
            nothing,
            client,
            "v1/pods" if resource == "main" else "apps/v1/replicasets",
            namespace="default",
            group=group,
            identity="measured",
            workers=20,
        )
        informer = controller.informer if resource == "main" else controller.owns("v1/pods", "ReplicaSet")
        task = asyncio.create_task(controller.run())
        await until(lambda: controller.health().balanced and controller._gate.ledger.applied > 0)
        ledger, has = controller._gate.ledger, controller.membership.has
        mine = sum(has(slot_of(ledger.uid(key) or "")) for key in ledger)
        mine *= 1 if resource == "main" else OBJECTS_OF_AN_OWNER
        await until(lambda: len(informer.lister) == mine)
        cpu = await until_idle() - cpu
        answer = {"bytes": resident() - before, "objects": len(informer.lister), "start_cpu": cpu}
        began = time.process_time()
        print(json.dumps(answer), flush=True)
        source = controller._caches.sources[-1]
        dropped, updated = source.dropped, informer.statistics().events.get("UPDATED", 0)
        version = int(await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline))

        def heard_all() -> bool:
            """Each object changes once at most, so that nothing is folded."""
            if resource == "main":
                return controller._gate.ledger.applied >= version
            return source.dropped - dropped + informer.statistics().events.get("UPDATED", 0) - updated >= EVENTS

        await until(heard_all)
        print(json.dumps({"cpu": await until_idle() - began, "dropped": controller.dropped}), flush=True)
        task.cancel()
        await asyncio.wait({task})


# --- the process that asks ---------------------------------------------------------------------------------------


@dataclass
class Child:
    """A process that answers in lines."""

    process: asyncio.subprocess.Process

    async def line(self) -> str:
        assert self.process.stdout is not None
        line = (await self.process.stdout.readline()).decode().strip()
        if not line:
            raise RuntimeError("a process of the benchmark ended; its output is above")
        return line

    async def ask(self, *words: object) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        return await self.line()


@asynccontextmanager
async def child(*arguments: object) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benchmarks.sharding", *map(str, arguments)),
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


async def one(server: Child, url: str, number: int, resource: str) -> dict[str, Any]:
    """The figures of one replica among so many."""
    group = f"{resource}-{number}"
    await server.ask("others", number - 1, group)
    async with child("replica", "--url", url, "--number", number, "--resource", resource, "--group", group) as measured:
        figures: dict[str, Any] = json.loads(await measured.line())
        version = await server.ask("change", EVENTS)
        return {**figures, **json.loads(await measured.ask(version))}


async def measure_one(name: str, objects: int) -> list[dict[str, Any]]:
    rows = []
    async with child("serve", "--objects", objects, *(["--filters"] if name == FILTERED else [])) as server:
        url = await server.line()
        for number in REPLICAS:
            print(f"{name}, 1 of {number} ...", file=sys.stderr, flush=True)
            rows.append(await one(server, url, number, "owned" if name == OWNED else "main"))
    return rows


async def measure(objects: int) -> list[Figure]:
    """A server for each resource; they take place beside one another, since most of it is waiting for heartbeats."""
    names = (FILTERED, CHECKED, OWNED)
    found = dict(zip(names, await asyncio.gather(*(measure_one(name, objects) for name in names)), strict=True))
    print(table(found))
    return [figure for name, rows in found.items() for figure in figures(name, rows, objects)]


def figures(name: str, rows: list[dict[str, Any]], objects: int) -> list[Figure]:
    made = []
    for number, row in zip(REPLICAS, rows, strict=True):
        title, held = f"{name}, 1 of {number}", f"{row['objects']} of {objects} objects"
        made += [
            Figure(f"{title}: memory", row["bytes"] / 1e6, "MB", [], reference=held, details=row),
            Figure(f"{title}: CPU of the start", row["start_cpu"], "s", []),
            Figure(f"{title}: CPU of an event of the whole resource", row["cpu"] / EVENTS * 1e6, "us", []),
        ]
    return made


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    """In Markdown: a line for each resource and figure, a column for each number of replicas."""
    lines = [
        "| of one replica | " + " | ".join(f"1 of {number}" for number in REPLICAS) + " |",
        "|---|" + "---|" * len(REPLICAS),
    ]
    for name, rows in found.items():
        for what, shown in (
            ("objects", [f"{row['objects']}" for row in rows]),
            ("memory, MB", [f"{row['bytes'] / 1e6:.1f}" for row in rows]),
            ("CPU of the start, s", [f"{row['start_cpu']:.2f}" for row in rows]),
            ("CPU of an event, us", [f"{row['cpu'] / EVENTS * 1e6:.0f}" for row in rows]),
        ):
            lines.append(f"| {name}: {what} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="measure", choices=["measure", "serve", "replica"])
    parser.add_argument("--objects", type=int, default=OBJECTS, help="pods of 8 KB")
    parser.add_argument("--filters", action="store_true")
    parser.add_argument("--url", default="")
    parser.add_argument("--number", type=int, default=1)
    parser.add_argument("--resource", default="main")
    parser.add_argument("--group", default="measured")
    options = parser.parse_args()
    if options.what == "serve":
        if len(CORES) > 1:
            os.sched_setaffinity(0, {CORES[-1]})
        asyncio.run(serve(options.filters, options.objects))
    elif options.what == "replica":
        asyncio.run(replica(options.url, options.number, options.resource, options.group))
    else:
        return run("sharding", lambda: measure(options.objects))
    return 0


if __name__ == "__main__":
    sys.exit(main())
