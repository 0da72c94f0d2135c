"""Failures of every command: one line on stderr, and a status that tells the cause.

Internals: the tables of exit statuses and examples, of which none may be forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kinformer.cli import main
from kinformer.cli.doctor import findings
from kinformer.cli.help import EXAMPLES
from kinformer.cli.output import errors
from kinformer.testing import APIServer, faults
from tests.support.cli import CommandLine, command_process
from tests.support.kube import pod

ONCE = ("watch", "--once")
WATCHES = [ONCE, ("watch",)]


@pytest.fixture
def kinformer(server: APIServer, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys, server.url)


@pytest.fixture
def alone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CommandLine:
    """No server, no kubeconfig, an empty home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    return CommandLine(capsys)


# --- watch --once -----------------------------------------------------------------------------------------


async def test_once_is_a_table_of_the_default_namespace(server: APIServer, kinformer: CommandLine) -> None:
    server.create(pod("web-1"))
    server.create(pod("db-1", namespace="kube-system"))
    ended = await kinformer(*ONCE, "pods")
    header, *rows = ended.out.splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "NODE", "AGE"]
    assert [row.split()[:3] for row in rows] == [["web-1", "1/1", "Running"]]
    assert (ended.status, ended.err) == (0, "")


async def test_once_in_all_namespaces_says_which(server: APIServer, kinformer: CommandLine) -> None:
    server.create(pod("web-1"))
    server.create(pod("db-1", namespace="kube-system"))
    ended = await kinformer(*ONCE, "po", "-A")
    assert [row.split()[:2] for row in ended.out.splitlines()] == [
        ["NAMESPACE", "NAME"],
        ["default", "web-1"],
        ["kube-system", "db-1"],
    ]


async def test_once_selects_by_namespace_labels_and_fields(server: APIServer, kinformer: CommandLine) -> None:
    for obj in (
        pod("a", labels={"app": "web"}),
        pod("b", labels={"app": "db"}),
        pod("c", labels={"app": "web"}, phase="Failed"),
        pod("d", namespace="other"),
    ):
        server.create(obj)
    assert (await kinformer(*ONCE, "pods", "-o", "name", "-l", "app in (web)")).out == "pod/a\npod/c\n"
    assert (await kinformer(*ONCE, "pods", "-o", "name", "--field-selector", "status.phase=Failed")).out == "pod/c\n"
    assert (await kinformer(*ONCE, "pods", "-o", "name", "-n", "other")).out == "pod/d\n"


@pytest.mark.parametrize("resource", ["deployments", "deploy", "Deployment", "deployments.apps", "apps/v1/deployments"])
async def test_a_resource_is_named_as_kubectl_takes_it(
    server: APIServer, kinformer: CommandLine, resource: str
) -> None:
    labels = {"matchLabels": {"app": "web"}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    server.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 3, "selector": labels, "template": template},
        }
    )
    assert (await kinformer(*ONCE, resource, "-o", "name")).out == "deployment.apps/web\n"


async def test_a_cluster_scoped_resource_needs_no_namespace(server: APIServer, kinformer: CommandLine) -> None:
    server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
    ended = await kinformer(*ONCE, "nodes", "-A")
    assert [row.split()[0] for row in ended.out.splitlines()] == ["NAME", "node-1"]


async def test_once_as_json_is_one_list(server: APIServer, kinformer: CommandLine) -> None:
    server.create(pod("a"))
    server.create(pod("b"))
    document = json.loads((await kinformer(*ONCE, "pods", "-o", "json")).out)
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    assert [(item["kind"], item["metadata"]["name"]) for item in document["items"]] == [("Pod", "a"), ("Pod", "b")]
    empty = json.loads((await kinformer(*ONCE, "configmaps", "-n", "nowhere", "-o", "json")).out)
    assert empty["items"] == []


async def test_once_as_yaml_is_what_kubectl_reads(server: APIServer, kinformer: CommandLine) -> None:
    server.create(
        pod("a") | {"metadata": {"name": "a", "namespace": "default", "annotations": {"number": "1e3", "word": "yes"}}}
    )
    document = yaml.safe_load((await kinformer(*ONCE, "pods", "-o", "yaml")).out)
    assert (document["kind"], [item["metadata"]["name"] for item in document["items"]]) == ("List", ["a"])
    one = await kinformer(*ONCE, "pod", "a", "-o", "yaml")
    assert yaml.safe_load(one.out) == document["items"][0]
    assert 'number: "1e3"' in one.out, "a number for some readers of YAML"
    empty = yaml.safe_load((await kinformer(*ONCE, "pods", "-n", "nowhere", "-o", "yaml")).out)
    assert empty["items"] == []


async def test_once_as_lines_of_json_is_an_object_a_line(server: APIServer, kinformer: CommandLine) -> None:
    for name in ("a", "b"):
        server.create(pod(name))
    lines = (await kinformer(*ONCE, "pods", "-o", "jsonl")).out.splitlines()
    assert [json.loads(line)["metadata"]["name"] for line in lines] == ["a", "b"]


@pytest.mark.parametrize("form", ["json", "yaml", "jsonl"])
@pytest.mark.parametrize("names", [(), ("a",)])
async def test_managed_fields_are_for_those_who_ask(
    server: APIServer, kinformer: CommandLine, form: str, names: tuple[str, ...]
) -> None:
    server.create(pod("a"))
    assert "managedFields" not in (await kinformer(*ONCE, "pods", *names, "-o", form)).out
    assert "managedFields" in (await kinformer(*ONCE, "pods", *names, "-o", form, "--all-fields")).out


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "json", "yaml", "jsonl", "name"])
async def test_nothing_of_a_cluster_commands_the_terminal(server: APIServer, kinformer: CommandLine, form: str) -> None:
    hidden = "\x1b\x07\x9b\x7f\u2028\u202e\u2066\u200f\u061c\u200b\ufeff\U000e0041"
    evil = f"{hidden}[2J \n{hidden}"
    annotations = {"x": evil, "y": f"{hidden} \n  {hidden}\n", "z": f"{hidden}\nshown"}
    metadata = {"name": f"role{evil}", "annotations": annotations}
    server.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata})
    for command in (ONCE, ("watch", "--duration", "2")):
        if command != ONCE and form == "yaml":
            continue
        ended = await kinformer(*command, "clusterroles", "-o", form)
        assert "role" in ended.out
        assert not set(hidden) & set(ended.out), command
        assert all(line.isprintable() for line in ended.out.split("\n")), command
    if form not in ("table", "name"):
        text = (await kinformer(*ONCE, "clusterroles", "-o", form)).out
        document = yaml.safe_load(text) if form == "yaml" else json.loads(text)
        shown = document["metadata"] if form == "jsonl" else document["items"][0]["metadata"]
        assert shown["name"] == f"role{evil}"
        assert shown["annotations"] == annotations


async def test_nothing_that_a_server_says_commands_the_terminal(server: APIServer, kinformer: CommandLine) -> None:
    body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no \x1b[2J\x9b1m \u202eway"}
    server.faults.add(faults.status(403, body=body), resource="v1/pods")
    for command in (ONCE, ("watch", "--duration", "10")):
        ended = await kinformer(*command, "pods")
        assert ended.err == "kinformer: 403 Forbidden: no ?[2J?1m ?way\n"


async def test_once_reads_more_than_one_page(server: APIServer, kinformer: CommandLine) -> None:
    names = [f"pod-{number:04}" for number in range(1203)]
    for name in names:
        server.create(pod(name))
    ended = await kinformer(*ONCE, "pods", "-o", "name")
    assert ended.out.splitlines() == [f"pod/{name}" for name in names]
    pages = [request for request in server.requests if request[1].endswith("/pods") and "watch" not in request[2]]
    assert len(pages) == 3
    assert not any("resourceVersion" in request[2] for request in pages), "the newest state, not that of a cache"


async def test_a_paged_list_that_has_expired_is_read_in_one(server: APIServer, kinformer: CommandLine) -> None:
    for number in range(501):
        server.create(pod(f"pod-{number:03}"))
    handle = server.faults.add(faults.expired(), verb="list", resource="v1/pods", times=1)
    ended = await kinformer(*ONCE, "pods", "-o", "name")
    assert (ended.status, len(ended.out.splitlines()), handle.hits) == (0, 501, 1)


async def test_once_by_name_is_that_object_alone(server: APIServer, kinformer: CommandLine) -> None:
    server.create(pod("a"))
    server.create(pod("b"))
    document = json.loads((await kinformer(*ONCE, "pod", "a", "-o", "json")).out)
    assert (document["kind"], document["metadata"]["name"]) == ("Pod", "a")
    assert (await kinformer(*ONCE, "pod", "b", "a", "-o", "name")).out == "pod/b\npod/a\n"


async def test_a_name_that_is_not_there_fails_after_the_others_are_printed(
    server: APIServer, kinformer: CommandLine
) -> None:
    server.create(pod("a"))
    ended = await kinformer(*ONCE, "pod", "missing", "a", "-o", "name")
    assert (ended.status, ended.out) == (1, "pod/a\n")
    assert "missing" in ended.err
    assert len(ended.err.splitlines()) == 1


async def test_nothing_found_is_said_on_stderr_and_is_no_failure(kinformer: CommandLine) -> None:
    ended = await kinformer(*ONCE, "pods", "-n", "empty")
    assert ended == (0, "", "No resources found in empty namespace.\n")


async def test_the_kubeconfig_gives_server_and_namespace(
    server: APIServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server.create(pod("here", namespace="team"))
    server.create(pod("elsewhere"))
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [
            {"name": "team", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "plain", "context": {"cluster": "c", "user": "u"}},
        ],
        "current-context": "plain",
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))  # JSON is YAML
    kinformer = CommandLine(capsys)
    assert (await kinformer(*ONCE, "pods", "-o", "name", "--kubeconfig", str(path))).out == "pod/elsewhere\n"
    team = await kinformer(*ONCE, "pods", "-o", "name", "--kubeconfig", str(path), "--context", "team")
    assert team.out == "pod/here\n"


@pytest.mark.slow
async def test_wide_adds_columns_behind_the_age(server: APIServer, kinformer: CommandLine) -> None:
    address = {"podIP": "10.0.0.7", "phase": "Running"}
    server.create({**pod("web-1"), "status": address})
    server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
    header, row = (await kinformer(*ONCE, "pods", "-o", "wide")).out.splitlines()
    assert header.split(" AGE ")[1].split() == ["IP", "NOMINATED", "NODE", "READINESS", "GATES"]
    assert row.split()[-3:] == ["10.0.0.7", "<none>", "<none>"]
    header, _ = (await kinformer(*ONCE, "nodes", "-o", "wide")).out.splitlines()
    added = ["INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"]
    assert header.split(" AGE ")[1].split() == added
    lines = (await kinformer("watch", "pods", "-o", "wide", "--duration", "2")).out.splitlines()
    assert [line.split()[-3] for line in lines[1:]] == ["10.0.0.7"]


async def test_once_is_in_the_order_of_the_server(server: APIServer, kinformer: CommandLine) -> None:
    names = [("a", "x"), ("a-b", "w"), ("a", "b"), ("b", "a"), ("a0", "c")]
    for namespace, name in names:
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}})
    async with server.client() as client:
        answer = await client.request("GET", "/api/v1/configmaps")
    expected = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in answer["items"]]
    rows = (await kinformer(*ONCE, "cm", "-A")).out.splitlines()[1:]
    assert [tuple(row.split()[:2]) for row in rows] == expected
    assert len(expected) == len(names)


async def test_once_needs_no_watch(server: APIServer, kinformer: CommandLine) -> None:
    """What can be listed only, as `componentstatuses`; by an informer all the same."""
    ended = await kinformer(*ONCE, "componentstatuses")
    assert (ended.status, ended.err) == (0, "No resources found.\n")


@pytest.mark.parametrize("names", [(), ("a",), ("a", "b")])
async def test_the_first_failure_ends_it(server: APIServer, kinformer: CommandLine, names: tuple[str, ...]) -> None:
    handle = server.faults.add(faults.status(500), verb="list", resource="v1/pods")
    async with asyncio.timeout(5):
        ended = await kinformer(*ONCE, "pods", *names)
    assert (ended.status, ended.out) == (1, "")
    assert one_line(ended.err).startswith("kinformer: 500")
    assert 1 <= handle.hits <= max(1, len(names))


async def test_a_name_may_hold_what_a_selector_would_read(server: APIServer, kinformer: CommandLine) -> None:
    for name in ("system:a,b=c", "other"):
        server.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}})
    found = await kinformer(*ONCE, "clusterroles", "system:a,b=c", "-o", "name")
    assert (found.status, found.out) == (0, "clusterrole.rbac.authorization.k8s.io/system:a,b=c\n")
    missing = await kinformer(*ONCE, "clusterroles", "none")
    assert (missing.status, missing.out) == (1, "")
    assert missing.err == 'kinformer: 404 NotFound: clusterroles.rbac.authorization.k8s.io "none" not found\n'


# --- failures ------------------------------------------------------------------------------------------------


def one_line(text: str) -> str:
    assert text.endswith("\n")
    assert text.count("\n") == 1, text
    return text


@pytest.mark.parametrize("command", WATCHES)
async def test_an_unknown_resource_names_the_nearest(kinformer: CommandLine, command: tuple[str, ...]) -> None:
    ended = await kinformer(*command, "deploymentz")
    assert ended.status == 1
    assert "apps/v1/deployments" in one_line(ended.err)


@pytest.mark.parametrize("command", WATCHES)
async def test_a_server_that_is_not_there_is_one_line(alone: CommandLine, command: tuple[str, ...]) -> None:
    ended = await alone(*command, "pods", "--server", "http://127.0.0.1:1")
    assert ended.status == 1
    assert "127.0.0.1:1" in one_line(ended.err)


@pytest.mark.parametrize("command", WATCHES)
async def test_what_is_forbidden_is_said_and_ends_the_command(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...], tmp_path: Path
) -> None:
    async with APIServer(users={"secret": "eve"}, rules=[("eve", "list", "v1/services")]) as server:
        path = tmp_path / "config"
        server.kubeconfig(path, user="eve")
        ended = await CommandLine(capsys)(*command, "pods", "--kubeconfig", str(path))
    assert ended.status == 1
    assert 'pods is forbidden: User "eve" cannot' in one_line(ended.err)


async def test_no_kubeconfig_anywhere_is_one_line(alone: CommandLine) -> None:
    ended = await alone(*ONCE, "pods")
    assert ended.status == 1
    one_line(ended.err)


async def test_a_kubeconfig_that_is_not_there_is_named(alone: CommandLine, tmp_path: Path) -> None:
    ended = await alone(*ONCE, "pods", "--kubeconfig", str(tmp_path / "nowhere"))
    assert ended.status == 1
    assert str(tmp_path / "nowhere") in one_line(ended.err)


async def test_a_selector_that_does_not_parse_is_told_before_any_request(alone: CommandLine) -> None:
    ended = await alone(*ONCE, "pods", "-l", "app in (web", "--server", "http://127.0.0.1:1")
    assert ended.status == 2
    assert "app in (web" in one_line(ended.err)


@pytest.mark.parametrize(
    "arguments",
    [
        ["watch"],
        ["watch", "--once"],
        ["frobnicate"],
        ["watch", "--once", "pods", "-o", "xml"],
        ["watch", "--once", "pods", "-n", "a", "-A"],
        ["watch", "--once", "pods", "web-1", "-l", "app=web"],
        ["watch", "--once", "pods", "--server", "http://127.0.0.1:1", "--context", "x"],
        ["watch", "pods", "--duration", "soon"],
        ["watch", "pods", "-o", "yaml", "--diff"],
        ["watch", "--once", "pods", "-w"],
        ["watch", "pods/web-1", "web-2"],
        ["watch", "pods,,services"],
        ["watch", "pods", "web-1", "-A"],
        ["watch", "pods", "--sort-by", ".spec[?("],
        ["watch", "pods", "--sort-by", ".spec", "--server", "http://127.0.0.1:1"],
        ["watch", "pods", "-l", "app in (web"],
        ["watch", "pods", "--field-selector", "status.phase"],
        ["watch", "pods", "--server", "nonsense://here"],
        ["watch", "pods", "--serve", "http://127.0.0.1:1"],
        ["watch", "pods", "-n"],
        ["wach", "pods"],
        ["--frobnicate"],
        ["demo", "--duration", "-1"],
        ["demo", "--duration", "nan"],
        ["demo", "--duration", "1_0"],
        ["demo", "--duration", " 5"],
        ["demo", "--duration", "٥"],
        ["wait", "pods/a", "--for", "delete", "--timeout", "1_0"],
        ["demo", "now"],
        ["demo", "--plain=yes"],
        ["serve", "--port", "99999"],
        ["serve", "--port", "http"],
        ["serve", "--churn", "inf"],
        ["dashboard", "--port", "-1"],
        ["stats", "pods", "--timeout", "soon"],
        ["stats", "pods", "-o", "yaml"],
        ["doctor", "--server", "here"],
        ["completion", "tcsh"],
        ["watch", "--once", "pods", "--diff"],
        ["watch", "--once", "pods", "--changes-only"],
        ["watch", "--once", "pods", "--duration", "1"],
        ["watch", "pods", "-o", "name", "--diff"],
        ["watch", "--once", "pods", "-n", "a/b"],
        ["watch", "--once", "pods", "../web-1"],
        ["stats"],
        ["stats", "pods", "--interval", "0"],
        ["doctor", "pods", "-n", "a", "-A"],
        ["completion"],
        ["serve", "--objects", "pods", "--port", "0"],
    ],
)
async def test_a_wrong_command_line_is_one_line_and_status_2(alone: CommandLine, arguments: list[str]) -> None:
    ended = await alone(*arguments)
    assert ended.status == 2
    told = one_line(ended.err)
    assert told.startswith("kinformer: ")
    command = arguments[0] if arguments[0] in EXAMPLES else ""
    assert told.endswith(f"(see kinformer {command}{' ' if command else ''}--help)\n")
    for foreign in ("Value error", "Input should", "Invalid value", "Errno", "Got unexpected", "No such"):
        assert foreign not in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["wach", "pods"], "unknown command 'wach'; nearest: watch"),
        (["watch"], "argument RESOURCE is missing"),
        (["watch", "pods", "--serve", "x"], "unknown option --serve; nearest: --server"),
        (["watch", "pods", "-n"], "option -n needs a value"),
        (
            ["watch", "pods", "-o", "xml"],
            "invalid -o 'xml': expected table, wide, name, json, jsonl, yaml, jsonpath=... or custom-columns=...",
        ),
        (["demo", "now"], "unexpected argument now"),
        (["serve", "--port", "99999"], "invalid --port '99999': expected a whole number from 0 to 65535"),
        (["demo", "--duration", "soon"], "invalid --duration 'soon': expected seconds, as in 30 or 1m30s"),
        (["watch", "pods", "-l", "app in (web"], "label selector 'app in (web': found the end, expected"),
    ],
)
async def test_the_words_for_a_wrong_command_line(alone: CommandLine, arguments: list[str], told: str) -> None:
    assert one_line((await alone(*arguments)).err).startswith(f"kinformer: {told}")


async def test_the_version_and_the_help_are_no_failures(alone: CommandLine) -> None:
    assert (await alone("--version")).out.startswith("kinformer ")
    helped = await alone(*ONCE, "--help")
    assert (helped.status, "--field-selector" in helped.out) == (0, True)
    bare = await alone()
    assert (bare.status, all(command in bare.out for command in ("demo", "watch", "stats", "serve"))) == (0, True)


@pytest.mark.parametrize("library", ["typer", "rich.console"])
def test_without_the_extra_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], library: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("kinformer.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    assert main([*ONCE, "pods"]) == 1
    assert "pip install 'kinformer[cli]'" in one_line(capsys.readouterr().err)


@pytest.mark.parametrize("command", WATCHES)
@pytest.mark.parametrize("selector", ["spec.nothing=1", "spec.nothing"])
async def test_a_field_that_cannot_be_selected_by_is_named_and_ends_the_command(
    kinformer: CommandLine, command: tuple[str, ...], selector: str
) -> None:
    ended = await kinformer(*command, "pods", "--field-selector", selector)
    assert ended.status == (1 if "=" in selector else 2)
    assert "spec.nothing" in one_line(ended.err)
    assert "field" in ended.err


async def test_a_resource_that_cannot_be_watched_is_listed_again_and_again(
    server: APIServer, kinformer: CommandLine
) -> None:
    ended = await kinformer("watch", "componentstatuses", "--duration", "0.1")
    assert ended.status == 0
    assert "componentstatuses cannot be watched, and is listed every 30 s (--poll)" in one_line(ended.err)


async def test_every_status_that_a_command_ends_with_is_documented(alone: CommandLine) -> None:
    documented = (Path(__file__).parents[2] / "docs" / "cli.md").read_text().split("## How commands end")[1]
    for name, status in {**vars(errors), **vars(findings)}.items():
        if name.isupper() and isinstance(status, int):
            assert f"\n| {status} |" in documented, f"{name} is not in docs/cli.md"
    assert "0: done, 1: failed, 2: wrong command line, 130: Ctrl-C" in " ".join((await alone("--help")).out.split())
    helped = " ".join((await alone("doctor", "--help")).out.split())
    assert "3: configuration, 4: server not reached, 5: credentials or authentication" in helped


# --- as a process ----------------------------------------------------------------------------------------------


@pytest.mark.process
async def test_ctrl_c_ends_a_watch_with_130_and_without_a_word(server: APIServer) -> None:
    server.create(pod("a"))
    async with command_process("watch", "pods", "-o", "name", "--server", server.url) as running:
        assert running.stdout is not None
        assert await running.stdout.readline() == b"pod/a\n"
        running.send_signal(signal.SIGINT)
        out, err = await running.communicate()
    assert (running.returncode, out, err) == (130, b"", b"")


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        ("watch", "pods"),
        ("watch", "pods", "-o", "jsonl"),
        ("stats", "pods", "--interval", "0.1"),
        ("demo", "--plain"),
        ("dashboard", "--port", "0"),
        ("serve", "--port", "0"),
    ],
)
async def test_sigterm_ends_a_command_with_0_and_without_a_word(server: APIServer, command: tuple[str, ...]) -> None:
    server.create(pod("a"))
    at_server = () if command[0] in ("demo", "serve") else ("--server", server.url)
    async with command_process(*command, *at_server) as running:
        assert running.stdout is not None
        async with asyncio.timeout(30):
            assert await running.stdout.readline()
            running.send_signal(signal.SIGTERM)
            _, err = await running.communicate()
    assert (running.returncode, err) == (0, b"")


def test_ctrl_c_while_modules_are_imported_ends_with_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            if name == "kinformer.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "kinformer.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted, *sys.meta_path])
    assert main([*ONCE, "pods"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.process
@pytest.mark.parametrize("command", [("--help",), ("completion", "bash"), ("--version",)])
async def test_a_reader_that_has_gone_ends_what_needs_no_server_too(command: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kinformer.cli", *command), stdout=writing, stderr=subprocess.PIPE
        )
    finally:
        os.close(writing)
    _, err = await running.communicate()
    assert (running.returncode, err) == (141, b"")


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
@pytest.mark.parametrize("command", [("--help",), ("completion", "bash"), ("--version",), (*ONCE, "pods")])
async def test_a_full_disk_is_one_line_and_status_1(server: APIServer, command: tuple[str, ...]) -> None:
    server.create(pod("a"))
    at_server = ("--server", server.url) if command[0] == "watch" else ()
    with Path("/dev/full").open("wb") as full:  # noqa: ASYNC230
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kinformer.cli", *command, *at_server), stdout=full, stderr=subprocess.PIPE
        )
    _, err = await running.communicate()
    assert (running.returncode, err) == (1, b"kinformer: no space left on device\n")


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        (*ONCE, "pods", "-o", "json"),
        (*ONCE, "pods", "-o", "yaml"),
        (*ONCE, "pods"),
        ("watch", "pods"),
        ("stats", "pods", "--interval", "0.1"),
        ("stats", "pods", "--once", "--interval", "0.1"),
        ("doctor", "pods"),
        ("doctor", "pods", "-o", "json"),
    ],
)
async def test_a_reader_that_has_gone_ends_the_command_quietly(server: APIServer, command: tuple[str, ...]) -> None:
    for number in range(400):
        server.create(pod(f"pod-{number:03}"))
    reading, writing = os.pipe()
    os.close(reading)
    try:
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kinformer.cli", *command, "--server", server.url),
            stdout=writing,
            stderr=subprocess.PIPE,
        )
    finally:
        with contextlib.suppress(OSError):
            os.close(writing)
    _, err = await running.communicate()
    assert (running.returncode, err) == (141, b"")


@pytest.mark.parametrize("names", [[], ["web-1"], ["web-1", "web-2"]], ids=len)
@pytest.mark.parametrize("code", [400, 403])
async def test_a_look_that_is_refused_prints_one_line(
    server: APIServer, kinformer: CommandLine, names: list[str], code: int
) -> None:
    server.faults.add(faults.status(code), resource="v1/pods")
    ended = await kinformer(*ONCE, "pods", *names)
    assert ended.status == 1
    assert ended.err.startswith(f"kinformer: {code} ")
    assert ended.err.count("\n") == 1
