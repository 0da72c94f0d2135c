"""A line of a watch passes the modules that docs/architecture.md names, and no other of the core."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import kinformer
from kinformer import SharedInformerFactory
from kinformer.testing import APIServer
from tests.support.interpreter import FREE_THREADED

PACKAGE = Path(inspect.getfile(kinformer)).parent
PAGE = PACKAGE.parent / "docs" / "architecture.md"
MOST = 11
OF_THE_SERVER = ("testing", "apiserver")  # the embedded server runs in the same process
WITHOUT_GIL = {"cache/exclusion.py"} if FREE_THREADED else set()  # the lock that the page names below its table


class Walk:
    """The modules of the core in which something was done; a coroutine that only waits for another does nothing."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self._resumed_at: dict[FrameType, int] = {}
        self._did: dict[FrameType, int] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self._resumed_at[frame] = frame.f_lineno
            self._did[frame] = 0
            self._count(frame.f_back)
        elif event == "return":
            before = self._resumed_at.pop(frame, -1)
            waits = frame.f_lineno == before and self._did.pop(frame, 0) <= 1
            if not waits:
                self._note(frame)
        elif event == "c_call":
            self._count(frame)
            self._count(frame)

    def _count(self, frame: FrameType | None) -> None:
        if frame in self._did:
            self._did[frame] += 1

    def _note(self, frame: FrameType) -> None:
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(PACKAGE):
            return
        module = path.relative_to(PACKAGE)
        if module.parts[0] not in OF_THE_SERVER:
            self.modules.add(module.as_posix())


@contextmanager
def walking() -> Iterator[Walk]:
    walk, before = Walk(), sys.getprofile()
    sys.setprofile(walk)
    try:
        yield walk
    finally:
        sys.setprofile(before)


def documented() -> set[str]:
    section = PAGE.read_text(encoding="utf-8").split("## A watch line, hop by hop")[1].split("\n## ")[0]
    return set(re.findall(r"^\| .* \| `([\w/]+\.py)` \|", section, re.MULTILINE))


async def test_an_event_touches_the_modules_of_the_documentation_and_no_other() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
    called = asyncio.Event()

    async def on_update(old: Any, new: Any) -> None:
        called.set()

    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        server.create(config)
        informer = factory.for_resource("v1/configmaps")
        informer.add_event_handler(on_update=on_update)
        await factory.wait_for_cache_sync(10)
        for number in range(3):  # the first lines of a stream teach the fast path what lines look like
            called.clear()
            server.update({**config, "data": {"turn": str(number)}})
            await called.wait()
            await asyncio.sleep(0.01)
        called.clear()
        server.update({**config, "data": {"turn": "last"}})
        with walking() as walk:
            await called.wait()
    assert walk.modules == documented() | WITHOUT_GIL
    assert len(documented()) <= MOST
