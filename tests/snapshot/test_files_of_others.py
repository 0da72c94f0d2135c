"""Files that another user may have written, that two processes share, or that change while they are read.

Internals: the writer, of which one process has no two with the same name, and what reads a file.
"""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kinformer import SharedInformer, Snapshot
from kinformer.snapshot import file as snapshot_file
from kinformer.snapshot.file import SnapshotReader, SnapshotWriter
from kinformer.snapshot.format import SnapshotHeader, SnapshotRefusedError
from tests.snapshot.test_snapshot import contents, damage, doubted, names, one_life, outcomes
from tests.support.log_records import Said, message_of, said
from tests.support.resumable_source import ResumableSource, filled, read_file
from tests.support.waiting import until

ANOTHER = 54321  # the uid of another user

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no owners and modes of files")
as_root = pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() != 0, reason="only root can give a file to another user"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "configmaps.snapshot"


@pytest.fixture
async def source(path: Path) -> ResumableSource:
    """A server whose snapshot is in the file."""
    source = filled(3)
    await one_life(source, path)
    return source.restarted()


def set_mode(path: Path, mode: int) -> None:
    path.chmod(mode)


def status_of(path: Path) -> os.stat_result:
    return path.lstat()


def as_a_link(path: Path, *, to_nothing: bool) -> Path:
    """Put a link in the place of a file, which is now elsewhere."""
    elsewhere = path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("nothing") if to_nothing else elsewhere)
    return elsewhere


@contextmanager
def as_another_user(path: Path) -> Iterator[None]:
    """Act as a user who may read a file of root's."""
    path.chmod(0o644)
    closed = [folder for folder in path.parents if not folder.stat().st_mode & 0o005]
    modes = [folder.stat().st_mode for folder in closed]
    for folder in closed:
        folder.chmod(0o755)
    os.seteuid(ANOTHER)
    try:
        yield
    finally:
        os.seteuid(0)
        for folder, mode in zip(closed, modes, strict=True):
            folder.chmod(mode)


# --- who may have written it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o660, 0o666])
async def test_a_file_that_others_may_write_to_is_not_read(path: Path, source: ResumableSource, mode: int) -> None:
    set_mode(path, mode)
    await doubted(source, path, "unreadable")
    assert status_of(path).st_mode & 0o777 == 0o600, "the next one is trusted again"
    informer, _ = await one_life(source.restarted(), path)
    assert outcomes(informer) == {"loaded": 1}


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o644])
async def test_a_file_that_others_may_read_is_read(path: Path, source: ResumableSource, mode: int) -> None:
    set_mode(path, mode)
    informer, _ = await one_life(source, path)
    assert outcomes(informer) == {"loaded": 1}


@as_root
async def test_a_file_of_another_user_is_not_read(
    path: Path, source: ResumableSource, caplog: pytest.LogCaptureFixture
) -> None:
    os.chown(path, ANOTHER, -1)
    await doubted(source, path, "unreadable")
    assert said(caplog, "unreadable") == [Said("WARNING", "kinformer.snapshot", "v1/configmaps")]
    assert f"uid {ANOTHER}" in message_of(caplog, "unreadable")
    assert status_of(path).st_uid == 0, "the next one is trusted again"


@as_root
async def test_a_file_of_root_is_read_by_another_user(path: Path, source: ResumableSource) -> None:
    await one_life(source.restarted(), path)  # so that nothing is left to import
    with as_another_user(path):
        informer, _ = await one_life(source, path)
    assert outcomes(informer) == {"loaded": 1}


@pytest.mark.parametrize("to", ["file", "nothing"])
async def test_a_link_is_not_read_and_replaced(path: Path, source: ResumableSource, to: str) -> None:
    elsewhere = as_a_link(path, to_nothing=to == "nothing")
    before = contents(elsewhere)
    await doubted(source, path, "unreadable")
    assert stat.S_ISREG(status_of(path).st_mode)
    assert contents(elsewhere) == before


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
async def test_a_file_in_a_folder_that_others_may_write_to_is_not_read(
    path: Path, source: ResumableSource, mode: int
) -> None:
    path.parent.chmod(mode)
    await doubted(source, path, "unreadable")


async def test_a_folder_that_others_may_write_to_is_found_before_it_has_a_file(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o777)
    await doubted(filled(3), path, "unreadable")


@as_root
async def test_a_file_in_a_folder_of_another_user_is_not_read(path: Path, source: ResumableSource) -> None:
    os.chown(path.parent, ANOTHER, -1)
    await doubted(source, path, "unreadable")


async def test_a_file_in_a_sticky_folder_is_read(path: Path, source: ResumableSource) -> None:
    """As in /tmp, where others can neither rename nor remove it."""
    path.parent.chmod(0o1777)
    informer, _ = await one_life(source, path)
    assert outcomes(informer) == {"loaded": 1}


@as_root
async def test_a_file_that_another_user_was_quick_to_put_into_a_sticky_folder_is_not_read(
    path: Path, source: ResumableSource
) -> None:
    path.parent.chmod(0o1777)
    os.chown(path, ANOTHER, -1)
    await doubted(source, path, "unreadable")


async def test_a_folder_behind_a_link_is_judged_by_itself(tmp_path: Path, path: Path, source: ResumableSource) -> None:
    """/var/run is a link to /run."""
    link = tmp_path / "link"
    link.symlink_to(path.parent)
    informer, _ = await one_life(source, link / path.name)
    assert outcomes(informer) == {"loaded": 1}
    path.parent.chmod(0o777)
    await doubted(source.restarted(), link / path.name, "unreadable")


async def test_a_file_that_is_exchanged_after_it_was_opened_is_not_read(
    path: Path, source: ResumableSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fstat

    def exchange(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        if stat.S_ISREG(status.st_mode):
            path.unlink(missing_ok=True)
            path.write_bytes(b"from another user")
        return status

    monkeypatch.setattr(os, "fstat", exchange)
    informer, _ = await one_life(source, path)
    assert outcomes(informer) == {"loaded": 1}


async def test_all_missing_folders_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c" / "configmaps.snapshot"
    before = os.umask(0)
    try:
        await one_life(filled(3), path)
    finally:
        os.umask(before)
    assert {folder.stat().st_mode & 0o777 for folder in (*path.parents[:3],)} == {0o700}


# --- two processes on one file ----------------------------------------------------------------------------------------


def header(objects: int = 0) -> SnapshotHeader:
    return SnapshotHeader(
        contents={}, resource_versions={"": str(objects)}, cluster=None, objects=objects, taken_at=time.time()
    )


@contextmanager
def in_a_container(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As the first process of a container, all of which have the number 1."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: 1)
        patched.setattr(snapshot_file, "_numbers", itertools.repeat(1), raising=False)
        yield


async def test_two_containers_that_write_at_once_leave_one_whole_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with in_a_container(monkeypatch):
        async with SnapshotWriter(path) as first, SnapshotWriter(path) as second:
            await first.header(header())
            await second.header(header())
            await first.commit()
            assert read_file(path)[1] == []
            await second.commit()
    assert read_file(path)[1] == []
    assert names(path.parent) == [path.name]


async def test_the_files_of_two_containers_have_different_names(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for _ in range(2):
        with in_a_container(monkeypatch):
            async with SnapshotWriter(path):
                seen.add(tuple(names(path.parent)))
    assert len(seen) == 2


async def test_of_two_informers_on_one_file_the_last_one_wins_and_the_file_is_always_whole(path: Path) -> None:
    sources = filled(50), filled(50)
    for number in range(20):
        sources[1].set(f"more{number}")
    options = Snapshot(path, interval=0.01)
    async with SharedInformer(sources[0], snapshot=options) as one, SharedInformer(sources[1], snapshot=options) as two:
        await one.wait_synced(10)
        await two.wait_synced(10)
        for round_ in range(10):
            for source in sources:
                source.set("changing", data={"round": str(round_)})
            await until(lambda least=round_: min(saved(one), saved(two)) > least, 10)
            assert len(read_file(path)[1]) in (50, 51, 70, 71)
    assert outcomes(one).keys() <= {"missing", "saved"}
    informer, _ = await one_life(
        sources[0].restarted() if len(read_file(path)[1]) == 51 else sources[1].restarted(), path
    )
    assert outcomes(informer)["loaded"] == 1


def saved(informer: SharedInformer) -> int:
    return informer.statistics().snapshots.get("saved", 0)


@as_root
async def test_a_file_that_another_user_left_in_a_sticky_folder_keeps_nobody_from_writing(
    path: Path, source: ResumableSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = path.with_name(f".{path.name}.old.tmp")
    old.write_text("half")
    os.utime(old, (1, 1))
    real = Path.unlink

    def refuse(self: Path, missing_ok: bool = False) -> None:
        if self == old:
            raise PermissionError(1, "Operation not permitted")
        real(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    source.set("new")
    informer, _ = await one_life(source, path)
    assert outcomes(informer) == {"loaded": 1, "saved": 1}


# --- a file that changes while it is read -----------------------------------------------------------------------------


async def read_while(path: Path, change: Callable[[], Any]) -> int:
    """The objects that are read from a file that is changed after its header was read."""
    async with SnapshotReader(path) as reader:
        change()
        return sum([len(blocks) async for blocks in reader.batches()])


@pytest.mark.parametrize("how", ["grows", "grows without end", "shrinks", "is overwritten"])
async def test_a_file_that_changes_while_it_is_read_is_torn(path: Path, how: str) -> None:
    source = filled(3)
    source.set("large", data={"v": "x" * 100_000})  # more than is read ahead
    await one_life(source, path)
    size = status_of(path).st_size

    def change() -> None:
        if how == "grows":
            damage(path, lambda data: data + b"more")
        elif how == "grows without end":
            os.truncate(path, 1 << 40)
        elif how == "shrinks":
            os.truncate(path, size - 50_000)
        else:
            with path.open("r+b") as file:
                file.seek(size - 1000)
                file.write(b"y" * 100)

    with pytest.raises(SnapshotRefusedError) as refused:
        await read_while(path, change)
    assert refused.value.reason == "torn"


async def test_a_file_that_is_replaced_while_it_is_read_is_read_to_its_end(path: Path) -> None:
    source = filled(200)
    await one_life(source, path)
    other = path.with_name("other")
    other.write_bytes(b"another")
    whole = await read_while(path, lambda: None)
    assert await read_while(path, lambda: other.replace(path)) == whole


# --- formats of other versions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [b"0", b"2", b"10"])
async def test_the_format_of_an_older_or_newer_version_is_a_list_and_is_replaced(
    path: Path, source: ResumableSource, version: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    damage(path, lambda data: data.replace(b"kinformer snapshot 1\n", b"kinformer snapshot " + version + b"\n"))
    informer, _ = await one_life(source, path)
    assert outcomes(informer) == {"format": 1, "saved": 1}
    assert "another version" in message_of(caplog, "format")
    informer, _ = await one_life(source.restarted(), path)
    assert outcomes(informer) == {"loaded": 1}
