"""`kinformer serve`: the embedded API server, for kubectl, curl and tests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from kinformer.cli.keys import stop_on_sigterm
from kinformer.cli.progress import Loading
from kinformer.cli.target import UsageError
from kinformer.discovery import APIResource, resolve
from kinformer.testing import APIServer

__all__ = ["serve"]

_SLICE = 200  # objects that are made between two turns of the loop
_NAMESPACES = 10  # over which generated objects are spread, as team-0 to team-9
_TICK = 0.05  # seconds between two rounds of changes

Object = dict[str, Any]


async def serve(*, host: str, port: int, objects: Sequence[str], churn: float, duration: float | None) -> int:
    """Serve until cancelled, or SIGTERM.

    Prints its URL, then what it was filled with, on stdout.

    Args:
        host, port: Where to listen; port 0 takes one that is free.
        objects: Texts such as "pods=1000".
        churn: Changes a second, to what was filled in.
        duration: Seconds after which to end; None is never.

    Raises:
        UsageError: A text of `objects` is not of that form.
        ConfigError: The server has no such resource.
        OSError: The port is taken.
    """
    wanted = [_parse(text) for text in objects]
    if churn and not wanted:
        raise UsageError("--churn changes what --objects fills in; give that too")
    async with APIServer(host=host, port=port) as server, server.client() as client:
        filling = [(await resolve(client, name), count) for name, count in wanted]
        print(f"Serving {server.url}")
        print(f"  kubectl --server {server.url} get namespaces")
        print(f"  kinformer watch pods -A --server {server.url}", flush=True)
        life = _Population(server)
        for resource, count in filling:
            await life.add(resource, count)
            print(f"{count:,} {resource.name}", flush=True)
        stop = asyncio.Event()
        with stop_on_sigterm(stop.set):
            changing = asyncio.create_task(life.churn(churn), name="kinformer serve: churn")
            stopping = asyncio.create_task(stop.wait(), name="kinformer serve: stop")
            try:
                done, _ = await asyncio.wait(
                    {changing, stopping} if churn else {stopping},
                    timeout=duration,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    task.result()
            finally:
                changing.cancel()
                stopping.cancel()
                await asyncio.gather(changing, stopping, return_exceptions=True)
    return 0


def _parse(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    if not (name and count.isdecimal()):
        raise UsageError(f"--objects takes RESOURCE=COUNT, as in pods=1000, not {text!r}")
    return name, int(count)


class _Population:
    """Generated objects, and the changes that they go through."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._chance = random.Random()
        self._known: list[tuple[APIResource, Object]] = []
        self._made = 0
        self._turn = 0

    async def add(self, resource: APIResource, count: int) -> None:
        """Make so many objects of a resource."""
        with Loading(resource.name) as loading:
            for number in range(count):
                self._create(resource)
                if number % _SLICE == 0:
                    loading.update(f"{number:,} of {count:,}")
                    await asyncio.sleep(0)

    async def churn(self, rate: float) -> None:
        """Change that many objects a second: most are updated, one in ten is deleted and another made in its place."""
        due = 0.0
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(_TICK)
            now = loop.time()
            due = min(due + (now - before) * rate, rate)  # what could not be done within a second is let go
            before = now
            while due >= 1:
                due -= 1
                self._change()

    def _change(self) -> None:
        number = self._chance.randrange(len(self._known))
        resource, body = self._known[number]
        self._turn += 1
        if self._turn % 10 == 0:
            self._known[number] = self._known[-1]
            self._known.pop()
            self._server.delete(resource.gvr, body["metadata"].get("namespace", ""), body["metadata"]["name"])
            self._create(resource)
            return
        body["metadata"]["annotations"] = {"kinformer/turn": str(self._turn)}
        self._server.update(body)

    def _create(self, resource: APIResource) -> None:
        self._made += 1
        singular = resource.singular or resource.kind.lower()
        app = f"app-{self._made % 20}"
        body: Object = {
            "apiVersion": resource.gvr.api_version,
            "kind": resource.kind,
            "metadata": {"name": f"{singular}-{self._made:06}", "labels": {"app": app}},
            **_content(resource.kind, app, self._made),
        }
        if resource.namespaced:
            body["metadata"]["namespace"] = f"team-{self._made % _NAMESPACES}"
        self._server.create(body)
        self._known.append((resource, body))


def _content(kind: str, app: str, number: int) -> Object:
    """What an object holds beside its metadata, for the kinds that people look at; nothing for others."""
    container = {"name": "main", "image": f"registry.example/{app}:1.0"}
    running = {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {}}}
    template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}
    workload = {"replicas": 3, "selector": {"matchLabels": {"app": app}}, "template": template}
    match kind:
        case "Pod":
            return {
                "spec": {"containers": [container], "nodeName": f"node-{number % 50}"},
                "status": {"phase": "Running", "containerStatuses": [running]},
            }
        case "Deployment" | "ReplicaSet" | "StatefulSet":
            return {"spec": workload, "status": {"replicas": 3, "readyReplicas": 3}}
        case "Node":
            condition = {"type": "Ready", "status": "True"}
            return {"status": {"conditions": [condition], "nodeInfo": {"kubeletVersion": "v1.36.0"}}}
        case "Service":
            return {"spec": {"selector": {"app": app}, "ports": [{"port": 80, "protocol": "TCP"}]}}
        case "ConfigMap":
            return {"data": {"number": str(number)}}
        case _:
            return {}
