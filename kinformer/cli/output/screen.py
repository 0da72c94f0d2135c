"""Draws full-screen pictures that update as data changes, and restores the terminal afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from kinformer.cli.output.keys import QUIT, on_keys
from kinformer.cli.output.logs import log_kept_back

__all__ = ["Loading", "can_draw", "draw"]

_FRAME = 0.1  # minimum seconds between two pictures
_TICK = 1.0  # maximum seconds between two pictures, because ages grow


def can_draw(console: Console) -> bool:
    """Return True if this is a terminal whose cursor can be moved."""
    return console.is_terminal and not console.is_dumb_terminal


async def draw(
    console: Console,
    picture: Callable[[int, int], RenderableType],
    *,
    news: asyncio.Event,
    press: Callable[[str], bool] | None = None,
) -> None:
    """Show pictures on the whole terminal until q is pressed or until cancelled.

    The terminal is always restored. Warnings logged in the meantime are then written to stderr.

    Args:
        console: The terminal.
        picture: Takes (width, height) in cells and returns the picture. Called at least once, and at most ten times a
            second.
        news: Set it when the picture has changed.
        press: Called with each key. If it returns False for q, this function returns.
    """
    stop = asyncio.Event()

    def pressed(key: str) -> None:
        used = key != QUIT and press is not None and press(key)
        if key == QUIT or (key in "qQ" and not used):
            stop.set()
        news.set()

    with (
        log_kept_back(),
        on_keys(pressed),
        # Drawn only here, in one write, so that nothing flickers and no other thread reads the state.
        Live(picture(*console.size), console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live,
    ):
        while not stop.is_set():
            news.clear()
            live.update(picture(*console.size), refresh=True)
            await asyncio.sleep(_FRAME)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK - _FRAME):
                    await news.wait()


_PATIENCE = 0.4  # seconds before anything is shown. Most lists take less, and a flash would be distracting


class Loading:
    """A spinner with a message. Exiting removes it.

    Args:
        what: The name of what is being loaded, such as "pods".
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._since = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._on_terminal = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, text: str) -> None:
        """Show the progress, such as "12.4 MB"."""
        if not self._on_terminal or time.monotonic() - self._since < _PATIENCE:
            return
        if self._progress is None:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task(self._what, total=None)
            self._progress.start()
        if self._task is not None:
            self._progress.update(self._task, description=f"loading {self._what}: {text}")
