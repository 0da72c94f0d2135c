"""Restarts of a real API server: the seconds from its readiness to caches that are equal to it again.

    python -m benchmarks.restarts                   # 40 restarts, 35 to 50 minutes, most of them downtime
    python -m benchmarks.restarts --restarts 4 --shortest 2 --longest 5

Between two restarts the server is down for 5 to 60 s. Once `/readyz` answers, one object is changed, and the time is
taken until an informer has it: one of kinformer in this process and, if Go is installed, one of client-go, on the same
server and in the same restarts.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

from benchmarks import go_client
from benchmarks.real_cluster import lacks
from kinformer import Client, KubeObject, SharedInformerFactory
from kinformer.testing import ControlPlane

MARK = "/api/v1/namespaces/default/configmaps/mark"
CONFIGMAPS = 200
PATIENCE = 180.0  # seconds for the slowest


class Marks:
    """The time at which each mark was first seen."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._changed = asyncio.Condition()

    async def see(self, mark: str) -> None:
        """Note a mark."""
        self._seen.setdefault(mark, time.perf_counter())
        async with self._changed:
            self._changed.notify_all()

    async def at(self, mark: str) -> float:
        """Return the time of a mark, once it has been seen."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: mark in self._seen)
        return self._seen[mark]


@asynccontextmanager
async def kinformer_marks(control_plane: ControlPlane, marks: Marks) -> AsyncIterator[None]:
    """Note the marks that an informer of kinformer delivers."""

    async def see(obj: KubeObject) -> None:
        if obj.key == "default/mark":
            await marks.see(str(obj.path("data.mark", "")))

    async with control_plane.client() as client, SharedInformerFactory(client) as factory:
        factory.for_resource("v1/configmaps").add_event_handler(on_add=see, on_update=lambda old, new: see(new))
        await factory.wait_for_cache_sync(timeout=60)
        yield


@asynccontextmanager
async def client_go_marks(binary: Path, kubeconfig: Path, marks: Marks) -> AsyncIterator[None]:
    """Note the marks that client-go's informer prints."""
    command = [str(binary), "-what", "mark", "-kubeconfig", str(kubeconfig)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None

    async def read(lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            await marks.see(line.decode().strip())

    reading = asyncio.create_task(read(process.stdout))
    try:
        yield
    finally:
        process.kill()
        await process.wait()
        await reading


async def change(client: Client, mark: str) -> None:
    """Change the object, as soon as the server lets us."""
    until = time.perf_counter() + 30
    while True:
        try:
            await client.request("PATCH", MARK, body={"data": {"mark": mark}})
        except Exception:
            if time.perf_counter() > until:
                raise
            await asyncio.sleep(0.05)
        else:
            return


async def measure(restarts: int, downtime: Callable[[], float], folder: Path) -> dict[str, list[float]]:
    """Restart a server so often. Returns the seconds of each client."""
    clients = {"kinformer": Marks()}
    binary = go_client.build(folder)
    if binary is not None:
        clients["client-go"] = Marks()
    seconds: dict[str, list[float]] = {name: [] for name in clients}
    async with ControlPlane() as control_plane, control_plane.client() as client:
        for number in range(CONFIGMAPS):
            metadata = {"name": f"c-{number}"}
            await client.request("POST", "/api/v1/namespaces/default/configmaps", body={"metadata": metadata})
        body = {"metadata": {"name": "mark"}, "data": {"mark": "start"}}
        await client.request("POST", "/api/v1/namespaces/default/configmaps", body=body)
        kubeconfig = control_plane.kubeconfig(control_plane.folder / "restarts.kubeconfig")
        go = client_go_marks(binary, kubeconfig, clients["client-go"]) if binary else nullcontext()
        async with kinformer_marks(control_plane, clients["kinformer"]), go:
            for marks in clients.values():
                await marks.at("start")
            for number in range(restarts):
                away = downtime()
                await control_plane.stop_api_server(kill=number % 2 == 0)
                await asyncio.sleep(away)
                await control_plane.start_api_server()
                ready, mark = time.perf_counter(), str(number)
                await change(client, mark)
                found = {name: await marks.at(mark) - ready for name, marks in clients.items()}
                for name, value in found.items():
                    seconds[name].append(value)
                shown = ", ".join(f"{name} {value:.1f} s" for name, value in found.items())
                print(f"  {number + 1} of {restarts}, down for {away:.0f} s: {shown}", file=sys.stderr, flush=True)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--restarts", type=int, default=40)
    parser.add_argument("--shortest", type=float, default=5.0, help="seconds of downtime")
    parser.add_argument("--longest", type=float, default=60.0, help="seconds of downtime")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if reason := lacks():
        print(f"not measured: {reason}", file=sys.stderr)
        return 0
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        downtime = lambda: chance.uniform(options.shortest, options.longest)  # noqa: E731
        seconds = asyncio.run(measure(options.restarts, downtime, Path(folder)))
    for name, values in seconds.items():
        print(
            f"{name}: median {statistics.median(values):.1f} s, slowest {max(values):.1f} s of {len(values)} restarts"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
