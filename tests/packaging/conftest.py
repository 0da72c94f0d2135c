"""The wheel and the sdist: built here by the build backend, or those of a folder that is about to be released.

`nox -s package` gives the folder by `--distributions`. Only then are they installed into empty virtual environments,
for which a package index is needed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.packaging.building import Distributions, build

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--distributions", metavar="FOLDER", help="test what is in this folder, and install it")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--distributions", default=None):
        return
    left_out = [item for item in items if item.path.parent == HERE and "released" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(scope="session")
def distributions(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The wheel and the sdist under test."""
    if folder := pytestconfig.getoption("--distributions", default=None):
        return Distributions(Path(pytestconfig.invocation_params.dir, folder))
    return build(tmp_path_factory.mktemp("built"), epoch=os.environ.get("SOURCE_DATE_EPOCH"))


@pytest.fixture(scope="session")
def released(distributions: Distributions) -> Distributions:
    """Those of `--distributions`."""
    return distributions
