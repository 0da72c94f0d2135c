"""A disk that is full: no try of a snapshot leaves anything on it, and the old file stays.

Internals: the writer, since an informer is not cancelled at a chosen write.
"""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kinformer import SharedInformer, Snapshot
from kinformer.snapshot.file import SnapshotWriter
from kinformer.snapshot.format import SnapshotHeader
from tests.support.log_records import Said, records, said
from tests.support.resumable_source import ResumableSource, filled
from tests.support.waiting import until

REAL_OPEN, REAL_FDOPEN = os.open, os.fdopen


def on_a_full_disk(path: Any, flags: int, *more: Any, **options: Any) -> int:
    """Make the file, and return a descriptor that takes no byte: `write` and `close` of a file on it fail."""
    descriptor = REAL_OPEN(path, flags, *more, **options)
    if not str(path).endswith(".tmp"):
        return descriptor
    os.close(descriptor)
    return REAL_OPEN("/dev/full", os.O_WRONLY)


class FailsInTheMiddle(io.FileIO):
    """A file on a disk that has room for a few bytes more."""

    room = 150

    def write(self, data: Any) -> int:
        size = min(memoryview(data).nbytes, self.room)
        if not size:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= size
        return super().write(memoryview(data).cast("B")[:size])


def filling_up(descriptor: int, mode: str) -> Any:
    return io.BufferedWriter(FailsInTheMiddle(descriptor, "wb")) if mode == "wb" else REAL_FDOPEN(descriptor, mode)


class FailsAtTheEnd(io.BufferedWriter):
    """A file whose disk says only when it is closed that there was no room, as NFS and quotas may."""

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        raise OSError(errno.ENOSPC, "No space left on device")


def closing_fails(descriptor: int, mode: str) -> Any:
    return FailsAtTheEnd(io.FileIO(descriptor, "wb")) if mode == "wb" else REAL_FDOPEN(descriptor, mode)


@pytest.fixture(params=["write", "middle", "close"])
def fill(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes the disk full. `write` fails at once or after some bytes, or only `close` does."""
    if request.param != "write":
        fails = closing_fails if request.param == "close" else filling_up
        return lambda: monkeypatch.setattr(os, "fdopen", fails)
    if not sys.platform.startswith("linux"):
        pytest.skip("there is no /dev/full")
    return lambda: monkeypatch.setattr(os, "open", on_a_full_disk)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "configmaps.snapshot"


def contents(path: Path) -> bytes:
    return path.read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(child.name for child in folder.iterdir())


async def one_life(source: ResumableSource, path: Path) -> None:
    async with SharedInformer(source, snapshot=path) as informer:
        await informer.wait_synced(10)
    assert informer.statistics().snapshots["saved"] == 1


@pytest.mark.parametrize("size", [1, 100_000], ids=["small", "large"])
async def test_no_try_leaves_a_file_and_the_old_one_stays(
    path: Path, size: int, fill: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    source = filled(3)
    await one_life(source, path)
    before = contents(path)
    fill()
    source = source.restarted()
    async with SharedInformer(source, snapshot=Snapshot(path, interval=0.01)) as informer:
        await informer.wait_synced(10)
        for tries in range(1, 6):
            source.set("new", data={"v": str(tries) * size})
            await until(lambda tries=tries: informer.statistics().snapshots.get("failed", 0) >= tries, 10)
    failed = informer.statistics().snapshots["failed"]
    assert failed >= 5
    assert "saved" not in informer.statistics().snapshots
    assert names(path.parent) == [path.name]
    assert contents(path) == before
    assert said(caplog, "failed") == [Said("WARNING", "kinformer.snapshot", "v1/configmaps")] * failed
    assert all("No space left on device" in record.getMessage() for record in records(caplog, "failed"))
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == failed


async def test_a_writer_that_is_cancelled_on_a_full_disk_is_cancelled(path: Path, fill: Callable[[], None]) -> None:
    """An error of the cleaning up in place of the cancellation would have the keeper go on."""
    fill()
    opened = asyncio.Event()

    async def write() -> None:
        header = {
            "contents": {},
            "resource_versions": {"": "1"},
            "cluster": None,
            "objects": 1,
            "taken_at": time.time(),
        }
        async with SnapshotWriter(path) as writer:
            await writer.header(SnapshotHeader(**header))  # type: ignore[arg-type]
            opened.set()
            await asyncio.Event().wait()

    writing = asyncio.create_task(write())
    async with asyncio.timeout(10):
        await opened.wait()
        writing.cancel()
        await asyncio.wait({writing})
    assert writing.cancelled()
    assert names(path.parent) == []


async def test_a_file_that_cannot_be_removed_is_logged(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def read_only(self: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(Path, "unlink", read_only)
    async with SharedInformer(filled(3), snapshot=path) as informer:
        await informer.wait_synced(10)
    assert informer.statistics().snapshots["failed"] == 1
    first, second = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert records(caplog, "failed") == [first, second]
    assert re.search(r"\.tmp\b.*Read-only file system", first.getMessage())
    assert re.search(r"configmaps\.snapshot\b.*No space left on device", second.getMessage())
