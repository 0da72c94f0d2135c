"""Reads and writes the file of a snapshot. Every call that may wait for a disk runs in a worker thread."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import glob
import os
import stat
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread

from kinformer._runtime.logs import get_logger
from kinformer.snapshot.format import Block, BlockReader, Seal, SnapshotHeader, SnapshotRefusedError

__all__ = ["SnapshotReader", "SnapshotWriter"]

log = get_logger("kinformer.snapshot")

_BATCH = 1024 * 1024  # bytes read at once in a thread. Switching threads costs as much as reading half of it

_HAS_OWNERS = hasattr(os, "geteuid")  # Windows has no owners and modes, but lists that this module does not read

_STALE = 3600.0  # seconds after which a temporary file is no longer being written


class SnapshotWriter:
    """Writes a new file next to the old one, and replaces the old file when the new one is complete and on disk.

    Use it as an async context manager. Without `commit`, or if that fails or is cancelled, the old file stays and the
    new one is removed. Cancelling never waits for the disk, because a working thread cleans up after itself.

    Args:
        path: The file. Missing folders are created, accessible only to their owner.

    Raises:
        OSError: Raised by any of its methods.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Process ids repeat among containers that share a volume.
        self._temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
        self._file: BinaryIO | None = None  # open from entering until `commit` or the removal
        self._seal = Seal()
        self._working = threading.Lock()  # held by the thread that touches the file
        self._given_up = False  # True once the file is to be removed instead of written

    async def __aenter__(self) -> SnapshotWriter:
        try:
            await self._in_thread(self._open)
        except BaseException:
            self._give_up()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._give_up()

    async def header(self, header: SnapshotHeader) -> None:
        """Write the header."""
        await self._in_thread(lambda: self._write(self._seal.header(header)))

    async def blocks(self, blocks: Sequence[tuple[int, bytes, Sequence[bytes]]]) -> None:
        """Write blocks, each given as kind, head and body."""
        await self._in_thread(lambda: self._write([piece for block in blocks for piece in self._seal.block(*block)]))

    async def commit(self) -> None:
        """Finish the file, wait until it is on disk, and rename it."""
        await self._in_thread(self._commit)

    async def _in_thread(self, work: Callable[[], object]) -> None:
        await anyio.to_thread.run_sync(self._guarded, work, abandon_on_cancel=True)

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            with self._working:
                if not self._given_up:
                    work()
        finally:
            if self._given_up:
                self._discard()

    def _give_up(self) -> None:
        self._given_up = True
        self._discard()

    def _discard(self) -> None:
        # The current holder of the file does it. Both try, so the last one succeeds.
        if not self._working.acquire(blocking=False):
            return
        try:
            file, self._file = self._file, None
            if file is not None:
                self._remove(file)
        finally:
            self._working.release()

    def _remove(self, file: BinaryIO) -> None:
        # Errors here must not replace the original one, which may be a cancellation.
        with contextlib.suppress(OSError):  # flushing the rest would also fail for lack of space, and is not needed
            file.close()
        try:
            self._temporary.unlink(missing_ok=True)
        except OSError as error:
            log.warning("the file %s could not be removed: %s", self._temporary, error, reason="failed")

    # --- in the thread ---------------------------------------------------------------------------------------

    def _open(self) -> None:
        _make_private(self._path.parent)
        for stale in self._path.parent.glob(f".{glob.escape(self._path.name)}.*.tmp"):
            # Another writer's file may be gone by now, and another user's cannot be removed from /tmp.
            with contextlib.suppress(FileNotFoundError, PermissionError):
                if stale.lstat().st_mtime < time.time() - _STALE:
                    stale.unlink()  # left by a killed process
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        self._file = os.fdopen(os.open(self._temporary, flags, 0o600), "wb")

    def _write(self, pieces: Sequence[bytes]) -> None:
        assert self._file is not None
        self._file.writelines(pieces)

    def _commit(self) -> None:
        file = self._file
        assert file is not None
        file.writelines(self._seal.end())
        file.flush()
        os.fsync(file.fileno())
        if self._given_up:
            return
        file.close()
        self._temporary.replace(self._path)
        self._file = None
        _sync_folder(self._path.parent)


def _make_private(folder: Path) -> None:
    """Create a folder and its missing parents, accessible only to their owner."""
    if not folder.is_dir():
        _make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _sync_folder(folder: Path) -> None:
    """Flush the rename to disk."""
    if not hasattr(os, "O_DIRECTORY"):
        return  # on Windows, a folder cannot be opened, and renames are journalled
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class SnapshotReader:
    """Reads a file in blocks, and prefetches the next blocks while the current ones are used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._blocks: BlockReader | None = None

    async def __aenter__(self) -> SnapshotReader:
        await anyio.to_thread.run_sync(self._open)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def header(self) -> SnapshotHeader:
        """The header of the file."""
        assert self._blocks is not None
        return self._blocks.header

    async def batches(self) -> AsyncGenerator[list[Block], None]:
        """Read the blocks in batches. A reader that stops early must close it.

        Raises:
            SnapshotRefusedError: `torn`, or `unreadable`.
        """
        following = _reading(self._next)
        try:
            while blocks := await following:
                following = _reading(self._next)
                yield blocks
        finally:
            # The file can be closed only after the thread has read its 1 MiB.
            following.cancel()
            await asyncio.wait({following})
            if not following.cancelled():
                following.exception()  # mark it as retrieved, because no task will

    # --- in the thread ---------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Open the file, and read its header.

        Raises:
            SnapshotRefusedError: `missing`, `unreadable`, or another reason.
        """
        try:
            descriptor = _opened(self._path)
        except FileNotFoundError as error:
            raise SnapshotRefusedError("missing", "it does not exist yet") from error
        except OSError as error:
            # O_NOFOLLOW fails with ELOOP, or with EMLINK on FreeBSD.
            why = "it is a link" if error.errno in (errno.ELOOP, errno.EMLINK) else f"it cannot be opened: {error}"
            raise SnapshotRefusedError("unreadable", why) from error
        file = os.fdopen(descriptor, "rb")
        try:
            # The opened file is checked, not the path, which may already lead to another one.
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SnapshotRefusedError("unreadable", "it is not a file")
            _check_trusted(status, "it")
            self._blocks = BlockReader(_readable(file), status.st_size)
        except BaseException:
            file.close()
            raise
        self._file = file

    def _next(self) -> list[Block]:
        assert self._blocks is not None
        batch: list[Block] = []
        size = 0
        while size < _BATCH and (block := self._blocks.objects()) is not None:
            batch.append(block)
            size += len(block.body)
        return batch


def _opened(path: Path) -> int:
    """Open a file for reading, unless it is a link or another user may replace it.

    Raises:
        SnapshotRefusedError: `unreadable`, if another user may write to the folder.
        OSError: The file or its folder cannot be opened.
    """
    # Opening a pipe would wait for a writer without O_NONBLOCK.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    if not _HAS_OWNERS:
        return os.open(path, flags)
    folder = os.open(path.parent, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check_trusted(os.fstat(folder), "its folder")
        return os.open(path.name, flags | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)


def _check_trusted(status: os.stat_result, name: str) -> None:
    """Check that only root and this process's user may write to an opened file or folder.

    A folder with the sticky bit, such as /tmp, may be writable, because only its owner, the file's owner and root
    can rename or remove a file in it. Access control lists need no check: their rights appear among the group's.

    Raises:
        SnapshotRefusedError: `unreadable`.
    """
    if not _HAS_OWNERS:
        return
    if status.st_uid not in (0, os.geteuid()):
        raise SnapshotRefusedError("unreadable", f"{name} belongs to another user (uid {status.st_uid})")
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky:
        mode = stat.S_IMODE(status.st_mode)
        raise SnapshotRefusedError("unreadable", f"other users may write to {name} (mode {mode:o})")


def _reading(work: Callable[[], list[Block]]) -> asyncio.Task[list[Block]]:
    async def reading() -> list[Block]:
        return await anyio.to_thread.run_sync(work)

    return asyncio.get_running_loop().create_task(reading(), name="kinformer snapshot reader")


def _readable(file: BinaryIO) -> Callable[[int], bytes]:
    def read(count: int) -> bytes:
        try:
            return file.read(count)
        except OSError as error:
            raise SnapshotRefusedError("unreadable", f"it cannot be read: {error}") from error

    return read
