"""Runs the code of the documentation's pages from top to bottom, as a reader would type it.

Each page is one program on an embedded API server of its own, whose kubeconfig is in KUBECONFIG: its Python blocks run
in order, in one namespace and one event loop, with `await` allowed at the top, in an empty folder. Code that a reader
need not see is in HTML comments:

    <!-- code: run               Python that runs at this place: preparations for the next block, or checks after the
    ...                          last one
    -->
    <!-- code: until EXPRESSION -->      the next block does not end by itself: it is cancelled once this is true
    <!-- code: not run: REASON -->       the next block cannot run here
    <!-- code: not run: an excerpt of examples/NAME -->    the next block shows parts of this file, with `# ...` between
    <!-- code: fails: TEXT -->           the tests in the next block fail, and their output has this text

There, and in blocks, these names are known without an import:

    server              the embedded APIServer
    make_pod("web-1", namespace="default", node="node-1", labels={}, phase="Running")     makes one on it
    printed()           what has been printed since the page began
    await enter(cm)     enters an async context manager for the rest of the page, and gives what it yields
    await until(f)      waits until f() is true
    await running(coroutine, until=f)    runs it until f() is true, then cancels it

A block, of any language, whose first line is a comment with a file's name (`# website.py`) is that file, and Python
among them can be imported by those below; what is called `test_...py` is run by pytest. Some words stand for places of
this run: `http://127.0.0.1:8001`, where `kinformer serve` listens, for the page's server; the port 8080 for one that is
free; `/var/cache` for a folder below the page's own.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import os
import re
import runpy
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
from prometheus_client import CollectorRegistry

from kinformer import blocking
from kinformer.contrib.prometheus import PrometheusMetrics
from kinformer.testing import APIServer
from tests.support.kube import pod
from tests.support.waiting import until as waiting_for

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_PART = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w+-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$"
    r"|^ *<!-- code: (?P<directive>run|until|not run:|fails:)(?P<argument>.*?)-->$",
    re.DOTALL | re.MULTILINE,
)
_FILE = re.compile(r"# (\S+\.\w+)\n")
_SECONDS = 15.0  # that a block may take; none takes one

T = TypeVar("T")


def pages() -> list[Path]:
    """Return every page of the documentation."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a page.

    Attributes:
        page: The file that it is in.
        line: Of its first line of text, from 1.
        language: The word after the fence, in small letters.
        text: Without the indentation of the fence.
        hidden: True if it is in a comment.
        until: The condition that ends it; "" if it ends by itself.
        not_run: Why it does not run; "" if it does.
        fails: What its tests print when they fail; "" if they pass.
    """

    page: Path
    line: int
    language: str
    text: str
    hidden: bool = False
    until: str = ""
    not_run: str = ""
    fails: str = ""

    @property
    def where(self) -> str:
        return f"{name_of(self.page)}:{self.line}"

    @property
    def file(self) -> str:
        """The name of the file that it is; "" if it is none."""
        found = _FILE.match(self.text)
        return found[1] if found and not self.hidden else ""

    @property
    def is_python(self) -> bool:
        return self.language in ("python", "py", "pycon", "python3")


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page, in order. A directive that no block follows is an error."""
    text = page.read_text(encoding="utf-8")
    waiting: dict[str, str] = {}
    for found in _PART.finditer(text):
        if found["directive"] is None:
            indent = len(found["indent"])
            body = "".join(line[indent:] for line in found["text"].splitlines(keepends=True))
            line = text.count("\n", 0, found.start("text")) + 1
            until, not_run, fails = (waiting.pop(key, "") for key in ("until", "not_run", "fails"))
            yield Block(page, line, found["language"].lower(), body, until=until, not_run=not_run, fails=fails)
        elif found["directive"] == "run":
            if waiting:
                raise ValueError(f"{name_of(page)}: a directive stands before a hidden block: {waiting}")
            yield Block(
                page, text.count("\n", 0, found.start("argument")) + 1, "python", found["argument"], hidden=True
            )
        else:
            key = found["directive"].removesuffix(":").replace(" ", "_")
            waiting[key] = found["argument"].strip()
    if waiting:
        raise ValueError(f"{name_of(page)}: no block follows {waiting}")


class Program:
    """One page while it runs."""

    def __init__(self, page: Path, server: APIServer, folder: Path, stack: AsyncExitStack) -> None:
        self._page = page
        self._server = server
        self._folder = folder
        self._stack = stack
        self._output = io.StringIO()
        self.names: dict[str, Any] = {
            "__name__": "documentation",
            "enter": self._enter,
            "make_pod": self._make_pod,
            "printed": self._output.getvalue,
            "running": running,
            "server": server,
            "until": partial(waiting_for, seconds=_SECONDS),
        }

    async def run(self) -> None:
        """Run every block, in order."""
        with redirect_stdout(self._output):
            for block in blocks(self._page):
                if block.file:
                    await self._write(block)
                elif block.is_python and not block.not_run:
                    await self._run(block)

    async def _write(self, block: Block) -> None:
        path = self._folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._here(block.text), encoding="utf-8")
        if path.name.startswith("test_"):
            await run_pytest(path, block.fails)
        elif block.is_python:
            runpy.run_path(str(path), run_name=path.stem)

    async def _run(self, block: Block) -> None:
        tree = ast.parse(self._here(block.text), block.where)
        ast.increment_lineno(tree, block.line - 1)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(tree, name_of(block.page), "exec", flags=flags, dont_inherit=True)
        if not code.co_flags & inspect.CO_COROUTINE:
            exec(code, self.names)
            return
        coroutine = eval(code, self.names)
        if block.until:
            await running(coroutine, until=lambda: eval(block.until, self.names), what=block.where)
        else:
            async with asyncio.timeout(_SECONDS):
                await coroutine

    def _here(self, text: str) -> str:
        """Return the text with places of this run in it."""
        places = {
            "http://127.0.0.1:8001": self._server.url,
            '"/var/cache/': f'"{self._folder}/cache/',
            '":8080"': '"127.0.0.1:0"',
        }
        for word, place in places.items():
            text = text.replace(word, place)
        return text

    def _make_pod(
        self,
        name: str,
        *,
        namespace: str = "default",
        node: str = "node-1",
        labels: dict[str, str] | None = None,
        phase: str = "Running",
    ) -> None:
        if self._server.get("v1/namespaces", None, namespace) is None:
            self._server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        self._server.create(pod(name, namespace=namespace, node=node, labels=labels, phase=phase))

    async def _enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        return await self._stack.enter_async_context(manager)


async def running(coroutine: Awaitable[Any], *, until: Callable[[], Any], what: str = "") -> None:
    """Run it until that holds, then cancel it; an exception that it raises meanwhile is raised here."""
    assert isinstance(coroutine, Coroutine)
    task = asyncio.create_task(coroutine)
    waiting = asyncio.create_task(waiting_for(until, _SECONDS, what=what))
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    if task.done() and not waiting.done():
        waiting.cancel()
        await asyncio.wait([waiting])
        task.result()
        assert until(), f"{what}: it ended by itself, and this is not so: {inspect.getsource(until)}"
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    if not waiting.cancelled():
        waiting.result()


def marks_of(text: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a test that runs a page: one that shows tests runs them in a process of their own."""
    return [pytest.mark.process] if re.search(r"^ *# test_\w+\.py$", text, re.MULTILINE) else []


async def run_pytest(path: Path, fails: str = "") -> None:
    """Run the tests of a file, with nothing but the plugin and pytest-asyncio, as a user does; see `Block.fails`."""
    settings = path.parent / "pytest.ini"  # the page's own, if it shows one, and none of a folder above
    if not settings.exists():
        settings.write_text("[pytest]\n", encoding="utf-8")
    plugins = ("-p", "asyncio", "-p", "kinformer.testing.pytest_plugin", "-p", "no:cacheprovider")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-c", str(settings), *plugins, str(path)),
        cwd=path.parent,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert (process.returncode == 0) != bool(fails), output.decode()
    assert fails in output.decode()


@contextmanager
def blocking_informers_left() -> Iterator[None]:
    """Leave the blocking informers that are still open at the end, which ends their threads."""
    entered = blocking.Informers.__enter__
    opened: list[blocking.Informers] = []

    def enter(self: blocking.Informers) -> blocking.Informers:
        opened.append(self)
        return entered(self)

    with patch.object(blocking.Informers, "__enter__", enter):
        yield
    for informers in opened:
        informers.__exit__(None, None, None)


async def run_page(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run a page in `folder`; return the names that it has made."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    # Who reads a page runs it in a process of its own, whose registry has no sink yet.
    monkeypatch.setattr(PrometheusMetrics.__init__, "__defaults__", (CollectorRegistry(),))
    modules, environment = set(sys.modules), dict(os.environ)
    async with APIServer() as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(folder / "kubeconfig")))
        async with AsyncExitStack() as stack:
            stack.enter_context(blocking_informers_left())
            program = Program(page, server, folder, stack)
            await program.run()
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    for name in set(sys.modules) - modules:
        if (found := getattr(sys.modules[name], "__file__", None)) and Path(found).is_relative_to(folder):
            del sys.modules[name]
    return program.names
