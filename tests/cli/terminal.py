"""A terminal for a command to run on: its screen is read as a person reads it, and keys are pressed."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pyte

PATIENCE = 20  # seconds: a process starts slowly where seven others run

# The terminal becomes the one that the process is controlled by, so that Ctrl-C is a signal.
_START = (
    "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "from kinformer.cli import main; sys.exit(main(sys.argv[1:]))"
)


class Terminal:
    """The screen of one process, and its keyboard."""

    def __init__(self, master: int, width: int, height: int) -> None:
        self._master = master
        self.screen = pyte.Screen(width, height)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""
        self.process: asyncio.subprocess.Process | None = None
        self._news = asyncio.Event()

    def read(self) -> None:
        data = os.read(self._master, 65536)  # never its end: the other one stays open here
        self.written += data
        self._stream.feed(data)
        self._news.set()

    @property
    def text(self) -> str:
        """The text on the screen."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    @property
    def whole(self) -> bool:
        """True if no part of a picture is still to come: the cursor is behind the last cell. Lines are always whole."""
        in_place = self.written.rfind(b"\x1b[?1049h") > self.written.rfind(b"\x1b[?1049l")
        cursor, last = self.screen.cursor, self.screen.lines - 1
        return not in_place or (cursor.x, cursor.y) == (self.screen.columns, last)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    async def shows(self, *texts: str) -> str:
        """Wait until all of these are on the screen; return the screen."""
        return await self.until(lambda: all(text in self.text for text in texts), f"{texts} did not come")

    async def until(self, what: Callable[[], bool], otherwise: str = "it did not come to that") -> str:
        """Wait until this is so of a whole picture; return the screen."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not (self.whole and what()):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{otherwise}; the screen shows:\n{self.text}") from None
        return self.text

    async def ended(self) -> int:
        """Wait for the process to end by itself; return its exit status."""
        assert self.process is not None
        async with asyncio.timeout(PATIENCE):
            status = await self.process.wait()
        with contextlib.suppress(BlockingIOError):
            while True:  # what it wrote last
                self.read()
        return status

    @property
    def modes(self) -> list[int]:
        """The terminal's local modes (echo, lines, signals), as they are now."""
        return [termios.tcgetattr(self._master)[3]]


@asynccontextmanager
async def on_terminal(
    *arguments: str, width: int = 100, height: int = 24, environment: dict[str, str] | None = None
) -> AsyncIterator[Terminal]:
    """`kinformer ARGUMENTS` on a terminal of this size; the process is ended on leaving."""
    master, slave = os.openpty()
    os.set_blocking(master, False)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    terminal = Terminal(master, width, height)
    asyncio.get_running_loop().add_reader(master, terminal.read)
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    try:
        process = terminal.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _START, *arguments),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**variables, "TERM": "xterm-256color", **(environment or {})},
        )
        try:
            yield terminal
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
    finally:
        asyncio.get_running_loop().remove_reader(master)
        os.close(master)
        os.close(slave)
