"""A worker as a real process, which says on stdout what it sees.

    python -m tests.watchcache.share.worker_process URL SOCKET

A line is `event NAME VERSION TIME` (on CLOCK_BOOTTIME) for each call of its handler, `wrong SENTENCE` for a call that
contradicts those before it, and `role ROLE LIVE RELISTS` ten times a second.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from kinformer import Client, KubeObject, SharedInformerFactory
from kinformer.watchcache import Share
from tests.support.line_process import LineProcess, boot_time, say
from tests.support.mirror import Mirror


class WorkerProcess(LineProcess):
    """A process of this module."""

    @classmethod
    async def begin(cls, url: str, path: Path) -> WorkerProcess:
        return await cls.start("worker", sys.executable, "-m", __spec__.name, url, str(path))

    def last(self, word: str) -> list[str]:
        """Return the last line that begins with a word, or []."""
        return next((line for line in reversed(self.lines) if line[0] == word), [])

    @property
    def role(self) -> str:
        return (self.last("role") or ["", ""])[1]

    @property
    def live(self) -> bool:
        return (self.last("role") or ["", "", ""])[2] == "True"

    @property
    def seen(self) -> dict[str, float]:
        """The time of each event, by its name and version."""
        return {f"{line[1]} {line[2]}": float(line[3]) for line in self.lines if line[0] == "event"}


class _Handler(Mirror):
    def on_add(self, obj: KubeObject, *, is_in_initial_list: bool) -> None:
        super().on_add(obj, is_in_initial_list=is_in_initial_list)
        self._say(obj)

    def on_update(self, old: KubeObject, new: KubeObject) -> None:
        super().on_update(old, new)
        self._say(new)

    def _say(self, obj: KubeObject) -> None:
        say("event", obj.name, obj.resource_version, boot_time())
        while self.wrong:
            say("wrong", self.wrong.pop())


async def main(url: str, path: str) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with Client.from_url(url) as client, SharedInformerFactory(client, share=Share(path)) as factory:
        maps = factory.for_resource("v1/configmaps")
        maps.add_event_handler(_Handler())
        while not ended.is_set():
            assert factory.shared_cache is not None
            health = maps.health()
            say("role", factory.shared_cache.role if health.synced else "unsynced", health.live, health.relists)
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
