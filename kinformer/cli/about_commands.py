"""The commands about kinformer itself: `help` and `version`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kinformer.cli.launch import launch
from kinformer.cli.options import (
    PLAIN_FORMS,
    ContextOption,
    KubeconfigOption,
    ServerOption,
    checked_choice,
)

__all__ = ["show_help", "version"]


def _complete_command(ctx: typer.Context, incomplete: str) -> list[str]:
    group: Any = ctx.parent.command if ctx.parent is not None else None
    return [name for name in getattr(group, "commands", ()) if name.startswith(incomplete)]


def show_help(
    ctx: typer.Context,
    command: Annotated[
        str | None,
        typer.Argument(metavar="COMMAND", help="The command; default: all of them.", autocompletion=_complete_command),
    ] = None,
) -> None:
    """Show the help of a command, as its --help does."""
    group_context: Any = ctx.parent
    if command is None:
        print(group_context.get_help())
        return
    _, matched, _ = group_context.command.resolve_command(group_context, [command])
    print(matched.get_help(type(group_context)(matched, info_name=command, parent=group_context)))


def version(
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="|".join(PLAIN_FORMS),
            help="json prints one document, with all that the server says.",
            callback=checked_choice("-o", PLAIN_FORMS),
        ),
    ] = "table",
    client: Annotated[bool, typer.Option("--client", help="Only kinformer's version; asks no server.")] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Show the version of kinformer and of the server."""
    from kinformer.cli.commands.version import version as command
    from kinformer.cli.target import Server

    target = None if client else Server(url=server, kubeconfig=kubeconfig, context=context)
    launch(lambda: command(target, output=output))
