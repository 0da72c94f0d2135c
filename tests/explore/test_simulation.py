"""The machine of a program in an exploration: clocks, random numbers, names, executors, connections.

Internals: single histories, since an exploration chooses its schedules itself.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import ssl
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic, perf_counter_ns
from typing import Any

import anyio.to_thread
import pytest
from anyio.to_thread import run_sync

from kinformer import Client
from kinformer.testing.explore import World
from kinformer.testing.explore.history import History
from kinformer.testing.explore.schedule import Schedule
from tests.explore.programs import exploring, forever

pytest.importorskip("time_machine")


def seen_in(look: Callable[[], Any], seed: int) -> Any:
    """Play one history, in which a program calls `look`."""
    seen: list[Any] = []

    async def looking(client: Client) -> None:
        await asyncio.sleep(5)
        seen.append(look())
        await forever()

    world = World(lambda strategy: [])
    world.run(looking)
    History(world.plan, Schedule(seed)).play()
    return seen[0]


# --- clocks --------------------------------------------------------------------------------------------------


def with_default(clock: Callable[[], float] = time.monotonic, *, other: Callable[[], float] = time.perf_counter) -> Any:
    return clock() + other()


def enclosed(clock: Callable[[], float]) -> Callable[[], float]:
    def read() -> float:
        return clock()

    return read


class Limiter:
    clock = time.monotonic
    bound_static = staticmethod(time.monotonic)

    @property
    def now(self) -> float:
        return self._read()

    @staticmethod
    def _read(clock: Callable[[], float] = time.monotonic) -> float:
        return clock()


@dataclass
class Stamped:
    at: float = field(default_factory=time.monotonic)


in_closure = enclosed(time.monotonic)

CLOCKS: dict[str, tuple[Callable[[], float], float]] = {
    "time.monotonic": (lambda: time.monotonic(), 5),
    "time.monotonic_ns": (lambda: time.monotonic_ns() / 1e9, 5),
    "time.perf_counter": (lambda: time.perf_counter(), 5),
    "time.perf_counter_ns": (lambda: time.perf_counter_ns() / 1e9, 5),
    "time.process_time": (lambda: time.process_time(), 0),
    "time.thread_time_ns": (lambda: time.thread_time_ns(), 0),
    "time.time": (lambda: time.time(), 5),
    "os.times": (lambda: os.times().elapsed, 5),
    "a name that was imported": (lambda: monotonic(), 5),
    "another one": (lambda: perf_counter_ns() / 1e9, 5),
    "defaults of parameters": (lambda: with_default(), 10),
    "an attribute of a class": (lambda: Limiter.clock(), 5),
    "an attribute of a class, by an instance": (lambda: Limiter().clock(), 5),
    "a static method": (lambda: Limiter.bound_static(), 5),
    "a default of a static method, by a property": (lambda: Limiter().now, 5),
    "a factory of a dataclass": (lambda: Stamped().at, 5),
    "a closure": (lambda: in_closure(), 5),
}
for name in ("CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW", "CLOCK_BOOTTIME"):
    if hasattr(time, name):
        CLOCKS[name] = (partial(lambda number: time.clock_gettime(number), getattr(time, name)), 5)
        CLOCKS[f"{name}, ns"] = (partial(lambda number: time.clock_gettime_ns(number) / 1e9, getattr(time, name)), 5)
CLOCKS["CLOCK_PROCESS_CPUTIME_ID"] = (lambda: time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID), 0)


def test_every_clock_is_that_of_the_simulation_however_its_name_was_bound() -> None:
    passed: dict[str, float] = {}

    async def reading(client: Client) -> None:
        before = {name: read() for name, (read, _) in CLOCKS.items()}
        await asyncio.sleep(5)
        passed.update({name: read() - before[name] for name, (read, _) in CLOCKS.items()})
        await forever()

    exploring(reading)()
    assert {name: round(seconds, 5) for name, seconds in passed.items()} == {
        name: seconds for name, (_, seconds) in CLOCKS.items()
    }


def test_clocks_are_those_of_the_process_and_the_same_in_each_history() -> None:
    def look() -> tuple[float, float, float]:
        return time.monotonic(), time.clock_gettime(time.CLOCK_REALTIME), time.time()

    assert seen_in(look, 1) == seen_in(look, 2)
    assert seen_in(look, 1)[1] == seen_in(look, 1)[2] == 1_767_225_605.0


def test_real_clocks_are_back_afterwards_under_every_name_and_go_on_in_other_threads_meanwhile() -> None:
    before = (time.monotonic, monotonic, Limiter.clock, with_default.__defaults__, Random.seed, time.sleep, run_sync)

    def elsewhere() -> float:
        return monotonic()

    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(elsewhere).result()

        async def asking(client: Client) -> None:
            assert time.monotonic is not before[0]
            assert asked.result() - start < 1000
            await forever()

        asked = pool.submit(elsewhere)
        asked.exception()
        exploring(asking)()
    now = (time.monotonic, monotonic, Limiter.clock, with_default.__defaults__, Random.seed, time.sleep, run_sync)
    assert [one is other for one, other in zip(before, now, strict=True)] == [True] * len(now)


def test_a_module_that_is_first_imported_by_a_program_gets_the_real_clock_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_late.py").write_text("from time import monotonic\ndef now(clock=monotonic): return clock()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    times: list[float] = []

    async def importing(client: Client) -> None:
        import imported_late  # type: ignore[import-not-found]

        times.append(imported_late.now())
        await forever()

    exploring(importing)()
    module = sys.modules.pop("imported_late")
    assert times == [5000.0, 5000.0]
    assert module.monotonic is time.monotonic
    assert module.now.__defaults__ == (time.monotonic,)


@pytest.mark.parametrize("entry", [object(), None], ids=["object", "None"])
def test_an_entry_among_the_modules_that_is_none_is_passed_over(entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """cffi's libraries are such entries, and None forbids an import."""
    monkeypatch.setitem(sys.modules, "no_module", entry)
    times: list[float] = []

    async def main(client: Client) -> None:
        times.append(time.monotonic())
        await forever()

    exploring(main)()
    assert times == [5000.0, 5000.0]


# --- random numbers and names --------------------------------------------------------------------------------

made_before = random.Random(0)

SOURCES: dict[str, Callable[[], Any]] = {
    "random.random": lambda: random.random(),
    "random.Random()": lambda: random.Random().random(),
    "a class that was imported": lambda: Random().random(),
    "seed()": lambda: made_before.seed() or made_before.random(),
    "random.seed()": lambda: random.seed() or random.random(),
    "random.SystemRandom": lambda: random.SystemRandom().random(),
    "secrets.token_hex": lambda: secrets.token_hex(),
    "secrets.randbelow": lambda: secrets.randbelow(10**9),
    "uuid.uuid4": lambda: uuid.uuid4(),
    "uuid.uuid1": lambda: uuid.uuid1().clock_seq,
    "os.urandom": lambda: os.urandom(8),
    "ssl.RAND_bytes": lambda: ssl.RAND_bytes(8),
    "tempfile.mktemp": lambda: os.path.basename(tempfile.mktemp()),  # noqa: PTH119
}
if hasattr(os, "getrandom"):
    SOURCES["os.getrandom"] = lambda: os.getrandom(8)


def test_random_numbers_and_names_are_those_of_the_seed() -> None:
    def look() -> dict[str, Any]:
        return {name: source() for name, source in SOURCES.items()}

    first, again, other, real = seen_in(look, 1), seen_in(look, 1), seen_in(look, 2), look()
    for name in SOURCES:
        assert first[name] == again[name], name
        assert len({repr(one[name]) for one in (first, other, real)}) == 3, name


def test_a_uuid_of_the_time_has_the_time_of_the_simulation_and_is_the_same_in_each_history() -> None:
    uuid.uuid1()  # a later one must be larger
    assert seen_in(uuid.uuid1, 1) == seen_in(uuid.uuid1, 1)


# --- threads, waits, connections -----------------------------------------------------------------------------


def test_calls_in_executors_run_at_once_in_the_thread_of_the_program() -> None:
    names: list[Any] = []

    async def calling(client: Client) -> None:
        loop = asyncio.get_running_loop()
        names.append(await asyncio.to_thread(lambda: 1))
        names.append(await anyio.to_thread.run_sync(lambda: 2))
        names.append(await run_sync(lambda: 3))
        called_back = loop.create_future()
        await loop.run_in_executor(None, loop.call_soon_threadsafe, called_back.set_result, 4)
        names.append(await called_back)
        await forever()

    exploring(calling)()
    assert names == [1, 2, 3, 4] * 2


def test_a_server_in_the_program_is_reached_by_its_usual_names_and_others_are_unknown() -> None:
    got: list[Any] = []

    async def talking(client: Client) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            writer.close()

        await asyncio.start_server(answer, "0.0.0.0", 8080)
        for host in ("localhost", "127.0.0.1"):
            reader, writer = await asyncio.open_connection(host, 8080)
            writer.write(b"hello\n")
            got.append(await reader.readline())
        [(family, *_, address)] = await asyncio.get_running_loop().getaddrinfo("localhost", 8080)
        got.append((family, address))
        with pytest.raises(socket.gaierror, match=r"no host 'example\.com'"):
            await asyncio.get_running_loop().getaddrinfo("example.com", 443)
        await forever()

    exploring(talking)()
    assert got == [b"hello\n", b"hello\n", (socket.AF_INET, ("127.0.0.1", 8080))] * 2
