"""Signals of the process, as long as somebody wants them; the handlers that there were are put back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from kinformer._runtime.logs import get_logger

__all__ = ["handled_signals"]

log = get_logger("kinformer.manager")


@contextmanager
def handled_signals(numbers: Iterable[signal.Signals], handle: Callable[[signal.Signals], bool]) -> Iterator[None]:
    """Have the running loop call `handle` for each of these signals, until the end of the `with`.

    When `handle` returns False the handlers are put back at once: the next signal does what it did before. Where a loop
    cannot have handlers (not in the main thread, on Windows) the log says so, and signals do what they did.
    """
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, object] = {}
    # What the program has told the loop to call. No loop says so in public, and one that is not asyncio's not at all.
    of_loop: dict[int, asyncio.Handle] = dict(getattr(loop, "_signal_handlers", ()))

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            loop.remove_signal_handler(number)
            if (own := of_loop.get(number)) is not None:
                loop.add_signal_handler(number, own._run)
            else:
                signal.signal(number, handler)  # type: ignore[arg-type]

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
