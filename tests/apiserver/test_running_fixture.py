"""The fixture `kube_running`, as a user's run of pytest has it."""

from __future__ import annotations

import pytest

from tests.support.plugin_run import AUTO, PluginRun

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.process

ANYIO = """pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""

TESTS = """
import asyncio
import time
import pytest
from kinformer.exceptions import NotFoundError
from kinformer.testing import running

{mark}

MAP = {{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "a"}}}}


async def main(client, namespace, *, fail=False, early=False):
    await client.request("POST", f"/api/v1/namespaces/{{namespace}}/configmaps", body=MAP)
    if fail:
        await client.request("GET", f"/api/v1/namespaces/{{namespace}}/configmaps/b")
    if not early:
        await asyncio.Event().wait()


async def wait(client, namespace, name="a"):
    return await client.wait_for("v1/configmaps", f"{{namespace}}/{{name}}", lambda one: one is not None, 30)


{fixture}
async def operator(kube_running, kube_client, kube_namespace):
    return kube_running(main(kube_client, kube_namespace, fail=True))


async def test_works(kube_running, kube_client, kube_namespace):
    task = kube_running(main(kube_client, kube_namespace))
    await wait(kube_client, kube_namespace)
    assert not task.done()


async def test_fails(kube_running, kube_client, kube_namespace):
    kube_running(main(kube_client, kube_namespace, fail=True))
    await wait(kube_client, kube_namespace, "never")


async def test_fails_in_a_fixture(operator, kube_client, kube_namespace):
    await wait(kube_client, kube_namespace, "never")


async def test_returns_early(kube_running, kube_client, kube_namespace):
    kube_running(main(kube_client, kube_namespace, early=True))
    await wait(kube_client, kube_namespace, "never")


async def test_goes_on_after_those(kube_client, kube_namespace):
    async with asyncio.timeout(30), running(main(kube_client, kube_namespace)):
        await wait(kube_client, kube_namespace)


class TestOfAClass:
    @pytest.mark.parametrize("number", [1])
    async def test_method(self, kube_running, kube_client, kube_namespace, number):
        kube_running(main(kube_client, kube_namespace, fail=True))
        await wait(kube_client, kube_namespace, "never")
"""


@pytest.mark.parametrize("plugin", ["asyncio", "session", "anyio"])
def test_a_program_ends_its_test_with_its_error(
    plugin: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run = PluginRun(pytester, monkeypatch)
    options = ("-p", "anyio") if plugin == "anyio" else AUTO
    mark, fixture = "import pytest_asyncio", "@pytest_asyncio.fixture"
    if plugin == "anyio":
        mark, fixture = ANYIO, "@pytest.fixture"
    if plugin == "session":
        scope = "asyncio_default_test_loop_scope=session"
        options = (*options, "-o", scope, "-o", "asyncio_default_fixture_loop_scope=session")
    result = run(*options, "-rA", test_it=TESTS.format(mark=mark, fixture=fixture))
    result.assert_outcomes(passed=2, failed=4)
    output = result.stdout.str()
    for test in ("test_fails", "test_fails_in_a_fixture", "TestOfAClass::test_method[1]"):
        (line,) = [line for line in output.splitlines() if line.startswith(f"FAILED test_it.py::{test} ")]
        assert "NotFoundError" in line
    (line,) = [line for line in output.splitlines() if line.startswith("FAILED test_it.py::test_returns_early ")]
    assert "RuntimeError: main returned None" in line
