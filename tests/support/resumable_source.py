"""A source in memory that can be asked about a snapshot of its objects, and reading what a snapshot file holds.

Internals: the readers of a snapshot file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kinformer import KubeObject
from kinformer.list_watcher import ReadBack, ServerTip
from kinformer.snapshot.format import BlockReader, ObjectReader, SnapshotHeader
from tests.support.memory_source import MemorySource


class ResumableSource(MemorySource):
    """`contents_` is what it says to be of, `cluster_` which cluster it is; `asked` counts what is read back."""

    def __init__(self, *, watch_list: bool = True, namespace: str | None = None) -> None:
        super().__init__(watch_list=watch_list, namespace=namespace)
        self.contents_: dict[str, str] = {"resource": "v1/configmaps", "namespace": namespace or ""}
        self.cluster_: str | None = "cluster-1"
        self.asked: list[str] = []
        self.failures: list[BaseException] = []  # of the next questions
        self.busy = False  # something changes after each question

    @property
    def contents(self) -> Mapping[str, str]:
        return self.contents_

    async def read_back(self, namespace: str, name: str) -> ReadBack:
        self.asked.append(f"{namespace}/{name}")
        if self.failures:
            raise self.failures.pop(0)
        answer = ReadBack(self.objects.get(f"{namespace}/{name}"), str(self.version))
        if self.busy:
            self.set("busy")
        return answer

    async def tip(self) -> ServerTip:
        return ServerTip(str(self.version), self.cluster_)

    def restarted(self) -> ResumableSource:
        """The same server, as the next life of a program meets it: it remembers all but what it was asked."""
        other = type(self)(namespace=self.namespace)
        other.version, other.floor, other.objects, other.history = self.version, self.floor, self.objects, self.history
        other.contents_, other.cluster_ = self.contents_, self.cluster_
        return other

    def restored(self, version: int) -> None:
        """etcd was restored from a backup of this version: what came later has never been."""
        self.history = [(at, event) for at, event in self.history if at <= version]
        self.objects = {}
        for _, event in self.history:
            if event.type == "DELETED":
                self.objects.pop(event.object.key, None)
            else:
                self.objects[event.object.key] = event.object
        self.version = version


def filled(count: int, **options: Any) -> ResumableSource:
    source = ResumableSource(**options)
    for number in range(count):
        source.set(f"c{number:04d}", labels={"app": f"a{number % 3}"})
    return source


def read(data: bytes) -> tuple[SnapshotHeader, list[KubeObject]]:
    """All that these bytes of a snapshot hold."""
    rest = memoryview(data)

    def some(count: int) -> bytes:
        nonlocal rest
        piece, rest = rest[:count], rest[count:]
        return bytes(piece)

    blocks, objects = BlockReader(some, len(data)), ObjectReader()
    found: list[KubeObject] = []
    while (block := blocks.objects()) is not None:
        found += objects.read(block)
    return blocks.header, found


def read_file(path: Path) -> tuple[SnapshotHeader, list[KubeObject]]:
    return read(path.read_bytes())
