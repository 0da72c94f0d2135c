"""The cost of one of 1, 2, 4 and 8 shards: memory, CPU of the start, CPU of events.

A server selects the objects of a shard if it can, and they are looked at here if it cannot. Owned objects are sent
completely in any case, and what belongs to other shards is left out. The measured replica is in a process of its own.

    python -m benchmarks.sharding                       2000 pods of 8 KB, a minute on a quiet machine
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
from kinformer import Client, Controller, Request, SharedInformerFactory
from kinformer.sharding import Shard
from kinformer.testing import APIServer
from kinformer.testing.features import Features

OBJECTS, EVENTS = 2_000, 1_000
OBJECTS_OF_AN_OWNER = 10
SHARDS = (1, 2, 4, 8)
WINDOW = 0.3  # seconds that the process must do next to nothing for, to count as idle
FILTERED, CHECKED, OWNED = "main, filtered by the server", "main, filtered here", "owned"


def changed(objects: int) -> list[int]:
    """The numbers of the pods that change, in their order. None changes twice, so that no two changes become one."""
    return [number * 7919 % objects for number in range(min(EVENTS, objects))]


# --- the process of the server -----------------------------------------------------------------------------------


class Site:
    """The server and its objects."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._pods: list[dict[str, Any]] = []
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

    async def change(self) -> None:
        """Change the pods that `changed` names."""
        self._changes += 1
        for number, index in enumerate(changed(len(self._pods))):
            pod = self._pods[index]
            metadata = {key: value for key, value in pod["metadata"].items() if key != "resourceVersion"}
            metadata["annotations"] = {"change": str(self._changes)}
            document = {key: value for key, value in pod.items() if key != "status"}
            self._server.update({**document, "metadata": metadata})
            if number % 20 == 0:
                await asyncio.sleep(0.002)


async def serve(filters: bool, objects: int) -> None:
    """Make the objects, print the server's URL, and change objects at each line."""
    async with APIServer(features=Features(sharding=filters)) as server:
        site = Site(server)
        await site.fill(objects)
        print(server.url, flush=True)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while await reader.readline():
            await site.change()
            print("changed", flush=True)


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


async def replica(url: str, count: int, resource: str, objects: int) -> None:
    """`resource` is main, or owned by the ReplicaSets that are."""
    shard = Shard(0, count)
    async with Client.from_url(url) as client, SharedInformerFactory(client, namespace="default") as factory:
        await client.request("GET", "/version")
        before, cpu = resident(), time.process_time()
        controller = Controller(nothing, name="measured", workers=20)
        if resource == "main":
            informer = factory.for_resource("v1/pods", shard=shard)
            controller.for_(informer)
        else:
            informer = factory.for_resource("v1/pods", shard=shard.of_owners())
            controller.for_(factory.for_resource("apps/v1/replicasets", shard=shard)).owns(informer, "ReplicaSet")
        task = asyncio.create_task(controller.run())
        await factory.wait_for_cache_sync(timeout=60)
        cpu = await until_idle() - cpu
        answer = {"bytes": resident() - before, "objects": len(informer.lister), "start_cpu": cpu}
        began, updated = time.process_time(), informer.statistics().events.get("UPDATED", 0)
        names = {f"pod-{index}" for index in changed(objects)}
        mine = sum(obj.name in names for obj in informer.lister)
        print(json.dumps(answer), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        await until(lambda: informer.statistics().events.get("UPDATED", 0) - updated >= mine)
        print(json.dumps({"cpu": await until_idle() - began}), flush=True)
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


async def measure_shard(server: Child, url: str, count: int, resource: str, objects: int) -> dict[str, Any]:
    """The figures of one shard of so many."""
    options = ("--url", url, "--count", count, "--resource", resource, "--objects", objects)
    async with child("replica", *options) as measured:
        figures: dict[str, Any] = json.loads(await measured.line())
        await server.ask("change")
        return {**figures, **json.loads(await measured.ask("changed"))}


async def measure_way(name: str, objects: int) -> list[dict[str, Any]]:
    """The figures of a shard of each count, on one server."""
    rows = []
    async with child("serve", "--objects", objects, *(["--filters"] if name == FILTERED else [])) as server:
        url = await server.line()
        for count in SHARDS:
            print(f"{name}, 1 of {count} ...", file=sys.stderr, flush=True)
            rows.append(await measure_shard(server, url, count, "owned" if name == OWNED else "main", objects))
    return rows


async def measure(objects: int) -> list[Figure]:
    """The figures of all ways, one after the other."""
    ways = {name: await measure_way(name, objects) for name in (FILTERED, CHECKED, OWNED)}
    print(table(ways))
    return [figure for name, rows in ways.items() for figure in figures(name, rows, objects)]


def figures(name: str, rows: list[dict[str, Any]], objects: int) -> list[Figure]:
    made = []
    for count, row in zip(SHARDS, rows, strict=True):
        title, held = f"{name}, 1 of {count}", f"{row['objects']} of {objects} objects"
        made += [
            Figure(f"{title}: memory", row["bytes"] / 1e6, "MB", [], reference=held, details=row),
            Figure(f"{title}: CPU of the start", row["start_cpu"], "s", []),
            Figure(f"{title}: CPU of an event of the whole resource", row["cpu"] / EVENTS * 1e6, "us", []),
        ]
    return made


def table(ways: dict[str, list[dict[str, Any]]]) -> str:
    """In Markdown: a line for each way and figure, a column for each number of shards."""
    lines = [
        "| of one shard | " + " | ".join(f"1 of {count}" for count in SHARDS) + " |",
        "|---|" + "---|" * len(SHARDS),
    ]
    for name, rows in ways.items():
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
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--resource", default="main")
    options = parser.parse_args()
    if options.what == "serve":
        if len(CORES) > 1:
            os.sched_setaffinity(0, {CORES[-1]})
        asyncio.run(serve(options.filters, options.objects))
    elif options.what == "replica":
        asyncio.run(replica(options.url, options.count, options.resource, options.objects))
    else:
        return run("sharding", lambda: measure(options.objects))
    return 0


if __name__ == "__main__":
    sys.exit(main())
