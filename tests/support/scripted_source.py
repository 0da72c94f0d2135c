"""A source that answers by a script and remembers its requests, and a store that remembers its calls.

A stream is a list of steps: a list of events is given, a number of seconds is waited, an exception is raised, `HANG`
waits for ever, `TIMEOUT` until the timeoutSeconds that were asked for; after the last step the stream ends in order.
After the last answer of a script, lists repeat it and watches stay open in silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kinformer import KubeObject
from kinformer.list_watcher import ListOptions, ListPage, ServerTip, WatchEvent
from tests.support import kube

HANG = "hang"
TIMEOUT = "timeout"


def pod(name: str, rv: int | str, uid: str | None = None) -> KubeObject:
    return KubeObject.from_dict(kube.pod(name, rv=rv, uid=uid or f"uid-{name}"))


def added(name: str, rv: int | str, uid: str | None = None) -> WatchEvent:
    return WatchEvent("ADDED", pod(name, rv, uid))


def modified(name: str, rv: int | str, uid: str | None = None) -> WatchEvent:
    return WatchEvent("MODIFIED", pod(name, rv, uid))


def deleted(name: str, rv: int | str, uid: str | None = None) -> WatchEvent:
    return WatchEvent("DELETED", pod(name, rv, uid))


def bookmark(rv: int | str, *, end: str | None = None) -> WatchEvent:
    metadata: dict[str, Any] = {"resourceVersion": str(rv)}
    if end is not None:
        metadata["annotations"] = {"k8s.io/initial-events-end": end}
    return WatchEvent("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def end(rv: int | str) -> WatchEvent:
    """The bookmark that ends an initial stream."""
    return bookmark(rv, end="true")


def page(*objects: Any, rv: int | str, token: str = "") -> ListPage:
    return ListPage(list(objects), str(rv), token)


@dataclass
class Slowly:
    """A page whose items arrive as the steps of a stream do."""

    steps: Sequence[Any]
    rv: str
    closed: bool = False

    async def items(self) -> AsyncIterator[list[Any]]:
        try:
            for step in self.steps:
                if isinstance(step, list):
                    yield step
                else:
                    await _wait(step)
        finally:
            self.closed = True


@dataclass
class Late:
    """An answer whose head takes its time."""

    seconds: float
    answer: Any


async def _wait(step: Any) -> None:
    if isinstance(step, BaseException):
        raise step
    if step is HANG:
        await asyncio.Event().wait()
    await asyncio.sleep(step)


@dataclass
class Asked:
    verb: str
    at: float
    options: ListOptions

    @property
    def rv(self) -> str | None:
        return self.options.resource_version


@dataclass
class ScriptedSource:
    """`lists` and `watches` are the answers to come; `asked` is what has been asked.

    A list of one, by which a reflector verifies that the server has not gone back, is not part of the script: it is
    noted in `verified`, and has the version `newest`, unless that is None.
    """

    lists: list[Any] = field(default_factory=list)
    watches: list[Any] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    open: int = 0
    name: str = "v1/pods"
    newest: str | None = "99999999"
    verified: list[float] = field(default_factory=list)

    async def list(self, options: ListOptions) -> ListPage:
        if options.limit == 1 and self.newest is not None:
            self.verified.append(asyncio.get_running_loop().time())
            return ListPage([], self.newest)
        self.asked.append(Asked("list", asyncio.get_running_loop().time(), options))
        answer = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        answer = await _head(answer)
        if isinstance(answer, Slowly):
            return ListPage(answer.items(), answer.rv)
        return ListPage(list(answer.items), answer.resource_version, answer.continue_token)

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
        self.asked.append(Asked("watch", asyncio.get_running_loop().time(), options))
        steps = await _head(self.watches.pop(0) if self.watches else [HANG])
        self.open += 1
        try:
            yield self._stream([options.timeout_seconds if step is TIMEOUT else step for step in steps])
        finally:
            self.open -= 1

    async def _stream(self, steps: Sequence[Any]) -> AsyncIterator[list[WatchEvent]]:
        for step in steps:
            if isinstance(step, list):
                yield step
            else:
                await _wait(step)

    def times(self, verb: str) -> list[float]:
        """Return when it was asked for, in seconds since the first request."""
        return [round(asked.at - self.asked[0].at, 3) for asked in self.asked if asked.verb == verb]

    def versions(self, verb: str) -> list[str | None]:
        return [asked.rv for asked in self.asked if asked.verb == verb]

    @property
    def verbs(self) -> list[str]:
        return [asked.verb for asked in self.asked]


async def _head(answer: Any) -> Any:
    if isinstance(answer, Late):
        await asyncio.sleep(answer.seconds)
        answer = answer.answer
    if answer is HANG or isinstance(answer, BaseException):
        await _wait(answer)
    return answer


@dataclass
class ProbedSource(ScriptedSource):
    """A scripted source that knows its tip, its cluster and whether the resource is served."""

    rv: str = "0"
    cluster_name: str | None = "cluster-1"
    present: bool | BaseException | None = True
    tips: list[float] = field(default_factory=list)
    tip_error: BaseException | None = None
    questions: list[float] = field(default_factory=list)

    async def tip(self) -> ServerTip:
        self.tips.append(asyncio.get_running_loop().time())
        if self.tip_error is not None:
            raise self.tip_error
        return ServerTip(self.rv, self.cluster_name)

    async def presence(self) -> bool | None:
        self.questions.append(asyncio.get_running_loop().time())
        if isinstance(self.present, BaseException):
            raise self.present
        return self.present


class RecordingStore:
    """Keeps objects by key, and every call as `(name, key)` or `("replace", keys, rv)`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.objects: dict[str, Any] = {}

    def add(self, obj: Any) -> None:
        self.calls.append(("add", obj.name))
        self.objects[obj.key] = obj

    def update(self, obj: Any) -> None:
        self.calls.append(("update", obj.name))
        self.objects[obj.key] = obj

    def delete(self, obj: Any) -> None:
        self.calls.append(("delete", obj.name))
        self.objects.pop(obj.key, None)

    def replace(self, items: list[Any], resource_version: str) -> None:
        self.calls.append(("replace", sorted(obj.name for obj in items), resource_version))
        self.objects = {obj.key: obj for obj in items}

    def resync(self) -> None:
        self.calls.append(("resync",))

    def bookmark(self, resource_version: str) -> None:
        self.calls.append(("bookmark", resource_version))

    def known(self, key: str) -> Any:
        return self.objects.get(key)

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] == name]
