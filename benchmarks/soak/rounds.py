"""The rounds of a soak: writers and faults for a while, and then a checkpoint at which all must agree."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from benchmarks.soak.chaos import EmbeddedChaos, RealChaos
from benchmarks.soak.writers import Writers
from kinformer import Client
from kinformer.listwatch.head_limit import LONG_HEAD_TIMEOUT
from kinformer.testing import APIServer, ControlPlane

__all__ = ["SETTLED", "Disagreement", "Rounds"]

_ROUND = 10.0  # seconds between two checkpoints
# Seconds that all have to come to agree once nothing is wrong any more. The last fault may have swallowed a list after
# one that took too long.
SETTLED = LONG_HEAD_TIMEOUT + 25


class Disagreement(AssertionError):
    """At a checkpoint a follower had not seen the truth."""


class Rounds:
    """Writers, the faults of a server, and checkpoints.

    Args:
        server: Where.
        client: With all rights.
        seed: Of every choice.
        rate: Changes a second.

    Attributes:
        checkpoints: The number of those at which all agreed.
    """

    def __init__(self, server: APIServer | ControlPlane, client: Client, seed: int, rate: float) -> None:
        self.writers = Writers(client, rate=rate, seed=seed)
        chaos: Any = EmbeddedChaos if isinstance(server, APIServer) else RealChaos
        self.chaos: EmbeddedChaos | RealChaos = chaos(server, client, self.writers, seed)
        self.checkpoints = 0

    @staticmethod
    def connection(server: APIServer | ControlPlane) -> dict[str, Any]:
        """Return the arguments of a connection to the server."""
        if isinstance(server, ControlPlane):
            return {"kubeconfig": str(server.kubeconfig(server.folder / "soak"))}
        return {"url": server.url}

    @property
    def followers(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        """What is entered for the whole run."""
        raise NotImplementedError

    def restless(self) -> list[Coroutine[Any, Any, None]]:
        """Return what goes on until the checkpoint of a round."""
        return [self.chaos.run()]

    async def disagreements(self, contents: dict[Any, dict[str, Any]]) -> list[str]:
        """Return how followers differ from the truth, after a time to catch up. The writers are held."""
        raise NotImplementedError

    async def forget(self) -> None:
        """Forget what all have seen."""
        raise NotImplementedError

    async def run(self, seconds: float) -> None:
        """Rounds of `_ROUND` seconds, each with a checkpoint at its end."""
        end = time.monotonic() + seconds
        async with AsyncExitStack() as stack:
            for follower in self.followers:
                await stack.enter_async_context(follower)
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(self.writers.run())
                while time.monotonic() < end:
                    await self._round(group, min(_ROUND, max(1.0, end - time.monotonic())))
                writing.cancel()

    async def _round(self, group: asyncio.TaskGroup, seconds: float) -> None:
        restless = {group.create_task(one) for one in self.restless()}
        await asyncio.sleep(seconds)
        for task in restless:
            task.cancel()
        await asyncio.wait(restless)
        self.chaos.heal()
        async with self.writers.held():
            contents = {kind: await self.writers.contents(kind) for kind in self.writers.truths}
            if wrong := await self.disagreements(contents):
                raise Disagreement("\n".join(wrong[:20]))
            await self.forget()
            for truth in self.writers.truths.values():
                truth.forget()
            await self.chaos.tidy()
            self.checkpoints += 1

    @property
    def faults(self) -> int:
        """Faults that have struck."""
        return sum(self.chaos.counts.values())

    def line(self) -> str:
        """The state of the run."""
        changes = sum(truth.changes for truth in self.writers.truths.values())
        return f"{self.checkpoints} checkpoints, {changes} changes ({self.writers.unsure} unsure), {self.faults} faults"
