"""Child processes that never outlive the process that started them.

There are three safeguards. `ChildProcess.kill` in the owner's cleanup is the first. An `atexit` hook covers owners
that were never cleaned up. On Linux, the kernel kills the child when the thread that started it ends for any reason.
On other systems, a SIGKILL of the parent leaves its children running.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kinformer.exceptions import KinformerError

__all__ = ["ChildProcess", "ProcessError", "free_ports"]

POLL = 0.01  # seconds between two checks of a child that should end, each one waitpid call
REAP_TIMEOUT = 5.0  # seconds for the kernel to deliver a SIGKILL, which takes milliseconds

# Runs a program to which the kernel sends signal `argv[2]` when the parent's thread ends: prctl(PR_SET_PDEATHSIG),
# which survives execve. getppid detects a parent that died before the call. A `preexec_fn` would run Python between
# fork and exec, which is unsafe (and a DeprecationWarning) in a process with threads.
_TIED_TO_PARENT = """
import ctypes, os, sys
parent, number = int(sys.argv[1]), int(sys.argv[2])
if ctypes.CDLL(None, use_errno=True).prctl(1, number, 0, 0, 0):
    sys.exit("prctl(PR_SET_PDEATHSIG): " + os.strerror(ctypes.get_errno()))
if os.getppid() != parent:
    sys.exit("the parent is gone")
os.execv(sys.argv[3], sys.argv[3:])
"""


class ProcessError(KinformerError):
    """A child process did not start, did not become ready, or ended by itself. The message has the end of its log."""


class ChildProcess:
    """A program, its arguments, and a log file for its output.

    Starting and killing are synchronous and need no event loop. Only waiting is asynchronous.

    Args:
        name: The name for messages.
        argv: The program (an absolute path) and its arguments.
        log: The file for its stdout and stderr. A later start appends.
    """

    def __init__(self, name: str, argv: Sequence[str | os.PathLike[str]], log: Path) -> None:
        self.name = name
        self.argv = [os.fspath(part) for part in argv]
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """True if it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Its process id, or None before the first start."""
        return self._process.pid if self._process else None

    @property
    def returncode(self) -> int | None:
        """The `subprocess.Popen.returncode`: None while it runs, and negative for a signal."""
        return self._process.poll() if self._process else None

    def start(self) -> None:
        """Start the process in its own session.

        Ctrl-C in a terminal then reaches only the owner, which ends the process.

        Raises:
            RuntimeError: It is already running.
            ProcessError: The program cannot be executed.
        """
        if self.running:
            raise RuntimeError(f"{self.name} is already running with pid {self.pid}")
        with self.log.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    _tied_to_this_process(self.argv),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise ProcessError(f"{self.name} cannot be started: {error}") from error
        _children.watch(self)

    async def stop(self, timeout: float) -> bool:
        """Send SIGTERM, and SIGKILL if it still runs `timeout` seconds later. Return False if SIGKILL was needed.

        The process has ended when this returns. If this is cancelled, the process is killed immediately.
        """
        if self._process is None:
            return True
        try:
            if self.running:
                self._process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + timeout
            while self.running:
                if time.monotonic() >= deadline:
                    return False
                await asyncio.sleep(POLL)
            return True
        finally:
            self.kill()

    def kill(self) -> None:
        """Send SIGKILL and wait until the process has ended. Does nothing if it has. Blocks for some milliseconds."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.kill()
            process.wait(REAP_TIMEOUT)
        _children.forget(self)

    def failure(self, what: str) -> ProcessError:
        """Return an error with the event, the exit status if it has ended, and the last lines of its output."""
        code = self.returncode
        end = "" if code is None else f" (exit status {code})"
        return ProcessError(f"{self.name} {what}{end}. The end of {self.log}:\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        """Return the last lines of its log, indented. Only the last 64 KiB of the log are read."""
        if not self.log.exists():
            return "  (no log)"
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 65536))
            text = log.read().decode(errors="replace")
        return "\n".join(f"  {line[:1000]}" for line in text.splitlines()[-lines:]) or "  (empty)"


class _Children:
    """The running children, for the `atexit` hook, which is installed when the first child starts."""

    def __init__(self) -> None:
        self._running: set[ChildProcess] = set()
        self._hooked_in: int | None = None

    def watch(self, child: ChildProcess) -> None:
        if self._hooked_in != os.getpid():
            # A forked process inherits this set and the hook, but must not kill its parent's children.
            self._running = set()
            self._hooked_in = os.getpid()
            atexit.register(self._kill_all)
        self._running.add(child)

    def forget(self, child: ChildProcess) -> None:
        self._running.discard(child)

    def _kill_all(self) -> None:
        if self._hooked_in == os.getpid():
            for child in list(self._running):
                child.kill()


_children = _Children()


def _tied_to_this_process(argv: list[str]) -> list[str]:
    if sys.platform != "linux" or not sys.executable:
        return argv
    trampoline = [sys.executable, "-I", "-S", "-c", _TIED_TO_PARENT]
    return [*trampoline, str(os.getpid()), str(int(signal.SIGKILL)), *argv]


@contextmanager
def _reserved(host: str) -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind((host, 0))
        yield listener.getsockname()[1]


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return different TCP ports that were free just now. Another process may take one before it is used."""
    with ExitStack() as stack:
        return [stack.enter_context(_reserved(host)) for _ in range(count)]
