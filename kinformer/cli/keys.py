"""Single keys from the terminal, without Enter, on an event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["stop_keys"]

_STOPPING = frozenset("qQ\x04")  # q, and Ctrl-D


@contextmanager
def stop_keys(stop: Callable[[], None]) -> Iterator[None]:
    """Within it, `q`, and SIGTERM, call `stop`; leaving gives the terminal back as it was.

    Ctrl-C stays what it is, a KeyboardInterrupt. Where stdin is no terminal, or has no modes that could be changed
    (Windows), only signals stop.
    """
    loop = asyncio.get_running_loop()
    # A terminal left in the alternate screen would be of no use to whoever had it before.
    try:
        loop.add_signal_handler(signal.SIGTERM, stop)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not in the main thread
        signalled = False
    else:
        signalled = True
    try:
        with _reading_keys(loop, stop):
            yield
    finally:
        if signalled:
            loop.remove_signal_handler(signal.SIGTERM)


@contextmanager
def _reading_keys(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
    try:
        import termios
        import tty
    except ModuleNotFoundError:
        yield
        return
    if not sys.stdin.isatty():
        yield
        return
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
