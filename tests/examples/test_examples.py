"""Every example runs as a program of its own, against the server that it brings, and shows what it is there to show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.ports import reserved_port

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

# What each prints, in this order, among other lines; each is a regular expression that one line matches from its start.
SHOWN = {
    "books_in_a_store.py": [
        r"in the store: Good Omens, Mort",
        r"no key: .*isbn",
        r"by the authors of Good Omens: Good Omens, Mort",
        r"no index: there is no index 'publisher'",
    ],
    "factory_with_tweaked_lists.py": [
        r"synced: v1/pods \(3\), v1/configmaps \(1\)",
        r"in the namespace: api-1, old-1, web-1$",
        r"by selector: +api-1, web-1$",
        r"by index: +api-1, web-1$",
        r"pod web-2 is new",
        r"configmap prices is gone",
        r"pod .* is looked at again",
    ],
    "fastapi_app.py": [
        r"GET /readyz \{'v1/pods': 'watching'\}",
        r"GET /pods\?selector=app%3Dweb .*web-1.*web-2",
        r"GET /nodes/node-b/pods .*db-1.*web-2",
        r"GET /pods\?selector=app%3Dweb .*web-1.*web-2.*web-3",
    ],
    "reflector_into_delta_fifo.py": [
        r"Replaced default/web-1 Running \(there from the start\)",
        r"Added    default/web-4 Pending",
        r"Deleted  default/web-1$",
        r"-- the connection is cut",
        r"Replaced default/web-4 Running$",
        r"Deleted  default/web-2 \(nobody saw it go\)",
        r"the queue is closed; the store holds default/web-3, default/web-4$",
    ],
    "reflector_into_own_store.py": [
        r"cluster: 3 Running",
        r"cluster: 1 Pending, 3 Running",
        r"cluster: 1 Failed, 2 Running",
    ],
    "sample_controller.py": [
        r"synced: 1 foos, 0 deployments",
        r"default/example: made deployment example-web",
        r"default/example: status says 1 available",
        r"-- the foo is to have three",
        r"default/example: scaled example-web to 3",
        r"-- another client deletes the deployment",
        r"default/example: made deployment example-web",
        r"default/example: is gone",
    ],
    "scheduled_pod_lister.py": [
        r"2 scheduled: default/api-1 on node-a, default/import-1 on node-b",
        r"3 scheduled: default/api-1 on node-a, default/api-2 on node-b, default/import-1 on node-b",
        r"-- import-1 has succeeded",
        r"2 scheduled: default/api-1 on node-a, default/api-2 on node-b",
        r"-- so far the server was asked [1-4] times",
        r"-- it is back",
        r"3 scheduled: default/api-1 on node-a, default/api-2 on node-b, default/api-3 on node-a",
    ],
    "watching_by_hand.py": [
        r"LISTED default/web-1",
        r"watching from \d+",
        r"ADDED default/web-3 Pending",
        r"MODIFIED default/web-2 Running",
        r"DELETED default/web-1",
        r"the stream has ended",
    ],
}


def start(name: str, *arguments: str, port: int = 0) -> subprocess.Popen[str]:
    """An example that runs, in a process of its own; warnings are errors there too."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PORT": str(port), "PYTHONUNBUFFERED": "1"},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """The exit status, the output and the errors."""
    try:
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, output, errors


@pytest.fixture(scope="module")
def runs() -> dict[str, tuple[int, str, str]]:
    """All of them, run at once: most of their time is waiting."""
    with ExitStack() as stack:
        ports = {name: stack.enter_context(reserved_port()) for name in SHOWN}
        processes = {name: start(name, port=port) for name, port in ports.items()}
        return {name: finish(process) for name, process in processes.items()}


def assert_in_order(expected: list[str], output: str, errors: str) -> None:
    rest = iter(output.splitlines())
    for pattern in expected:
        assert any(re.match(pattern, line) for line in rest), f"no {pattern!r} at its place in:\n{output}\n{errors}"


def test_every_example_is_among_the_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} - {"playground.py"} == set(SHOWN)


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_an_example_shows_what_it_is_there_for_and_ends_by_itself(
    name: str, runs: dict[str, tuple[int, str, str]]
) -> None:
    status, output, errors = runs[name]
    assert status == 0, errors
    assert "Traceback" not in errors, errors
    assert_in_order(SHOWN[name], output, errors)


def test_a_folder_of_manifests_is_followed_by_the_same_reflector(runs: dict[str, tuple[int, str, str]]) -> None:
    _, output, errors = runs["reflector_into_own_store.py"]
    folder = ["folder: 1 Pending", "folder: 2 Pending", "folder: 1 Pending, 1 Running", "folder: 1 Running"]
    assert_in_order(folder, output, errors)


def test_an_example_ends_cleanly_when_its_duration_is_over() -> None:
    status, output, errors = finish(start("scheduled_pod_lister.py", "--duration", "1"))
    assert status == 0, errors
    assert "it is back" not in output
    assert "Traceback" not in errors, errors


def test_a_context_that_does_not_exist_is_one_clear_error(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text('{"apiVersion": "v1", "kind": "Config", "clusters": [], "contexts": [], "users": []}')
    status, _, errors = finish(start("watching_by_hand.py", "--kubeconfig", str(kubeconfig), "--context", "nowhere"))
    assert status != 0
    assert "nowhere" in errors
    assert str(kubeconfig) in errors
