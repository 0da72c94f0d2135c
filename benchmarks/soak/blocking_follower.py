"""A follower without an event loop: an informer of `kinformer.blocking`, with handlers and readers in threads."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from benchmarks.soak.followers import QUICK, Replica, Shape, ThreadReplica, difference
from benchmarks.soak.truth import Truth
from benchmarks.soak.writers import NAMESPACES
from kinformer import StoppedError, blocking

__all__ = ["BlockingFollower"]

_HANDLERS = 3
_READERS = 2


class Reader:
    """A thread that reads an event stream into a replica, until it is told to stop."""

    def __init__(self, informer: blocking.Informer[Any], replica: ThreadReplica) -> None:
        self.replica = replica
        self.failed: list[BaseException] = []
        self._informer = informer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="soak reader")
        self._thread.start()

    def _read(self) -> None:
        try:
            with self._informer.events(filter=_ours, queue_size=16) as events:
                while not self._stop.is_set():
                    with suppress(TimeoutError):
                        self._tell(events.get(timeout=0.2))
        except StoppedError:
            return
        except BaseException as error:
            self.failed.append(error)

    def _tell(self, event: Any) -> None:
        if event.type == "ADDED":
            self.replica.on_add(event.object)
        elif event.type == "UPDATED":
            self.replica.on_update(event.old, event.object)
        else:
            self.replica.on_delete(event.object)

    def stop(self) -> None:
        """Have it stop, and wait for that."""
        self._stop.set()
        self._thread.join(30)
        if self._thread.is_alive():
            self.failed.append(AssertionError("a reader did not stop"))


def _ours(obj: Any) -> bool:
    return obj.namespace in NAMESPACES  # a real server has objects of its own


class BlockingFollower:
    """An informer on a loop in a thread of its own; blocking functions are called in worker threads.

    Args:
        connect: The arguments of `blocking.Informers` that name the server.
        seed: Of what its handlers do.
    """

    shape = Shape("blocking")

    def __init__(self, connect: dict[str, Any], seed: int) -> None:
        self._choice = random.Random(seed)
        self._informers = blocking.Informers(**connect, **QUICK)
        self._handlers: deque[tuple[ThreadReplica, blocking.HandlerRegistration]] = deque()
        self._readers: deque[Reader] = deque()
        self.informer: blocking.Informer[Any]

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._enter)
        return self

    def _enter(self) -> None:
        self._informers.__enter__()
        self.informer = self._informers.for_resource(self.shape.kind.resource, indexers={"index": self.shape.index})
        self._join()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._informers.__exit__, kind, error, traceback)
        for reader in self._readers:
            await asyncio.to_thread(reader.stop)

    @property
    def relists(self) -> int:
        """Full lists after the first."""
        return sum(self.informer.statistics().relists.values())

    def _join(self) -> None:
        slowness = self._choice.choice((0.0, 0.005))
        replica = ThreadReplica(self.shape.shows, slowness, self._choice)
        size = self._choice.choice((1, 16, 1024))
        registration = self.informer.add_event_handler(replica, queue_size=size, filter=_ours)
        self._handlers.append((replica, registration))
        self._readers.append(Reader(self.informer, ThreadReplica(self.shape.shows, slowness, self._choice)))

    def _part(self) -> None:
        if len(self._handlers) > _HANDLERS:
            replica, registration = self._handlers[1]
            del self._handlers[1]
            self.informer.remove_event_handler(registration, drain=self._choice.random() < 0.5)
            self._let_go(replica)
        if len(self._readers) > _READERS:
            reader = self._readers.popleft()
            reader.stop()
            self._let_go(reader.replica, *reader.failed)

    def _let_go(self, replica: Replica, *failed: BaseException) -> None:
        if replica.wrong or failed:
            raise AssertionError(f"{self.shape.name}: one that left was told {[*replica.wrong[:1], *failed]}")

    async def come_and_go(self) -> None:
        """Until cancelled: a handler and a reader join, and others leave."""
        while True:
            await asyncio.sleep(self._choice.uniform(0.5, 4))
            changing = asyncio.ensure_future(asyncio.to_thread(self._come_and_go))
            try:
                await asyncio.shield(changing)
            finally:
                await asyncio.wait({changing})  # a thread is not cancelled

    def _come_and_go(self) -> None:
        self._join()
        self._part()

    def _replicas(self) -> list[tuple[str, ThreadReplica]]:
        handlers = [(f"handler {registration.name}", replica) for replica, registration in self._handlers]
        return handlers + [("reader", reader.replica) for reader in self._readers]

    def behind(self, truth: Truth) -> bool:
        """The cache, a handler or a reader is not at the truth (yet)."""
        present = truth.present(self.shape.shows)
        cached = {obj.key: (obj.uid, obj.resource_version) for obj in self.informer.lister if _ours(obj)}
        return cached != present or any(replica.objects != present for _, replica in self._replicas())

    async def handlers_synced(self) -> None:
        """Until every handler has finished the adds that it started with."""
        for _, registration in self._handlers:
            await asyncio.to_thread(registration.wait_synced, 60)

    def faults(self, truth: Truth, contents: dict[str, Any]) -> list[str]:
        """The errors of the cache, the handlers and the readers, now that all should agree."""
        cached = {obj.key: obj for obj in self.informer.lister if _ours(obj)}
        present = truth.present(self.shape.shows)
        wrong = [f"a reader failed: {error!r}" for reader in self._readers for error in reader.failed]
        if {key: (obj.uid, obj.resource_version) for key, obj in cached.items()} != present:
            wrong.append(f"the cache differs from the truth in {difference(cached, present)}")
        elif different := [key for key, obj in cached.items() if obj.to_dict() != contents[key]]:
            wrong.append(f"the content of {different[:3]} differs from the server's")
        wrong += [f"{name}: {fault}" for name, replica in self._replicas() for fault in replica.faults(truth)]
        return [f"{self.shape.name}: {fault}" for fault in wrong]

    def forget(self) -> None:
        """All was well up to here."""
        for _, replica in self._replicas():
            replica.forget()
