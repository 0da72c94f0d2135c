"""Commands in the documentation: does the program exist, and does it take these arguments?

Internals: the commands that there are, to parse arguments without running them.
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import typer

from kinformer.cli.app import app
from tests.docs.documentation import ROOT, Block

SHELLS = ("sh", "bash", "shell", "console")

# Programs of other projects, whose arguments are theirs to know.
OTHERS = {
    "curl",
    "kubectl",
    "perl",
    "podman",
    "pyright",
    "setup-envtest",
    "cd",
    "export",
    "source",
    "python3",
    "mkdocs",
    "pre-commit",
}
_VARIABLE = re.compile(r"^\w+=\S*$")


def commands(block: Block) -> Iterator[list[str]]:
    """The commands of a block of shell, in words; of a console those behind its prompt."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), "&&"]:
            if word in ("&&", "||", "|", ";", "&"):
                if words:
                    yield words
                words = []
            elif words or not _VARIABLE.match(word):  # KUBECONFIG=... before a command
                words.append(word)


def complaint(words: list[str], shown: Collection[str] = ()) -> str:
    """Return why this command cannot be typed; "" if it can. The files that a page has `shown` exist."""
    program, arguments = words[0].rsplit("/", 1)[-1], [word for word in words[1:] if word not in shown]
    checks = {"kinformer": _kinformer, "python": _python, "pip": _pip, "pytest": _pytest, "nox": _nox}
    if program in checks:
        return checks[program](arguments)
    if program == "uvicorn" or program in OTHERS:
        return ""
    if "/" in words[0] and os.access(ROOT / words[0], os.X_OK):  # a script of the project
        return ""
    return f"nobody has said what {program!r} is"


def _kinformer(arguments: list[str]) -> str:
    """Parsed as the program itself does it, but for what needs a server."""
    command: Any = typer.main.get_command(app)
    try:
        context = command.make_context("kinformer", list(arguments))
        while context.protected_args if hasattr(context, "protected_args") else context._protected_args:
            rest = [*context._protected_args, *context.args]  # newer versions of click have no public name for it
            name, command, rest = command.resolve_command(context, rest)
            if command.hidden:  # it is there to name the command that took its place
                return f"kinformer has no command {name!r}"
            context = command.make_context(name, rest, parent=context)
    except Exception as error:
        return f"kinformer {shlex.join(arguments)}: {error!r}"
    return ""


def _python(arguments: list[str]) -> str:
    match arguments:
        case ["-m", "pip", *rest]:
            return _pip(rest)
        case ["-m", "pytest", *rest]:
            return _pytest(rest)
        case ["-m", module, *_]:
            return "" if find_spec(module) else f"there is no module {module}"
        case [path, *_] if path.endswith(".py"):
            return _missing([path])
    return ""


def _pip(arguments: list[str]) -> str:
    """Extras and groups are there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    asked = {extra for word in arguments for found in re.findall(r"\[([\w,-]+)\]", word) for extra in found.split(",")}
    groups = {group for option, group in pairwise(arguments) if option == "--group"}
    unknown = (asked - extras.keys()) | (groups - project["dependency-groups"].keys())
    return f"pip: there is no {', '.join(sorted(unknown))}" if unknown else ""


def _pytest(arguments: list[str]) -> str:
    return _missing([word for word in arguments if "/" in word and not word.startswith("-") and "=" not in word])


def _nox(arguments: list[str]) -> str:
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    sessions = set(re.findall(r"@nox\.session[^\n]*\ndef (\w+)", text))
    versions = re.findall(r'"([\d.]+t?)"', re.findall(r"^PYTHONS = .*", text, re.MULTILINE)[0])
    sessions |= {f"tests-{version}" for version in versions}
    asked = {name for option, name in pairwise(arguments) if option == "-s"}
    return f"nox has no session {asked - sessions}" if asked - sessions else ""


def _missing(paths: list[str]) -> str:
    missing = [path for path in paths if not (ROOT / path).exists()]
    return f"there is no {', '.join(missing)}" if missing else ""
