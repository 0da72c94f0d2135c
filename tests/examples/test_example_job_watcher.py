"""The watcher in examples/job_watcher: a process, a queue, and adoption told from deletion."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kinformer import InformerEvent, KubeObject
from kinformer.testing import APIServer
from tests.examples.example_program import imported
from tests.support.kube import pod
from tests.support.waiting import until

OURS, THEIRS = {"executor": "one"}, {"executor": "two"}


@pytest.fixture
def job_watcher(monkeypatch: pytest.MonkeyPatch) -> Any:
    return imported("job_watcher/job_watcher.py", monkeypatch)


@pytest.fixture
def watcher(server: APIServer, job_watcher: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
    watcher = job_watcher.JobWatcher("executor=one")
    yield watcher
    if watcher.exit_status is None:
        watcher.stop()
    watcher.results.close()


class Told:
    """What has come through the queue so far."""

    def __init__(self, watcher: Any) -> None:
        self._watcher = watcher
        self._results: list[Any] = []

    def __call__(self) -> list[tuple[str, str]]:
        while True:
            try:
                self._results.append(self._watcher.results.get_nowait())
            except queue.Empty:
                return [(one.state, one.key.removeprefix("default/")) for one in self._results]

    async def last(self, name: str, state: str) -> Any:
        """Wait until the last word on a pod is this state, and return its result."""
        await until(
            lambda: [word for word, key in self() if key == name][-1:], 30, holds=lambda found: found == [state]
        )
        return [one for one in self._results if one.key == f"default/{name}"][-1]


def change(server: APIServer, name: str, **fields: Any) -> None:
    server.update(pod(name, **{"labels": OURS, **fields}))


@pytest.mark.process
async def test_an_executor_is_told_each_state_once_and_adoption_is_no_deletion(server: APIServer, watcher: Any) -> None:
    server.create(pod("a", phase="Pending", labels=OURS))
    server.create(pod("theirs", labels=THEIRS))
    watcher.start()
    told = Told(watcher)
    await until(lambda: ("synced", "") in told(), 30)
    assert told() == [("pending", "a"), ("synced", "")]
    assert watcher.live

    change(server, "a", phase="Running")
    change(server, "a", phase="Running", annotations={"seen": "yes"})
    failed = {"name": "main", "ready": False, "state": {"terminated": {"exitCode": 3}}}
    change(server, "a", phase="Failed", status={"containerStatuses": [failed]})
    assert (await told.last("a", "failed")).exit_code == 3
    assert [state for state, name in told() if name == "a"] == ["pending", "running", "failed"]

    server.create(pod("b", labels=OURS))
    server.create(pod("c", labels=OURS))
    server.create(pod("d", labels=OURS, finalizers=["example.com/drain"]))
    await told.last("d", "running")
    server.update(pod("b", labels=THEIRS))
    await told.last("b", "adopted")
    server.delete("v1/pods", "default", "c")
    await told.last("c", "deleted")
    server.delete("v1/pods", "default", "d")  # its finalizer keeps it
    change(server, "d", labels=THEIRS, finalizers=["example.com/drain"])
    await told.last("d", "deleted")
    assert ("running", "theirs") not in told()

    watcher.stop()
    assert watcher.exit_status == 0
    assert not watcher.live


@pytest.mark.process
async def test_what_happened_while_the_server_was_away_is_told_apart_too(server: APIServer, watcher: Any) -> None:
    for name in ("gone", "adopted", "replaced", "done"):
        server.create(pod(name, labels=OURS))
    watcher.start()
    told = Told(watcher)
    await until(lambda: ("synced", "") in told(), 30)
    away = asyncio.create_task(server.restart(0.5))
    await asyncio.sleep(0.1)
    server.delete("v1/pods", "default", "gone")
    server.update(pod("adopted", labels=THEIRS))
    server.delete("v1/pods", "default", "replaced")
    server.create(pod("replaced", labels=THEIRS))
    change(server, "done", phase="Succeeded")
    await server.compact()
    await away
    for name, state in (("gone", "deleted"), ("adopted", "adopted"), ("replaced", "deleted"), ("done", "succeeded")):
        await told.last(name, state)
    assert len(told()) == 9
    assert watcher.exit_status is None


@pytest.mark.process
async def test_a_watcher_that_must_not_read_ends_and_says_so(
    job_watcher: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with APIServer(users={"t0ken": "reader"}, rules=[]) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig", "reader")))
        watcher = job_watcher.JobWatcher("executor=one")
        watcher.start()
        await until(lambda: watcher.exit_status is not None, 30)
        assert watcher.exit_status == 1
        watcher.results.close()


def test_a_pod_that_ended_and_was_deleted_unseen_has_the_end_that_is_known(job_watcher: Any) -> None:
    ended = KubeObject.from_dict(pod("a", rv=1, phase="Succeeded"))
    event = InformerEvent("DELETED", ended, None, False, True)
    result = job_watcher.result_of(event, lambda _: None)
    assert (result.state, result.uid) == ("succeeded", ended.uid)
