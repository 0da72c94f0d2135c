"""The options that commands have in common."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kinformer.cli.completion import complete_context, complete_namespace, complete_resource
from kinformer.cli.target import Selection

__all__ = [
    "AllOption",
    "ContextOption",
    "DocumentForm",
    "DurationOption",
    "EventForm",
    "FieldsOption",
    "KubeconfigOption",
    "LabelsOption",
    "NamespaceOption",
    "OneNamespaceOption",
    "PlainForm",
    "ResourceArgument",
    "ResourcesArgument",
    "ServerOption",
    "Shell",
    "selection_of",
]

# `name` is a form of output here, and an attribute of every enum besides.
# pyright: reportIncompatibleMethodOverride=false, reportAssignmentType=false


class DocumentForm(StrEnum):
    """What `get -o` takes."""

    table = "table"
    json = "json"
    yaml = "yaml"
    jsonl = "jsonl"
    name = "name"


class EventForm(StrEnum):
    """What `watch -o` takes."""

    table = "table"
    json = "json"
    jsonl = "jsonl"
    name = "name"


class PlainForm(StrEnum):
    """What `stats -o` and `doctor -o` take."""

    table = "table"
    json = "json"


class Shell(StrEnum):
    """What `completion` takes."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


_SERVER_PANEL = "Which server"
_WHICH_PANEL = "Which objects"
_RESOURCE = "As kubectl takes it: pods, po, deployments.apps; or v1/pods."

ResourceArgument = Annotated[
    str, typer.Argument(metavar="RESOURCE", help=_RESOURCE, autocompletion=complete_resource, show_default=False)
]
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
        rich_help_panel=_WHICH_PANEL,
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
        rich_help_panel=_WHICH_PANEL,
        autocompletion=complete_namespace,
    ),
]
AllOption = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.", rich_help_panel=_WHICH_PANEL)
]
LabelsOption = Annotated[
    str | None,
    typer.Option("--selector", "-l", metavar="SELECTOR", help="By labels.", rich_help_panel=_WHICH_PANEL),
]
FieldsOption = Annotated[
    str | None,
    typer.Option("--field-selector", metavar="SELECTOR", help="By fields.", rich_help_panel=_WHICH_PANEL),
]
DurationOption = Annotated[
    float | None, typer.Option(metavar="SECONDS", min=0, help="End by itself; default: at Ctrl-C.")
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
    typer.Option(metavar="URL", help="Without a kubeconfig, as of kubectl proxy.", rich_help_panel=_SERVER_PANEL),
]


def selection_of(
    resource: str, namespace: str | None, all_namespaces: bool, labels: str | None, fields: str | None
) -> Selection:
    """The options of a selection, together."""
    return Selection(
        resource=resource,
        namespace=namespace,
        all_namespaces=all_namespaces,
        label_selector=labels,
        field_selector=fields,
    )
