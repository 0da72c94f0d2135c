"""The pytest plugin, as a user's run has it: in a process of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kinformer.testing import APIServer
from tests.conformance.api import WIDGETS
from tests.support.plugin_run import AUTO, PLUGIN, REPOSITORY, STRICT, PluginRun

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> PluginRun:
    return PluginRun(pytester, monkeypatch)


NEITHER = "*need pytest-asyncio or anyio's plugin in a coroutine test; this test is run by neither*"

EVERYTHING = """
import pytest
from kinformer import SharedInformerFactory
from kinformer.testing import APIServer

{mark}

async def test_a_pod_is_seen(kube_apiserver, kube_client, kube_namespace, make_pod):
    assert isinstance(kube_apiserver, APIServer)
    await make_pod("web-1", labels={{"app": "web"}}, phase="Running")
    async with SharedInformerFactory(kube_client, namespace=kube_namespace) as factory:
        pods = factory.for_resource("v1/pods")
        await factory.wait_for_cache_sync(timeout=10)
        assert pods.lister.get("web-1").path("status.phase") == "Running"

async def test_another_starts_with_nothing(kube_client, kube_namespace, make_deployment):
    made = await make_deployment(replicas=3)
    assert (made.name, made.namespace, made["spec"]["replicas"]) == ("deployment-1", kube_namespace, 3)
    assert (await kube_client.request("GET", "/api/v1/pods"))["items"] == []
"""


ANYIO = """pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""

CUSTOM = """
import pytest
from kinformer import ConfigError

async def test_a_widget(make_object, kube_namespace):
    made = await make_object(api_version="example.com/v1", kind="Widget", labels={"a": "b"}, spec={"n": 1})
    assert (made.key, made.labels["a"], made["spec"]) == (f"{kube_namespace}/widget-1", "b", {"n": 1})
    again = await make_object({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}, name="v")
    assert again.name == "v"

async def test_a_node_is_the_clusters(make_object):
    made = await make_object({"apiVersion": "v1", "kind": "Node", "status": {"phase": "Running"}})
    assert (made.namespace, made["status"]["phase"]) == ("", "Running")

async def test_no_such_kind(make_object):
    with pytest.raises(ConfigError, match="no kind 'Gadget' in 'apps/v1'"):
        await make_object(api_version="apps/v1", kind="Gadget")
"""


@pytest.mark.process
def test_it_works_under_pytest_asyncio_in_auto_mode_and_custom_resources_of_the_settings_are_there(
    run: PluginRun,
) -> None:
    (run.folder / "crds").mkdir()
    (run.folder / "crds" / "widgets.yaml").write_text(yaml.safe_dump(WIDGETS))
    result = run(
        "-p",
        "asyncio",
        "--asyncio-mode=auto",
        "-o",
        "kube_crds=crds",
        test_all=EVERYTHING.format(mark=""),
        test_own=CUSTOM,
    )
    result.assert_outcomes(passed=5)


@pytest.mark.process
def test_it_works_in_the_loop_scope_that_the_settings_name(run: PluginRun) -> None:
    options = (*AUTO, "-o", "asyncio_default_test_loop_scope=session")
    run(*options, test_all=EVERYTHING.format(mark="")).assert_outcomes(passed=2)


SOME = """
import pytest

@pytest.mark.asyncio
@pytest.mark.kube_apiserver("control-plane")
async def test_the_real_one(kube_apiserver): ...

@pytest.mark.asyncio
@pytest.mark.kube_apiserver("embedded", "control-plane")
async def test_either(kube_apiserver): ...

def test_plain(kube_apiserver): ...

async def test_unmarked(kube_apiserver): ...
"""


@pytest.mark.process
def test_it_works_in_strict_mode_in_each_loop_scope_and_beside_the_plugin_of_anyio(run: PluginRun) -> None:
    modules = {
        f"test_{scope}": EVERYTHING.format(mark=f"pytestmark = pytest.mark.asyncio(loop_scope={scope!r})")
        for scope in ("function", "module", "session")
    }
    modules |= {"test_anyio": EVERYTHING.format(mark=ANYIO), "test_some": SOME}
    result = run(*STRICT, "-p", "anyio", "-rs", **modules)
    result.assert_outcomes(passed=10, skipped=1, errors=1)
    result.stdout.fnmatch_lines(["*requires kube_apiserver=control-plane, but this run uses embedded*"])
    result.stdout.fnmatch_lines(
        ["*need pytest-asyncio or anyio's plugin in a coroutine test; this test is run by neither*"]
    )


@pytest.mark.process
def test_it_works_under_the_plugin_of_anyio_alone(run: PluginRun) -> None:
    run("-p", "anyio", test_anyio=EVERYTHING.format(mark=ANYIO)).assert_outcomes(passed=2)


@pytest.mark.process
def test_the_operator_of_the_documentation_is_tested_as_it_says_there(run: PluginRun) -> None:
    run.example_of_the_documentation().assert_outcomes(passed=13)


@pytest.mark.process
def test_a_server_that_does_not_exist_is_refused(run: PluginRun) -> None:
    result = run(*AUTO, "-o", "kube_apiserver=k3s", test_all=EVERYTHING.format(mark=""))
    result.stdout.fnmatch_lines(["*invalid 'k3s': expected embedded, control-plane or kubeconfig*"])


@pytest.mark.process
def test_a_mark_with_a_server_that_does_not_exist_is_refused(run: PluginRun) -> None:
    text = 'import pytest\n\n@pytest.mark.kube_apiserver("embeded")\ndef test_never(): ...\n'
    result = run(*AUTO, test_all=text)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*invalid 'embeded': expected embedded, control-plane or kubeconfig*"])


@pytest.mark.process
def test_missing_binaries_are_told_of(run: PluginRun, tmp_path: Path) -> None:
    options = (*AUTO, "--kube-apiserver=control-plane", f"--kube-assets={tmp_path}")
    result = run(*options, test_all=EVERYTHING.format(mark=""))
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*ConfigError: The binaries of a control plane (etcd, kube-apiserver) were not*"])


ON_A_CLUSTER = """
import pytest
from kinformer import ConfigError
from kinformer.testing import ClusterServer

async def namespaces(client):
    return [item["metadata"]["name"] for item in (await client.request("GET", "/api/v1/namespaces"))["items"]]

@pytest.mark.parametrize("number", [1, 2, 3])
async def test_each_has_its_own(kube_client, kube_namespace, make_pod, make_object, number):
    pod = await make_pod("same-name")
    assert pod.namespace == kube_namespace
    assert kube_namespace.startswith(f"test-each-has-its-own-{number}-")
    await make_object(api_version="v1", kind="Node", name=kube_namespace)
    assert kube_namespace in await namespaces(kube_client)

async def test_it_is_not_ours_to_restart(kube_apiserver):
    await kube_apiserver.restart()

async def test_its_kubeconfig_can_be_had(kube_apiserver, tmp_path):
    assert "server: " + kube_apiserver.url in kube_apiserver.kubeconfig(tmp_path / "copy").read_text()
    with pytest.raises(ConfigError, match="not available"):
        kube_apiserver.token()
    with pytest.raises(ConfigError, match="no user 'alice'"):
        kube_apiserver.client("alice")
"""


@pytest.mark.process
async def test_tests_in_parallel_on_an_existing_cluster_do_not_meet_and_leave_nothing_behind(
    run: PluginRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with APIServer() as cluster:
        before = cluster.list("v1/namespaces")
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path / "kubeconfig")))
        options = (*AUTO, "--kube-apiserver=kubeconfig", "-p", "xdist", "-n", "2")
        result = await asyncio.to_thread(run, *options, test_cluster=ON_A_CLUSTER)
        result.assert_outcomes(passed=4, skipped=1)
        assert cluster.list("v1/namespaces") == before
        assert cluster.list("v1/nodes") == []
        assert cluster.list("v1/pods") == []


@pytest.mark.process
def test_loading_the_plugin_costs_a_run_without_it_nothing() -> None:
    heavy = ["aiohttp", "asyncio", "msgspec", "yaml", "anyio", "kinformer.client", "kinformer.testing.server"]
    program = f"""
import sys, pytest
before = set(sys.modules)
import {PLUGIN}
print(sorted(set({heavy!r}) & (set(sys.modules) - before)), len(set(sys.modules) - before))
"""
    answer = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    loaded, count = answer.stdout.rsplit(" ", 1)
    assert loaded == "[]"
    assert int(count) < 30


# --- a guest in the tests of another project --------------------------------------------------------------------------

OLDER = """
import pytest, pytest_asyncio

def fixture(fixture_function=None, *, scope="function", params=None, autouse=False, ids=None, name=None):
    return pytest.fixture(fixture_function, scope=scope, params=params, autouse=autouse, ids=ids, name=name)

pytest_asyncio.fixture = fixture
pytest_asyncio.__version__ = "0.21.2"
"""
OTHERS = """
import pytest

def test_of_another_project():
    pass

@pytest.mark.asyncio
async def test_that_wants_one(kube_client):
    raise AssertionError
"""


@pytest.mark.process
def test_an_older_pytest_asyncio_ends_no_run_and_is_named_when_a_fixture_is_asked_for(run: PluginRun) -> None:
    (run.folder / "older.py").write_text(OLDER)
    result = run(*STRICT, "-p", "older", test_it=OTHERS)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*pytest-asyncio 0.24 or later is needed, and this is 0.21.2*"])


SYNC = """
import threading
import time
import pytest
from hypothesis import HealthCheck, given, settings, strategies
from kinformer import ConfigError, NotFoundError, blocking
from kinformer.conditions import is_deployment_rolled_out, is_pod_running
from kinformer.testing import faults

def test_a_pod_is_seen(kube_client, kube_namespace, make_pod):
    assert isinstance(kube_client, blocking.Informers)
    pods = kube_client.for_resource("v1/pods", namespace=kube_namespace)
    made = make_pod("web-1", labels={"app": "web"}, phase="Running")
    assert pods.wait_for(made.key, is_pod_running, timeout=10).labels["app"] == "web"

class TestClass:
    @pytest.mark.parametrize("number", range(2))
    def test_another_starts_with_nothing(self, kube_client, kube_namespace, make_deployment, number):
        made = make_deployment(replicas=3)
        assert (made.name, made.namespace, made["spec"]["replicas"]) == ("deployment-1", kube_namespace, 3)
        assert list(kube_client.list("v1/pods")) == []

def test_the_server_is_controlled(kube_apiserver, kube_client, kube_namespace, make_pod):
    pods = kube_client.for_resource("v1/pods", namespace=kube_namespace)
    pods.wait_synced(timeout=10)
    fault = kube_apiserver.faults.add(faults.expired(), verb="watch", resource="v1/pods", times=1)
    kube_apiserver.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": kube_namespace},
                           "spec": {"containers": [{"name": "main", "image": "i"}]}})
    pods.wait_for(f"{kube_namespace}/a", bool, timeout=20)
    assert fault.hits == 1
    kube_apiserver.restart()
    kube_apiserver.delete("v1/pods", kube_namespace, "a")
    pods.wait_for(f"{kube_namespace}/a", lambda pod: pod is None, timeout=20)
    assert kube_apiserver.requests[0].method == "POST"
    with kube_apiserver.client() as another:
        assert another.get("v1/namespaces", kube_namespace).name == kube_namespace

def test_controllers_run(kube_apiserver, kube_client, make_deployment):
    with kube_apiserver.run_controllers():
        made = make_deployment(replicas=2)
        kube_client.wait_for("apps/v1/deployments", made.key, is_deployment_rolled_out, timeout=10)

def test_errors_are_raised(kube_client, kube_namespace, make_object):
    with pytest.raises(NotFoundError):
        kube_client.get("v1/pods", f"{kube_namespace}/none")
    with pytest.raises(ConfigError, match="no kind 'Gadget' in 'apps/v1'"):
        make_object(api_version="apps/v1", kind="Gadget")

async def program(client):
    async with client:
        metadata = {"name": "a", "namespace": "default"}
        await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        raise ValueError("crashed")

def test_a_program_crashes_beside_it(kube_running, kube_client, kube_apiserver):
    from kinformer import Client
    task = kube_running(program(Client.from_url(kube_apiserver.url)))
    kube_client.wait_for("v1/configmaps", "default/a", bool, timeout=10)

async def forever():
    import asyncio
    await asyncio.Event().wait()

def test_a_program_is_cancelled(kube_running):
    first, second = kube_running(forever()), kube_running(forever())
    first.cancel()
    while not first.done():
        time.sleep(0.01)
    assert not second.done()

@given(strategies.integers())
@settings(max_examples=3, suppress_health_check=list(HealthCheck))
def test_a_property(kube_client, number):
    kube_client.get("v1/namespaces", "default")

def test_no_thread_is_left():
    assert [one.name for one in threading.enumerate() if "kinformer" in one.name] == []
"""


@pytest.mark.process
def test_it_works_in_tests_that_are_no_coroutines(run: PluginRun) -> None:
    result = run(test_sync=SYNC)
    result.assert_outcomes(passed=10, errors=1)
    result.stdout.fnmatch_lines(["*ERROR*test_a_program_crashes_beside_it*ValueError: crashed*"])


@pytest.mark.process
def test_coroutine_tests_and_others_share_a_module_under_pytest_asyncio(run: PluginRun) -> None:
    plain = "def test_plain(kube_client, make_pod):\n    assert make_pod().name == 'pod-1'\n"
    run(*AUTO, test_all=EVERYTHING.format(mark="") + "\n" + plain).assert_outcomes(passed=3)


@pytest.mark.process
def test_without_a_plugin_that_runs_coroutines_only_the_fixtures_fail(run: PluginRun) -> None:
    result = run("-p", "no:asyncio", test_it=OTHERS.replace("@pytest.mark.asyncio\n", ""))
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["*need pytest-asyncio or anyio's plugin in a coroutine test; this test is run by neither*"]
    )


THEIRS = """
import pytest

@pytest.fixture
def kube_client():
    return "theirs"

@pytest.fixture
def make_pod(kube_client):
    return kube_client

@pytest.fixture
async def kube_running(kube_client):
    return kube_client

@pytest.fixture
def kube_namespace(lacking):
    return lacking
"""
USES_THEIRS = """
import pytest

def test_theirs(kube_client, make_pod):
    assert (kube_client, make_pod) == ("theirs", "theirs")

async def test_their_coroutine(kube_running):
    assert kube_running == "theirs"

async def test_ours(kube_apiserver):
    assert kube_apiserver.url

def test_a_fault_of_theirs(kube_namespace): ...
"""


@pytest.mark.process
@pytest.mark.parametrize("is_first", [True, False])
def test_a_fixture_of_another_plugin_with_the_same_name_is_used(
    run: PluginRun, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    (run.folder / "theirs.py").write_text(THEIRS)
    if is_first:
        monkeypatch.setenv("PYTEST_ADDOPTS", "-p theirs")
    result = run(*([] if is_first else ["-p", "theirs"]), *AUTO, test_it=USES_THEIRS)
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*fixture 'lacking' not found*"])


@pytest.mark.process
def test_a_fixture_of_a_conftest_may_use_the_one_that_it_replaces(run: PluginRun) -> None:
    (run.folder / "conftest.py").write_text(
        "import pytest\n@pytest.fixture\ndef kube_client(kube_client):\n    return 'own', kube_client\n"
    )
    uses = (
        "async def test_it(kube_client):\n    own, client = kube_client\n    await client.request('GET', '/version')\n"
    )
    run(*AUTO, test_it=uses).assert_outcomes(passed=1)
