"""What ends a command before Ctrl-C does: a key, without Enter, and SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["stop_on_key", "stop_on_sigterm"]

_STOPPING = frozenset("qQ\x04")  # q, and Ctrl-D


@contextmanager
def stop_on_sigterm(stop: Callable[[], None]) -> Iterator[None]:
    """Within it, SIGTERM calls `stop`, so that a command can leave in order; not on Windows, nor in a thread."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGTERM, stop)
    except (NotImplementedError, RuntimeError, ValueError):
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


@contextmanager
def stop_on_key(stop: Callable[[], None]) -> Iterator[None]:
    """Within it, `q` calls `stop`; leaving gives the terminal back as it was.

    Ctrl-C stays what it is, a KeyboardInterrupt. Where stdin is no terminal, or has no modes that could be changed
    (Windows), no key does anything.
    """
    try:
        import termios
        import tty
    except ModuleNotFoundError:
        yield
        return
    if not sys.stdin.isatty():
        yield
        return
    loop = asyncio.get_running_loop()
    terminal = sys.stdin.fileno()

    def read() -> None:
        keys = os.read(terminal, 64).decode(errors="replace")
        if not keys:
            loop.remove_reader(terminal)  # hung up; reading on would return at once, for ever
        if not keys or not _STOPPING.isdisjoint(keys):
            stop()

    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
