"""Threads that read all the time, while the test changes what they read."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["reading_threads"]


@contextmanager
def reading_threads(read: Callable[[], None], *, count: int = 2, switch_interval: float = 1e-5) -> Iterator[None]:
    """Calls `read` over and over in each of `count` threads, until the block is left.

    The interpreter changes threads every `switch_interval` seconds, so that a read that takes several steps is
    interrupted within. Each thread ends at its first error. Leaving waits for the threads and raises what they
    raised as an ExceptionGroup; an error of the block itself comes first.
    """
    done = threading.Event()
    errors: list[Exception] = []

    def run() -> None:
        try:
            while not done.is_set():
                read()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, name=f"reader-{number}") for number in range(count)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(switch_interval)
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    if errors:
        raise ExceptionGroup("reads of other threads went wrong", errors)
