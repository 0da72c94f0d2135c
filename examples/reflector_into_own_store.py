"""A reflector alone: into a store of your own, and from a source of your own.

A `Reflector` writes to anything that has add, update, delete, replace and resync, and reads from anything that
has list and watch. So a program that wants to know how many pods there are in each phase need not keep the pods;
and a folder of manifests can be followed with the same code as an API server.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playground import pod, run

from kinformer import Client, KubeObject, ListOptions, ListPage, ListWatch, Reflector, WatchEvent
from kinformer.testing import APIServer


class PhaseCount:
    """Counts the pods in each phase; of each pod it keeps one word."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._phases: dict[str, str] = {}

    def add(self, pod: KubeObject) -> None:
        self._phases[pod.key] = pod.path("status.phase", "Unknown")
        self._show()

    update = add

    def delete(self, pod: KubeObject) -> None:
        self._phases.pop(pod.key, None)
        self._show()

    def replace(self, pods: Iterable[KubeObject], resource_version: str) -> None:
        self._phases = {pod.key: pod.path("status.phase", "Unknown") for pod in pods}
        self._show()

    def resync(self) -> None:
        """There is no handler to replay to."""

    def _show(self) -> None:
        counts = sorted(Counter(self._phases.values()).items())
        print(f"{self._name}:", ", ".join(f"{count} {phase}" for phase, count in counts) or "none")


class FolderListWatch:
    """A folder of manifests as a source: one object a `.json` file, its time of change as resourceVersion."""

    def __init__(self, folder: Path, look_every: float = 0.05) -> None:
        self._folder = folder
        self._look_every = look_every
        self._seen: dict[Path, KubeObject] = {}

    async def list(self, options: ListOptions) -> ListPage:
        self._seen = self._read()
        return ListPage(list(self._seen.values()), _newest(self._seen))

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
        yield self._changes()

    async def _changes(self) -> AsyncIterator[list[WatchEvent]]:
        while True:
            now = self._read()
            before, self._seen = self._seen, now
            events = [
                WatchEvent("MODIFIED" if path in before else "ADDED", obj)
                for path, obj in now.items()
                if path not in before or before[path].resource_version != obj.resource_version
            ]
            events += [WatchEvent("DELETED", before[path]) for path in before if path not in now]
            if events:
                yield events
            await asyncio.sleep(self._look_every)

    def _read(self) -> dict[Path, KubeObject]:
        found = {}
        for path in sorted(self._folder.glob("*.json")):
            manifest: dict[str, Any] = json.loads(path.read_text())
            manifest["metadata"] |= {"resourceVersion": str(path.stat().st_mtime_ns), "uid": path.name}
            found[path] = KubeObject.from_dict(manifest)
        return found


def _newest(objects: dict[Path, KubeObject]) -> str:
    return max((obj.resource_version for obj in objects.values()), key=int, default="1")


async def main(client: Client) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, "draft-1", "Pending")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(Reflector(ListWatch(client, "v1/pods"), PhaseCount("cluster")).run())
            tasks.create_task(Reflector(FolderListWatch(folder), PhaseCount("folder"), watch_list=False).run())
            await asyncio.sleep(0.3)
            _write(folder, "draft-2", "Pending")
            await asyncio.sleep(0.2)
            _write(folder, "draft-1", "Running")
            await asyncio.sleep(0.2)
            (folder / "draft-2.json").unlink()


def _write(folder: Path, name: str, phase: str) -> None:
    new = folder / f"{name}.new"
    new.write_text(json.dumps(pod(name, phase=phase)))
    new.replace(folder / f"{name}.json")  # whole or not at all


# --- what happens on the embedded server ------------------------------------------------------------------


async def fill(server: APIServer) -> None:
    for number in range(3):
        server.create(pod(f"web-{number}", phase="Running"))


async def happens(server: APIServer) -> None:
    await asyncio.sleep(0.4)
    server.create(pod("web-3"))
    await asyncio.sleep(0.2)
    server.update(pod("web-3", phase="Failed"))
    server.delete("v1/pods", "default", "web-0")
    await asyncio.sleep(0.4)


if __name__ == "__main__":
    run(main, fill=fill, happens=happens)
