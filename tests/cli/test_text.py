"""The text of the command line about objects: ages, columns, statuses, aligned lines.

Internals: the formatters themselves, since a command shows one object as one line.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from unicodedata import category

import pytest
import yaml

from kinformer import InformerEvent, KubeObject
from kinformer.cli.commands.event_lines import JsonLines, TableLines, TemplateLines
from kinformer.cli.output.columns import columns_of
from kinformer.cli.output.documents import OutputDocument, from_template, to_yaml, write_yaml
from kinformer.cli.output.tables import Columns, Table, clean, status_style
from kinformer.cli.output.template import JSONTemplate
from kinformer.cli.output.text import escaped
from kinformer.client import APIResource
from kinformer.kinds import state_of
from kinformer.objects.units import age, human_duration
from tests.support import kube

PODS = APIResource(group="", version="v1", name="pods", kind="Pod")


def pod(name: str = "web-1", **status: Any) -> dict[str, Any]:
    return kube.pod(name, node="node-1", phase=None, status=status)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (400 * 86400, "400d"),
        (2 * 365 * 86400, "2y"),
        (3 * 365 * 86400 + 5 * 86400, "3y5d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_a_duration_reads_as_kubectl_writes_it(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_an_age_is_counted_from_a_timestamp_or_its_text() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert age(now - timedelta(seconds=30), now=now) == "30s"
    assert age("2026-01-01T23:00:00Z", now=now) == "60m"


@pytest.mark.parametrize("since", [None, "", "yesterday"])
def test_an_age_that_cannot_be_told_is_unknown(since: str | None) -> None:
    assert age(since) == "<unknown>"


def container(ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": "main", "ready": ready, "restartCount": restarts, "state": state}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({}, "Unknown"),
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Running", "containerStatuses": [container(True, running={})]}, "Running"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {"phase": "Running", "containerStatuses": [container(waiting={"reason": "CrashLoopBackOff"})]},
            "CrashLoopBackOff",
        ),
        ({"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 3})]}, "ExitCode:3"),
        ({"phase": "Failed", "containerStatuses": [container(terminated={"signal": 9, "exitCode": 137})]}, "Signal:9"),
        (
            {
                "phase": "Running",
                "containerStatuses": [container(True, running={}), container(terminated={"reason": "Completed"})],
            },
            "NotReady",
        ),
        ({"phase": "Pending", "initContainerStatuses": [container(running={})]}, "Init:0/0"),
        (
            {"phase": "Pending", "initContainerStatuses": [container(waiting={"reason": "ErrImagePull"})]},
            "Init:ErrImagePull",
        ),
        (
            {
                "phase": "Running",
                "initContainerStatuses": [container(terminated={"exitCode": 0})],
                "containerStatuses": [container(True, running={})],
            },
            "Running",
        ),
    ],
)
def test_a_pods_status_is_the_first_thing_to_know_of_it(status: dict[str, Any], text: str) -> None:
    assert state_of(pod(**status)) == text


def test_a_pod_that_is_being_deleted_is_terminating() -> None:
    going = pod(phase="Running")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert cells("", "Pod", going)["STATUS"] == "Terminating"


def test_a_sidecar_that_has_started_holds_no_pod_in_its_init_phase() -> None:
    waiting = pod(
        phase="Running",
        initContainerStatuses=[{**container(True, running={}), "started": True}],
        containerStatuses=[container(True, running={})],
    )
    waiting["spec"]["initContainers"] = [{"name": "main", "restartPolicy": "Always"}]
    assert state_of(waiting) == "Running"


def test_ready_counts_containers_and_restarts_say_when_the_last_was() -> None:
    ended = (datetime.now(UTC) - timedelta(minutes=5, seconds=2)).isoformat()
    status = {**container(True, restarts=2, running={}), "lastState": {"terminated": {"finishedAt": ended}}}
    assert cells("", "Pod", pod(containerStatuses=[status]))["READY"] == "1/1"
    assert cells("", "Pod", pod())["READY"] == "0/1"
    assert cells("", "Pod", pod(containerStatuses=[status]))["RESTARTS"].startswith("2 (5m2s")
    assert cells("", "Pod", pod())["RESTARTS"] == "0"


SIDECAR = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}], "containers": [{"name": "main"}]}
INITIALIZED = {"type": "Initialized", "status": "True"}


@pytest.mark.parametrize(
    ("spec", "status", "words"),
    [
        (
            SIDECAR,
            {
                "phase": "Running",
                "initContainerStatuses": [{**container(True, 3, running={}), "name": "proxy", "started": True}],
                "containerStatuses": [container(True, 1, running={})],
            },
            ("2/2", "Running", "4"),
        ),
        (
            SIDECAR,
            {
                "phase": "Running",
                "conditions": [INITIALIZED],
                "initContainerStatuses": [{**container(False, 3, waiting={"reason": "Error"}), "name": "proxy"}],
                "containerStatuses": [container(True, running={})],
            },
            ("1/2", "Init:Error", "3"),
        ),
        (
            {"initContainers": [{"name": "init"}], "containers": [{"name": "main"}]},
            {
                "phase": "Pending",
                "initContainerStatuses": [{**container(False, 4, waiting={"reason": "Error"}), "name": "init"}],
            },
            ("0/1", "Init:Error", "4"),
        ),
        (
            {"containers": [{"name": "main"}]},
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            ("0/1", "SchedulingGated", "0"),
        ),
        (
            {"containers": [{"name": "main"}, {"name": "other"}]},
            {
                "phase": "Failed",
                "containerStatuses": [
                    container(terminated={"exitCode": 0, "reason": "Completed"}),
                    container(terminated={"exitCode": 1, "reason": "Error"}),
                ],
            },
            ("0/2", "Error", "0"),
        ),
    ],
)
def test_a_pods_words_are_those_of_kubectl_get(
    spec: dict[str, Any], status: dict[str, Any], words: tuple[str, str, str]
) -> None:
    shown = {"metadata": {"name": "a"}, "spec": spec, "status": status}
    row = cells("", "Pod", shown)
    assert (row["READY"], row["STATUS"], row["RESTARTS"]) == words


def test_a_pod_that_is_through_stays_so_while_it_is_deleted() -> None:
    going = pod(phase="Succeeded", containerStatuses=[container(terminated={"exitCode": 0, "reason": "Completed"})])
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert cells("", "Pod", going)["STATUS"] == "Completed"


def cells(group: str, kind: str, document: dict[str, Any]) -> dict[str, str]:
    columns = columns_of(group, kind)
    return dict(zip(columns.names, columns.cells(document), strict=True))


def test_a_deployment_says_how_many_of_its_pods_are_ready() -> None:
    row = cells("apps", "Deployment", {"spec": {"replicas": 3}, "status": {"readyReplicas": 2, "updatedReplicas": 3}})
    assert (row["READY"], row["UP-TO-DATE"], row["AVAILABLE"]) == ("2/3", "3", "0")


def test_a_node_says_whether_it_is_ready_and_takes_pods() -> None:
    node = {
        "metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.0"}},
    }
    row = cells("", "Node", node)
    assert (row["STATUS"], row["ROLES"], row["VERSION"]) == ("Ready,SchedulingDisabled", "control-plane", "v1.36.0")


def test_a_service_names_its_ports_and_addresses() -> None:
    service = {
        "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30080}]},
        "status": {"loadBalancer": {}},
    }
    row = cells("", "Service", service)
    assert (row["PORT(S)"], row["EXTERNAL-IP"], row["CLUSTER-IP"]) == ("80:30080/TCP", "<pending>", "10.0.0.1")


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({"status": {"phase": "Bound"}}, "Bound"),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "NotReady"),
        ({"spec": {"size": 3}}, "-"),
        ({"status": {"conditions": 7}}, "-"),
        ({"status": "a custom resource may put anything here"}, "-"),
    ],
)
def test_a_kind_that_is_not_known_shows_its_phase_or_whether_it_is_ready(document: dict[str, Any], status: str) -> None:
    assert cells("example.com", "Widget", document)["STATUS"] == status


BUILT_IN = [
    *(("", kind) for kind in ("Pod", "Node", "Namespace", "Service", "ConfigMap", "Secret", "Event", "Endpoints")),
    *(("", kind) for kind in ("PersistentVolumeClaim", "PersistentVolume", "ServiceAccount")),
    *(("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
    *(("batch", kind) for kind in ("Job", "CronJob")),
    *(("networking.k8s.io", kind) for kind in ("Ingress", "NetworkPolicy")),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
]


@pytest.mark.parametrize(("group", "kind"), BUILT_IN)
def test_every_cell_of_a_bare_object_is_text(group: str, kind: str) -> None:
    row = cells(group, kind, {"metadata": {"name": "bare"}})
    assert all(isinstance(text, str) for text in row.values()), row


def test_a_table_is_aligned_and_has_one_header(capsys: pytest.CaptureFixture[str]) -> None:
    objects = [KubeObject.from_dict(pod(name, phase="Running")) for name in ("a", "a-longer-name")]
    Table(Columns(PODS, with_namespace=True)).write_all(objects)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["NAMESPACE", "NAME"],
        ["default", "a"],
        ["default", "a-longer-name"],
    ]
    assert len({line.index(word) for line, word in zip(lines, ("STATUS", "Running", "Running"), strict=True)}) == 1


def test_wide_characters_take_two_cells_and_stay_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    events = APIResource(group="", version="v1", name="events", kind="Event")
    rows = [
        {"metadata": {"name": "a", "namespace": "n"}, "reason": "起動", "type": "Normal", "message": "x"},
        {"metadata": {"name": "b", "namespace": "n"}, "reason": "Boot", "type": "Normal", "message": "x"},
    ]
    Table(Columns(events, with_namespace=False)).write_all([KubeObject.from_dict(row) for row in rows])
    _, wide, narrow = capsys.readouterr().out.splitlines()
    assert wide.index("起動") == narrow.index("Boot")
    assert len(narrow) - len(wide) == 2, "two characters fewer for the same four cells"


def test_nothing_from_a_cluster_can_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    document = pod(phase="Running", reason="\x1b]0;owned\x07\x1b[2J")
    Table(Columns(PODS, with_namespace=False)).write(KubeObject.from_dict(document))
    assert "\x1b" not in capsys.readouterr().out
    assert clean("a\nb\u2028c\x9b1m") == "a?b?c?1m"


def test_no_character_that_changes_how_others_are_shown_is_shown() -> None:
    """Controls, format characters (as those that turn the direction of the text) and line separators."""
    hidden = [chr(code) for code in range(sys.maxunicode + 1) if category(chr(code)) in ("Cc", "Cf", "Zl", "Zp", "Cs")]
    assert "\u202e" in hidden
    assert clean("".join(hidden)) == "?" * len(hidden)
    in_json = "".join(character for character in hidden if ord(character) > 0x1F and category(character) != "Cs")
    assert escaped(in_json).isascii()
    assert json.loads(f'"{escaped(in_json)}"') == in_json
    for dumped in (to_yaml({in_json: [in_json, f"{in_json}\n{in_json}"]}), to_yaml({in_json: [in_json]}, short=True)):
        assert dumped.replace("\n", "").isprintable()
        assert yaml.safe_load(dumped)[in_json][0] == in_json
    shown = "".join(chr(code) for code in range(0xA1, 0x3000) if category(chr(code))[0] in "LMNPS")
    assert (clean(shown), escaped(shown)) == (shown, shown)


def test_one_object_that_is_nested_too_deeply_stops_no_list_and_no_watch(capsys: pytest.CaptureFixture[str]) -> None:
    fine = KubeObject.from_dict(pod("fine"))
    old, new = (
        KubeObject.from_json('{"metadata":{"name":"deep"},"spec":' + '{"n":' * 800 + leaf + "}" * 801) for leaf in "12"
    )
    write_yaml(OutputDocument([fine, old, fine], "1", alone=False))
    listed = capsys.readouterr().out
    assert listed.count("name: fine") == 2
    assert f"\n- {old.raw.decode()}\n" in listed
    write_yaml(OutputDocument([old], "1", alone=True))
    assert capsys.readouterr().out == f"{old.raw.decode()}\n"

    update = InformerEvent("UPDATED", new, old)
    TableLines(Table(Columns(PODS, with_namespace=False), with_event=True), noise=frozenset()).write(update)
    assert capsys.readouterr().out.endswith("    <unreadable>\n")
    JsonLines(noise=frozenset(), shown=lambda obj: obj).write(update)
    line = capsys.readouterr().out
    assert '"changes":null' in line
    assert new.raw.decode() in line
    raw = b'{"metadata":{"name":"deep"},"spec":%s1%s}' % (b'{"n":' * 1_000_000, b"}" * 1_000_000)
    deeper = KubeObject("default/deep", "default", "", "1", "v1", "Pod", {}, (), raw)
    for obj in (new, deeper):
        TemplateLines(JSONTemplate("{.metadata.name} {..n}"), shown=lambda obj: obj).write(InformerEvent("ADDED", obj))
        assert capsys.readouterr().out.startswith("deep ")


def test_a_template_controls_no_terminal_but_a_file_gets_all_of_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {"data": {"file": "a\tb\n\x1b[31mc\u202e\n"}}
    template = JSONTemplate("{.data.file}")
    assert from_template(template, document) == document["data"]["file"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert from_template(template, document) == "a\tb\n?[31mc?\n"


def test_a_pipe_gets_no_colours_and_a_terminal_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    obj = KubeObject.from_dict(pod(phase="Failed"))
    Table(Columns(PODS, with_namespace=False)).write(obj)
    assert "\x1b[" not in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    Table(Columns(PODS, with_namespace=False)).write(obj)
    assert "\x1b[31mFailed\x1b[0m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    Table(Columns(PODS, with_namespace=False)).write(obj)
    assert "\x1b[" not in capsys.readouterr().out


def test_a_later_cell_that_is_wider_widens_its_column_from_there_on(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(Columns(PODS, with_namespace=False), with_event=True)
    short, long = (
        KubeObject.from_dict(pod(name, phase="Running")) for name in ("a", "a-name-that-is-much-longer-than-most")
    )
    for obj in (short, long, short):
        table.write(obj, "ADDED")
    _, first, second, third = capsys.readouterr().out.splitlines()
    assert first.index("Running") < second.index("Running") == third.index("Running")


def test_statuses_have_colours_by_how_well_they_are() -> None:
    words = ("Running", "Pending", "CrashLoopBackOff", "Init:1/2", "Init:Error", "Ready,SchedulingDisabled", "whatever")
    assert [status_style(word) for word in words] == ["green", "yellow", "red", "yellow", "red", "green", ""]
