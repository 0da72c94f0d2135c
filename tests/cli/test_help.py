"""The help of the commands: its examples, its words, and what it takes to show it.

Internals: the table of examples, and the commands that there are.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from kinformer.cli.app import app
from kinformer.cli.help import EXAMPLES
from tests.docs.documentation import ROOT, Block
from tests.docs.documented_commands import commands, complaint
from tests.support.cli import CommandLine

COMMANDS = [
    command.name or command.callback.__name__
    for command in app.registered_commands
    if command.callback is not None and not command.hidden
]


@pytest.mark.parametrize("name", ["kinformer", *COMMANDS])
def test_each_command_has_three_examples_that_can_be_typed(name: str) -> None:
    assert len(EXAMPLES[name]) >= 3
    for what, line in EXAMPLES[name]:
        assert what
        for words in commands(Block(ROOT / "help", 1, "sh", line)):
            if words[0] != "head":
                assert complaint(words) == "", line


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", COMMANDS)
async def test_a_help_names_examples_options_and_how_it_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    ended = await CommandLine(capsys)(name, "--help")
    assert ended.status == 0
    for words in (f"Usage: kinformer {name}", "Examples:", "-h, --help", "Exit codes: 0"):
        assert words in ended.out
    for unwanted in ("<bool>", "[default", "TEXT", "None"):
        assert unwanted not in ended.out
    shown = {part for _, line in EXAMPLES[name] for part in f"  {line}".split("\n")}
    assert all(len(line) <= width for line in ended.out.splitlines() if line not in shown)


@pytest.mark.process
@pytest.mark.parametrize("arguments", [["--help"], ["watch", "--help"], ["--version"], ["watch"], ["wach"]])
def test_a_help_and_a_wrong_command_line_import_nothing_that_is_slow(arguments: list[str]) -> None:
    """Measured as a ratio elsewhere: what takes the time is named here."""
    program = (
        "import sys; from kinformer.cli import main; status = main(sys.argv[1:]); "
        "print(*sorted(sys.modules), file=sys.stderr); sys.exit(status)"
    )
    ended = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 2)
    modules = set(ended.stderr.splitlines()[-1].split())
    assert "kinformer.cli.app" in modules
    slow = {"aiohttp", "msgspec", "rich", "yaml", "asyncio", "ssl", "fastapi", "uvicorn", "kubernetes_asyncio"}
    assert not modules & slow
    light = {"kinformer._lazy", "kinformer.objects", "kinformer.objects.units"}
    assert not {name for name in modules - light if name.startswith("kinformer.") and ".cli" not in name}


async def test_the_help_shows_the_eight_commands_of_the_first_day_first(capsys: pytest.CaptureFixture[str]) -> None:
    shown = (await CommandLine(capsys)("--help")).out
    first, rest = shown.partition("Commands:")[2].partition("Examples:")[0].split("Other commands:")
    names = [re.findall(r"^  (\w+)", part, re.MULTILINE) for part in (first, rest)]
    assert names[0] == ["demo", "watch", "problems", "changes", "wait", "doctor", "dashboard", "serve"]
    assert sorted(names[0] + names[1]) == sorted(COMMANDS)
