"""Latency of requests to a FastAPI application while 100,000 pods of 8 KB sync in its process.

uvicorn serves the application in the loop of the informers; the client is another process, which asks 200 times a
second (`benchmarks.requester`). Rounds go in turns: nothing else to do (idle); a first sync with one handler; beside a
task that works in slices as long as kinformer's and gives way between them (busy). The last one shows the cost of any
work in slices, and so how much of the latency is due to kinformer itself.

The latency of a request is from when the client sends it until the answer has been written to the socket. The figure
of a round is the 99th percentile. A client knows only the clock on the wall, which depends on the other load of the
machine: a process that waits for the CPU answers no request. So the limits are on the CPU time that the
application's process took for the answer (a selector notes it at each turn of the loop), and the time by the clock on
the wall is printed beside it, with the share of the CPU that others had. On a quiet machine the two differ by the cost
of waking a process up.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import selectors
import socket
import statistics
import subprocess
import sys
import time
from array import array
from bisect import bisect_right
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

from benchmarks.data import KINDS
from benchmarks.harness import CORES, RESULTS, Figure, Others, median, run, serving
from kinformer import Client, SharedInformerFactory
from kinformer._runtime.clock import YIELD_SECONDS

OBJECTS = 100_000
ROUNDS = 5
RATE = 200
STRETCH = 2.0  # seconds of idle and of busy; a sync takes as long as it takes
ADDED, ADDED_AIM = 6.0, 3.0  # milliseconds
OVER_BUSY, OVER_BUSY_AIM = 1.3, 1.1
PARTS = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "longest": 1.0}


class Turns(selectors.DefaultSelector):
    """A selector that notes at each turn of the loop how much CPU this process has had until then."""

    def __init__(self) -> None:
        super().__init__()
        self._walls, self._owns = array("d"), array("d")

    def select(self, timeout: float | None = None) -> Any:
        self._note()
        ready = super().select(timeout)
        self._note()
        return ready

    def _note(self) -> None:
        self._walls.append(time.perf_counter())
        self._owns.append(time.process_time())

    def forget(self) -> None:
        """The turns so far, except the last one."""
        del self._walls[:-2], self._owns[:-2]

    def own(self, wall: float) -> float:
        """Seconds of CPU that this process had had at a time; within a turn as if it had had them evenly."""
        place = min(max(1, bisect_right(self._walls, wall)), len(self._walls) - 1)
        began, ended = self._walls[place - 1], self._walls[place]
        part = min(1.0, max(0.0, (wall - began) / (ended - began)))
        return self._owns[place - 1] + part * (self._owns[place] - self._owns[place - 1])


TURNS = Turns()


class Answers:
    """The application, and when it has answered each request.

    Attributes:
        written: For the number in the query of a request the time, and the CPU time of this process until then.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self.written: dict[int, tuple[float, float]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)
        if scope["type"] == "http":
            number = int(scope["query_string"].removeprefix(b"n="))
            self.written[number] = time.perf_counter(), time.process_time()


def application() -> FastAPI:
    app = FastAPI()

    @app.get("/ping")
    async def ping() -> dict[str, bool]:
        return {"ok": True}

    return app


class _Quiet(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield  # they are the benchmark's


@asynccontextmanager
async def serving_here(app: Any) -> AsyncIterator[str]:
    """The URL of `app`, served from this loop."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = _Quiet(uvicorn.Config(app, log_level="error", access_log=False, ws="none"))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            while not server.started:
                if task.done():
                    task.result()
                await asyncio.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


class Stretch:
    """The milliseconds of some requests, in order of size.

    Attributes:
        own: By the CPU time of this process.
        wall: By the clock.
    """

    def __init__(self, asked: list[float], written: dict[int, tuple[float, float]]) -> None:
        both = [(began, *written[number]) for number, began in enumerate(asked)]
        self.own = sorted((own - TURNS.own(began)) * 1e3 for began, _, own in both)
        self.wall = sorted((ended - began) * 1e3 for began, ended, _ in both)

    @staticmethod
    def part(took: list[float], part: float) -> float:
        return took[min(len(took) - 1, int(len(took) * part))]


class Requests:
    """The client's process; each stretch of its requests under a name."""

    def __init__(self, process: asyncio.subprocess.Process, answers: Answers) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from = process.stdin, process.stdout
        self._answers = answers
        self.seen: dict[str, list[Stretch]] = {}

    @asynccontextmanager
    async def during(self, name: str) -> AsyncIterator[None]:
        TURNS.forget()
        self._answers.written.clear()
        self._to.write(b"\n")
        yield
        self._to.write(b"\n")
        answer = await self._from.readline()
        if not answer:
            raise RuntimeError("the client's process has ended; its output is above")
        self.seen.setdefault(name, []).append(Stretch(json.loads(answer), self._answers.written))

    def p99(self, name: str, clock: str) -> list[float]:
        """Of each stretch, by one of the two clocks."""
        return [stretch.part(getattr(stretch, clock), 0.99) for stretch in self.seen[name]]

    def details(self) -> dict[str, Any]:
        """Percentiles of all stretches."""
        return {
            f"{name}, {clock}": {
                word: [round(one.part(getattr(one, clock), part), 3) for one in stretches]
                for word, part in PARTS.items()
            }
            for name, stretches in self.seen.items()
            for clock in ("own", "wall")
        }


@asynccontextmanager
async def requesting() -> AsyncIterator[Requests]:
    """The application in this process, and its client in another."""
    answers = Answers(application())
    async with serving_here(answers) as url:
        command = [sys.executable, "-m", "benchmarks.requester", "--url", f"{url}/ping", "--rate", str(RATE)]
        if len(CORES) > 1:
            command += ["--core", str(CORES[-1])]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "limit": 1 << 20}
        process = await asyncio.create_subprocess_exec(*command, cwd=RESULTS.parent.parent, **pipes)
        try:
            yield Requests(process, answers)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def busy() -> None:
    """Work in slices, as a careful program does it by hand."""
    until = time.perf_counter() + STRETCH
    while time.perf_counter() < until:
        slice_end = time.perf_counter() + YIELD_SECONDS
        while time.perf_counter() < slice_end:
            pass
        await asyncio.sleep(0)


async def _on_add(obj: Any) -> None:
    return None


async def one_sync(client: Client, requests: Requests) -> None:
    """A sync; freeing the cache, and collecting its cycles, is not part of it."""
    async with SharedInformerFactory(client, watch_list=False) as factory:
        async with requests.during("sync"):
            informer = factory.for_resource(KINDS["pods"].resource)
            informer.add_event_handler(on_add=_on_add)
            await factory.wait_for_cache_sync(timeout=120, handlers=True)
        assert len(informer.lister) == OBJECTS


async def rounds(count: int) -> tuple[Requests, list[float]]:
    """All rounds but the first, which warms up; and the share of the CPU that others had in each."""
    foreign = []
    async with AsyncExitStack() as stack:
        # The application's client goes before the server of the pods, with which it shares a core.
        url = await stack.enter_async_context(serving("pods", OBJECTS, 1, "--nice", "10"))
        client = await stack.enter_async_context(Client.from_url(url))
        requests = await stack.enter_async_context(requesting())
        for number in range(count + 1):
            others = Others()
            async with requests.during("idle"):
                await asyncio.sleep(STRETCH)
            await one_sync(client, requests)
            gc.collect()
            async with requests.during("busy"):
                await busy()
            foreign.append(others.share())
            if not number:
                requests.seen.clear()
                foreign.clear()
    return requests, foreign


async def measure() -> list[Figure]:
    requests, foreign = await rounds(ROUNDS)
    figures = []
    share = f"others had {statistics.median(foreign):.0%} of the CPU ({min(foreign):.0%} to {max(foreign):.0%})"
    for clock, words in (("own", ""), ("wall", ", by the clock on the wall")):
        at_rest, beside, sliced = (requests.p99(name, clock) for name in ("idle", "sync", "busy"))
        added = [one - rest for one, rest in zip(beside, at_rest, strict=True)]
        ratios = [one / other for one, other in zip(beside, sliced, strict=True)]
        p99 = {"idle": at_rest, "sync": beside, "busy": sliced}
        text = ", ".join(f"{name} {statistics.median(of):.2f} ms" for name, of in p99.items()) + f"; {share}"
        own = clock == "own"
        limits: dict[str, Any] = {"limit": ADDED, "aim": ADDED_AIM} if own else {}
        name = f"G9 request p99 while 100,000 pods sync, added to idle{words}"
        figures.append(median(name, added, "ms", reference=text, details=requests.details() if own else {}, **limits))
        limits = {"limit": OVER_BUSY, "aim": OVER_BUSY_AIM} if own else {}
        name = f"G9 the same over a busy task in slices of {YIELD_SECONDS * 1e3:g} ms{words}"
        figures.append(median(name, ratios, "x", **limits))
    return figures


if __name__ == "__main__":
    sys.exit(run("latency", measure, loop_factory=lambda: asyncio.SelectorEventLoop(TURNS)))
