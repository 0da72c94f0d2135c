"""Temporary handlers for process signals, which restore the previous handlers afterwards."""

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
    """Call `handle` on the running loop for each of these signals, until the end of the `with`.

    If the loop does not support handlers (outside the main thread, on Windows), this is logged, and the signals keep
    their previous effect.

    Args:
        numbers: The signals.
        handle: Called with the signal. If it returns False, the previous handlers are restored at once, so that the
            next signal has its previous effect.
    """
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, _HANDLER] = {}
    # The program's own handlers on the loop. asyncio's loops keep them privately, and other loops not at all.
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
