"""`kinformer doctor --manifest`: runs a program on an embedded API server, and writes the rights that it used."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from kinformer import NotFoundError
from kinformer.cli.doctor.rbac import grant_program
from kinformer.cli.doctor.requests import Rights
from kinformer.cli.output.errors import complain
from kinformer.cli.usage import UsageError
from kinformer.client import discover
from kinformer.testing import APIServer

__all__ = ["manifest"]

_QUIET = 5.0  # seconds without a request that needs another right, after which the program is taken to have synced
_POLL = 0.1  # seconds between two looks at the requests
_END = 15.0  # seconds that the program may take to end after SIGTERM
_KEPT = ("CustomResourceDefinition", "Namespace")  # kinds of objects that stay, as the program may still use them


async def manifest(
    program: str, arguments: Sequence[str], *, namespace: str, name: str | None, files: Sequence[str], timeout: float
) -> int:
    """Run a program on an embedded API server, and print the ServiceAccount, ClusterRole and binding that it needs.

    It runs until it ends, or until it has needed no other right for five seconds. Then the objects of `files` are
    deleted, so that finalizers run, and after five more seconds it gets a SIGTERM. Its output goes to stderr.

    Args:
        program: A Python file or module.
        arguments: Its arguments.
        namespace: Its own namespace, which its kubeconfig has.
        name: The name of the objects that are printed. By default, that of the program.
        files: Files and folders of objects that are there when it starts, such as definitions and a sample.
        timeout: Seconds until its first request.

    Returns:
        0, or 1 after a line on stderr: it ended with an error, or made no requests.

    Raises:
        UsageError: There is no such program.
        ConfigError: A file cannot be read, or the server refuses an object.
    """
    argv = [*_python(program), *arguments]
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    rights = Rights()
    async with APIServer() as server, server.run_controllers():
        objects = server.apply(own, *files)
        async with _running(argv, server, namespace) as process:
            if not await _until_quiet(server, process, rights, timeout) and files:
                await _delete(server, objects)
                await _until_quiet(server, process, rights, _QUIET)
            ended = process.returncode
        _read(server, rights)
    definitions = ", ".join(sorted(rights.unknown))
    hint = f"; pass the CustomResourceDefinition of {definitions} with --apply" if definitions else ""
    if ended:
        return complain(f"{program} ended with status {ended}{hint}")
    rules = rights.rules()
    if not rules:
        return complain(f"{program} made no request within {timeout:g} s; a Client() finds the server by KUBECONFIG")
    name = name or re.sub(r"[^a-z0-9]+", "-", Path(program).name.removesuffix(".py").lower()).strip("-")
    sys.stdout.write(grant_program(name or "program", namespace, rules))
    complain(f"the rights of branches of {program} that did not run are missing{hint}")
    if rights.paths:
        complain(f"the rights for paths without a resource are missing: {', '.join(sorted(rights.paths))}")
    if limited := [resource for rule in rules if "resourceNames" in rule for resource in rule["resources"]]:
        complain(f"remove resourceNames if there are other objects than the only one used: {', '.join(limited)}")
    return 0


async def _until_quiet(server: APIServer, process: Process, rights: Rights, seconds: float) -> bool:
    """Wait for these seconds, and until no other right has been needed for five. True if the program ended."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while process.returncode is None and loop.time() < deadline:
        await asyncio.sleep(_POLL)
        if _read(server, rights):
            deadline = loop.time() + _QUIET
    return process.returncode is not None


def _read(server: APIServer, rights: Rights) -> bool:
    another = [rights.add(request) for request in server.requests]
    server.requests.clear()
    return any(another)


@asynccontextmanager
async def _running(argv: Sequence[str], server: APIServer, namespace: str) -> AsyncIterator[Process]:
    with tempfile.TemporaryDirectory(prefix="kinformer-doctor-") as folder:
        path = server.kubeconfig(Path(folder) / "kubeconfig")
        config = json.loads(path.read_text(encoding="utf-8"))
        config["contexts"][0]["context"]["namespace"] = namespace
        path.write_text(json.dumps(config), encoding="utf-8")
        # Its stdout becomes stderr, because stdout is for the manifest.
        process = await asyncio.create_subprocess_exec(*argv, stdout=2, env={**os.environ, "KUBECONFIG": str(path)})
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), _END)
            if process.returncode is None:
                process.kill()
                await process.wait()


def _python(program: str) -> list[str]:
    if Path(program).is_file():
        return [sys.executable, program]
    if re.fullmatch(r"[\w.]+", program) and PathFinder.find_spec(program.partition(".")[0], ["", *sys.path]):
        return [sys.executable, "-m", program]
    raise UsageError(f"invalid --manifest {program!r}: there is no such Python file or module", see_help=False)


async def _delete(server: APIServer, objects: Sequence[dict[str, Any]]) -> None:
    """Delete samples, the last one first. Those with finalizers wait for the program to remove them."""
    async with server.client() as client:
        served = {(resource.gvr.api_version, resource.kind): resource.gvr for resource in await discover(client)}
    for obj in reversed(objects):
        metadata = obj["metadata"]
        if obj["kind"] not in _KEPT:
            with suppress(NotFoundError):  # the program, or the garbage collector, was faster
                server.delete(served[obj["apiVersion"], obj["kind"]], metadata.get("namespace"), metadata["name"])
