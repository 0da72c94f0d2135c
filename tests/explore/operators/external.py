"""Systems outside of the cluster, which the operators call: plain objects that keep what they were told."""

from __future__ import annotations

import asyncio

LATENCY = 0.01


class Cloud:
    """Buckets by name."""

    def __init__(self) -> None:
        self.buckets: dict[str, str] = {}

    async def make(self, name: str, owner: str) -> None:
        await asyncio.sleep(LATENCY)
        self.buckets[name] = owner

    async def delete(self, name: str) -> None:
        await asyncio.sleep(LATENCY)
        self.buckets.pop(name, None)


class Bank:
    """Charges; the ones with the same key are one."""

    def __init__(self) -> None:
        self.charges: list[tuple[str, str]] = []  # order, key

    async def charge(self, order: str, key: str) -> None:
        await asyncio.sleep(LATENCY)
        if not key or (order, key) not in self.charges:
            self.charges.append((order, key))
        await asyncio.sleep(LATENCY)
