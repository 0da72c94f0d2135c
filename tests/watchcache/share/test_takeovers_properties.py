"""Any history of writes, faults and takeovers: each handler is told a history that one informer could have had."""

from __future__ import annotations

import asyncio
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.virtual_time import VirtualTimeLoop
from tests.support.waiting import until
from tests.watchcache.share.workers import MAPS, Worker, go_back

pytestmark = pytest.mark.slow

WRITES = st.tuples(st.sampled_from(["set", "set", "set", "delete"]), st.sampled_from("abcdef"))
TURNS = st.tuples(st.sampled_from(["turns", "pause"]), st.integers(1, 20).map(str))
LIVES = st.tuples(st.sampled_from(["kill", "stop", "start", "kill follower"]), st.just(""))
FAULTS = st.tuples(st.sampled_from(["cut", "compact"]), st.just(""))
REWINDS = st.tuples(st.just("rewind"), st.integers(1, 8).map(str))
HISTORIES = st.lists(st.one_of(WRITES, WRITES, WRITES, TURNS, LIVES, FAULTS), min_size=5, max_size=60)
REWOUND = st.lists(st.one_of(WRITES, WRITES, WRITES, TURNS, LIVES, FAULTS, REWINDS), min_size=5, max_size=60)

# Shrinking takes minutes, and would end at the time limit of the test, which hides the assertion.
PHASES = [phase for phase in Phase if phase is not Phase.shrink]


class Story:
    """A server, its true history, and the workers that live or have lived.

    Attributes:
        told: `(call, name, resourceVersion)` for each write, in order. A delete has no version.
        oldest: The earliest version to which the server can be restored.
        has_gone_back: True once the server was restored to an earlier state.
    """

    def __init__(self, server: APIServer, path: Path) -> None:
        self.server = server
        self.path = path
        self.told: list[tuple[str, str, str]] = []
        self.names: set[str] = set()
        self.living: list[Worker] = []
        self.all: list[Worker] = []
        self.ends: list[asyncio.Task[None]] = []
        self.oldest = int(server.resource_version)
        self.has_gone_back = False

    async def start(self) -> None:
        worker = Worker(self.server, self.path)
        self.all.append(worker)
        await worker.start()
        self.living.append(worker)

    def write(self, what: str, name: str) -> None:
        if what == "delete":
            if name in self.names:
                self.names.remove(name)
                self.server.delete(MAPS, "default", name)
                self.told.append(("delete", name, ""))
            return
        document = config_map(name, data={"n": str(len(self.told))})
        made = self.server.update(document) if name in self.names else self.server.create(document)
        self.told.append(("update" if name in self.names else "add", name, made["metadata"]["resourceVersion"]))
        self.names.add(name)

    async def do(self, what: str, value: str) -> None:
        match what:
            case "set" | "delete":
                self.write(what, value)
            case "turns":
                for _ in range(int(value)):
                    await asyncio.sleep(0)
            case "pause":
                await asyncio.sleep(int(value) / 500)
            case "start" if len(self.living) < 5:
                await self.start()
            case "kill" | "stop" | "kill follower" if len(self.living) > 1:
                is_holder = what != "kill follower"
                gone = next((one for one in self.living if (one.share.role == "holder") is is_holder), None)
                if gone is not None:
                    self.living.remove(gone)
                    end = gone.stop() if what == "stop" else gone.kill()
                    self.ends.append(asyncio.ensure_future(end))
            case "cut":
                await self.server.restart()
            case "compact":
                await self.server.compact()
                self.oldest = int(self.server.resource_version)
            case "rewind" if (most := int(self.server.resource_version) - self.oldest) > 0:
                await go_back(self.server, min(int(value), most))
                self.has_gone_back = True
                self.names = {obj["metadata"]["name"] for obj in self.server.list(MAPS)}
                await self.all_agree()  # a server that has passed the version again before anyone looks is believed

    async def all_agree(self) -> None:
        true = {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in self.server.list(MAPS)}
        for worker in self.living:
            await until(partial(_has, worker, true), 60, what=f"a cache and a handler of {true}")

    async def settle(self) -> None:
        await asyncio.gather(*self.ends)
        self.write("set", "last")  # who has it has had everything before, also what came and went
        await self.all_agree()

    def check(self) -> None:
        for worker in self.all:
            assert not worker.mirror.wrong
        if not self.has_gone_back:
            self.check_order()

    def check_order(self) -> None:
        """Check that no handler was told an old version or missed a change. After a rewind, both may be in order."""
        for worker in self.all:
            newest: dict[str, int] = {}
            for _, name, version in worker.mirror.calls:
                if isinstance(version, str):
                    assert int(version) > newest.get(name, 0), f"{name} went back to {version}"
                    newest[name] = int(version)
        for worker in self.living:
            changes = worker.mirror.changes
            if worker.maps.health().relists == 0:
                assert changes == self.told[len(self.told) - len(changes) :]


def _by_name(versions: dict[str, str]) -> dict[str, str]:
    return {key.rpartition("/")[2]: version for key, version in versions.items()}


def _has(worker: Worker, true: dict[str, str]) -> bool:
    told = {key: version for key, (_, version) in worker.mirror.known.items()}
    return _by_name(worker.versions) == _by_name(told) == true


async def live_through(steps: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory(prefix="kf") as folder:
        async with APIServer() as server:
            story = Story(server, Path(folder) / "cache.sock")
            try:
                for _ in range(3):
                    await story.start()
                for what, value in steps:
                    await story.do(what, value)
                await story.settle()
                story.check()
            finally:
                for worker in story.living:
                    await worker.stop()


def run(steps: list[tuple[str, Any]]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:  # pauses of retries cost nothing
        runner.run(live_through(steps))


@settings(max_examples=50, phases=PHASES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(HISTORIES)
def test_any_history_with_takeovers_ends_in_the_truth(steps: list[tuple[str, Any]]) -> None:
    run(steps)


@settings(max_examples=20, phases=PHASES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(REWOUND)
def test_any_history_with_takeovers_and_rewinds_ends_in_the_truth(steps: list[tuple[str, Any]]) -> None:
    run(steps)
