"""pytest fixtures: an API server, a client, a namespace for the test, and factories for objects.

::

    async def test_a_pod_is_seen(kube_client, make_pod):
        await make_pod("web-1", labels={"app": "web"}, phase="Running")
        ...

| fixture | value |
|---|---|
| `kube_apiserver` | an `APIServer`, or the server that `--kube-apiserver` selects (see `ClusterServer`) |
| `kube_client` | an entered `Client` for it, with all rights |
| `kube_namespace` | the name of a new namespace, removed after the test with its contents |
| `make_object`, `make_pod`, `make_deployment` | coroutine functions: `MakeObject`, `MakePod`, `MakeDeployment` |
| `kube_running` | a function that runs a program beside the test: `kube_running(main(kube_client))` |

Their types are public, for tests that are type-checked: `ClusterServer`, `Client`, `str`, and the types of the
factories.

The plugin is loaded in every pytest run where kinformer is installed. So it imports neither kinformer nor asyncio
before the first of these fixtures is requested, gives way to other plugins' fixtures of the same names, and works with
pytest 7. Coroutine tests run under pytest-asyncio 0.24 or later (in every mode and loop scope) or anyio's plugin.

In a test that is not a coroutine, the server runs on an event loop in a thread of its own. There `kube_client` is an
entered `blocking.Informers`, and so is `kube_apiserver.client(user)` in a `with`. Coroutine functions are
plain functions there: `make_pod("web-1")`, `kube_apiserver.restart()`, `with kube_apiserver.run_controllers()`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest

from kinformer.testing.pytest_scene import PROGRAMS, USED, Scene, crds_of, scene

if TYPE_CHECKING:
    from asyncio import Task

    from kinformer.blocking import Informers
    from kinformer.client.client import Client
    from kinformer.testing.cluster_server import ClusterServer
    from kinformer.testing.clusters.control_plane import ControlPlane
    from kinformer.testing.clusters.existing_cluster import ExistingCluster
    from kinformer.testing.factories import MakeDeployment, MakeObject, MakePod

T = TypeVar("T")
S = TypeVar("S", bound="ControlPlane | ExistingCluster")

EMBEDDED, CONTROL_PLANE, KUBECONFIG = "embedded", "control-plane", "kubeconfig"

_UNUSABLE = pytest.StashKey[str]()
"""Why the fixtures for pytest-asyncio could not be made."""

_BESIDE = pytest.StashKey[bool]()
"""Set once a test runs beside its programs, because a test may be run again."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kinformer")
    group.addoption(
        "--kube-apiserver",
        choices=[EMBEDDED, CONTROL_PLANE, KUBECONFIG],
        help="the server behind `kube_apiserver`: embedded, a real etcd and kube-apiserver, or a kubeconfig's cluster",
    )
    group.addoption("--kube-assets", metavar="FOLDER", help="the binaries of --kube-apiserver=control-plane")
    group.addoption("--kube-context", metavar="NAME", help="the context of --kube-apiserver=kubeconfig")
    parser.addini("kube_apiserver", "the same as --kube-apiserver, which takes precedence", default=EMBEDDED)
    parser.addini("kube_crds", "files and folders of CustomResourceDefinitions to install on each server", type="paths")


def pytest_configure(config: pytest.Config) -> None:
    kinds = f"{EMBEDDED}, {CONTROL_PLANE}, {KUBECONFIG}"
    config.addinivalue_line("markers", f"kube_apiserver(*kinds): run only if `kube_apiserver` is one of {kinds}")
    if sys.modules.get("pytest_asyncio.plugin") in config.pluginmanager.get_plugins():  # under any name
        try:
            from kinformer.testing import pytest_asyncio_fixtures
        except (AttributeError, TypeError):  # an older release, which has no loop scopes
            version = getattr(sys.modules["pytest_asyncio"], "__version__", "an older release")
            config.stash[_UNUSABLE] = f"pytest-asyncio 0.24 or later is needed, and this is {version}"
        else:
            config.pluginmanager.register(pytest_asyncio_fixtures, "kinformer-asyncio")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "kube_running" in getattr(item, "fixturenames", ()):
        _run_beside_programs(item)
    marker = item.get_closest_marker("kube_apiserver")
    if marker is None or not marker.args:
        return
    for kind in marker.args:
        _check_kind(f"{item.nodeid}: the mark kube_apiserver", kind)
    if (kind := server_kind(item.config)) not in marker.args:
        pytest.skip(f"requires kube_apiserver={' or '.join(marker.args)}, but this run uses {kind}")


def _run_beside_programs(item: Any) -> None:
    """Have the test end with the error of a program of `kube_running`, also if a fixture started it.

    A fixture may run in another task than the test, so the programs get to know the test's task within the test.
    """
    test = item.obj
    if _BESIDE in item.stash or not inspect.iscoroutinefunction(test) or hasattr(test, "hypothesis"):
        return

    @functools.wraps(test)
    async def beside(*args: Any, **kwargs: Any) -> Any:
        programs = item.stash.get(PROGRAMS, None)
        async with programs.beside() if programs is not None else nullcontext():  # another plugin's `kube_running`
            return await test(*args, **kwargs)

    item.stash[_BESIDE] = True
    item.obj = beside


@pytest.hookimpl(hookwrapper=True)  # not `wrapper`, which pytest has only since 8.0
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
    """Add the end of the control plane's logs to a failure's report, and keep its files."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    control_plane = item.stash.get(USED, None)
    if report.failed and control_plane is not None:
        control_plane.keep_files = True
        report.sections.append(("logs of the control plane", control_plane.log_tail()))


def server_kind(config: pytest.Config) -> str:
    """Return the server kind chosen for this run: `"embedded"`, `"control-plane"` or `"kubeconfig"`."""
    kind = str(config.getoption("--kube-apiserver") or config.getini("kube_apiserver"))
    _check_kind("kube_apiserver", kind)
    return kind


def _check_kind(where: str, kind: str) -> None:
    if kind not in (EMBEDDED, CONTROL_PLANE, KUBECONFIG):
        raise pytest.UsageError(f"{where}: invalid {kind!r}: expected {EMBEDDED}, {CONTROL_PLANE} or {KUBECONFIG}")


# -- the servers that a session shares ---------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _kube_control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    from kinformer.testing.clusters.control_plane import ControlPlane

    yield from _of_session(ControlPlane(pytestconfig.getoption("--kube-assets")), pytestconfig)


@pytest.fixture(scope="session")
def _kube_existing_cluster(pytestconfig: pytest.Config) -> Iterator[ExistingCluster]:
    from kinformer.testing.clusters.existing_cluster import ExistingCluster

    class Cluster(ExistingCluster):
        def _refuse(self, what: str) -> NoReturn:
            pytest.skip(f"{self.url} is an existing cluster, which must not be {what} by a test")

    yield from _of_session(Cluster(context=pytestconfig.getoption("--kube-context")), pytestconfig)


def _of_session(server: S, config: pytest.Config) -> Iterator[S]:
    import asyncio

    # A separate loop, which runs before the first test and after the last. The processes of a control plane end with
    # the thread that started them at the latest, so this must be pytest's thread.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(_enter(server, crds_of(config)))
        try:
            yield server
        finally:
            runner.run(server.__aexit__(None, None, None))


async def _enter(server: ControlPlane | ExistingCluster, crds: list[Path]) -> None:
    await server.__aenter__()
    try:
        if crds:
            await server.install_crds(*crds)
    except BaseException as error:
        await server.__aexit__(type(error), error, error.__traceback__)
        raise


@pytest.fixture
def _kube_shared(request: pytest.FixtureRequest) -> ControlPlane | ExistingCluster | None:
    """The server of the session, or None if each test gets its own."""
    kind = server_kind(request.config)
    if kind == EMBEDDED:
        return None
    name = "_kube_control_plane" if kind == CONTROL_PLANE else "_kube_existing_cluster"
    shared: ControlPlane | ExistingCluster = request.getfixturevalue(name)
    return shared


# -- fixtures of one test ----------------------------------------------------------------------------------------------


def _scene_fixture(request: pytest.FixtureRequest) -> str:
    """Choose the fixture for the plugin that runs the test.

    Each plugin runs only its own fixtures in the test's loop. A test that is not a coroutine has none.
    """
    test: Any = getattr(request.node, "obj", None)
    if not inspect.iscoroutinefunction(inspect.unwrap(getattr(getattr(test, "hypothesis", None), "inner_test", test))):
        return "_kube_scene_blocking"
    marker = request.node.get_closest_marker("asyncio")
    if marker is not None and request.config.pluginmanager.hasplugin("kinformer-asyncio"):
        return f"_kube_scene_asyncio_{marker.kwargs.get('loop_scope') or _default_loop_scope(request.config)}"
    if "anyio_backend" in request.fixturenames:
        return "_kube_scene_anyio"
    why = request.config.stash.get(_UNUSABLE, "") if marker is not None else ""
    pytest.fail(
        "kube_apiserver and its dependent fixtures need pytest-asyncio or anyio's plugin in a coroutine test; "
        f"{why or 'this test is run by neither'}. `async with APIServer()` works anywhere.",
        pytrace=False,
    )


def _default_loop_scope(config: pytest.Config) -> str:
    try:
        return str(config.getini("asyncio_default_test_loop_scope"))
    except ValueError:  # pytest-asyncio before 0.26
        return "function"


@pytest.fixture
async def _kube_scene_anyio(
    request: pytest.FixtureRequest, _kube_shared: ControlPlane | ExistingCluster | None
) -> AsyncIterator[Scene]:
    async with scene(request, _kube_shared) as prepared:
        yield prepared


@pytest.fixture
def _kube_scene_blocking(
    request: pytest.FixtureRequest, _kube_shared: ControlPlane | ExistingCluster | None
) -> Iterator[Scene]:
    from kinformer.testing.blocking_scene import blocking_scene

    with blocking_scene(request, _kube_shared) as prepared:
        yield prepared


@pytest.fixture
def _kube_scene(request: pytest.FixtureRequest) -> Scene:
    prepared: Scene = request.getfixturevalue(_scene_fixture(request))
    return prepared


def _fixture(read: Callable[[Scene], T]) -> Callable[[pytest.FixtureRequest], T]:
    """Return a fixture that reads its value from the scene, unless another plugin has a fixture of the same name.

    Of two plugins, pytest takes the fixture of the one that is loaded last. Within it, its name means the other's.
    """

    def fixture(request: pytest.FixtureRequest) -> Any:
        try:
            return request.getfixturevalue(read.__name__)
        except pytest.FixtureLookupError as error:
            if error.argname != read.__name__:
                raise
        return read(request.getfixturevalue("_kube_scene"))

    fixture.__doc__ = read.__doc__
    return pytest.fixture(name=read.__name__)(fixture)


@_fixture
def kube_apiserver(scene_: Scene) -> ClusterServer:
    """An API server: an `APIServer` for this test alone, or the server that `--kube-apiserver` selects.

    A `ControlPlane` is shared by all tests of a session (of a worker under xdist), so each test should use only its
    own `kube_namespace`. If a test stopped it, it is started again before the next test.
    """
    return scene_.server


@_fixture
def kube_client(scene_: Scene) -> Client | Informers:
    """An entered `Client` for `kube_apiserver`, with all rights. Without a coroutine test, `blocking.Informers`."""
    return scene_.client


@_fixture
def kube_namespace(scene_: Scene) -> str:
    """The name of a namespace for this test only. It is removed after the test, with its objects."""
    return scene_.namespace


@_fixture
def make_object(scene_: Scene) -> MakeObject:
    """A coroutine function that creates an object of any kind in `kube_namespace`: `ObjectFactory.make_object`."""
    return scene_.factory.make_object


@_fixture
def make_pod(scene_: Scene) -> MakePod:
    """A coroutine function that creates a Pod in `kube_namespace`: `ObjectFactory.make_pod`."""
    return scene_.factory.make_pod


@_fixture
def make_deployment(scene_: Scene) -> MakeDeployment:
    """A coroutine function that creates a Deployment in `kube_namespace`: `ObjectFactory.make_deployment`."""
    return scene_.factory.make_deployment


@_fixture
def kube_running(scene_: Scene) -> Callable[[Coroutine[Any, Any, object]], Task[Any]]:
    """A function that runs a program beside the test, as `running` does: `kube_running(main(kube_client))`.

    Fixtures can call it too. It returns the program's task. If the program ends, the test is cancelled and fails with
    the program's error. After the test the program is cancelled, before the server ends. If the test is not a
    coroutine, it runs on the loop of the server, and its error is raised after the test.
    """
    return scene_.programs.start
