"""The options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kinformer.cli.completion import complete_context, complete_namespace, complete_resource
from kinformer.cli.target import Selection

__all__ = [
    "AllOption",
    "ContextOption",
    "DurationOption",
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
    "WatchForm",
    "selection_of",
]

# `name` is a form of output here, and also an attribute of every enum.
# pyright: reportIncompatibleMethodOverride=false, reportAssignmentType=false


class WatchForm(StrEnum):
    """The values of `watch -o`."""

    table = "table"
    wide = "wide"
    json = "json"
    jsonl = "jsonl"
    yaml = "yaml"
    name = "name"


class PlainForm(StrEnum):
    """The values of `stats -o` and `doctor -o`."""

    table = "table"
    json = "json"


class Shell(StrEnum):
    """The values of `completion SHELL`."""

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
    float | None, typer.Option(metavar="SECONDS", min=0, help="Ends after this time; default: at Ctrl-C.")
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
    """Return the selection that these options make."""
    return Selection(
        resource=resource,
        namespace=namespace,
        all_namespaces=all_namespaces,
        label_selector=labels,
        field_selector=fields,
    )
