"""The tests that run on both servers, and those of the real one alone.

A plain `pytest` runs the former on the embedded server, which needs nothing. `pytest tests/conformance`,
`--conformance` or KINFORMER_CONFORMANCE=1 runs everything on a real control plane too, whose binaries
`build_assets.py` builds.
"""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kinformer.testing import APIServer, ClusterServer, ControlPlane
from tests.conformance import recordings
from tests.conformance.api import Api
from tests.conformance.build_assets import ASSETS_VARIABLE, BuildError, assets_folder
from tests.conformance.differences import unexpected
from tests.conformance.site import Site
from tests.conformance.transcript import Transcript
from tests.conformance.versions import RECORDED, Minor, default_flags, expected_files, minor_of, transcript_file

HERE = Path(__file__).parent
STARTED = pytest.StashKey[list[ControlPlane]]()
EMBEDDED, REAL = "embedded", "control-plane"
USERS = ["alice", "bob"]

StartControlPlane = Callable[..., Awaitable[ControlPlane]]
OpenApi = Callable[..., Awaitable[Api]]
Held = Callable[[str, Mapping[str, Any], str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--conformance", action="store_true", help="run the tests against a real kube-apiserver too")
    parser.addoption("--kubernetes", metavar="VERSION", help="the real one is of this version, which was built before")
    parser.addoption("--record-transcripts", action="store_true", help="write what the real kube-apiserver answers")


def pytest_configure(config: pytest.Config) -> None:
    """Programs that look for a control plane on their own find the version that was asked for."""
    version = config.getoption("--kubernetes", default=None)
    if version and not hasattr(config, "workerinput"):  # the workers of xdist inherit it
        try:
            os.environ[ASSETS_VARIABLE] = str(assets_folder(version=version))
        except BuildError as error:
            raise pytest.UsageError(str(error)) from None


def _asked_for(config: pytest.Config) -> bool:
    if config.getoption("--conformance", default=False) or os.environ.get("KINFORMER_CONFORMANCE") == "1":
        return True
    paths = [(config.invocation_params.dir / arg.split("::")[0]).resolve() for arg in config.args]
    return any(path == HERE or HERE in path.parents for path in paths)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server_kind" in metafunc.fixturenames:
        kinds = [EMBEDDED, REAL] if _asked_for(metafunc.config) else [EMBEDDED]
        if metafunc.config.getoption("--record-transcripts", default=False):
            kinds = [REAL]
        metafunc.parametrize("server_kind", kinds, scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_asyncio_loop_factories(config: pytest.Config) -> dict[str, Callable[[], asyncio.AbstractEventLoop]] | None:
    """A real server has a clock of its own, which does not jump."""
    return {"real": asyncio.SelectorEventLoop} if _asked_for(config) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What needs the binaries runs when it is asked for."""
    needing = [item for item in items if item.path.is_relative_to(HERE) and _needs_binaries(item)]
    for item in needing:
        item.add_marker(pytest.mark.process)
    if _asked_for(config):
        _leave_to_newer_servers(needing)
        return
    left_out = [item for item in needing if "server_kind" not in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=left_out)
    unwanted = set(left_out)
    items[:] = [item for item in items if item not in unwanted]


def _leave_to_newer_servers(items: list[pytest.Item]) -> None:
    """Skip what the real server at hand is too old for."""
    marked = [(item, mark) for item in items if (mark := item.get_closest_marker("kubernetes"))]
    if not marked or not (assets_folder() / "kube-apiserver").exists():
        return
    minor = minor_of(assets_folder())
    for item, mark in marked:
        since, reason = mark.args
        if minor < Minor.of(since):
            item.add_marker(pytest.mark.skip(reason=f"Kubernetes {minor} is older than {since}: {reason}"))


def _needs_binaries(item: pytest.Item) -> bool:
    kind = _kind(item)
    return kind == REAL or (kind is None and "assets" in getattr(item, "fixturenames", ()))


def _kind(item: pytest.Item) -> str | None:
    """Return the kind of server that a test runs on, or None if it has no choice."""
    kind: str | None = getattr(getattr(item, "callspec", None), "params", {}).get("server_kind")
    return kind


def _title(item: pytest.Item) -> str:
    """Module and function of a test, with its parameters but not the server. A borrowed test keeps its module."""
    module = getattr(item, "function").__module__.rpartition(".")[2]  # noqa: B009 - an Item has none
    function = re.sub(r"\W+", "_", item.name.replace(EMBEDDED, "").replace(REAL, "")).strip("_")
    return f"{module.removeprefix('test_')}::{function.removeprefix('test_')}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test with a site is held against its transcript, once it has passed."""
    yield
    site = getattr(item, "funcargs", {}).get("site")
    if site is None or not site.transcript.exchanges:
        return
    title, embedded = _title(item), _kind(item) == EMBEDDED
    minor = RECORDED if embedded else minor_of(site.server.assets.folder)
    if item.config.getoption("--record-transcripts", default=False):
        if item.path.stem == f"test_{title.partition('::')[0]}":  # not by a borrowed test
            _record(title, minor, site.transcript)
        return
    recorded, *otherwise = map(Transcript.read, expected_files(title, minor))
    came = site.transcript.exchanges
    found = unexpected(title, recorded, came, embedded=embedded, otherwise=otherwise[0] if otherwise else None)
    assert not found, f"{len(found)} differences from what a real server answered:\n" + "\n".join(found)


def _record(title: str, minor: Minor, transcript: Transcript) -> None:
    """Write a transcript; that of another minor than the usual one only if it says something else."""
    file, usual = transcript_file(title, minor), transcript_file(title, RECORDED)
    if minor != RECORDED and not unexpected(title, Transcript.read(usual), transcript.exchanges, embedded=False):
        file.unlink(missing_ok=True)
    else:
        transcript.write(file)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    report = yield
    if report.failed:
        for control_plane in item.stash.get(STARTED, []):
            report.sections.append(("logs of the control plane", control_plane.log_tail()))
    return report


@pytest_asyncio.fixture(autouse=True)
async def _farewells(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """A request that is cancelled on TLS says farewell behind its caller: the loop lasts until it is answered."""
    yield
    if STARTED in request.node.stash:
        await asyncio.sleep(0.05)


@pytest.fixture
def held(request: pytest.FixtureRequest) -> Held:
    """A function that holds answers to a recording of this name, or records them; the last argument is who answered."""

    def hold(name: str, answers: Mapping[str, Any], by: str) -> None:
        if by == REAL and request.config.getoption("--record-transcripts"):
            recordings.write(name, answers)
        else:
            recordings.check(name, answers, by)

    return hold


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder that `build_assets.py` fills; ControlPlane itself says what is missing in it."""
    return assets_folder()


@pytest.fixture
def kubernetes(request: pytest.FixtureRequest, server_kind: str) -> Minor:
    """The minor that the server of the test is, or answers as."""
    return RECORDED if server_kind == EMBEDDED else minor_of(request.getfixturevalue("assets"))


@pytest.fixture(scope="session")
def shared_control_plane(assets: Path) -> Iterator[ControlPlane]:
    """One for the whole session: each test has a namespace of its own in it."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        control_plane = ControlPlane(assets, users=USERS, api_server_flags=default_flags(minor_of(assets)))
        runner.run(control_plane.__aenter__())
        try:
            yield control_plane
        finally:
            runner.run(control_plane.__aexit__(None, None, None))


@pytest.fixture
def real_server(request: pytest.FixtureRequest, server_kind: str) -> ControlPlane | None:
    if server_kind == EMBEDDED:
        return None
    control_plane: ControlPlane = request.getfixturevalue("shared_control_plane")  # a plain fixture: no loop runs yet
    request.node.stash.setdefault(STARTED, []).append(control_plane)
    return control_plane


@pytest.fixture
def embedded_options() -> dict[str, Any]:
    """What a module whose tests are about users gives to the embedded server."""
    return {}


@pytest_asyncio.fixture
async def server(real_server: ControlPlane | None, embedded_options: dict[str, Any]) -> AsyncIterator[ClusterServer]:
    """A server of each kind; the real one is shared, and to be left as it was found."""
    if real_server is not None:
        yield real_server
        return
    async with APIServer(**embedded_options) as embedded:
        yield embedded


@pytest_asyncio.fixture
async def own_server(request: pytest.FixtureRequest, server_kind: str) -> AsyncIterator[ClusterServer]:
    """A server of each kind for this test alone, for tests that restart it or make it forget."""
    if server_kind == EMBEDDED:
        async with APIServer() as embedded:
            yield embedded
    else:
        assets = request.getfixturevalue("assets")
        async with ControlPlane(assets, api_server_flags=default_flags(minor_of(assets))) as control_plane:
            request.node.stash.setdefault(STARTED, []).append(control_plane)
            yield control_plane


async def new_namespace(server: ClusterServer) -> str:
    """Make a namespace on a server, and return its name."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    site = Site(server, name)
    await site.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest_asyncio.fixture
async def site(server: ClusterServer) -> Site:
    """Raw HTTP to the server, in a new namespace; held against its transcript."""
    return Site(server, await new_namespace(server))


@pytest_asyncio.fixture
async def namespace(server: ClusterServer) -> str:
    """A new namespace on the server."""
    return await new_namespace(server)


@pytest_asyncio.fixture
async def start_control_plane(request: pytest.FixtureRequest, assets: Path) -> AsyncIterator[StartControlPlane]:
    """A function that starts a `ControlPlane` with the given options; it is ended after the test."""
    started = request.node.stash.setdefault(STARTED, [])
    async with AsyncExitStack() as stack:

        async def start(api_server_flags: Sequence[str] = (), **options: Any) -> ControlPlane:
            options["api_server_flags"] = [*default_flags(minor_of(assets)), *api_server_flags]
            control_plane = await stack.enter_async_context(ControlPlane(assets, **options))
            started.append(control_plane)
            return control_plane

        yield start


@pytest_asyncio.fixture
async def open_api() -> AsyncIterator[OpenApi]:
    """A function that opens a plain HTTP session, which owes nothing to kinformer's client, for a user."""
    async with AsyncExitStack() as stack:

        async def opened(server: ClusterServer, user: str | None = None) -> Api:
            return await stack.enter_async_context(Api(server, user))

        yield opened
