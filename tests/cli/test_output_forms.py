"""`-o jsonpath`, `-o custom-columns` and `--sort-by`: kubectl's templates, columns and words."""

from __future__ import annotations

from typing import Any

import pytest

from kinformer.testing import APIServer
from tests.support.cli import CommandLine, Ended
from tests.support.kube import pod

STATUS = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}, {"type": "A", "status": "False"}]}


def web(name: str, *images: str, labels: dict[str, str]) -> dict[str, Any]:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    made: dict[str, Any] = pod(name, labels=labels, status=STATUS)
    return made | {"spec": {**made["spec"], "containers": containers}}


@pytest.fixture
def kinformer(server: APIServer, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    server.create(web("web-1", "i:1", "i:2", labels={"app": "web", "a.b/c": "x"}))
    server.create(web("web-2", "i:3", labels={"app": "api"}))
    return CommandLine(capsys, server.url)


TEMPLATES = {
    "{.kind}": "List",
    "{.items[*].metadata.name}": "web-1 web-2",
    '{range .items[*]}{.metadata.name}{"\\t"}{.spec.containers[*].image}{"\\n"}{end}': "web-1\ti:1 i:2\nweb-2\ti:3\n",
    "{range .items[*]}{range .spec.containers[*]}{@.name},{end};{end}": "c0,c1,;c0,;",
    '{.items[?(@.metadata.labels.app=="api")].metadata.name}': "web-2",
    "{.items[?(@.metadata.labels.app!='api')].metadata.name}": "web-1",
    '{.items[0].status.conditions[?(@.type=="Ready")].status}': "True",
    "{.items[0].metadata.labels.a\\.b/c}": "x",
    "{.items[0].metadata.labels['a\\.b/c']}": "x",
    "{.items[0].spec.containers[0,1].image}": "i:1 i:2",
    "{.items[*]['metadata.name', 'status.phase']}": "web-1 web-2 Running Running",
    "{.items[-1:].metadata.name} {.items[0:1].metadata.name}": "web-2 web-1",
    "{..containers[0].name}": "c0 c0",
    "{.items[0].metadata.labels}": '{"a.b/c":"x","app":"web"}',
    "{$.items[1].metadata.name}|{.nothing}|": "web-2||",
    "{.items[?(@.metadata.labels.app)].spec.containers[0].name}": "c0 c0",
}


@pytest.mark.parametrize("template", TEMPLATES)
async def test_a_template_is_rendered_as_kubectl_documents_it(kinformer: CommandLine, template: str) -> None:
    ended = await kinformer("watch", "pods", "--once", "-o", f"jsonpath={template}")
    assert ended == Ended(0, TEMPLATES[template], "")


async def test_a_single_named_object_is_the_document_itself(kinformer: CommandLine) -> None:
    ended = await kinformer("watch", "pod/web-1", "--once", "-o", "jsonpath={.metadata.name} {.status.phase}")
    assert ended == Ended(0, "web-1 Running", "")


@pytest.mark.slow
async def test_a_watch_renders_each_object_on_a_line(kinformer: CommandLine) -> None:
    ended = await kinformer("watch", "pods", "-o", "jsonpath={.metadata.name}", "--duration", "1")
    assert (ended.status, sorted(ended.out.splitlines()), ended.err) == (0, ["web-1", "web-2"], "")
    ended = await kinformer("watch", "pods", "-o", 'jsonpath={.metadata.name}{"\\n"}', "--duration", "1")
    assert sorted(ended.out.split("\n")) == ["", "web-1", "web-2"]


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        (".metadata.name", "has no path in braces, as in {.metadata.name}"),
        ("{.items[0", "the end at position 9, expected ']'"),
        ("{range .items[*]}{.kind}", "no {end} for the range at position 0"),
        ("{.kind}{end}", "{end} without a range at position 7"),
        ('{.items[?(@.a=="x" && @.b)]}', "'&& @.b)]' at position 19, expected ')]'"),
        ("{.spec.containers.0.image}", "the number 0 at position 18: write [0]"),
        ("{kind}", "'kind}' at position 1, expected a path"),
        ("{.kind", "the end at position 6, expected '}'"),
        ('{"a', "'\"a' at position 1"),
        ("{.items[0:1:0]}", "the step 0"),
        ("", "has no path in braces"),
    ],
)
async def test_a_wrong_template_is_refused_with_the_position(
    kinformer: CommandLine, template: str, complaint: str
) -> None:
    ended = await kinformer("watch", "pods", "--once", "-o", f"jsonpath={template}")
    assert (ended.status, ended.out) == (2, "")
    assert complaint in ended.err
    assert ended.err.count("\n") == 1


async def test_the_values_of_secrets_are_hidden_in_templates_and_columns(
    server: APIServer, kinformer: CommandLine
) -> None:
    server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"p": "c2VjcmV0"}})
    for form in ("jsonpath={.items[*].data.p}", "custom-columns=P:.data.p"):
        ended = await kinformer("watch", "secrets", "--once", "-o", form)
        assert "c2VjcmV0" not in ended.out, form
        assert "hidden" in ended.out, form
    ended = await kinformer("watch", "secret/s", "--once", "--show-secrets", "-o", "jsonpath={.data.p}")
    assert ended == Ended(0, "c2VjcmV0", "")


async def test_columns_of_ones_own_take_the_place_of_all_others(kinformer: CommandLine) -> None:
    columns = "NAME:.metadata.name,IMAGES:.spec.containers[*].image,NODE:.spec.none,C:.spec.containers[0,1].name"
    ended = await kinformer("watch", "pods", "-A", "--once", "-o", f"custom-columns={columns}")
    assert [line.split() for line in ended.out.splitlines()] == [
        ["NAME", "IMAGES", "NODE", "C"],
        ["web-1", "i:1,i:2", "<none>", "c0,c1"],
        ["web-2", "i:3", "<none>", "c0"],
    ]
    ended = await kinformer("watch", "pods", "-o", "custom-columns=A:metadata.name", "--duration", "1", "--no-headers")
    assert sorted(line.split() for line in ended.out.splitlines()) == [["ADDED", "web-1"], ["ADDED", "web-2"]]


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ("custom-columns", "as in -o custom-columns=NAME:.metadata.name"),
        ("custom-columns=NAME", "'NAME' is not NAME:PATH"),
        ("custom-columns=A:.a,B:.spec.containers.0", "write [0] for an item of a list"),
        ("custom-columns=", "'' is not NAME:PATH"),
        ("jsonpath", "as in -o jsonpath='{.metadata.name}'"),
        ("go-template={{.a}}", "expected table, wide, name"),
    ],
)
async def test_a_wrong_form_says_the_right_one(kinformer: CommandLine, form: str, complaint: str) -> None:
    ended = await kinformer("watch", "pods", "--once", "-o", form)
    assert (ended.status, ended.out) == (2, "")
    assert complaint in ended.err


async def test_a_sort_by_a_path_that_no_object_has_is_said(kinformer: CommandLine) -> None:
    ended = await kinformer("watch", "pods", "--once", "-o", "name", "--sort-by", ".status.start")
    assert ended == Ended(
        0, "pod/web-1\npod/web-2\n", "kinformer: --sort-by .status.start: none of the pods has a value there\n"
    )
    ended = await kinformer("watch", "pods", "--once", "-o", "name", "--sort-by", ".spec.containers[1].image")
    assert ended == Ended(0, "pod/web-2\npod/web-1\n", "")
    ended = await kinformer("watch", "pods", "--once", "--sort-by", ".spec.containers.0.image")
    assert ended.status == 2
    assert "write [0] for an item of a list" in ended.err


async def test_nothing_is_said_of_the_order_of_no_objects(kinformer: CommandLine) -> None:
    ended = await kinformer("watch", "services", "--once", "--sort-by", ".spec.x")
    assert ended == Ended(0, "", "No resources found in default namespace.\n")
