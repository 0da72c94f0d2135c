"""The soak of a shared cache: worker processes over one socket, of which holders are killed, ended and stopped."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.harness import RESULTS
from benchmarks.soak.chaos import EmbeddedChaos, whole
from benchmarks.soak.followers import Shape, difference
from benchmarks.soak.rounds import Rounds
from benchmarks.soak.truth import Truth, how_it_lies
from benchmarks.soak.worker import SHARED, digest
from kinformer import Client
from kinformer.testing import APIServer, ControlPlane

__all__ = ["SharedSoak"]

_ANSWER = 20.0  # seconds for an answer of a worker that runs
_ROLE = 2.0  # ... for its role
_LEAVE = 10.0  # ... for an end in order
_LOOK = 0.25  # seconds between two looks at a checkpoint
_SETTLED = 150.0  # seconds until all agree: a holder replaces a stream that stalls after 120 s

Report = dict[str, Any]


class _Worker:
    """A process of `benchmarks.soak.worker`."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process
        self._asking = asyncio.Lock()
        self._number = 0

    @classmethod
    async def start(cls, name: str, path: Path, connection: Mapping[str, Any]) -> Self:
        command = [sys.executable, "-m", "benchmarks.soak.worker", str(path), json.dumps(connection)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, cwd=RESULTS.parent.parent, limit=1 << 26
        )
        return cls(name, process)

    async def ask(self, word: str, timeout: float = _ANSWER) -> Report:
        """Return its answer. Raises TimeoutError, or AssertionError if it has ended."""
        reader, writer = self.process.stdout, self.process.stdin
        assert reader is not None
        assert writer is not None
        async with asyncio.timeout(timeout), self._asking:
            self._number += 1
            writer.write(f"{word} {self._number}\n".encode())
            while line := await reader.readline():
                answer: Report = json.loads(line)
                if answer["number"] == self._number:
                    return answer
        raise AssertionError(f"{self.name} ended with status {await self.process.wait()}")

    async def end(self, number: signal.Signals) -> None:
        """Send a signal that ends it, and wait until it has ended."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        try:
            await asyncio.wait_for(self.process.wait(), _LEAVE)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
            raise AssertionError(f"{self.name} did not end within {_LEAVE:.0f} s of {number.name}") from None


class _Workers:
    """The workers, of which each that ends is replaced.

    Attributes:
        counts: What was done to them, by name.
        present: Those that run.
    """

    def __init__(self, count: int, connection: Mapping[str, Any], seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.present: list[_Worker] = []
        self._count = count
        self._started = 0
        self._connection = connection
        self._choice = random.Random(seed)
        self._folder = tempfile.TemporaryDirectory(prefix="kinformer-soak-")

    async def __aenter__(self) -> Self:
        for _ in range(self._count):
            await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self.present:
            await worker.end(signal.SIGKILL)
        self._folder.cleanup()

    async def _start(self) -> None:
        self._started += 1
        path = Path(self._folder.name) / "kinformer.sock"
        self.present.append(await _Worker.start(f"worker {self._started}", path, self._connection))

    async def come_and_go(self) -> None:
        """Kill, end and stop workers until this is cancelled. All run afterwards."""
        choice = self._choice
        while True:
            await asyncio.sleep(choice.uniform(0.5, 4))
            role = "holder" if choice.random() < 0.7 else "follower"
            worker = await self._with(role)
            if worker is None:
                continue
            name = choice.choice(("killed", "ended", "stopped", "stopped for long"))
            if name.startswith("stopped"):
                await self._stopped(worker, choice.uniform(6, 12) if name.endswith("long") else choice.uniform(0.1, 4))
            else:
                await whole(self._replaced(worker, signal.SIGKILL if name == "killed" else signal.SIGTERM))
            self.counts[f"{role} {name}"] += 1

    async def _with(self, role: str) -> _Worker | None:
        asked = self.present
        answers = await asyncio.gather(*(worker.ask("role", _ROLE) for worker in asked), return_exceptions=True)
        found = []
        for worker, answer in zip(asked, answers, strict=True):
            if isinstance(answer, dict):
                found += [worker] if answer["role"] == role else []
            elif not isinstance(answer, TimeoutError):
                raise answer
        return self._choice.choice(found) if found else None

    async def _stopped(self, worker: _Worker, seconds: float) -> None:
        worker.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            worker.process.send_signal(signal.SIGCONT)

    async def _replaced(self, worker: _Worker, number: signal.Signals) -> None:
        self.present.remove(worker)
        await worker.end(number)
        await self._start()

    async def ask(self, word: str) -> dict[str, Report]:
        """Return the answers of all, by name."""
        answers = await asyncio.gather(*(worker.ask(word) for worker in self.present))
        return {worker.name: answer for worker, answer in zip(self.present, answers, strict=True)}


class SharedSoak(Rounds):
    """Workers that share their caches, beside writers and the faults of a server.

    At a checkpoint each cache and handler must agree with the server, and one worker hold the cache of all others.

    Args:
        server, client, seed, rate: See `Rounds`.
        workers: Processes.
    """

    def __init__(
        self, server: APIServer | ControlPlane, client: Client, seed: int, rate: float, *, workers: int
    ) -> None:
        super().__init__(server, client, seed, rate)
        self._workers = _Workers(workers, self.connection(server), seed + 1)
        self._relists: dict[str, int] = {}
        if isinstance(self.chaos, EmbeddedChaos):
            # A follower may notice it before the holder, list at the server, and get the past from the holder again.
            self.chaos.may_rewind = False

    @property
    def followers(self) -> Sequence[_Workers]:
        return [self._workers]

    def restless(self) -> list[Coroutine[Any, Any, None]]:
        return [*super().restless(), self._workers.come_and_go()]

    async def disagreements(self, contents: dict[Any, dict[str, Any]]) -> list[str]:
        deadline = time.monotonic() + _SETTLED
        while True:
            reports = await self._workers.ask("tell")
            wrong = self._roles(reports)
            for name, report in reports.items():
                for shape in SHARED:
                    told, truth = report["caches"][shape.name], self.writers.truths[shape.kind]
                    found = _faults(shape, told, truth, contents[shape.kind])
                    wrong += [f"{name}, {shape.name}: {fault}" for fault in found]
            if not wrong or time.monotonic() > deadline:
                break
            await asyncio.sleep(_LOOK)
        for name, report in reports.items():
            self._relists[name] = sum(told["relists"] for told in report["caches"].values())
        return wrong

    def _roles(self, reports: dict[str, Report]) -> list[str]:
        roles = Counter(report["role"] for report in reports.values())
        holders = {report["holder"] for report in reports.values()}
        if roles["holder"] == 1 and len(holders) == 1 and roles["follower"] == len(reports) - 1:
            return []
        return [f"the workers do not share: {dict(roles)}, whose holders are {holders}"]

    async def forget(self) -> None:
        await self._workers.ask("forget")

    @property
    def counts(self) -> Counter[str]:
        """The faults, by name."""
        return self.chaos.counts + self._workers.counts

    @property
    def faults(self) -> int:
        return self.counts.total()

    def line(self) -> str:
        return f"{super().line()}, {sum(self._relists.values())} relists"


def _faults(shape: Shape, told: Report, truth: Truth, contents: Mapping[str, Any]) -> list[str]:
    """Return how a cache and its handler differ from the truth."""
    present = truth.present(shape.shows)
    cached = {key: (uid, version) for key, (uid, version, _) in told["objects"].items()}
    handled = {key: tuple(mark) for key, mark in told["told"].items()}
    wrong = list(told["wrong"])
    if not told["synced"] or told["pending"]:
        wrong.append(f"synced: {told['synced']}, {told['pending']} calls pending")
    if cached != present:
        wrong.append(f"the cache differs from the truth in {difference(cached, present)}")
    else:
        different = [key for key, (_, _, text) in told["objects"].items() if text != digest(contents[key])]
        wrong += [f"the content of {different[:3]} differs from the server's"] if different else []
    if handled != present:
        wrong.append(f"the handler's objects differ from the truth in {difference(handled, present)}")
    for key, marks in told["seen"].items():
        lie = how_it_lies([tuple(mark) if mark else None for mark in marks], truth.history(key, shape.shows))
        wrong += [f"{key}: {lie}"] if lie else []
    return wrong
