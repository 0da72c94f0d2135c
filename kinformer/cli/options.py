"""The options shared by several commands.

typer handles all values as strings. They are checked here and in `usage`, so that errors are worded alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

from kinformer.cli.completion import choices, complete_context, complete_namespace, complete_resource
from kinformer.cli.usage import UsageError, choice, number, seconds, whole_number

__all__ = [
    "PLAIN_FORMS",
    "SHELLS",
    "WATCH_FORMS",
    "WHICH_PANEL",
    "AllOption",
    "ContextOption",
    "DurationOption",
    "FieldsOption",
    "KubeconfigOption",
    "LabelsOption",
    "NamespaceOption",
    "OneNamespaceOption",
    "PlainForm",
    "PollOption",
    "ResourceArgument",
    "ResourcesArgument",
    "ServerOption",
    "checked_choice",
    "checked_form",
    "checked_number",
    "checked_port",
    "checked_seconds",
    "duration_of",
]

WATCH_FORMS: Final = ("table", "wide", "name", "json", "jsonl", "yaml")
"""The values of `watch -o`, besides `jsonpath=TEMPLATE` and `custom-columns=COLUMNS`."""

PLAIN_FORMS: Final = ("table", "json")
"""The values of `stats -o` and `doctor -o`."""

SHELLS: Final = ("bash", "zsh", "fish")
"""The values of `completion SHELL`."""

_Check = Callable[[str | None], str | None]


def checked_seconds(option: str, least: float = 0.0) -> _Check:
    """Return the check of an option that takes seconds."""

    def check(value: str | None) -> str | None:
        if value is not None:
            seconds(option, value, least=least)
        return value

    return check


def checked_number(option: str, least: float = 0.0) -> _Check:
    """Return the check of an option that takes a number."""

    def check(value: str | None) -> str | None:
        if value is not None:
            number(option, value, least=least)
        return value

    return check


def checked_choice(option: str, values: tuple[str, ...]) -> _Check:
    """Return the check of an option with a fixed set of values."""

    def check(value: str | None) -> str | None:
        return value if value is None else choice(option, value, values)

    return check


def checked_form(value: str) -> str:
    """Check the value of `watch -o`. What follows `jsonpath=` and `custom-columns=` is checked by the command."""
    named = value.partition("=")[0]
    if named in ("jsonpath", "custom-columns"):
        if named == value:
            raise UsageError(f"invalid -o {value!r}: expected {_EXAMPLES[named]}")
        return value
    return choice("-o", value, (*WATCH_FORMS, "jsonpath=...", "custom-columns=..."))


_EXAMPLES = {
    "jsonpath": "a template, as in -o jsonpath='{.metadata.name}'",
    "custom-columns": "columns, as in -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName",
}


def checked_port(value: str) -> str:
    """Check the value of `--port`."""
    whole_number("--port", value, 0, 65535)
    return value


def duration_of(text: str | None) -> float | None:
    """Return the seconds of `--duration`, or None if it is not given."""
    return None if text is None else seconds("--duration", text)


_SERVER_PANEL = "Which server"
WHICH_PANEL: Final = "Which objects"
"""The heading of the options that select objects."""

_RESOURCE = "As in kubectl: pods, po, deployments.apps; also v1/pods."

ResourceArgument = Annotated[str, typer.Argument(metavar="RESOURCE", help=_RESOURCE, autocompletion=complete_resource)]
ResourcesArgument = Annotated[
    list[str], typer.Argument(metavar="RESOURCE", help=_RESOURCE, autocompletion=complete_resource)
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="One namespace; default: the context's.",
        rich_help_panel=WHICH_PANEL,
        autocompletion=complete_namespace,
    ),
]
OneNamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="One namespace; default: all.",
        rich_help_panel=WHICH_PANEL,
        autocompletion=complete_namespace,
    ),
]
AllOption = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.", rich_help_panel=WHICH_PANEL)
]
LabelsOption = Annotated[
    str | None,
    typer.Option(
        "--selector",
        "-l",
        metavar="SELECTOR",
        help="By labels: app=web,tier notin (test).",
        rich_help_panel=WHICH_PANEL,
    ),
]
FieldsOption = Annotated[
    str | None,
    typer.Option(
        "--field-selector", metavar="SELECTOR", help="By fields: status.phase=Running.", rich_help_panel=WHICH_PANEL
    ),
]
PlainForm = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="|".join(PLAIN_FORMS),
        help="The form: for people, or for scripts.",
        autocompletion=choices(*PLAIN_FORMS),
        callback=checked_choice("-o", PLAIN_FORMS),
    ),
]
PollOption = Annotated[
    str | None,
    typer.Option(
        metavar="SECONDS",
        help="List so often, instead of watching; default: 30, for what cannot be watched.",
        callback=checked_seconds("--poll", least=1.0),
    ),
]
DurationOption = Annotated[
    str | None,
    typer.Option(
        metavar="SECONDS", help="End after this time; default: at Ctrl-C.", callback=checked_seconds("--duration")
    ),
]
KubeconfigOption = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="Default: KUBECONFIG, ~/.kube/config, the pod.", rich_help_panel=_SERVER_PANEL),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Default: the current one.",
        rich_help_panel=_SERVER_PANEL,
        autocompletion=complete_context,
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Use this URL, such as kubectl proxy's, instead of a kubeconfig.",
        rich_help_panel=_SERVER_PANEL,
    ),
]
