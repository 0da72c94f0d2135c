"""The cost and the use of a mailbox and a task for each handler, over awaiting the handlers one after the other.

Both ways every handler gets views of its own, as the contract has it. A row says what it costs without them. Sixteen
handlers are added to a cache of 100,000 objects. Then one of sixteen takes 5 ms a call: how late are the others called?
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Sequence
from typing import Any

from benchmarks.data import FIRST_VERSION, KINDS
from benchmarks.harness import Figure, median, run
from kinformer.objects.object import view
from kinformer.processor.handler import Handler, HandlerRunner
from kinformer.processor.mailbox import UPDATE, Mailbox, Notification
from kinformer.wire.decoder import EntryDecoder

HANDLERS = 16
BURST = 50
BURSTS = 60
ADDS = 100_000
ROUNDS = 9
SLOW = 0.005


def _changes(count: int) -> list[Notification]:
    decoder, data = EntryDecoder(), KINDS["pods"]
    head = data.head + b","
    before, after = (
        [decoder.item(b"{" + head + data.item(number, FIRST_VERSION + step + number)[1:]) for number in range(count)]
        for step in (0, count)
    )
    return [(UPDATE, new.key, old, new, False) for old, new in zip(before, after, strict=True)]


def _ignored() -> None:
    """Errors are not counted here, as there are none."""


class _Crew:
    """Sixteen handlers, each with its mailbox and its task."""

    def __init__(self, handlers: Sequence[Handler]) -> None:
        self.mailboxes = [Mailbox(f"handler {number}", queue_size=1 << 30) for number in range(len(handlers))]
        self.tasks = [
            asyncio.create_task(HandlerRunner(handler, mailbox, _ignored, resource="v1/pods").run())
            for handler, mailbox in zip(handlers, self.mailboxes, strict=True)
        ]

    def put(self, calls: Sequence[Notification]) -> None:
        for mailbox in self.mailboxes:
            mailbox.put(calls)

    async def leave(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


async def _timed(work: Awaitable[None], changes: int) -> float:
    """Microseconds of CPU of a call, of so many changes to each handler."""
    began = time.process_time()
    await work
    return (time.process_time() - began) / (changes * HANDLERS) * 1e6


async def adds(rounds: int = ROUNDS) -> Figure:
    """Of handlers that are added to a full cache, while all of them get their turns."""
    objects = [call[3] for call in _changes(1000)] * (ADDS // 1000)
    left = 0
    done: asyncio.Future[None] | None = None

    async def on_add(obj: Any) -> None:
        nonlocal left
        left -= 1
        if not left and done is not None:
            done.set_result(None)

    async def direct() -> None:
        for obj in objects:
            for _ in range(HANDLERS):
                await on_add(view(obj))

    crew = _Crew([Handler(on_add=on_add)] * HANDLERS)

    async def by_mailbox() -> None:
        nonlocal left, done
        left, done = ADDS * HANDLERS, asyncio.get_running_loop().create_future()
        for mailbox in crew.mailboxes:
            mailbox.replay(objects)
        await done

    called, fanned = [], []
    for _ in range(rounds):
        called.append(await _timed(direct(), ADDS))
        fanned.append(await _timed(by_mailbox(), ADDS))
    await crew.leave()
    ratios = [by_mailboxes / directly for by_mailboxes, directly in zip(fanned, called, strict=True)]
    text = f"a call {statistics.median(fanned):.2f} us, awaited directly {statistics.median(called):.2f} us"
    name = "G28 100,000 adds to 16 handlers over direct await"
    return median(name, ratios, "x", limit=3.2, aim=2.8, reference=text)


async def cost() -> list[Figure]:
    calls = _changes(BURST)
    left = 0
    done: asyncio.Future[None] | None = None

    async def on_update(old: Any, new: Any) -> None:
        nonlocal left
        left -= 1
        if not left and done is not None:
            done.set_result(None)

    async def direct(views: bool) -> None:
        for _ in range(BURSTS):
            for _, _, old, new, _ in calls:
                for _ in range(HANDLERS):
                    await (on_update(view(old), view(new)) if views else on_update(old, new))
            await asyncio.sleep(0)

    crew = _Crew([Handler(on_update=on_update)] * HANDLERS)
    await asyncio.sleep(0)

    async def by_mailbox() -> None:
        nonlocal left, done
        for _ in range(BURSTS):
            left, done = BURST * HANDLERS, asyncio.get_running_loop().create_future()
            crew.put(calls)
            await done

    bare, viewed, fanned = [], [], []
    for number in range(ROUNDS + 1):
        row = [await _timed(work, BURSTS * BURST) for work in (direct(False), direct(True), by_mailbox())]
        if number:
            for column, value in zip((bare, viewed, fanned), row, strict=True):
                column.append(value)
    await crew.leave()
    ratios = [fan / one for fan, one in zip(fanned, viewed, strict=True)]
    text = f"a call {statistics.median(fanned):.2f} us, awaited directly {statistics.median(viewed):.2f} us, "
    text += f"of which the views {statistics.median(viewed) - statistics.median(bare):.2f} us"
    name = "G10 fan-out to 16 handlers over direct await"
    return [median(name, ratios, "x", limit=1.5, aim=1.3, reference=text)]


async def isolation() -> Figure:
    """Latency of 15 handlers beside one of 5 ms, at 1,000 changes a second."""
    calls = _changes(500)
    sent: dict[str, float] = {}
    waits: list[float] = []

    async def fast(old: Any, new: Any) -> None:
        waits.append((time.perf_counter() - sent[new.key]) * 1e3)

    async def slow(old: Any, new: Any) -> None:
        await asyncio.sleep(SLOW)

    p99 = []
    for _ in range(5):
        crew = _Crew([Handler(on_update=update) for update in (slow, *[fast] * (HANDLERS - 1))])
        await asyncio.sleep(0)
        waits.clear()
        for call in calls:
            sent[call[1]] = time.perf_counter()
            crew.put([call])
            await asyncio.sleep(0.001)
        await crew.leave()
        p99.append(sorted(waits)[int(len(waits) * 0.99)])
    return median("G10 p99 of 15 fast handlers beside one of 5 ms", p99, "ms", limit=2.0, aim=0.5, below=True)


async def measure() -> list[Figure]:
    return [*await cost(), await adds(), await isolation()]


if __name__ == "__main__":
    sys.exit(run("fan_out", measure))
