"""The event loop of the commands: uvloop's for those that follow changes, where it is installed.

Internals: `run_command`, since no output of a command says which loop it ran on.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any

import pytest

from kinformer.cli.app import run
from kinformer.cli.run import run_command

LOCAL = ("--server", "http://127.0.0.1:1")


class Loop(asyncio.SelectorEventLoop):
    """A loop that stands for uvloop's."""


@pytest.fixture
def uvloop(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("uvloop")
    module.new_event_loop = Loop  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "uvloop", module)
    return module


async def loop_of_a_command() -> int:
    return int(type(asyncio.get_running_loop()) is Loop)


@pytest.mark.usefixtures("uvloop")
@pytest.mark.parametrize("follows", [True, False])
def test_a_command_that_follows_changes_runs_on_uvloop(follows: bool) -> None:
    assert run_command(loop_of_a_command, follows=follows) == follows


def test_without_uvloop_every_command_runs_on_asyncios_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_command(loop_of_a_command, follows=True) == 0


@pytest.mark.parametrize(
    ("words", "follows"),
    [
        ("watch pods", True),
        ("watch pods --once", False),
        ("stats pods", True),
        ("stats pods --once", False),
        ("changes", True),
        ("dashboard", True),
        ("problems", False),
        ("version", False),
    ],
)
def test_which_commands_follow_changes(words: str, follows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def run_nothing(command: Callable[[], Coroutine[Any, Any, int | None]], **options: Any) -> int:
        del command
        asked.append(options["follows"])
        return 0

    monkeypatch.setattr("kinformer.cli.run.run_command", run_nothing)
    assert run([*words.split(), *LOCAL]) == 0
    assert asked == [follows]
