"""Turns the calls that would end the interpreter, or signal it, into the end of the process that makes them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol
from unittest.mock import patch

__all__ = ["exits_caught"]


class _Ending(Protocol):
    def kill(self, away: float | None = None, *, why: str = "", failed: bool = True) -> None: ...

    def stop(self, away: float) -> None: ...


@contextmanager
def exits_caught(replica_of: Callable[[asyncio.AbstractEventLoop], _Ending | None]) -> Iterator[None]:
    """Catch `os._exit`, and signals to the own process, in the block. `replica_of` returns the replica on a loop."""
    exit_now, kill, raise_signal = os._exit, os.kill, signal.raise_signal

    def running() -> _Ending | None:
        loop = asyncio._get_running_loop()
        return None if loop is None else replica_of(loop)

    def end(status: int) -> NoReturn:
        replica = running()
        if replica is None:
            exit_now(status)
        replica.kill(why=f"exits with {status} (os._exit)", failed=bool(status))
        raise SystemExit(status)

    def send(pid: int, number: Any) -> None:
        replica = running() if pid == os.getpid() else None
        if replica is None:
            kill(pid, number)
        else:
            _receive(replica, number)

    def send_itself(number: Any) -> None:
        replica = running()
        if replica is None:
            raise_signal(number)
        else:
            _receive(replica, number)

    with (
        patch.object(os, "_exit", end),
        patch.object(os, "kill", send),
        patch.object(signal, "raise_signal", send_itself),
    ):
        yield


def _receive(replica: _Ending, number: int) -> None:
    if number in (signal.SIGTERM, signal.SIGINT):
        replica.stop(0.0)
    elif number:
        replica.kill(why=f"is ended by {signal.Signals(number).name}")
        raise SystemExit(128 + number)
