"""The conformance tests: they run when they are asked for, and need the binaries of a control plane.

Asked for means `pytest tests/conformance`, `--conformance` beside it, or KINFORMER_CONFORMANCE=1. A plain `pytest`
passes them over.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kinformer.testing.control_plane import ControlPlane
from tests.conformance.api import Api
from tests.conformance.build_assets import assets_folder

HERE = Path(__file__).parent
STARTED = pytest.StashKey[list[ControlPlane]]()

StartControlPlane = Callable[..., Awaitable[ControlPlane]]
OpenApi = Callable[..., Awaitable[Api]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--conformance", action="store_true", help="run the tests against a real kube-apiserver")


def _asked_for(config: pytest.Config) -> bool:
    if config.getoption("--conformance", default=False) or os.environ.get("KINFORMER_CONFORMANCE") == "1":
        return True
    paths = [(config.invocation_params.dir / arg.split("::")[0]).resolve() for arg in config.args]
    return any(path == HERE or HERE in path.parents for path in paths)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if _asked_for(config) else True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    report = yield
    if report.failed:
        for control_plane in item.stash.get(STARTED, []):
            report.sections.append(("logs of the control plane", control_plane.log_tail()))
    return report


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder that `build_assets.py` fills; ControlPlane itself says what is missing in it."""
    return assets_folder()


@pytest_asyncio.fixture
async def start_control_plane(request: pytest.FixtureRequest, assets: Path) -> AsyncIterator[StartControlPlane]:
    """A function that starts a `ControlPlane` with the given options; it is ended after the test."""
    started = request.node.stash.setdefault(STARTED, [])
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> ControlPlane:
            control_plane = await stack.enter_async_context(ControlPlane(assets, **options))
            started.append(control_plane)
            return control_plane

        yield start


@pytest_asyncio.fixture
async def open_api() -> AsyncIterator[OpenApi]:
    """A function that opens a plain HTTP session, which owes nothing to kinformer's client, for a user."""
    async with AsyncExitStack() as stack:

        async def opened(control_plane: ControlPlane, user: str | None = None) -> Api:
            return await stack.enter_async_context(Api(control_plane, user))

        yield opened
