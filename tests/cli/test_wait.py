"""`kinformer wait`: kubectl's words, and its exit status.

Internals: the reader of durations, since none of them may be waited for.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from kinformer.cli.commands.wait import seconds_of
from kinformer.cli.target import UsageError
from kinformer.testing import APIServer
from tests.support.cli import CommandLine, Ended, command_process
from tests.support.kube import pod
from tests.support.waiting import until

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.fixture
def kinformer(server: APIServer, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    server.create(pod("web-1", phase="Pending"))
    return CommandLine(capsys, server.url)


def set_status(server: APIServer, name: str, status: dict[str, Any]) -> None:
    server.update(server.get("v1/pods", "default", name) | {"status": status})


async def watched(server: APIServer, name: str = "web-1", seconds: float = 10) -> None:
    """Wait until the command watches the object."""
    selector = f"metadata.name={name}"
    await until(
        lambda: any("watch" in r.params and r.params.get("fieldSelector") == selector for r in server.requests), seconds
    )


async def test_a_condition_that_comes_is_said_in_kubectls_words(server: APIServer, kinformer: CommandLine) -> None:
    running = asyncio.ensure_future(kinformer("wait", "pod", "web-1", "--for", "condition=Ready", "--timeout", "20s"))
    await watched(server)
    set_status(server, "web-1", READY)
    assert await running == Ended(0, "pod/web-1 condition met\n", "")


@pytest.mark.parametrize(
    "condition",
    [
        "condition=Ready",
        "condition=ready=TRUE",
        "Condition=Ready",
        "jsonpath={.status.phase}=Running",
        "jsonpath='{.status.phase}'=Running",
        "jsonpath='{.status.phase}'='Running'",
        "jsonpath=.status.phase=Running",
        "jsonpath=status.phase",
        "jsonpath={.metadata.labels['app.kubernetes.io/name']}=web",
        r"jsonpath={.metadata.labels.app\.kubernetes\.io/name}=web",
        "jsonpath={.spec.containers[*].name}=main",
        "jsonpath={.spec.containers[0].name}=main",
        'jsonpath={.status.conditions[?(@.type=="Ready")].status}=True',
        'jsonpath=.status.conditions[?(@.type=="Ready")].status=True',
        'jsonpath={.status.conditions[?(@.type!="Initialized")].status}=True',
        "jsonpath={.spec.containers[-1:].name}=main",
        "create",
    ],
)
async def test_what_holds_already_holds(server: APIServer, kinformer: CommandLine, condition: str) -> None:
    document = pod("web-2", labels={"app.kubernetes.io/name": "web"})
    server.create(document)
    set_status(server, "web-2", READY)
    assert await kinformer("wait", "po", "web-2", f"--for={condition}", "--timeout=0") == Ended(
        0, "pod/web-2 condition met\n", ""
    )


async def test_objects_are_named_with_their_resource_as_kubectl_takes_them(
    server: APIServer, kinformer: CommandLine
) -> None:
    server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}})
    ended = await kinformer("wait", "pod/web-1", "cm/a", "--for=create", "--timeout=0")
    assert (ended.status, ended.err) == (0, "")
    assert sorted(ended.out.splitlines()) == ["configmap/a condition met", "pod/web-1 condition met"]


@pytest.mark.parametrize("words", [("pods",), ("pods,cm",), ("pod/web-1", "web-2")])
async def test_objects_without_a_name_are_a_wrong_command_line(kinformer: CommandLine, words: tuple[str, ...]) -> None:
    ended = await kinformer("wait", *words, "--for=delete")
    assert ended.status == 2
    assert "NAME" in ended.err


@pytest.mark.slow
async def test_a_timeout_is_said_in_kubectls_words_and_says_how_the_object_is(kinformer: CommandLine) -> None:
    ended = await kinformer("wait", "pods", "web-1", "--for=condition=Ready", "--timeout=3")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith(
        "kinformer: timed out waiting for the condition on pods/web-1; it is Pending (0/1 containers ready)"
    )
    assert ended.err.count("\n") == 1


async def test_a_timeout_of_zero_asks_once(kinformer: CommandLine) -> None:
    ended = await kinformer("wait", "pods", "web-1", "--for=condition=Ready", "--timeout=0s")
    assert ended == Ended(1, "", "kinformer: condition not met for pods/web-1\n")


async def test_an_object_that_does_not_exist_is_an_error_at_once_but_for_create_and_delete(
    server: APIServer, kinformer: CommandLine
) -> None:
    ended = await kinformer("wait", "pods", "none", "--for=condition=Ready")
    assert ended == Ended(1, "", 'kinformer: 404 NotFound: pods "none" not found\n')
    assert await kinformer("wait", "pods", "none", "--for=delete") == Ended(0, "", "")
    running = asyncio.ensure_future(kinformer("wait", "pods", "new", "--for=create"))
    await watched(server, "new")
    server.create(pod("new"))
    assert await running == Ended(0, "pod/new condition met\n", "")


async def test_several_objects_are_waited_for_at_the_same_time(server: APIServer, kinformer: CommandLine) -> None:
    server.create(pod("web-2"))
    running = asyncio.ensure_future(kinformer("wait", "pods", "web-1", "web-2", "--for=delete"))
    await watched(server)
    await watched(server, "web-2")
    server.delete("v1/pods", "default", "web-2")
    server.delete("v1/pods", "default", "web-1")
    ended = await running
    assert (ended.status, sorted(ended.out.splitlines())) == (
        0,
        ["pod/web-1 condition met", "pod/web-2 condition met"],
    )


async def test_another_object_of_the_name_is_not_the_one_whose_delete_is_waited_for(
    server: APIServer, kinformer: CommandLine
) -> None:
    running = asyncio.ensure_future(kinformer("wait", "pods", "web-1", "--for=delete"))
    await watched(server)
    server.delete("v1/pods", "default", "web-1")
    server.create(pod("web-1"))
    assert (await running).status == 0


async def test_a_restart_of_the_server_does_not_end_it(server: APIServer, kinformer: CommandLine) -> None:
    running = asyncio.ensure_future(kinformer("wait", "pod", "web-1", "--for=condition=Ready", "--timeout=30"))
    await watched(server)
    await server.restart()
    set_status(server, "web-1", READY)
    assert (await running).out == "pod/web-1 condition met\n"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("Ready", 'unrecognized condition: "Ready"; expected create, delete, condition=NAME'),
        ("Ready", ", such as condition=Ready"),
        ("condition=", 'unrecognized condition: "condition="'),
        ("jsonpath={.status.phase}=", "jsonpath wait has to have a value after equal sign"),
        (
            'jsonpath={.status.conditions[?(@.type=="Ready"].status}=True',
            "has '].status' at position 36",
        ),
    ],
)
async def test_a_condition_that_is_none_is_a_wrong_command_line(
    kinformer: CommandLine, condition: str, text: str
) -> None:
    ended = await kinformer("wait", "pods", "web-1", "--for", condition)
    assert ended.status == 2
    assert text in ended.err


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("{.spec.containers}=a", "jsonpath leads to a nested object or list which is not supported"),
        ("{.metadata.labels[*]}=a", "given jsonpath expression matches more than one value"),
    ],
)
async def test_a_path_that_kubectl_refuses_is_refused(
    server: APIServer, kinformer: CommandLine, path: str, text: str
) -> None:
    server.create(pod("web-2", labels={"a": "1", "b": "2"}))
    ended = await kinformer("wait", "pods", "web-2", f"--for=jsonpath={path}")
    assert (ended.status, ended.err) == (1, f"kinformer: {text}\n")


async def test_a_right_that_is_missing_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    async with APIServer(users={"e": "eve"}, rules=[]) as server:
        server.kubeconfig(tmp_path / "config", user="eve")
        kinformer = CommandLine(capsys)
        arguments = ("--for=condition=Ready", "--kubeconfig", str(tmp_path / "config"))
        ended = await kinformer("wait", "v1/pods", "web-1", *arguments)
        assert ended.status == 1
        assert 'cannot list resource "pods"' in ended.err or "forbidden" in ended.err.lower()


def test_a_timeout_is_a_duration_of_go_or_a_number_of_seconds() -> None:
    texts = {"30": 30, "30s": 30, "1m30s": 90, "1.5h": 5400, "500ms": 0.5, "0": 0, "-1s": 604800, "-1": 604800}
    assert {text: seconds_of(text) for text in texts} == texts
    for text in ("", "s", "30 s", "1d", "soon"):
        with pytest.raises(UsageError, match="invalid --timeout"):
            seconds_of(text)


@pytest.mark.process
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_wait_that_is_ended_does_not_say_that_the_condition_holds(
    server: APIServer, kinformer: CommandLine, number: signal.Signals, status: int
) -> None:
    arguments = ("wait", "pod", "web-1", "--for=condition=Ready", "--server", server.url)
    async with command_process(*arguments) as running:
        await watched(server, seconds=40)  # a process starts slowly on a busy machine
        running.send_signal(number)
        out, _ = await asyncio.wait_for(running.communicate(), 20)
    assert (running.returncode, out) == (status, b"")


async def test_all_objects_of_a_selector_must_meet_the_condition(server: APIServer, kinformer: CommandLine) -> None:
    server.create(pod("api-1", labels={"app": "api"}, status=READY))
    server.create(pod("api-2", labels={"app": "api"}, phase="Pending"))
    running = asyncio.ensure_future(
        kinformer("wait", "pods", "-l", "app=api", "--for", "condition=Ready", "--timeout", "20s")
    )
    await watched(server, "api-2")
    set_status(server, "api-2", READY)
    ended = await running
    assert (ended.status, ended.err) == (0, "")
    assert sorted(ended.out.splitlines()) == ["pod/api-1 condition met", "pod/api-2 condition met"]


async def test_one_error_lists_the_objects_of_a_selector_that_do_not(server: APIServer, kinformer: CommandLine) -> None:
    server.create(pod("api-1", status=READY))
    server.create(pod("api-2", phase="Pending"))
    ended = await kinformer("wait", "pods", "--all", "--for", "condition=Ready", "--timeout", "1s")
    assert (ended.status, ended.out) == (1, "pod/api-1 condition met\n")
    assert ended.err.startswith("kinformer: timed out waiting for the condition on 2 of 3 pods: api-2 (")
    assert (ended.err.count("\n"), "web-1 (" in ended.err, "api-1" in ended.err) == (1, True, False)


async def test_a_selector_is_checked_once_with_a_timeout_of_0(server: APIServer, kinformer: CommandLine) -> None:
    ended = await kinformer("wait", "pods", "--all", "-A", "--for", "condition=Ready", "--timeout", "0")
    assert ended == Ended(1, "", "kinformer: timed out waiting for the condition on 1 of 1 pods: web-1\n")


@pytest.mark.slow
async def test_more_objects_than_are_watched_at_once_all_count(server: APIServer, kinformer: CommandLine) -> None:
    for number in range(120):
        server.create(pod(f"api-{number}", labels={"app": "api"}, status=READY if number % 2 else {"phase": "Pending"}))
    ended = await kinformer("wait", "pods", "-l", "app=api", "--for", "condition=Ready", "--timeout", "8")
    assert (ended.status, len(ended.out.splitlines())) == (1, 60)
    assert "on 60 of 120 pods: " in ended.err


async def test_objects_of_a_selector_are_waited_for_until_they_are_gone(
    server: APIServer, kinformer: CommandLine
) -> None:
    running = asyncio.ensure_future(kinformer("wait", "pods", "--all", "--for", "delete", "--timeout", "20s"))
    await watched(server)
    server.delete("v1/pods", "default", "web-1")
    assert await running == Ended(0, "pod/web-1 condition met\n", "")
    assert await kinformer("wait", "pods", "--all", "--for", "delete") == Ended(0, "", "")


async def test_a_selector_that_matches_nothing_is_an_error(kinformer: CommandLine) -> None:
    ended = await kinformer("wait", "pods", "-l", "app=none", "--for", "condition=Ready")
    assert ended == Ended(1, "", "kinformer: no matching resources found\n")


async def test_a_selector_waits_for_the_creation_of_a_first_object(server: APIServer, kinformer: CommandLine) -> None:
    running = asyncio.ensure_future(kinformer("wait", "pods", "-l", "app=new", "--for", "create", "--timeout", "20s"))
    await until(lambda: any(r.params.get("labelSelector") == "app=new" for r in server.requests))
    server.create(pod("new-1", labels={"app": "new"}))
    assert await running == Ended(0, "pod/new-1 condition met\n", "")
    ended = await kinformer("wait", "pods", "-l", "app=none", "--for", "create", "--timeout", "0")
    assert ended == Ended(1, "", "kinformer: no matching resources found\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["pods", "web-1", "--all"], "--all cannot be combined with names or a selector"),
        (["pods", "--all", "-l", "app=web"], "--all cannot be combined with names or a selector"),
        (["pods", "web-1", "-l", "app=web"], "names cannot be combined with -A or a selector"),
        (["pods"], "-l SELECTOR or --all"),
    ],
)
async def test_objects_are_chosen_in_one_way(kinformer: CommandLine, arguments: list[str], complaint: str) -> None:
    ended = await kinformer("wait", *arguments, "--for", "condition=Ready")
    assert (ended.status, ended.out) == (2, "")
    assert complaint in ended.err
