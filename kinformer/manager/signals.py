"""Handles signals of the process for a while, and then restores the handlers from before."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kinformer._runtime.logs import get_logger

if TYPE_CHECKING:
    from signal import _HANDLER

__all__ = ["handled_signals"]

log = get_logger("kinformer.manager")


@contextmanager
def handled_signals(numbers: Iterable[signal.Signals], handle: Callable[[signal.Signals], bool]) -> Iterator[None]:
    """Have the running loop call `handle` for each of these signals, until the end of the `with`.

    If a loop cannot have handlers (outside the main thread, on Windows), the log says so, and the signals do what they
    did before.

    Args:
        numbers: The signals.
        handle: Called with the signal. If it returns False, the handlers from before are restored at once, so that
            the next signal does what it did before.
    """
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, _HANDLER] = {}
    # The handlers that the program has given to the loop. asyncio's loops keep them privately, others not at all.
    of_loop: dict[int, asyncio.Handle] = dict(getattr(loop, "_signal_handlers", ()))

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            loop.remove_signal_handler(number)
            if (own := of_loop.get(number)) is not None:
                loop.add_signal_handler(number, own._run)
            else:
                signal.signal(number, handler)

    def received(number: signal.Signals) -> None:
        if not handle(number):
            restore()

    try:
        for number in numbers:
            handler = signal.getsignal(number)
            try:
                loop.add_signal_handler(number, received, number)
            except (ValueError, RuntimeError, NotImplementedError) as error:
                log.info("%s is not handled here: %s", number.name, error, reason="signal")
            else:
                before[number] = signal.SIG_DFL if handler is None else handler
        yield
    finally:
        restore()
