"""Single keys from the terminal, without Enter."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["QUIT", "on_interrupt", "on_keys", "stop_on_key"]

QUIT = "quit"
"""The key for Ctrl-D, and for a terminal that has hung up."""

# Key sequences sent by terminals (xterm, "PC-Style Function Keys", and console_codes(4)), and their names.
_SEQUENCES: dict[str, str] = {
    **{
        f"\x1b{form}{letter}": name
        for form in "[O"
        for letter, name in zip("ABHF", ("up", "down", "home", "end"), strict=True)
    },
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\x1b[7~": "home",
    "\x1b[8~": "end",
}
_KEY = re.compile(
    "|".join([*map(re.escape, sorted(_SEQUENCES, key=len, reverse=True)), r"\x1b[\[O][0-9;]*[@-~]", "."]), re.DOTALL
)
_NAMES = {"\x04": QUIT, "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape"}


@contextmanager
def stop_on_key(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on `q` while the context is open. See `on_keys`."""

    def pressed(key: str) -> None:
        if key in (QUIT, "q", "Q"):
            stop()

    with on_keys(pressed):
        yield


@contextmanager
def on_keys(pressed: Callable[[str], None]) -> Iterator[None]:
    """Call `pressed` with each key while the context is open. Exiting restores the terminal's mode.

    A key is its character, `"up"`, `"down"`, `"page up"`, `"page down"`, `"home"`, `"end"`, `"enter"`, `"backspace"`,
    `"escape"` or QUIT. Ctrl-C still raises KeyboardInterrupt. Keys do nothing if stdin is not a terminal, or if its
    mode cannot be changed (Windows).
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
            loop.remove_reader(terminal)  # hung up, so each further read would return immediately
            pressed(QUIT)
        for match in _KEY.finditer(keys):
            key: str = match.group()
            pressed(_NAMES.get(key) or _SEQUENCES.get(key, key))

    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextmanager
def on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on the first Ctrl-C while the context is open. A second one raises KeyboardInterrupt.

    Where signals cannot be handled (outside the main thread, or on Windows), Ctrl-C keeps its usual effect.
    """
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        stop()

    try:
        loop.add_signal_handler(signal.SIGINT, interrupted)
    except (NotImplementedError, RuntimeError, ValueError):
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
