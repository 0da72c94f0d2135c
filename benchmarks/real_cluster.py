"""A real kube-apiserver with pods and configmaps, written as their controllers write them, for the benchmarks.

A pod is created by one manager and its status written by another, so that the managedFields are the server's own.
They have 10 to 11 KB then, four tenths of it managedFields; configmaps have 1.1 KB.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.data import KINDS, touched
from benchmarks.harness import CORES
from kinformer import Client, ConfigError
from kinformer.testing import ControlPlane
from kinformer.testing.clusters.assets import find_assets

WRITERS = 16
PAGE = 500
_OF_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "generateName")


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an object: the path of its collection, and its name."""

    collection: str
    name: str


class RealCluster:
    """A control plane that has been filled; patches its objects at a given rate.

    Args:
        client: Entered, with all rights.
        kubeconfig: A file for the processes that are measured.

    Attributes:
        changes: The number of patches that have been answered.
    """

    def __init__(self, client: Client, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.server = client.server
        self._client = client
        self._places: dict[str, list[Place]] = {}
        self._patched = 0
        self.changes = 0

    async def fill(self, kind: str, objects: int) -> None:
        """Write so many objects, besides those that were written before."""
        writing = _Progress(f"writing {kind}", objects)
        places = self._places.setdefault(kind, [])
        known = len(places)
        metas = [_document(kind, known + index)["metadata"] for index in range(objects)]
        for namespace in sorted({meta["namespace"] for meta in metas}):
            body = {"metadata": {"name": namespace}}
            path = "/api/v1/namespaces"
            if not any(place.collection.startswith(f"{path}/{namespace}/") for place in self._all()):
                await self._client.request("POST", path, body=body)
        fresh = [Place(f"/api/v1/namespaces/{meta['namespace']}/{kind}", meta["name"]) for meta in metas]
        places += fresh
        # Each document is made when it is written: all of them would take more memory than the server has left.
        rows = ((place, _document(kind, known + index)) for index, place in enumerate(fresh))
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(self._write(rows, writing))
        writing.done()

    def _all(self) -> list[Place]:
        return [place for places in self._places.values() for place in places]

    async def _write(self, rows: Iterable[tuple[Place, dict[str, Any]]], writing: _Progress) -> None:
        for place, document in rows:
            status = document.pop("status", None)
            by = {"fieldManager": "kube-controller-manager"}
            await self._client.request("POST", place.collection, body=document, params=by)
            if status is not None:
                path, by = f"{place.collection}/{place.name}/status", {"fieldManager": "kubelet"}
                await self._client.request("PATCH", path, body={"status": status}, params=by)
            writing.one_more()

    async def patch(self, kind: str, count: int, rate: float) -> None:
        """Send so many merge patches, `rate` a second, each to another object; returns with the last answer."""
        places = self._places[kind]
        began, first = time.perf_counter(), self._patched
        self._patched += count
        numbers = iter(range(count))

        async def writer() -> None:
            for number in numbers:
                late = time.perf_counter() - began - number / rate
                if late < 0:
                    await asyncio.sleep(-late)
                place = places[touched(first + number, len(places))]
                annotations = {"bench.example.com/patched": f"{first + number:08d}"}
                annotations["bench.example.com/at"] = f"{time.time():.6f}"
                path = f"{place.collection}/{place.name}"
                await self._client.request(
                    "PATCH", path, body={"metadata": {"annotations": annotations}}, params={"fieldValidation": "Ignore"}
                )
                self.changes += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(writer())

    def server_seconds(self) -> float:
        """CPU time that the API server has used so far."""
        import psutil

        children = psutil.Process().children(recursive=True)
        return sum(sum(one.cpu_times()[:2]) for one in children if one.name() == "kube-apiserver")

    async def version(self, kind: str) -> int:
        """The server's present version."""
        answer = await self._client.request("GET", KINDS[kind].path, params={"limit": "1"})
        return int(answer["metadata"]["resourceVersion"])

    async def items(self, kind: str, count: int) -> list[bytes]:
        """So many objects as they stand in a list of the server."""
        answer = await self._client.request("GET", KINDS[kind].path, params={"limit": str(count)})
        return [msgspec.json.encode(item) for item in answer["items"]]

    async def lines(self, kind: str, count: int) -> list[bytes]:
        """So many objects as lines of a watch."""
        head = b'{"type":"MODIFIED","object":{%b,' % KINDS[kind].head
        return [head + item[1:] + b"}\n" for item in await self.items(kind, count)]


def _document(kind: str, index: int) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(KINDS[kind].item(index))
    for name in _OF_THE_SERVER:
        document["metadata"].pop(name, None)
    if kind == "pods":
        document["spec"].pop("priority")  # its admission takes no other than the class's
        for container in document["spec"]["containers"]:
            container["resources"]["requests"]["memory"] = container["resources"]["limits"]["memory"]
    return document


class _Progress:
    """A line on stderr every few seconds."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._count = 0
        self._began = self._said = time.perf_counter()

    def one_more(self) -> None:
        self._count += 1
        if time.perf_counter() - self._said > 5:
            self._said = time.perf_counter()
            print(f"  {self._what}: {self._count} of {self._total}", file=sys.stderr, flush=True)

    def done(self) -> None:
        took = time.perf_counter() - self._began
        print(f"  {self._what}: {self._count} in {took:.0f} s", file=sys.stderr, flush=True)


def lacks() -> str:
    """The reason why there is no real server on this machine; "" if there is one."""
    try:
        find_assets()
    except ConfigError as error:
        return str(error)
    return ""


@asynccontextmanager
async def real_cluster(pods: int, configmaps: int, *flags: str) -> AsyncIterator[RealCluster]:
    """A control plane of its own with so many objects, on all cores; it is gone afterwards."""
    if CORES:
        os.sched_setaffinity(0, CORES)  # its processes inherit it
    async with ControlPlane(api_server_flags=flags) as control_plane, control_plane.client() as client:
        kubeconfig = control_plane.kubeconfig(control_plane.folder / "benchmark.kubeconfig")
        cluster = RealCluster(client, kubeconfig)
        for kind, objects in (("pods", pods), ("configmaps", configmaps)):
            if objects:
                await cluster.fill(kind, objects)
        yield cluster
