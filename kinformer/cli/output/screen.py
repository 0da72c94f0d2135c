"""A terminal that is drawn anew as things change, and given back as it was."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.live import Live

from kinformer.cli.output.errors import log_kept_back
from kinformer.cli.output.keys import QUIT, on_keys

__all__ = ["can_draw", "draw"]

_FRAME = 0.1  # seconds between two pictures at the least
_TICK = 1.0  # ... and at the most: ages go on


def can_draw(console: Console) -> bool:
    """Whether this is a terminal on which one can go back to what was written."""
    return console.is_terminal and not console.is_dumb_terminal


async def draw(
    console: Console,
    picture: Callable[[int, int], RenderableType],
    *,
    news: asyncio.Event,
    press: Callable[[str], None] | None = None,
) -> None:
    """Show pictures on the whole of a terminal, until q, or cancelled.

    However it ends, the terminal is as it was before; warnings that the log had meanwhile are then on stderr.

    Args:
        console: The terminal.
        picture: (width, height) in cells -> what to show; called at most ten times a second, and once at least.
        news: Set by whoever has changed what the picture shows.
        press: Called with each key but those that end it.
    """
    stop = asyncio.Event()

    def pressed(key: str) -> None:
        if key == QUIT:
            stop.set()
            news.set()
        elif press is not None:
            press(key)
            news.set()

    with (
        log_kept_back(),
        on_keys(pressed),
        # Drawn from here alone, in one write: nothing flickers, and no thread reads what the loop changes.
        Live(picture(*console.size), console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live,
    ):
        while not stop.is_set():
            news.clear()
            live.update(picture(*console.size), refresh=True)
            await asyncio.sleep(_FRAME)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK - _FRAME):
                    await news.wait()
