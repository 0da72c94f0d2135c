"""The fixtures of `pytest_plugin` for pytest-asyncio, registered only if it is installed.

pytest-asyncio runs a fixture in the loop of the fixture's scope, not in the loop of the requesting test. So there is
one fixture for each scope, and the plugin selects the one with the test's scope.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kinformer.testing.pytest_scene import Scene, scene


def _in_loop_of(scope: Any) -> Any:
    async def set_up(request: pytest.FixtureRequest, _kube_shared: Any) -> AsyncIterator[Scene]:
        async with scene(request, _kube_shared) as prepared:
            yield prepared

    return pytest_asyncio.fixture(loop_scope=scope, name=f"_kube_scene_asyncio_{scope}")(set_up)


function_scene = _in_loop_of("function")
class_scene = _in_loop_of("class")
module_scene = _in_loop_of("module")
package_scene = _in_loop_of("package")
session_scene = _in_loop_of("session")
