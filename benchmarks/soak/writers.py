"""Writers: each has objects of its own, and knows for certain what became of each write."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.soak.truth import State, Truth
from kinformer import APIError, Client, NotFoundError

__all__ = ["CONFIG_MAPS", "NAMESPACES", "TIERS", "WIDGETS", "Kind", "Writers"]

NAMESPACES = ("soak-0", "soak-1", "soak-2")
TIERS = ("gold", "silver", "")
_PATIENCE = 5.0  # seconds for an answer; the result of a write without one is asked for afterwards


@dataclass(frozen=True)
class Kind:
    """A kind that is written to."""

    resource: str
    api_version: str
    kind: str
    base: str

    def path(self, key: str = "") -> str:
        namespace, _, name = key.partition("/")
        plural = self.resource.rpartition("/")[2]
        return f"{self.base}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")

    @property
    def all(self) -> str:
        return f"{self.base}/{self.resource.rpartition('/')[2]}"


CONFIG_MAPS = Kind("v1/configmaps", "v1", "ConfigMap", "/api/v1")
WIDGETS = Kind("soak.kinformer.dev/v1/widgets", "soak.kinformer.dev/v1", "Widget", "/apis/soak.kinformer.dev/v1")


class Writers:
    """So many tasks that create, update, relabel, delete and recreate.

    Args:
        client: With all rights.
        rate: Changes a second, of all together.
        seed: Of their choices.
    """

    def __init__(self, client: Client, *, rate: float, seed: int, tasks: int = 4, keys: int = 60) -> None:
        self.truths = {kind: Truth() for kind in (CONFIG_MAPS, WIDGETS)}
        self.unsure = 0
        self._client = client
        self._pause = tasks / rate
        self._tasks = tasks
        self._keys = keys
        self._seed = seed
        self._open = asyncio.Event()
        self._open.set()
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._tasks):
                group.create_task(self._write(number, random.Random(self._seed * 1000 + number)))

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """No write is under way, and none begins."""
        self._open.clear()
        try:
            await self._idle.wait()
            yield
        finally:
            self._open.set()

    async def _write(self, number: int, choice: random.Random) -> None:
        while True:
            await asyncio.sleep(choice.expovariate(1 / self._pause))
            await self._open.wait()
            self._busy += 1
            self._idle.clear()
            try:
                kind = CONFIG_MAPS if choice.random() < 0.8 else WIDGETS
                key = f"{choice.choice(NAMESPACES)}/w{number}-{choice.randrange(self._keys)}"
                await self._change(kind, key, choice)
            finally:
                self._busy -= 1
                if not self._busy:
                    self._idle.set()

    async def _change(self, kind: Kind, key: str, choice: random.Random) -> None:
        before = self.truths[kind].last(key)
        roll = choice.random()
        try:
            async with asyncio.timeout(_PATIENCE):
                if before is None:
                    await self._create(kind, key, choice)
                elif roll < 0.15:
                    await self._delete(kind, key)
                elif roll < 0.25:
                    await self._delete(kind, key)
                    await self._create(kind, key, choice)
                else:
                    await self._update(kind, key, before, choice)
        except (TimeoutError, ConnectionError, APIError):
            self.unsure += 1
            await self._ask(kind, key)

    def _note(self, kind: Kind, key: str, answer: Any) -> None:
        self.truths[kind].note(key, None if answer is None else State.of(answer))

    async def _create(self, kind: Kind, key: str, choice: random.Random) -> None:
        answer = await self._client.request(
            "POST", kind.path(key.partition("/")[0] + "/"), body=_body(kind, key, choice)
        )
        self._note(kind, key, answer)

    async def _update(self, kind: Kind, key: str, before: State, choice: random.Random) -> None:
        body = _body(kind, key, choice)
        body["metadata"]["resourceVersion"] = before.version
        self._note(kind, key, await self._client.request("PUT", kind.path(key), body=body))

    async def _delete(self, kind: Kind, key: str) -> None:
        await self._client.request("DELETE", kind.path(key))
        self._note(kind, key, None)

    async def _ask(self, kind: Kind, key: str) -> None:
        """The result of a write without an answer."""
        while True:
            try:
                async with asyncio.timeout(_PATIENCE):
                    self._note(kind, key, await self._client.request("GET", kind.path(key)))
                return
            except NotFoundError:
                self._note(kind, key, None)
                return
            except (TimeoutError, ConnectionError, APIError):
                await asyncio.sleep(0.2)

    async def contents(self, kind: Kind) -> dict[str, Any]:
        """The objects of the server, by key, without managedFields; also noted in the truth. Called while held."""
        answer = await self._client.request("GET", kind.all)
        objects = [item for item in answer["items"] if item["metadata"]["namespace"] in NAMESPACES]
        for obj in objects:
            obj["metadata"].pop("managedFields", None)
            obj |= {"apiVersion": kind.api_version, "kind": kind.kind}  # a list of a built-in kind leaves them out
        self.truths[kind].note_all(objects)
        return {f"{obj['metadata']['namespace']}/{obj['metadata']['name']}": obj for obj in objects}


def _body(kind: Kind, key: str, choice: random.Random) -> dict[str, Any]:
    namespace, _, name = key.partition("/")
    tier = choice.choice(TIERS)
    content = {"shard": str(choice.randrange(8)), "text": "x" * choice.randrange(600)}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {"tier": tier} if tier else {}},
        ("data" if kind is CONFIG_MAPS else "spec"): content,
    }
