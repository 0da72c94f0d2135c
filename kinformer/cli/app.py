"""The commands and their options. Each command is implemented in the module with its name.

A command imports its module, and with it kinformer, only when it runs. Printing help needs neither.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from kinformer.cli.about_commands import show_help, version
from kinformer.cli.completion import (
    choices,
    complete_name,
    complete_resource,
    is_completing,
    learn_shells,
    print_script,
)
from kinformer.cli.help import Command, Group, in_own_words
from kinformer.cli.launch import launch
from kinformer.cli.local_commands import dashboard, demo, proxy, serve
from kinformer.cli.options import (
    SHELLS,
    WATCH_FORMS,
    WHICH_PANEL,
    AllOption,
    ContextOption,
    DurationOption,
    FieldsOption,
    KubeconfigOption,
    LabelsOption,
    NamespaceOption,
    PlainForm,
    PollOption,
    ResourceArgument,
    ResourcesArgument,
    ServerOption,
    checked_choice,
    checked_form,
    checked_seconds,
    duration_of,
)
from kinformer.cli.output.errors import INTERRUPTED, TERMINATED, USAGE, complain, ended_by
from kinformer.cli.overview_commands import DOCTOR_ENDS, PROBLEMS_ENDS, changes, doctor, problems
from kinformer.cli.usage import UsageError, seconds

__all__ = ["app", "run"]

# The class of click's usage errors: click's own, or its copy in newer releases of typer.
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]

_ENDS = "Exit codes: 0: done, 1: failed, 2: wrong command line, 130: Ctrl-C, 141: the output pipe was closed."
_WAIT_ENDS = (
    "Exit codes: 0: the condition holds, 1: timed out, deleted, refused, or no such object, 2: wrong command line, "
    "130: Ctrl-C, 143: SIGTERM."
)
app = typer.Typer(
    cls=Group,
    epilog=_ENDS,
    name="kinformer",
    help="Kubernetes informers for asyncio, from the command line.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from kinformer import __version__

        print(f"kinformer {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version, and exit.")
    ] = False,
) -> None:
    pass


app.command(cls=Command, epilog=_ENDS)(demo)


@app.command(cls=Command, epilog=_ENDS)
def watch(
    resource: Annotated[
        str,
        typer.Argument(
            metavar="RESOURCE",
            help="As in kubectl: pods, po, deployments.apps, pods,deployments or pods/NAME; also v1/pods.",
            autocompletion=complete_resource,
        ),
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="Only these objects, or further RESOURCE/NAME.", autocompletion=complete_name
        ),
    ] = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllOption = False,
    selector: LabelsOption = None,
    field_selector: FieldsOption = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FORM",
            help="table, wide (more columns), name, json, jsonl (a line each), yaml, jsonpath=TEMPLATE or "
            "custom-columns=NAME:PATH,... as in kubectl.",
            autocompletion=choices(*WATCH_FORMS, "jsonpath=", "custom-columns="),
            callback=checked_form,
        ),
    ] = "table",
    once: Annotated[bool, typer.Option("--once", help="Print the existing objects and exit.")] = False,
    follow: Annotated[bool, typer.Option("--watch", "-w", help="Follow every change (the default).")] = False,
    sort_by: Annotated[
        str | None, typer.Option(metavar="PATH", help="Sort by a path: .metadata.creationTimestamp, .status.phase.")
    ] = None,
    show_labels: Annotated[bool, typer.Option("--show-labels", help="Add a LABELS column.")] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Omit the column names.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show the differences of updates.")] = False,
    all_fields: Annotated[
        bool,
        typer.Option("--all-fields", help="Include managedFields and, with --diff, resourceVersion and generation."),
    ] = False,
    show_secrets: Annotated[
        bool,
        typer.Option("--show-secrets", help="Print the values of Secrets, with -o json, jsonl, yaml or jsonpath."),
    ] = False,
    changes_only: Annotated[bool, typer.Option("--changes-only", help="Omit the existing objects.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Print lines on a terminal, too.")] = False,
    poll: PollOption = None,
    duration: DurationOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Show the objects that exist, then every change, through outages of the server.

    On a terminal, this is a table that changes in place: / filters it, q ends it. With --once, only a list of the
    objects.
    """
    from kinformer.cli.commands.manner import Manner
    from kinformer.cli.target import Server, selections_of

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    selections = selections_of([resource, *(names or ())], namespace, all_namespaces, selector, field_selector)
    manner = Manner(
        output=output,
        diff=diff,
        all_fields=all_fields,
        plain=plain,
        changes_only=changes_only,
        sort_by=sort_by,
        show_labels=show_labels,
        headers=not no_headers,
        show_secrets=show_secrets,
    )
    if once:
        for option, given in {
            "--diff": diff,
            "--changes-only": changes_only,
            "--poll": poll is not None,
            "--duration": duration is not None,
            "-w": follow,
        }.items():
            if given:
                raise UsageError(f"{option} cannot be combined with --once")
        from kinformer.cli.commands.once import watch_once

        launch(lambda: watch_once(target, selections, manner))
    from kinformer.cli.commands.watch import watch as command

    times = {"poll": duration_of(poll), "duration": duration_of(duration)}
    launch(lambda: command(target, selections, manner, **times), follows=True)


@app.command(cls=Command, epilog=_WAIT_ENDS)
def wait(
    resource: ResourceArgument,
    condition: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="CONDITION",
            help="delete, create, condition=NAME[=VALUE] or jsonpath='{.PATH}'[=VALUE].",
            show_default=False,
        ),
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="The objects. Omit with -l or --all. pods/NAME takes none; further ones of that form may follow.",
            autocompletion=complete_name,
            show_default=False,
        ),
    ] = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllOption = False,
    selector: LabelsOption = None,
    field_selector: FieldsOption = None,
    every: Annotated[
        bool, typer.Option("--all", help="All objects that exist now.", rich_help_panel=WHICH_PANEL)
    ] = False,
    timeout: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="30, 30s or 5m. 0 checks once, a negative value waits a week; default: 30s."
        ),
    ] = "30s",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Wait until a condition holds for objects, as kubectl wait does, but through outages of the server."""
    from kinformer.cli.commands.wait import WaitCondition, seconds_of
    from kinformer.cli.commands.wait import wait as command
    from kinformer.cli.target import Server, selections_of

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    selections = selections_of([resource, *(names or ())], namespace, all_namespaces, selector, field_selector)
    named = any(selection.names for selection in selections)
    if every and (named or selector or field_selector):
        raise UsageError("--all cannot be combined with names or a selector")
    if not (every or selector or field_selector or named):
        raise UsageError("argument NAME is missing; pass names after the resource, pods/NAME, -l SELECTOR or --all")
    awaited, limit = WaitCondition(condition), seconds_of(timeout)
    launch(lambda: command(target, selections, awaited, timeout=limit), terminated=TERMINATED)


@app.command(cls=Command, epilog=_ENDS)
def stats(
    resources: ResourcesArgument,
    namespace: NamespaceOption = None,
    all_namespaces: AllOption = False,
    selector: LabelsOption = None,
    field_selector: FieldsOption = None,
    output: PlainForm = "table",
    once: Annotated[bool, typer.Option("--once", help="Print when the caches have synced, and exit.")] = False,
    interval: Annotated[
        str,
        typer.Option(
            metavar="SECONDS",
            help="Time between updates, if not on a terminal; default: 2.",
            callback=checked_seconds("--interval", 0.1),
        ),
    ] = "2",
    timeout: Annotated[
        str,
        typer.Option(
            metavar="SECONDS",
            help="Time limit for the caches, with --once; default: 60.",
            callback=checked_seconds("--timeout"),
        ),
    ] = "60",
    compact: Annotated[bool, typer.Option("--compact", help="Keep objects compressed.")] = False,
    metadata_only: Annotated[bool, typer.Option("--metadata-only", help="Keep only metadata.")] = False,
    duration: DurationOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Show running informers: objects, memory, events per second, relists, lag.

    On a terminal, this is a table that changes in place; q ends it. With the address of a program that serves
    /statusz, such as http://127.0.0.1:8080, it shows the informers of that program and the collections derived from
    them.
    """
    from kinformer.cli.commands.program_stats import is_program, program_stats

    if len(resources) == 1 and is_program(resources[0]):
        launch(
            lambda: program_stats(
                resources[0],
                output=output,
                once=once,
                interval=seconds("--interval", interval),
                duration=duration_of(duration),
            ),
            follows=not once,
        )
    from kinformer.cli.commands.stats import stats as command
    from kinformer.cli.target import Server, selections_of

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    names = [name for argument in resources for name in argument.split(",")]
    selections = [
        selection
        for name in names
        for selection in selections_of([name], namespace, all_namespaces, selector, field_selector)
    ]
    launch(
        lambda: command(
            target,
            selections,
            output=output,
            once=once,
            interval=seconds("--interval", interval),
            timeout=seconds("--timeout", timeout),
            duration=duration_of(duration),
            compact=compact,
            metadata_only=metadata_only,
        ),
        follows=not once,
    )


app.command(cls=Command, epilog=DOCTOR_ENDS)(doctor)
app.command(cls=Command, epilog=PROBLEMS_ENDS)(problems)
app.command(cls=Command, epilog=_ENDS)(changes)
app.command(cls=Command, epilog=_ENDS)(dashboard)
app.command(cls=Command, epilog=_ENDS)(proxy)
app.command(cls=Command, epilog=_ENDS)(serve)


@app.command(cls=Command, epilog=_ENDS)
def completion(
    shell: Annotated[
        str,
        typer.Argument(
            metavar="|".join(SHELLS),
            help="The shell.",
            autocompletion=choices(*SHELLS),
            callback=checked_choice("shell", SHELLS),
        ),
    ],
) -> None:
    """Print the completion script of a shell: source <(kinformer completion bash)"""
    raise typer.Exit(print_script(app, shell))


app.command(cls=Command, epilog=_ENDS)(version)
app.command(name="help", cls=Command, epilog=_ENDS)(show_help)


def run(argv: Sequence[str] | None = None) -> int:
    """Parse a command line and run it. See `kinformer.cli.main`."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if is_completing():
        learn_shells()
    try:
        status = app(args=arguments, prog_name="kinformer", standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        return complain(f"{error}{_see(arguments) if error.see_help else ''}", USAGE)
    except _ClickError as error:
        return complain(f"{in_own_words(error)}{_see(arguments)}", USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except OSError as error:
        return ended_by(error)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer and rich turn a closed pipe into this
            return ended_by(end.__context__)
        raise
    return status if isinstance(status, int) else 0


def _see(arguments: Sequence[str]) -> str:
    """Return a hint to the help of the typed command, if there is such a command."""
    names = [info.name or getattr(info.callback, "__name__", "") for info in app.registered_commands if not info.hidden]
    command = [arguments[0]] if arguments[0] in names else []
    return f" (see {' '.join(['kinformer', *command, '--help'])})"
