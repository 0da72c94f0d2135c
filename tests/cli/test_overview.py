"""`kinformer problems` and `kinformer changes`: what is wrong, and what changes, in a line each.

Internals: the bound of custom resources, since no server of a test has so many.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kinformer.cli import coverage, main
from kinformer.cli.commands import changes
from kinformer.conditions import is_deployment_rolled_out
from kinformer.testing import APIServer, faults
from tests.contrib.problem_scenes import (
    DEFINITION,
    LATER,
    Object,
    condition,
    deployment,
    ended,
    make,
    node,
    pod,
    resource,
    waiting,
)
from tests.support.cli import CommandLine, command_process
from tests.support.kube import config_map
from tests.support.waiting import until


@pytest.fixture
def kinformer(server: APIServer, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys, server.url)


def old(seconds: float = 7200) -> float:
    """The age, for the builders of objects, of what began that long ago."""
    return LATER - time.time() + seconds


def crashing(name: str, owner: Object | None = None, **options: Any) -> Object:
    return pod(name, state=waiting("CrashLoopBackOff"), last=ended(1), restarts=5, age=old(), owner=owner, **options)


def broken(server: APIServer) -> None:
    """A Deployment with five crashing pods, and a broken node."""
    top = server.create(deployment(wanted=5, ready=0, conditions=[condition("Available", "False", old())]))
    below = server.create(make("ReplicaSet", "web-1", api="apps/v1", owner=top, spec=deployment()["spec"]))
    for number in range(5):
        server.create(crashing(f"web-1-{number}", below))
    server.create(node("node-7", condition("Ready", "False", old(600), message="container runtime is down")))


# --- problems ---------------------------------------------------------------------------------------------


async def test_nothing_is_printed_if_nothing_is_wrong(server: APIServer, kinformer: CommandLine) -> None:
    server.create(pod(ready=True))
    for arguments in (("-A",), ("-n", "shop"), ("-A", "-o", "json")):
        found = await kinformer("problems", *arguments)
        assert (found.status, found.out) == (0, "")
        assert re.fullmatch(r"No problems in \d+ resources\.\n", found.err)


async def test_a_line_for_each_cause_and_status_1(server: APIServer, kinformer: CommandLine) -> None:
    broken(server)
    found = await kinformer("problems", "-A")
    header, worst, crash = found.out.splitlines()
    assert (found.status, found.err) == (1, "")
    assert header.split() == ["SEVERITY", "NAMESPACE", "OWNER", "HIT", "REASON", "SINCE", "MESSAGE"]
    assert worst.split()[:2] == ["critical", "Node/node-7"]
    assert crash.split()[:6] == ["error", "shop", "Deployment/web", "5", "pods", "CrashLoopBackOff"]
    assert crash.endswith("container main ended with exit code 1, restarted 5 times")


async def test_a_namespace_is_shown_without_nodes(server: APIServer, kinformer: CommandLine) -> None:
    broken(server)
    found = await kinformer("problems", "-n", "shop")
    assert found.status == 1
    assert [line.split()[1] for line in found.out.splitlines()] == ["OWNER", "Deployment/web"]
    assert (await kinformer("problems")).status == 0  # the default namespace


async def test_json_is_a_line_for_each_problem(server: APIServer, kinformer: CommandLine) -> None:
    broken(server)
    found = await kinformer("problems", "-A", "-o", "json")
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert [one["rule"] for one in lines] == ["node", "crashes"]
    assert lines[1]["owner"] == {"kind": "Deployment", "namespace": "shop", "name": "web", "group": "apps"}
    assert (lines[1]["count"], lines[1]["unit"], lines[1]["key"]) == (5, "pods", "shop/web-1-0")


async def test_custom_resources_are_discovered(server: APIServer, kinformer: CommandLine) -> None:
    server.create(DEFINITION)
    server.create(resource("a", condition("Ready", "False", old(), reason="NoSecret", message="no secret")))
    found = await kinformer("problems", "-n", "shop")
    assert found.out.splitlines()[1].split()[:3] == ["error", "Widget/a", "Ready=False"]


async def test_custom_resources_are_bounded_and_the_rest_is_named(
    server: APIServer, kinformer: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage, "_MOST", 0)
    server.create(DEFINITION)
    found = await kinformer("problems", "-A")
    assert (found.status, found.out) == (0, "")
    assert found.err.endswith("kinformer: left out 1 of 1 custom resources: example.com/v1/widgets\n")


@pytest.mark.slow
async def test_a_resource_that_cannot_be_read_is_named_and_the_others_are_shown(
    server: APIServer, kinformer: CommandLine
) -> None:
    broken(server)
    server.faults.add(faults.status(403), resource="batch/v1/jobs")
    found = await kinformer("problems", "-A")
    assert found.status == 2
    assert len(found.out.splitlines()) == 3
    assert re.match(r"kinformer: 1 of \d+ resources is not yours to read: batch/v1/jobs: 403 Forbidden", found.err)
    assert found.err.count("\n") == 1


async def test_a_server_that_is_not_there_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    found = await CommandLine(capsys)("problems", "--server", "http://127.0.0.1:1")
    assert (found.status, found.out) == (2, "")
    assert "127.0.0.1:1" in found.err
    assert found.err.count("\n") == 1


async def test_a_kubeconfig_that_is_not_there_is_status_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = await CommandLine(capsys)("problems", "--kubeconfig", str(tmp_path / "none"))
    assert (found.status, found.out, found.err.count("\n")) == (2, "", 1)


async def test_starts_are_shown_with_a_grace_of_0(server: APIServer, kinformer: CommandLine) -> None:
    server.create(pod(age=old(5)))
    assert (await kinformer("problems", "-A")).status == 0
    found = await kinformer("problems", "-A", "--grace", "0")
    assert found.status == 1
    assert "Pod/web-1" in found.out


async def test_nothing_of_a_problem_commands_the_terminal(server: APIServer, kinformer: CommandLine) -> None:
    hidden = "\x1b[31m\u202e\n"
    message = f"a{hidden}b"
    server.create(pod(phase="Pending", state=waiting("ErrImagePull", message), age=old()))
    for form in ("table", "json"):
        found = await kinformer("problems", "-A", "-o", form)
        assert not set("\x1b\u202e") & set(found.out)
        assert all(line.isprintable() for line in found.out.splitlines())


# --- changes ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def writing(server: APIServer, *states: Object) -> AsyncIterator[None]:
    """Write states again and again, since the command begins at a time of its own."""

    async def write() -> None:
        while True:
            for state in states:
                name, namespace = state["metadata"]["name"], state["metadata"].get("namespace")
                kind = {
                    "Pod": "v1/pods",
                    "Event": "v1/events",
                    "Deployment": "apps/v1/deployments",
                    "Secret": "v1/secrets",
                }
                if server.get(kind.get(state["kind"], "v1/configmaps"), namespace, name) is None:
                    server.create(state)
                else:
                    server.update(state)
                await asyncio.sleep(0.05)

    task = asyncio.create_task(write())
    try:
        yield
    finally:
        assert not task.done()
        task.cancel()


class Head(io.StringIO):
    """The stdout of a command whose reader goes when it has enough, as `head` does."""

    def __init__(self, enough: Callable[[list[str]], bool]) -> None:
        super().__init__()
        self._enough = enough

    def write(self, words: str) -> int:
        count = super().write(words)
        if words.endswith("\n") and self._enough(self.getvalue().splitlines()):
            raise BrokenPipeError
        return count


Lines = Callable[..., Coroutine[Any, Any, list[str]]]


@pytest.fixture
def lines_of(server: APIServer, monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Run `kinformer changes`, and return its lines when there are enough."""

    async def run(*arguments: str, enough: Callable[[list[str]], bool]) -> list[str]:
        head = Head(enough)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", head)
            command = ["changes", *arguments, "--duration", "60", "--server", server.url]
            assert await asyncio.to_thread(main, command) == 141
        return head.getvalue().splitlines()

    return run


def some(word: str, count: int = 3) -> Callable[[list[str]], bool]:
    """Return the condition that some lines have a word."""
    return lambda lines: sum(word in line for line in lines) >= count


async def test_changes_are_lines_in_words(server: APIServer, lines_of: Lines) -> None:
    async with writing(server, deployment(wanted=3), deployment(wanted=5)):
        lines = await lines_of("-n", "shop", enough=some("3 to 5"))
    words = [line.split() for line in lines]
    assert ["Deployment/web", "replicas", "3", "to", "5"] in [one[1:] for one in words]
    assert all(len(one[0]) == len("10:00:00") for one in words)


async def test_a_rollout_is_a_line_when_it_begins_and_one_when_it_has_ended(
    server: APIServer, lines_of: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_QUIET", 0.5)
    web = deployment(wanted=2)
    del web["status"], web["metadata"]["uid"]
    server.create(web)

    async def roll_out() -> None:
        await until(lambda: is_deployment_rolled_out(server.get("apps/v1/deployments", "shop", "web")))
        for number in itertools.count(2):  # the command begins at a time of its own
            rolled = server.get("apps/v1/deployments", "shop", "web")
            assert rolled is not None
            rolled["spec"]["template"]["spec"]["containers"][0]["image"] = f"app:{number}"
            server.update(rolled)
            await asyncio.sleep(8)

    async with server.run_controllers(startup=0, shutdown=0):
        task = asyncio.create_task(roll_out())
        try:
            lines = await lines_of("deploy,pods", "-n", "shop", enough=some("pods replaced", 1))
        finally:
            task.cancel()
    first, last = (line.split(maxsplit=2)[1:] for line in lines[-2:])
    assert first[0] == last[0] == "Deployment/web"
    assert first[1].startswith("image ")
    assert re.fullmatch(r"2 of 2 pods replaced in \d+ s", last[1])


async def test_events_are_changes_only_if_they_are_asked_for(server: APIServer, lines_of: Lines) -> None:
    named = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "shop"}}
    event = {**named, "reason": "Started", "involvedObject": {"kind": "Pod", "name": "a", "namespace": "shop"}}
    marks = (config_map("mark", namespace="shop", data={"v": number}) for number in "12")
    async with writing(server, *({**event, "message": words} for words in "ab"), *marks):
        lines = await lines_of("events", "-n", "shop", enough=some("Event/e"))
        assert any("message a to b" in line for line in lines)
        lines = await lines_of("-n", "shop", enough=some("mark"))
        assert not any("Event" in line for line in lines)


async def test_columns_of_changes_have_room_for_the_names_that_exist(server: APIServer, lines_of: Lines) -> None:
    long = "c" * 40
    server.create(config_map(long, data={"v": "0"}))
    server.create(config_map("x" * 50, data={"v": "0"}))  # not selected
    async with writing(server, *(config_map("a", data={"v": number}) for number in "12")):
        lines = await lines_of("cm", "-n", "default", "--name", "[ac]*", enough=some("ConfigMap/a "))
    places = {line.index(line.split(maxsplit=2)[2]) for line in lines}
    assert places == {len("10:00:00  ") + len(f"ConfigMap/{long}  ")}


async def test_changes_as_json_have_what_became_of_what(server: APIServer, lines_of: Lines) -> None:
    async with writing(server, pod(ready=True), pod(ready=False)):
        lines = [json.loads(line) for line in await lines_of("pods", "-A", "-o", "json", enough=some("changed", 6))]
    changed = [one for one in lines if one["type"] == "changed"]
    assert {"ready true to false", "ready false to true"} == {one["change"] for one in changed}
    for field, value in {"resource": "v1/pods", "namespace": "shop", "name": "web-1", "kind": "Pod"}.items():
        assert {one[field] for one in lines} == {value}
    assert all(one["time"].endswith("Z") and one["differences"] for one in changed)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("-A",), {"web", "a", "b"}),
        ((), {"a"}),
        (("-n", "other"), {"b"}),
        (("-A", "--name", "[ab]"), {"a", "b"}),
        (("-A", "--kind", "deployment"), {"web"}),
        (("cm", "-A"), {"a", "b"}),
        (("cm,deploy", "-A"), {"web", "a", "b"}),
        (("cm", "deploy", "po,pods", "-A"), {"web", "a", "b"}),
        (("cm/a", "deploy/other"), {"a"}),
        (("cm", "-A", "-l", "app=b"), {"b"}),
    ],
)
async def test_changes_are_chosen(
    server: APIServer, lines_of: Lines, arguments: tuple[str, ...], names: set[str]
) -> None:
    for namespace in ("other", "shop"):
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    states = [
        state
        for number in "12"
        for state in (
            deployment(wanted=int(number)),
            config_map("a", data={"v": number}),
            config_map("b", namespace="other", data={"v": number}, labels={"app": "b"}),
        )
    ]

    def enough(lines: list[str]) -> bool:
        return all(some(f'"name": "{name}"')(lines) for name in names)

    async with writing(server, *states):
        lines = await lines_of(*arguments, "-o", "json", enough=enough)
    assert {json.loads(line)["name"] for line in lines} == names
    assert len({(one["name"], one["time"]) for one in map(json.loads, lines)}) == len(lines)


async def test_noise_is_a_switch_away(server: APIServer, lines_of: Lines) -> None:
    server.create(deployment(ready=1))
    marks = (config_map("mark", data={"v": number}) for number in "12")
    async with writing(server, deployment(ready=3), deployment(ready=2), *marks):
        assert not any("Deployment" in line for line in await lines_of("cm,deploy", "-A", enough=some("mark", 5)))
        loud = await lines_of("deploy", "-A", "--noise", enough=some("readyReplicas 2 to 3"))
        assert any("readyReplicas 3 to 2" in line for line in loud)


async def test_secrets_stay_hidden(server: APIServer, lines_of: Lines) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls", "namespace": "shop"}}
    async with writing(server, *({**secret, "data": {"k": value}} for value in ("c2VjcmV0", "bW9yZQ=="))):
        for form in ("table", "json"):
            hidden = await lines_of("secrets", "-A", "-o", form, enough=some("data.k"))
            assert not any(value in line for line in hidden for value in ("c2VjcmV0", "bW9yZQ"))
        shown = await lines_of("secrets", "-A", "-o", "json", "--show-secrets", enough=some("data.k"))
        assert any("bW9yZQ==" in line for line in shown)


@pytest.mark.slow
async def test_a_usual_resource_that_is_refused_is_left_out_and_a_chosen_one_ends_it(
    server: APIServer, kinformer: CommandLine, lines_of: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults.add(faults.status(403), resource="v1/secrets")
    async with writing(server, config_map("a", data={"v": "1"}), config_map("a", data={"v": "2"})):
        await lines_of(enough=some("ConfigMap/a"))
    told = capsys.readouterr().err
    assert told.startswith("kinformer: left out v1/secrets: 403 Forbidden")
    assert told.count("\n") == 1
    refused = await kinformer("changes", "secrets", "--duration", "60")
    assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)


@pytest.mark.slow
async def test_changes_go_on_after_an_outage_that_is_told(
    server: APIServer, lines_of: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    async with writing(server, config_map("a", data={"v": "1"}), config_map("a", data={"v": "2"})):
        server.faults.add(faults.status(500), verb="watch", resource="v1/configmaps", times=2)
        await lines_of("cm", enough=some("ConfigMap/a"))
    assert "v1/configmaps: backing off, trying again: 500" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)], ids=["Ctrl-C", "SIGTERM"])
async def test_changes_end_without_a_word(server: APIServer, number: signal.Signals, status: int) -> None:
    async with command_process("changes", "cm", "--server", server.url) as running:
        assert running.stdout is not None
        async with asyncio.timeout(30), writing(server, config_map(data={"v": "1"}), config_map(data={"v": "2"})):
            assert b"ConfigMap/a" in await running.stdout.readline()
        running.send_signal(number)
        _, err = await asyncio.wait_for(running.communicate(), 20)
    assert (running.returncode, err) == (status, b"")
