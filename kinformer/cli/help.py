"""The help of the commands, and the messages for a wrong command line.

typer's own help takes a tenth of a second just to import its libraries, and its boxes do not fit a narrow terminal.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from typer.core import TyperCommand, TyperGroup

from kinformer.cli.usage import UsageError

__all__ = ["EXAMPLES", "Command", "Group", "in_own_words"]

_WIDEST = 100  # cells. Longer lines are hard to read
_NARROWEST = 40
_DEEPEST = 30  # cells. A longer option has its help below it

EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "kinformer": (
        ("See informers at work, without a cluster; q ends", "kinformer demo"),
        ("Follow the pods of all namespaces", "kinformer watch pods -A"),
        ("An API server to experiment with", "kinformer serve --objects pods=100 --churn 5"),
    ),
    "demo": (
        ("Full screen, until q", "kinformer demo"),
        ("For a script: ten seconds, a line for each event", "kinformer demo --duration 10 --plain"),
        ("Only the first lines", "kinformer demo --plain | head"),
    ),
    "watch": (
        ("The pods of all namespaces, with their differences", "kinformer watch pods -A --diff"),
        (
            "Two resources, or one object",
            "kinformer watch pods,deployments -n shop\n  kinformer watch deploy/web -n shop",
        ),
        ("A list of the existing objects", "kinformer watch pods --once --sort-by .metadata.creationTimestamp"),
        ("A line of JSON for each change from now on", "kinformer watch pods -l app=web -o jsonl --changes-only"),
        ("Columns of your own", "kinformer watch pods --once -o custom-columns=NAME:.metadata.name,IP:.status.podIP"),
    ),
    "wait": (
        ("Until a pod is ready", "kinformer wait pod web-1 --for condition=Ready --timeout 60s"),
        (
            "Until a deployment has three replicas",
            "kinformer wait deploy web --for 'jsonpath={.status.readyReplicas}=3'",
        ),
        ("Until all pods of an application are ready", "kinformer wait pods -l app=web --for condition=Ready"),
        ("Until two pods are gone", "kinformer wait pods web-1 web-2 --for delete"),
    ),
    "stats": (
        ("Three informers, as top shows processes", "kinformer stats pods deployments nodes -A"),
        ("The memory of compressed objects", "kinformer stats pods -A --compact"),
        ("The figures once, for a script", "kinformer stats pods -A --once -o json"),
    ),
    "doctor": (
        ("Only the server: configuration, TLS, credentials", "kinformer doctor"),
        ("The rights, and the cost of an informer of pods", "kinformer doctor pods"),
        ("A custom resource in one namespace, for a script", "kinformer doctor widgets.example.com -n shop -o json"),
        ("The ClusterRole of an operator", "kinformer doctor --manifest main.py --apply crds/ --apply sample.yaml"),
    ),
    "problems": (
        ("In the namespace of the context", "kinformer problems"),
        ("Of the whole cluster, with nodes and volumes", "kinformer problems -A"),
        ("For a script: JSON, and no grace for what is starting", "kinformer problems -A -o json --grace 0"),
    ),
    "changes": (
        ("Of the usual resources", "kinformer changes -n shop"),
        ("Of pods and deployments named web", "kinformer changes pods deployments -A --name 'web*'"),
        ("For a script: a minute, with the differences", "kinformer changes -A -o json --duration 60"),
    ),
    "dashboard": (
        ("Your cluster, on http://127.0.0.1:8080/", "kinformer dashboard"),
        ("A small cluster in this process", "kinformer dashboard --demo"),
        ("Two resources of a namespace, on another port", "kinformer dashboard pods services -n shop --port 9000"),
    ),
    "proxy": (
        ("Like kubectl proxy, with pods and nodes from a cache", "kinformer proxy v1/pods v1/nodes"),
        ("On a unix socket of yours", "kinformer proxy v1/pods --socket ./kubernetes.sock"),
        ("With its own health and metrics at another port", "kinformer proxy v1/pods --health 127.0.0.1:8080"),
    ),
    "serve": (
        ("An empty cluster, on http://127.0.0.1:8001", "kinformer serve"),
        (
            "A changing cluster, for kubectl and your program",
            "kinformer serve --objects pods=100 --objects deployments=10 --churn 5",
        ),
        (
            "A cluster whose controllers run, to try a rollout",
            "kinformer serve --living",
        ),
        (
            "With users whom roles and bindings limit",
            "kinformer serve --rbac rbac.yaml\n  kinformer watch pods --context alice",
        ),
        (
            "With TLS, and a kubeconfig at a path of your choice",
            "kinformer serve --tls --write-kubeconfig ./kubeconfig",
        ),
    ),
    "completion": (
        ("In ~/.bashrc", "source <(kinformer completion bash)"),
        ("In ~/.zshrc, after compinit", "source <(kinformer completion zsh)"),
        ("In ~/.config/fish/config.fish", "kinformer completion fish | source"),
    ),
    "version": (
        ("kinformer's version, and the server's", "kinformer version"),
        ("For a script", "kinformer version -o json"),
        ("Without a server", "kinformer version --client"),
    ),
    "help": (
        ("All commands", "kinformer help"),
        ("One command", "kinformer help watch"),
        ("This text", "kinformer help help"),
    ),
}
"""The examples of each command: a description and the command line."""

# In the order of the help.
_FIRST_DAY = ("demo", "watch", "problems", "changes", "wait", "doctor", "dashboard", "serve")


class Command(TyperCommand):
    """A command with its help as plain text."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(_help_of(self, ctx, {}))


class Group(TyperGroup):
    """The group of commands, with its help as plain text."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        rows = {name: (name, _sentence(self.commands[name].help)) for name in self.list_commands(ctx)}
        first = [rows.pop(name) for name in _FIRST_DAY]
        formatter.write(_help_of(self, ctx, {"Commands": first, "Other commands": [*rows.values()]}))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        rest = (name for name, command in self.commands.items() if not command.hidden)
        return list(dict.fromkeys((*_FIRST_DAY, *rest)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name. Raises UsageError if there is none."""
        if not ctx.resilient_parsing and args and args[0] not in self.commands:
            if args[0].startswith("-"):
                raise UsageError(f"unknown option {args[0]}")
            near = get_close_matches(
                args[0], [name for name, command in self.commands.items() if not command.hidden], 1
            )
            raise UsageError(f"unknown command {args[0]!r}" + (f"; nearest: {near[0]}" if near else ""))
        return super().resolve_command(ctx, args)


def in_own_words(error: Exception) -> str:
    """Return the message for an error of typer's parser."""
    message = str(getattr(error, "format_message", error.__str__)()).strip()
    option = getattr(error, "option_name", None)
    param = getattr(error, "param", None)
    if message.startswith("Missing") and param is not None:
        is_option = param.param_type_name == "option"
        return f"{'option' if is_option else 'argument'} {param.opts[0] if is_option else param.metavar} is missing"
    if message.startswith("No such option") and option:
        near = getattr(error, "possibilities", None) or ()
        return f"unknown option {option}" + (f"; nearest: {', '.join(sorted(near))}" if near else "")
    if option:
        takes_none = "does not take" in message
        return f"option {option} takes no value" if takes_none else f"option {option} needs a value"
    if extra := re.search(r"unexpected extra arguments?(?:\(s\))? \((.*?)\)", message):
        return f"unexpected argument {extra[1]}"
    return message[:1].lower() + message[1:].rstrip(".")


# --- the text -------------------------------------------------------------------------------------------------------


def _help_of(command: Any, ctx: Any, sections: Mapping[str, Iterable[tuple[str, str]]]) -> str:
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns))
    paragraphs = [" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n")]
    parts = [_wrapped(_usage(command, ctx), width, "  "), *(_wrapped(paragraph, width) for paragraph in paragraphs)]
    examples = EXAMPLES.get(ctx.info_name or "", ())
    parts += [_section(title, rows, width) for title, rows in sections.items()]
    if examples:
        parts.append("\n".join(["Examples:", *(f"  # {what}\n  {line}" for what, line in examples)]))
    parameters = [parameter for parameter in command.get_params(ctx) if not getattr(parameter, "hidden", False)]
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            panels.setdefault("Arguments", []).append((str(parameter.metavar), parameter.help or ""))
    for parameter in parameters:
        if parameter.param_type_name == "option":
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
            panels.setdefault(panel, []).append((_signature(parameter), parameter.help or ""))
    parts += [_section(name, rows, width) for name, rows in panels.items()]
    if command.epilog:
        parts.append(_wrapped(command.epilog, width))
    return "\n\n".join(parts) + "\n"


def _usage(command: Any, ctx: Any) -> str:
    words = [ctx.command_path]
    for parameter in command.get_params(ctx):
        if parameter.param_type_name == "argument":
            name = f"{parameter.metavar}{'...' if parameter.nargs != 1 else ''}"
            words.append(name if parameter.required else f"[{name}]")
    words.append("[options]" if not isinstance(command, Group) else "COMMAND [options]")
    return f"Usage: {' '.join(words)}"


def _signature(option: Any) -> str:
    """Return an option as it is typed: `-n, --namespace NS`."""
    names = ", ".join(sorted(option.opts, key=len))
    return names if option.is_flag else f"{names} {option.metavar or 'TEXT'}"


def _section(title: str, rows: Iterable[tuple[str, str]], width: int) -> str:
    rows = list(rows)
    depth = min(_DEEPEST, width // 2, max(len(name) for name, _ in rows)) + 4
    lines = [f"{title}:"]
    for name, description in rows:
        first, *rest = textwrap.wrap(description, max(20, width - depth), break_on_hyphens=False) or [""]
        if len(name) + 4 > depth:
            lines += [f"  {name}", " " * depth + first]
        else:
            lines.append(f"  {name}".ljust(depth) + first)
        lines += [" " * depth + line for line in rest]
    return "\n".join(line.rstrip() for line in lines)


def _wrapped(text: str, width: int, indent: str = "") -> str:
    return "\n".join(textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False))


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split()).rstrip(".")
