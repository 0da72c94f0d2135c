"""Fixtures of all tests. No test may leave a thread, a task or a process behind.

Internals: the parts of aiohttp that pushing needs, and the pause before an event, since no option turns that off.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from kinformer import Client
from kinformer.connection import aiohttp_internals
from kinformer.listwatch import events
from kinformer.testing import APIServer, ClusterServer
from tests.support.certificates import make_certificates
from tests.support.virtual_time import VirtualTimeLoop

# A machine that is busy is no failure of what is tested. A failing example is printed so that it can be run again.
settings.register_profile("kinformer", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kinformer")

# A shell ignores Ctrl-C for what it starts with `&`, and what the tests start, and end so, would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_running: pytest.Item | None = None


def _start_no_process_unmarked(event: str, arguments: tuple[Any, ...]) -> None:
    """Hold the mark `process` to what it says, as an audit hook of the interpreter."""
    starts = event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn")
    if event == "subprocess.Popen" and arguments[0] == "uname":  # by the `platform` module, once in a process
        return
    if starts and _running is not None and not _running.get_closest_marker("process"):
        raise RuntimeError(f"{_running.nodeid} starts a process and has no mark `process`: {arguments[:1]}")


sys.addaudithook(_start_no_process_unmarked)


# Threads that belong to a library: AnyIO's workers end when they are idle for long, and asyncio's wait for a child.
_OF_LIBRARIES = ("AnyIO worker thread", "asyncio-waitpid-")
_threads_before = pytest.StashKey[set[threading.Thread]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_threads_before] = set(threading.enumerate())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Check that each thread that a test started has ended when the test ends: it would disturb others."""
    yield
    until = time.monotonic() + 15
    for thread in set(threading.enumerate()) - item.stash[_threads_before]:
        if not thread.name.startswith(_OF_LIBRARIES):
            thread.join(until - time.monotonic())
            assert not thread.is_alive(), f"left running: {thread}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    global _running
    _running = item
    try:
        return (yield)
    finally:
        _running = None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pulled", action="store_true", help="read watches as with an aiohttp that lacks READING")


def _pull(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiohttp_internals, "READING", (*aiohttp_internals.READING, "aiohttp.StreamReader.gone"))


@pytest.fixture(params=["pushed", "pulled"])
def arrival(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How events of a watch arrive: each is pushed however quickly it comes, or read as without aiohttp's internals."""
    way: str = request.param
    if way == "pulled":
        _pull(monkeypatch)
    else:
        monkeypatch.setattr(events, "QUICK", 0.0)
    return way


@pytest.fixture(scope="session", autouse=True)
def _all_watches_are_read(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.config.getoption("--pulled"):
            _pull(patch)
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half of the tests' time is waiting, so `-n auto` has more workers than there are processors."""
    return max(2, (os.cpu_count() or 1) * 3 // 2)


SLOW = {"examples", "explore"}  # folders of whole programs, and of many histories of one
NOT_QUICK = ("process", "tools", "slow", "search")
_NO_QUICK_TEST = re.compile(rf"^pytestmark = (?:\[[^\]]*)?pytest\.mark\.(?:{'|'.join(NOT_QUICK)})\b", re.MULTILINE)


def has_no_quick_test(path: Path) -> bool:
    """True if the folder of a test file, or the `pytestmark` in its source, says that none of its tests is quick."""
    return path.parent.name in SLOW or bool(_NO_QUICK_TEST.search(path.read_text(encoding="utf-8")))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a fifth of the files unread if only the quick tests are asked for."""
    is_test_file = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return True if is_test_file and config.option.markexpr == "quick" and has_no_quick_test(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests, and no garbage: nearly all objects that are made meanwhile stay, and no test frees them."""
    gc.disable()
    try:
        return (yield)
    finally:
        # From 3.14 on every dict is tracked. Hypothesis asks for the referrers of its random numbers, and they would be
        # among the frozen objects, which `gc.get_referrers` does not see.
        if sys.version_info < (3, 14):
            gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name in SLOW:
            item.add_marker(pytest.mark.slow)
        if "certificates" in getattr(item, "fixturenames", ()):  # openssl makes them
            item.add_marker(pytest.mark.process)
        if not any(item.get_closest_marker(name) for name in NOT_QUICK):
            item.add_marker(pytest.mark.quick)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("virtual_time"):
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.SelectorEventLoop}


@pytest_asyncio.fixture(autouse=True)
async def _no_task_is_left_behind(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """Check that each task that a test started has ended when the test ends."""
    before = asyncio.all_tasks()
    yield
    for _ in range(5):  # let callbacks of what has just been closed run
        await asyncio.sleep(0)
    left = [task for task in asyncio.all_tasks() - before - {asyncio.current_task()} if not task.done()]
    assert not left, f"left running: {left}"


@pytest.fixture
def initial_objects() -> Iterable[Mapping[str, Any]]:
    """The objects in `server` when a test begins; a module or a class overrides it."""
    return ()


@pytest.fixture
def server(kube_apiserver: ClusterServer, initial_objects: Iterable[Mapping[str, Any]]) -> APIServer:
    """An embedded API server of the test's own, with `initial_objects`."""
    if not isinstance(kube_apiserver, APIServer):
        pytest.skip("uses what only the embedded server has")
    for document in initial_objects:
        kube_apiserver.create(document)
    return kube_apiserver


@pytest.fixture
def client(server: APIServer, kube_client: Client) -> Client:
    """A client for `server`, entered."""
    return kube_client


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of certificates: see `make_certificates`."""
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder
