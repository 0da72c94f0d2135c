"""The calls of a program to its machine: clocks and random numbers are simulated, and others are refused.

Each function here does as the real one does unless a simulated loop runs in its thread.
"""

from __future__ import annotations

import functools
import os
import random
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import anyio.to_thread

from kinformer.exceptions import ConfigError
from kinformer.testing.simulation.holders import replaced_everywhere
from kinformer.testing.simulation.loop import SimulatedLoop, running_simulated_loop
from kinformer.testing.simulation.refusals import IN_REAL_TIME, caller_in_program

__all__ = ["calls_simulated", "entropy_from"]

_PROCESS = "another process runs in real time; replace it by a double in the test, or run its coroutine by world.run"
_NETWORK = "the network is simulated for asyncio only; use asyncio or aiohttp, or a double in the test"
_WAIT = "nothing can end this wait, which blocks the event loop; await an asyncio primitive instead"

_REFUSED = (
    ("_thread", ("start_new_thread", "start_new", "start_joinable_thread"), "starting a thread", IN_REAL_TIME),
    ("os", ("fork", "forkpty", "system", "posix_spawn", "posix_spawnp", "execv", "execve"), "", _PROCESS),
    ("_posixsubprocess", ("fork_exec",), "starting a process", _PROCESS),
    ("select", ("select",), "", _WAIT),
    ("socket", ("getaddrinfo", "getnameinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr"), "", _NETWORK),
)
_REFUSED_METHODS = (
    (socket.socket, ("connect", "connect_ex", "bind", "sendto", "sendmsg"), "socket", _NETWORK),
    (subprocess.Popen, ("__init__",), "subprocess.Popen", _PROCESS),
)
_ATOMIC_TIME = 37.0  # seconds between TAI and UTC, since 2017
_CLOCKS: dict[str, Callable[[SimulatedLoop], float]] = {
    "CLOCK_REALTIME": lambda loop: loop.clock.wall(),
    "CLOCK_TAI": lambda loop: loop.clock.wall() + _ATOMIC_TIME,
    "CLOCK_MONOTONIC": SimulatedLoop.time,
    "CLOCK_MONOTONIC_RAW": SimulatedLoop.time,
    "CLOCK_UPTIME": SimulatedLoop.time,
    "CLOCK_UPTIME_RAW": SimulatedLoop.time,
    "CLOCK_HIGHRES": SimulatedLoop.time,
    "CLOCK_BOOTTIME": lambda loop: loop.clock.boot(),
    "CLOCK_PROCESS_CPUTIME_ID": lambda loop: 0.0,  # a computation takes no time
    "CLOCK_THREAD_CPUTIME_ID": lambda loop: 0.0,
}
_BY_NUMBER = {getattr(time, name): read for name, read in _CLOCKS.items() if hasattr(time, name)}


# -- clocks -------------------------------------------------------------------------------------------------------


def _clock(name: str, read: Callable[[SimulatedLoop], float]) -> Iterator[tuple[Any, Any]]:
    for suffix, unit in (("", 1), ("_ns", 1_000_000_000)):
        real = getattr(time, name + suffix, None)
        if real is not None:
            yield real, _reading(real, read, unit)


def _reading(real: Any, read: Callable[[SimulatedLoop], float], unit: int) -> Any:
    @functools.wraps(real)
    def simulated() -> Any:
        loop = running_simulated_loop()
        if loop is None:
            return real()
        loop.note_read(f"time.{real.__name__}")
        return read(loop) if unit == 1 else round(read(loop) * unit)

    return simulated


def _clock_by_number(real: Any, unit: int) -> Any:
    @functools.wraps(real)
    def simulated(clk_id: int, /) -> Any:
        loop = running_simulated_loop()
        if loop is None:
            return real(clk_id)
        read = _BY_NUMBER.get(clk_id)
        if read is None:
            raise loop.refuse(f"time.{real.__name__}({clk_id})", "use time.monotonic")
        loop.note_read(f"time.{real.__name__}")
        return read(loop) if unit == 1 else round(read(loop) * unit)

    return simulated


@functools.wraps(os.times)
def _times() -> Any:
    loop = running_simulated_loop()
    return _real_times() if loop is None else os.times_result((0.0, 0.0, 0.0, 0.0, loop.time()))


_real_times = os.times


@functools.wraps(time.sleep)
def _sleep(seconds: Any, /) -> None:
    if seconds:
        _refuse("time.sleep", "it blocks the event loop; use `await asyncio.sleep(...)`")
    _real_sleep(seconds)


_real_sleep = time.sleep


# -- random numbers -----------------------------------------------------------------------------------------------


class _Entropy:
    """The source of all bytes that should be unpredictable, for the thread that set it."""

    def __init__(self) -> None:
        self.source: random.Random | None = None
        self.thread = 0

    def bytes(self, count: int) -> bytes | None:
        if self.source is None or threading.get_ident() != self.thread:
            return None
        return self.source.randbytes(count)


_entropy = _Entropy()


@contextmanager
def entropy_from(source: random.Random) -> Iterator[None]:
    """Take the machine's random bytes from `source`, in this thread and within `calls_simulated`."""
    before = _entropy.source, _entropy.thread
    _entropy.source, _entropy.thread = source, threading.get_ident()
    try:
        yield
    finally:
        _entropy.source, _entropy.thread = before


def _random_bytes(real: Any) -> Any:
    @functools.wraps(real)
    def simulated(count: int, /, *args: Any, **options: Any) -> Any:
        simulated_bytes = _entropy.bytes(count)
        return real(count, *args, **options) if simulated_bytes is None else simulated_bytes

    return simulated


_real_seed, _real_method = random.seed, random.Random.seed


@functools.wraps(random.Random.seed)
def _seed_method(self: random.Random, a: Any = None, version: int = 2) -> None:
    _real_method(self, _entropy.bytes(32) if a is None else a, version)


@functools.wraps(random.Random.seed)
def _seed(a: Any = None, version: int = 2) -> None:
    _real_seed(_entropy.bytes(32) if a is None else a, version)


# -- refusals -----------------------------------------------------------------------------------------------------


def _refuse(call: str, instead: str) -> None:
    loop = running_simulated_loop()
    if loop is not None and (caller := caller_in_program()) is not None:
        raise loop.refuse(call, instead, caller)


def _refusing(real: Any, call: str, instead: str) -> Any:
    @functools.wraps(real)
    def refused(*args: Any, **options: Any) -> Any:
        _refuse(call, instead)
        return real(*args, **options)

    return refused


_real_wait = threading.Condition.wait


@functools.wraps(threading.Condition.wait)
def _wait(self: threading.Condition, timeout: float | None = None) -> bool:
    if timeout is None or timeout > 0:
        _refuse("threading.Condition.wait", _WAIT)
    return _real_wait(self, timeout)


# -- threads ------------------------------------------------------------------------------------------------------

_real_run_sync = anyio.to_thread.run_sync


@functools.wraps(anyio.to_thread.run_sync)
async def _run_sync(func: Callable[..., Any], *args: Any, **options: Any) -> Any:
    if running_simulated_loop() is None:
        return await _real_run_sync(func, *args, **options)
    return func(*args)


# -- all ----------------------------------------------------------------------------------------------------------


def _functions() -> Iterator[tuple[Any, Any]]:
    """Yield each real function, and the one that takes its place."""
    yield from _clock("monotonic", SimulatedLoop.time)
    yield from _clock("perf_counter", SimulatedLoop.time)
    yield from _clock("process_time", lambda loop: 0.0)
    yield from _clock("thread_time", lambda loop: 0.0)
    for name, unit in (("clock_gettime", 1), ("clock_gettime_ns", 1_000_000_000)):
        if hasattr(time, name):
            yield getattr(time, name), _clock_by_number(getattr(time, name), unit)
    yield _real_times, _times
    yield _real_sleep, _sleep
    yield _real_seed, _seed
    yield _real_run_sync, _run_sync
    for module, name in ((os, "urandom"), (os, "getrandom"), (ssl, "RAND_bytes")):
        if hasattr(module, name):
            yield getattr(module, name), _random_bytes(getattr(module, name))
    for home, names, call, instead in _REFUSED:
        try:
            members = vars(import_module(home))
        except ImportError:  # of another platform
            continue
        for name in names:
            if name in members:
                yield members[name], _refusing(members[name], call or f"{home}.{name}", instead)


_FUNCTIONS = dict(_functions())
_active = False


@contextmanager
def calls_simulated() -> Iterator[None]:
    """Simulate or refuse, in the block, the calls that programs in simulated loops make. It may be nested.

    Searching for the functions takes a while, so enter it once for many simulations.

    Raises:
        ConfigError: time-machine, which simulates dates, is not installed.
    """
    global _active
    if _active:
        yield
        return
    _travel_once()
    with ExitStack() as stack:
        stack.enter_context(replaced_everywhere(_FUNCTIONS))
        stack.enter_context(patch.object(random.Random, "seed", _seed_method))
        stack.enter_context(patch.object(threading.Condition, "wait", _wait))
        for cls, names, prefix, instead in _REFUSED_METHODS:
            for name in names:
                call = prefix if name == "__init__" else f"{prefix}.{name}"
                stack.enter_context(patch.object(cls, name, _refusing(getattr(cls, name), call, instead)))
        stack.callback(_set_active, on=False)
        _set_active(on=True)
        yield


def _travel_once() -> None:
    # time-machine changes the functions of `time` in place. It reads them when it is imported, or travels for the first
    # time, and would crash on a function in Python.
    try:
        import time_machine
    except ImportError:
        raise ConfigError("dates are simulated by time-machine: pip install 'kinformer[explore]'") from None
    with time_machine.travel(0.0, tick=False):
        pass


def _set_active(*, on: bool) -> None:
    global _active
    _active = on
