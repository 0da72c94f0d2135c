"""The names, members and arguments on the page about porting exist.

Internals: the options of a resource, since the page names them.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import inspect
import logging
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import kinformer
from kinformer import (
    APIError,
    Client,
    Controller,
    InformerEvent,
    KubeObject,
    LeaderElector,
    Manager,
    Reflector,
    Request,
    SharedInformerFactory,
    Store,
    blocking,
    meta_namespace_key,
)
from kinformer.controller import Applier, EventRecorder, Finalizer
from kinformer.informer.options import ResourceOptions
from kinformer.testing import APIServer
from kinformer.workqueue import RateLimitingQueue
from tests.docs.public_names import DOORS, names_of
from tests.support.memory_source import MemorySource

OPTIONS = set(ResourceOptions.__struct_fields__)

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "porting.md").read_text(encoding="utf-8")
PODS = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "namespace": "prod", "uid": "u"}, "status": {}}

# Arguments of the reader's own: anything may stand there.
PLACEHOLDERS = {
    "answer",
    "condition",
    "f",
    "function",
    "g",
    "h",
    "limiter",
    "mapper",
    "mapping",
    "path",
    "predicate",
    "sink",
    "type",
    "uid",
    "version",
}
PLACEHOLDERS |= {"V1Pod", "api_client", "labels", "name", "namespace", "lister_watcher", "store"}
# Between backticks too, and no names of ours: words of Python, of a shell, of HTTP, of Kubernetes, and a folder.
OTHER = re.compile(
    r"await|async with|except|CoreV1Api\(client\.api_client\)|[fh]\(obj, \*, \w+\)"
    r"|~/\.kube/config|/readyz|(controller_runtime|workqueue)_\*|kopf\.zalando\.org/[\w-]+|settings\.persistence\.\w+|examples/operator/"
    r"|json\.dumps(\(obj\))?|pod\.spec\.node_name|start|stop|ExitStack"
)


async def reconcile(request: Request) -> None:
    """What controllers here are made with."""


def things(client: Client, source: MemorySource) -> dict[str, Any]:
    """What the page's variables stand for."""
    factory = SharedInformerFactory(client)
    informer = factory.for_resource("v1/pods", indexers={"node": "spec.nodeName"})
    obj = KubeObject.from_dict(PODS)
    return {
        "applier": Applier(client, "v1/pods", informer, field_manager="op"),
        "asyncio": asyncio,
        "client": client,
        "informers": blocking.Informers(url="http://127.0.0.1:1"),
        "controller": Controller(reconcile),
        "elector": LeaderElector(client, namespace="prod", name="op"),
        "error": APIError(429, "", "", 1.0),
        "event": InformerEvent("ADDED", obj, None, False, False),
        "events": EventRecorder(client, controller="example.com/op"),
        "factory": factory,
        "finalizer": Finalizer(client, "v1/pods", "example.com/cleanup"),
        "informer": informer,
        "kinformer": kinformer,
        "lister": informer.lister,
        "logging": logging,
        "manager": Manager(client),
        "obj": obj,
        "queue": RateLimitingQueue[str](),
        "reconcile": reconcile,
        "reflector": Reflector(source, Store(meta_namespace_key)),
        "registration": informer.add_event_handler(on_add=print),
        "request": Request("prod", "web-1"),
    }


def spans() -> list[str]:
    """What stands between backticks as ours: everything but the first column of tables and the blocks of code."""
    text = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    rows = (re.sub(r"^\|[^|]*\|", "|", line) for line in text.splitlines())
    return [span for row in rows for span in re.findall(r"`([^`]+)`", row) if not OTHER.fullmatch(span)]


def parsed(span: str) -> ast.expr:
    """The expression in it; `async with` and `async for` are looked at without their statement."""
    if found := re.fullmatch(r"async with (\S+?)(?: as \w+)?:(?: async for \w+ in \w+)?", span):
        span = found[1]
    tree = ast.parse(f"async def _(): return {span}").body[0]
    assert isinstance(tree, ast.AsyncFunctionDef)
    [returned] = tree.body
    assert isinstance(returned, ast.Return)
    assert returned.value is not None
    return returned.value


PUBLIC = {name: getattr(import_module(door), name) for door in reversed(DOORS) for name in names_of(door)}


class Checker:
    """Finds what an expression names, and says what is not there."""

    def __init__(self, things: dict[str, Any]) -> None:
        self._things = things

    def value(self, node: ast.expr) -> Any:
        """What a name or a member is; None for what only a call would tell."""
        match node:
            case ast.Name(id=name):
                if name in self._things:
                    return self._things[name]
                if name in PLACEHOLDERS or name in OPTIONS or hasattr(builtins, name):
                    return None
                assert name in PUBLIC, f"kinformer has no {name}"
                return PUBLIC[name]
            case ast.Attribute(value=of, attr=name):
                return self._member(self.value(of), of, name)
            case ast.Await(value=inner) | ast.UnaryOp(operand=inner):
                return self.value(inner)
            case ast.Call():
                return self._called(node)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child)
                return None

    def _member(self, owner: Any, of: ast.expr, name: str) -> Any:
        if owner is None:
            return None
        if owner is kinformer or inspect.ismodule(owner):
            dotted = f"{owner.__name__}.{name}"
            return getattr(owner, name) if hasattr(owner, name) else import_module(dotted)
        if isinstance(inspect.getattr_static(owner, name, None), property):
            return getattr(type(owner), name).fget and None  # there; reading it may need a server
        assert hasattr(owner, name), f"{ast.unparse(of)} has no {name}"
        return getattr(owner, name)

    def _called(self, node: ast.Call) -> Any:
        called = self.value(node.func)
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self.value(argument)
        if called is None or (inspect.isclass(called) and issubclass(called, Exception)):
            return None
        keywords = {keyword.arg: None for keyword in node.keywords if keyword.arg is not None}
        signature = inspect.signature(called)
        signature.bind(*[None] * len(node.args), **keywords)
        if any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values()):  # passes them on to a factory
            unknown = keywords.keys() - signature.parameters.keys() - OPTIONS
            assert not unknown, f"{ast.unparse(node)}: there is no option {unknown}"
        return None


async def test_every_name_that_the_page_calls_ours_is_there_with_these_arguments(client: Client) -> None:
    found = spans()
    assert len(found) > 150
    checker = Checker(things(client, MemorySource()))
    wrong = []
    for span in found:
        try:
            checker.value(parsed(span))
        except (AssertionError, ImportError, SyntaxError, TypeError) as error:
            wrong.append(f"`{span}`: {error}")
    assert not wrong, "\n".join(wrong)


def test_each_name_that_is_not_of_the_root_has_its_package_at_the_top_of_the_page() -> None:
    block = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    imports = [node for node in ast.parse(block[1]).body if isinstance(node, ast.ImportFrom)]
    imported = {alias.name: node.module for node in imports for alias in node.names}
    used = {node.id for span in spans() for node in ast.walk(parsed(span)) if isinstance(node, ast.Name)}
    elsewhere = {name for name in used if name in PUBLIC and name not in names_of("kinformer")}
    assert elsewhere == imported.keys() - {"blocking"}
    for name in elsewhere:
        assert PUBLIC[name] is getattr(import_module(str(imported[name])), name)


@pytest.mark.parametrize(
    ("span", "complaint"),
    [
        ("SharedInformers(client)", "kinformer has no SharedInformers"),
        ("lister.find()", "lister has no find"),
        ("queue.add(1, weight=2)", "unexpected keyword argument 'weight'"),
        ("factory.for_resource('v1/pods', selector='a')", "unexpected keyword argument 'selector'"),
        ("Controller(reconcile, threads=4)", "unexpected keyword argument 'threads'"),
        ("kinformer.testing.Server()", "No module named"),
    ],
)
async def test_a_name_that_is_not_there_is_found(client: Client, span: str, complaint: str) -> None:
    checker = Checker(things(client, MemorySource()))
    with pytest.raises((AssertionError, ImportError, TypeError), match=complaint):
        checker.value(parsed(span))


def test_its_programs_are_python_and_import_what_there_is() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    imported: set[str] = set()
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kinformer"):
                assert node.module in DOORS
                imported |= {alias.name for alias in node.names}
                assert {alias.name for alias in node.names} <= {*names_of(node.module), "blocking"}
    assert imported


def program(function: str) -> Any:
    """A function of the page, as it stands there."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    [block] = [one for one in blocks if f"async def {function}(" in one and not one.startswith("# before")]
    names: dict[str, Any] = {}
    exec(compile(block, "porting.md", "exec"), names)
    return names[function]


async def test_what_it_shows_in_place_of_a_watch_prints_what_happens(
    server: APIServer, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = {**PODS, "metadata": {"name": "web-1", "namespace": "prod", "labels": {"app": "web"}}}
    pod["spec"] = {"containers": [{"name": "web", "image": "web:1"}]}
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}})
    server.create(pod)
    task = asyncio.create_task(program("watch_pods")(client.api_client))
    printed = ""
    async with asyncio.timeout(10):
        while "ADDED web-1" not in printed:
            await asyncio.sleep(0.01)
            printed += capsys.readouterr().out
        server.delete("v1/pods", "prod", "web-1")
        while "DELETED web-1" not in printed:
            await asyncio.sleep(0.01)
            printed += capsys.readouterr().out
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_what_it_runs_after_kopf_frees_all_objects_but_those_that_kopf_had_to_clean_up(
    server: APIServer, client: Client
) -> None:
    marker = "kopf.zalando.org/KopfFinalizerMarker"
    server.register("example.com/v1", "Foo", "foos", namespaced=True)
    for name in ("kept", "deleted"):
        metadata = {"name": name, "namespace": "default", "finalizers": [marker, "example.com/other"]}
        server.create({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata})
    server.delete("example.com/v1/foos", "default", "deleted")
    await program("take_over_from_kopf")(client)
    left = {name: server.get("example.com/v1/foos", "default", name)["metadata"] for name in ("kept", "deleted")}
    assert left["kept"]["finalizers"] == ["example.com/other"]
    assert left["deleted"]["finalizers"] == [marker, "example.com/other"]


def test_its_links_lead_somewhere() -> None:
    for page, heading in re.findall(r"\]\(([\w.-]*)#?([\w-]*)\)", PAGE):
        text = (DOCS / page).read_text(encoding="utf-8") if page else PAGE
        headings = {
            re.sub(r"[^\w -]", "", one).replace(" ", "-")
            for one in re.findall(r"^#+ (.*)$", text.lower(), re.MULTILINE)
        }
        assert not heading or heading in headings, f"{page} has no #{heading}"
