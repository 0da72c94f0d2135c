"""`kinformer completion`: the scripts, and what they are given to offer."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kinformer.testing import APIServer
from tests.support.cli import CommandLine

pytestmark = pytest.mark.process


async def offered(line: str, **environment: str) -> list[str]:
    """What bash is offered for the last word of a command line."""
    words = line.split(" ")
    completing = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kinformer.cli"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "_KINFORMER_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            **environment,
        },
    )
    out, err = await completing.communicate()
    assert err == b""
    return out.decode().split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_there_is_a_script_for_each_shell_which_that_shell_reads(
    capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    ended = await CommandLine(capsys)("completion", shell)
    assert (ended.status, ended.err) == (0, "")
    assert f"_KINFORMER_COMPLETE=complete_{shell}" in ended.out
    if shutil.which(shell):
        checking = await asyncio.create_subprocess_exec(shell, "-n", stdin=subprocess.PIPE)
        await checking.communicate(ended.out.encode())
        assert checking.returncode == 0


async def test_another_shell_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    ended = await CommandLine(capsys)("completion", "tcsh")
    assert (ended.status, ended.out) == (2, "")
    assert "tcsh" in ended.err


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
async def test_bash_completes_by_the_script(server: APIServer, tmp_path: Path) -> None:
    command = tmp_path / "kinformer"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kinformer.cli "$@"\n')
    command.chmod(0o755)
    script = (
        "source <(kinformer completion bash); COMP_WORDS=(kinformer wa); COMP_CWORD=1; "
        '_kinformer_completion kinformer wa kinformer; echo "${COMPREPLY[@]}"'
    )
    running = await asyncio.create_subprocess_exec(
        *("bash", "--norc", "-c", script),
        stdout=subprocess.PIPE,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(Path.cwd())},
    )
    out, _ = await running.communicate()
    assert out.decode().split() == ["watch", "wait"]


async def test_commands_and_forms_are_offered() -> None:
    commands = set(await offered("kinformer "))
    assert {"demo", "doctor", "stats", "watch"} <= commands
    assert await offered("kinformer watch pods -o y") == ["yaml"]


async def test_resources_namespaces_and_names_come_from_the_server(server: APIServer) -> None:
    server.register("example.com/v1", "Widget", "widgets", namespaced=True)
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices", "namespace": "shop"}})
    assert await offered(f"kinformer watch --server {server.url} widg") == ["widgets"]
    assert await offered(f"kinformer watch --server {server.url} deploy") == ["deployments"]
    assert await offered(f"kinformer watch pods --server {server.url} -n sh") == ["shop"]
    assert await offered(f"kinformer watch --once --server {server.url} -n shop configmaps p") == ["prices"]
    assert await offered(f"kinformer watch --server {server.url} -n shop configmaps/p") == ["configmaps/prices"]
    assert await offered(f"kinformer watch --server {server.url} namespaces/sh") == ["namespaces/shop"]
    assert await offered(f"kinformer watch --server {server.url} v1/po") == []


async def test_a_server_that_does_not_answer_costs_a_moment_and_no_word(server: APIServer) -> None:
    assert "pods" in await offered("kinformer watch --server http://127.0.0.1:1 po")
    assert await offered("kinformer watch pods --server http://127.0.0.1:1 -n ") == []
    assert await offered("kinformer watch --server http://127.0.0.1:1 pods/we") == []
    server.pause()
    try:
        assert await offered(f"kinformer watch --server {server.url} po") == ["pods"]
    finally:
        server.resume()


async def test_contexts_are_offered_and_what_a_shell_would_run_is_not(tmp_path: Path) -> None:
    names = ["prod", "arn:aws:eks:eu-1:1:cluster/x", "$(touch pwned)", "`id`", "a b", '"; rm', "*"]
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump({"contexts": [{"name": name, "context": {}} for name in names]}))
    assert await offered("kinformer watch pods --context ", KUBECONFIG=str(path)) == names[:2]
    assert await offered("kinformer watch pods --context ", KUBECONFIG=str(tmp_path / "none")) == []
